"""Headway inside pytest: options (`early.py`), hooks (`hooks.py`), the mark `@exercise` (`marks.py`), the run and its points (`graded_run.py`), and what is
printed (`terminal.py`, `layout.py`).
"""

pytest_plugins = ["grader.plugin.hooks"]  # `-p grader.plugin` loads the hooks
