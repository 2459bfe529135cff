"""Makes what an instructor distributes: a folder for learners with the sealed reference, an archive for Gradescope.

`handout_folder.py` writes the folder and says what is in it, and `gradescope.py` makes the archive. The files that are
copied are in `texts/`. `grader/course/reference.py` reads the sealed files.
"""
