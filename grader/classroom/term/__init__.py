"""A course over a whole term: its people (`roster.py`), its assignments (`course_file.py`), and the marks of all of them (`marks.py`)."""
