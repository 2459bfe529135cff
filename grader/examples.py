"""Which examples hypothesis draws for a graded test: the same ones tomorrow, whatever other code is loaded beside it."""

from __future__ import annotations

import contextlib

import hypothesis

EXAMPLES = 6


def settle() -> None:
    """Make `headway` the profile in force."""
    hypothesis.settings.register_profile(
        "headway",
        derandomize=True, database=None, deadline=None, print_blob=False, max_examples=EXAMPLES, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    hypothesis.settings.load_profile("headway")
    _overlook_local_code()


def _overlook_local_code() -> None:
    """Hypothesis now and then draws a number that it has read in a loaded module: the learner's, or that of whoever was graded before.

    No setting turns this off; older versions do not do it.
    """
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: False  # type: ignore[assignment]  # theirs has a cache; this needs none
        providers._get_local_constants = lambda: providers._local_constants  # it would look through all modules for the local ones
