"""The book: the lessons as a site of plain files, made by `make book` and served by `headway book`.

`site.py` builds everything; `build.py` says how that went, and serves the book. `markdown_page.py` turns a lesson into
a page, with its formulas (`formulas.py`) and its stubs.

No site generator is used: markdown-it reads the lessons, Pygments colours the code (both come with rich), and Jinja2
fills the page. The pages load no theme, font or script from elsewhere and make no request to the network, so the book
also works from a folder.
"""
