"""Anonymous grading: `key_file.py` keeps the pseudonyms, `pseudonyms.py` replaces names by them.

Names are replaced before the gradebook sees a submission. So the gradebook, and every file that is made from it, has
pseudonyms only, and a copy of the folder does not reveal a name. The key is one file outside that folder.
"""
