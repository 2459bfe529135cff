"""The sealed reference of a handout: `format.py` defines the file format, `reader.py` reads the files; `handout/sealing.py` writes them."""
