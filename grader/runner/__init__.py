"""A graded run as a plain function: it judges an implementation by the tests of some exercises, without pytest.

    marks.py            the mark `@exercise`
    graded_tests.py     the graded tests of an exercise, as functions
    example_runs.py     runs a test's examples, drawn or recorded; each continues after a mismatch in `with check:`
    printed.py          what the tested code prints
    judging.py          the verdict on a test: which definitions are replaced meanwhile
    graded_run.py       collects results; at the end shortcuts, diagnosis, progress, the test to show in full
    loading.py          loads what every run needs, once for a process
    run_page.py         what is printed

`judging.run_exercise(exercise, target)` is all of it.
"""
