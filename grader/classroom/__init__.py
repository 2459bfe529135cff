"""Grading a whole class: submissions in, a gradebook, marks and a report out."""
