"""Writes marks into the tables that learning platforms export and import again: Canvas, Moodle, Gradescope.

A table is read so that every byte of it is kept (`csv_table.py`), each platform says which columns mean what (`canvas.py`, `moodle.py`,
`gradescope.py`), `matching.py` finds the row of each graded person, and `filling.py` writes the marks.
"""
