"""Finds pairs of people whose code is alike beyond what the course and the class explain, and writes them as a page and a table.

`tokens.py` reduces code to tokens without names of variables, `fingerprints.py` makes pieces of them, `explained.py` says which pieces the course explains,
and `pairs.py` compares people. `page.py` and `table.py` write the result. No code of a submission is run.
"""
