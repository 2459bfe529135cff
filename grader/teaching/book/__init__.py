"""The book: the lessons as a site of plain files, made by `make book` and served by `headway book`.

`site.py` builds everything. `lessons.py` turns a lesson into a page by the rules of `rules.py`, with its formulas (`formulas.py`), its stubs
(`code.py`) and pictures of what its exercises compute (`exercise_pictures.py`), which `inline_pictures.py` puts into the page. `front.py` reads what
the front page takes from chapter 0. `shapes.py` reads the docstrings for the index of shapes, `glossary.py` has the words, `walks.py` lists the walks,
`search_index.py` writes the index of the search, and `serving.py` serves the built book.

No site generator is used: markdown-it reads the lessons, Pygments colours the code (both come with rich), and Jinja2 fills the page. The
pages load no theme, font or script from elsewhere and make no request to the network, so the book also works from a folder.
"""
