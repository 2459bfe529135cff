"""Grades submissions.

`sharing.py` decides which chapters need no run, because the same text was judged before; `dispatch.py` and `cluster.py`
send the others to a server process (`server.py`); `scoring.py` and `rules.py` compute marks from the results.
"""
