"""`headway watch`: one terminal beside the editor that gives a verdict at every save.

`loop.py` decides, `screen.py` and `plain.py` show; `saves.py`, `keys.py` and `runs.py` each tell the loop what happens: a chapter was
saved, a key was pressed, a server has sent a message. None of it imports torch.
"""
