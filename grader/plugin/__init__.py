"""Headway inside pytest: a thin adapter, which has the runner judge each graded test and reports the verdict as
pytest's own.

    early.py             options
    hooks.py             every hook of a graded session
    pytest_internals.py  all uses of pytest's private interfaces, such as what the tested code prints
"""

pytest_plugins = ["grader.plugin.hooks"]  # `-p grader.plugin` loads the hooks
