"""What an exercise computes, as a picture: the learner's result, the reference's result, and the difference.

catalog.toml says which exercise has which picture. The modules of kinds/ compute it from one side's implementation,
and `both_sides.py` runs them for both sides. `panels.py` has the result as plain data, `terminal.py` draws it as text,
and `svg.py` draws the reference's for the book.
"""
