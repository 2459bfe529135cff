"""The command line. `main.py` parses, with `instructors.py`, `grading.py`, `own_models.py` and `exporting.py` for groups of commands;
`commands/` does what each one says.
"""
