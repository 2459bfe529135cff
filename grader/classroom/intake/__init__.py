"""Reads a class's folders, archives and tables into one submission per person.

Start with `reader.py`, which reads in a separate process with limits on time and memory.
"""
