"""Grades submissions: `sharing.py` decides which exercises need no run, because equal ones (`equal_exercises.py`) were judged before; `dispatch.py` and
`cluster.py` send the others to a server process (`server.py`); `scoring.py` and `rules.py` compute marks from the results.
"""
