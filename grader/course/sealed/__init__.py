"""The sealed reference of a handout: `format.py` defines the file format, `reader.py` reads the files; `handout/sealed_reference.py` writes them.

`merge.py` puts two known mistakes together, also outside a handout.
"""
