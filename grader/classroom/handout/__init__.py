"""Makes what an instructor distributes: a folder for learners with the sealed reference, an archive for Gradescope, a workflow for GitHub.

All modules need the whole kit except `summary.py`, which the workflow of a handout runs. `grader/course/sealed/` reads the sealed files.
"""
