"""What a class hands in: folders, archives and tables become one submission a person.

`submissions.py` is the entry. It runs in a process of its own (`reader.py`, `read_process.py`) with limits on time and memory.
"""
