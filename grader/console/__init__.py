"""What commands use of a terminal: `output.py` prints, `editor.py` opens the learner's editor."""
