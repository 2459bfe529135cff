"""Headway: build a transformer by hand, one tested piece at a time.

Words of the code:

    boundary             what separates tests from an implementation; values cross it by copy, so a test runs in
                         process and in a worker
    proxy, host          the two sides of the boundary: the tests call a proxy, the host runs the implementation
    worker               a process that hosts one implementation; while a class is graded it runs in a sandbox
    replaced exercise    an earlier one that the judged exercise uses and that fails or is not written: the reference's
                         is used for it
    prestarted process   a process that waits for the next job, so that a run starts at once
    known mistake        a wrong version, written as the smallest edit of the solution; the diagnosis recognises it
    mutant               a mechanical change of the reference; the suite must catch it, or a written reason says why it
                         keeps every promise
    handout              the folder that an instructor gives to learners; its reference is compressed ("sealed")
"""

import warnings

from grader.version import __version__ as __version__

# torch warns if numpy is missing; the kit does not need it
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")


def __getattr__(name: str):
    """`from grader import check, hint, repro` and `%load_ext grader` for notebooks; whatever else imports this package
    need not wait for them."""
    if name in ("check", "hint", "repro", "load_ipython_extension"):
        from grader import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
