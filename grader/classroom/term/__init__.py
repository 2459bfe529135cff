"""A course over a whole term: its file (`course.py`), its people (`roster.py`), its marks (`marks.py`)."""
