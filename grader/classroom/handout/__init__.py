"""What is given out: a folder for learners with the reference sealed, an archive for Gradescope, a workflow for GitHub.

All of it makes things from the whole kit, but for `summary.py`, which a handout's workflow runs. What is sealed is read by `grader/course/sealed/`.
"""
