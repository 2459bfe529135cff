"""Reads a class's folders, archives and tables into one submission per person.

Start with `submissions.py`. It runs in a separate process (`reader.py`, `read_process.py`) with limits on time and memory.
"""
