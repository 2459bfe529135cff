"""Headway: build a transformer by hand, one tested piece at a time."""

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
