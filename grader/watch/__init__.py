"""`headway watch`: a terminal next to the editor that shows a verdict at every save.

`loop.py` decides, `screen.py` and `plain.py` show; `saves.py`, `keys.py` and `runs.py` send events to the loop: a chapter was
saved, a key was pressed, a message of a run has arrived. None of it imports torch.
"""
