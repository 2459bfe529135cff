"""Reads a class's folders, archives and tables into one submission per person.

Start with `reader.py`, which reads in a separate process with limits on time and memory. `class_layout.py` divides the
files (`files.py`, `file_names.py`) among people, `submission_content.py` chooses the chapters among a person's files,
and `loose_code.py` makes a chapter of a notebook. `tables.py` reads tables, and `submissions.py` has what comes out.
"""
