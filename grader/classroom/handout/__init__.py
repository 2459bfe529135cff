"""Makes what an instructor distributes: a folder for learners with the sealed reference, an archive for Gradescope, a workflow for GitHub.

Only `summary.py`, which the workflow of a handout runs, `update.py` and `templates.py` are in a handout too; the others need the whole kit.
`grader/course/reference.py` reads the sealed files.
"""
