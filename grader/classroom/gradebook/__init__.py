"""The record of a graded class, in SQLite: what was handed in, what it earned, and with which versions."""
