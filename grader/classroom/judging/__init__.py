"""From submissions to marks: `dispatch.py` and `cluster.py` give each submission to a server process (`server.py`), `scoring.py` and `rules.py` make marks of
its results.
"""
