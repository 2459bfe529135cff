"""`headway watch`: a terminal next to the editor that shows a verdict at every save.

`loop.py` handles events and keys, `page.py` has the state as lines, `screen.py` shows them. `saves.py`, `keys.py` and
`runs.py` send events to the loop: a chapter was saved, a key was pressed, a message of a run has arrived. `changes.py`
decides which exercise is tested after a save. None of it imports torch.
"""
