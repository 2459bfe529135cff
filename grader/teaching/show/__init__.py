"""What an exercise computes, as a picture: the learner's result, the reference's result, and the difference.

`catalog.py` lists which exercise has which picture. Each module of `kinds/` computes one kind of picture from one side's
implementation. `both_sides.py` runs it for both sides, `panels.py` holds the result as plain data, `difference.py` subtracts the two.
`terminal.py` renders a picture in a terminal, `figures.py` in a PNG or SVG file.
"""
