"""Finds pairs of people whose code is alike beyond what the course and the class explain; writes a page and a table.

`normal_form.py` writes code in one way, so that most disguises make no difference. `pieces.py` reduces it to tokens
without names of variables, makes pieces of them, and says which ones the course explains. `comparison.py` compares
people, and `page.py` writes the result and marks the lines that are alike. No code of a submission is run.
"""
