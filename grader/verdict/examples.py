"""Which examples hypothesis draws for a graded test: the same ones tomorrow, whatever other code is loaded.

Examples that a test pins with `@example` run at every seed, after the drawn ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis
from grader.verdict import comparing

EXAMPLES = 6


@dataclass(frozen=True)
class Pinned:
    """An argument of `@example` that is made when the test runs, as a drawn one is: a test may change it, and its sizes are named."""

    make: Callable[[], Any]

    def map(self, change: Callable[[Any], Any]) -> Pinned:
        """The argument with a change that its strategy makes too."""
        return Pinned(lambda: change(self.make()))


def collect_pinned(test: Any) -> None:
    """Take the examples of `@example` from hypothesis, which runs them first and shows them as they are.

    Run last, they cost nothing where a drawn example fails already, and a failure is shown by the smallest example there is.
    """
    test.hypothesis.pinned = [pin.kwargs for pin in reversed(vars(test).pop("hypothesis_explicit_examples", ()))]


def pinned_examples(test: Any) -> list[dict[str, Any]]:
    """The examples that a test is run on at every seed."""
    return getattr(getattr(test, "hypothesis", None), "pinned", [])


def run_pinned(test: Any, fixtures: dict[str, Any]) -> None:
    """Run the test on each of its pinned examples."""
    for pinned in pinned_examples(test):
        comparing.current.sizes.clear()
        arguments = {name: value.make() if isinstance(value, Pinned) else value for name, value in pinned.items()}
        test.hypothesis.inner_test(**fixtures, **arguments)


def use_headway_profile() -> None:
    """Make `headway` the profile in force."""
    hypothesis.settings.register_profile(
        "headway",
        derandomize=True, database=None, deadline=None, print_blob=False, max_examples=EXAMPLES, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    hypothesis.settings.load_profile("headway")
    _ignore_local_constants()


def _ignore_local_constants() -> None:
    """Hypothesis now and then draws a number that it has read in a loaded module: the learner's, or that of whoever was graded before.

    No setting turns this off; older versions do not do it.
    """
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: False  # type: ignore[assignment]  # theirs has a cache; this needs none
        providers._get_local_constants = lambda: providers._local_constants  # it would look through all modules for the local ones
