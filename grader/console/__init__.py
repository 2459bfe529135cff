"""What commands use of a terminal: `output.py` prints, `editor.py` opens an editor, `local_server.py` serves
pages, `word_wrap.py` breaks lines."""
