"""Writes marks into the tables that learning platforms export and import again: Canvas, Moodle, Gradescope.

`sheets.py` reads a table and says which columns of a platform mean what, and `filling.py` finds the row of each graded
person and writes the marks.
"""
