"""Grades submissions.

`dispatch.py` and `cluster.py` send them, with the seeds of their examples, to a server process (`start_server.py`,
`grading_service.py`). `own_tests.py` grades tests that learners wrote. `rules.py` has the instructor's rules,
and `marks.py` computes marks from results and rules.
"""
