"""The book: the lessons as a site of plain files, made by `make book` and served by `headway book`.

`site.py` builds everything, and `build.py` says how that went. `lessons.py` turns a lesson into a page by the rules of
`rules.py`, with its formulas (`formulas.py`), its stubs and its pictures (`pictures.py`). `contents.py` has the
glossary, what the front page takes from chapter 0, and the walks. `serving.py` serves the built book.

No site generator is used: markdown-it reads the lessons, Pygments colours the code (both come with rich), and Jinja2
fills the page. The pages load no theme, font or script from elsewhere and make no request to the network, so the book
also works from a folder.
"""
