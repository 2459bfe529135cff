"""Reads a class's folders, archives and tables into one submission per person.

Start with `reading.py`. It runs in a separate process (`reader.py`) with limits on time and memory.
"""
