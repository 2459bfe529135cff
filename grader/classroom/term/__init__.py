"""A course over a whole term: its file and its marks (`course.py`), its people (`roster.py`), what they hand in
(`deliveries.py`)."""
