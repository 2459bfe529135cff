"""Makes hypothesis draw the same examples for a graded test in every run, whatever other code is loaded.

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
    """An argument of `@example` that is created when the test runs, like a drawn one: a test may change it, and its sizes get names."""

    make: Callable[[], Any]

    def map(self, change: Callable[[Any], Any]) -> Pinned:
        """The argument after a change that its strategy applies too."""
        return Pinned(lambda: change(self.make()))


def collect_pinned(test: Any) -> None:
    """Remove the examples of `@example` from hypothesis, which would run them first and not shrink them.

    They run last: they cost nothing if a drawn example already fails, and a failure then shows the smallest example.
    """
    test.hypothesis.pinned = [pin.kwargs for pin in reversed(vars(test).pop("hypothesis_explicit_examples", ()))]


def pinned_examples(test: Any) -> list[dict[str, Any]]:
    """The pinned examples of a test, which run at every seed."""
    return getattr(getattr(test, "hypothesis", None), "pinned", [])


def run_pinned(test: Any, fixtures: dict[str, Any]) -> None:
    """Run the test on each of its pinned examples."""
    for pinned in pinned_examples(test):
        comparing.current.sizes.clear()
        arguments = {name: value.make() if isinstance(value, Pinned) else value for name, value in pinned.items()}
        test.hypothesis.inner_test(**fixtures, **arguments)


def use_headway_profile() -> None:
    """Load the hypothesis profile `headway`."""
    hypothesis.settings.register_profile(
        "headway",
        derandomize=True, database=None, deadline=None, print_blob=False, max_examples=EXAMPLES, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    hypothesis.settings.load_profile("headway")
    _ignore_local_constants()


def _ignore_local_constants() -> None:
    """Stop hypothesis from drawing constants that it finds in loaded modules, such as the learner's or those of the person graded before.

    No setting turns this off; older versions do not do it.
    """
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: False  # type: ignore[assignment]  # the original has a cache; this needs none
        providers._get_local_constants = lambda: providers._local_constants  # the original searches all modules for local ones
