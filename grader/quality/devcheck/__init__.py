"""`headway dev-check`: whether every exercise keeps the kit's promises, and what a new one still lacks.

`check.py` runs it: `invariants.py` reads the files, `trying.py` runs the suites.
"""
