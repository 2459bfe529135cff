"""What commands use of a terminal: `output.py` prints, `editor.py` opens the learner's editor, `local_server.py` serves pages to a browser on this machine."""
