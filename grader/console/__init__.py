"""What commands use of a terminal: `output.py` prints, `editor.py` opens an editor, and `local_server.py`
serves pages."""
