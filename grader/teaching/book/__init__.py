"""The book: the lessons as a site of plain files, made by `make book` and served by `headway book`.

`site.py` makes the whole; `lessons.py` turns a lesson into a page (`formulas.py` its formulas, `code.py` its stubs, `drawn.py` pictures of
what its exercises compute), `shapes.py` reads the docstrings for the index of shapes, `glossary.py` the words, `walks.py` what can be watched,
`finding.py` makes what the search looks through, `serving.py` shows it.

There is no generator underneath. markdown-it reads the lessons, Pygments colours the code (both come with rich), Jinja2 fills the page:
no theme, no font, no script from anywhere else, and nothing that asks the network when a page is read. It works from a folder, too.
"""
