"""Headway inside pytest. Begin with `hooks.py`, which has every hook of a graded session.

    early.py, selection.py         options; which tests a session is about
    marks.py, exercise_items.py    the mark `@exercise`; all tests of an exercise
    item_runner.py, attempts.py    runs a test, and decides which definitions are replaced meanwhile
    forked_runner.py               does so in a process that can be killed
    example_runs.py                runs a test's examples, drawn or recorded
    exercise_states.py             which exercises are known to pass
    graded_run.py                  collects results; at the end shortcuts, diagnosis, progress
    terminal.py, layout.py         what is printed
    pytest_internals.py, capture.py   all uses of pytest's private interfaces
"""

pytest_plugins = ["grader.plugin.hooks"]  # `-p grader.plugin` loads the hooks
