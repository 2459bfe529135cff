"""What an exercise computes, as a picture: the learner's beside the reference's, and where they differ.

`table.py` says which exercise has which picture; `kinds/` draws them, a module a kind, each from what one side answers through the
boundary. `sides.py` asks both sides, `panels.py` is what comes of it as plain data, `differing.py` lays one over the other. `half_blocks.py`
and its neighbours show that in a terminal, `figures.py` in a PNG or SVG file.
"""
