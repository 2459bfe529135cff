"""Grades submissions.

`dispatch.py` and `cluster.py` send them to a server process (`server.py`), `seeds.py` chooses their examples, and
`scoring.py` and `rules.py` compute marks from the results.
"""
