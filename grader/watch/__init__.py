"""`headway watch`: a terminal next to the editor that shows a verdict at every save.

`loop.py` handles events and keys, and notices saves. `page.py` has the state as lines, and `terminal.py` shows them and
reads keys. `runs.py` runs the tests and sends their messages to the loop. `changes.py` decides which exercise is tested
after a save. None of it imports torch.
"""
