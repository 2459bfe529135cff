"""What is given out: a folder for learners with the reference sealed, an archive for Gradescope, a workflow for GitHub.

`form.py` is what sealing is, `sealed.py` finds what is sealed and is all of this package that a handout itself holds (with
`summary.py`, which its workflow runs); the other modules make things from the whole kit.
"""
