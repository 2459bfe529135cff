"""Watches which forbidden functions the learner's code runs: `shortcuts.py` collects them from torch's dispatcher,
Python functions and audit events."""
