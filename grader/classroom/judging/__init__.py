"""Grades submissions: `dispatch.py` and `cluster.py` send each to a server process (`server.py`); `scoring.py` and `rules.py` compute marks from
the results.
"""
