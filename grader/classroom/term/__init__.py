"""A course over a whole term: its people (`roster.py`), its file (`course_file.py`), its marks (`marks.py`)."""
