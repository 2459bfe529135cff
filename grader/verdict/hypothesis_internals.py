"""All uses of hypothesis's private interfaces. Nothing else in the kit uses a private name of it.

Tried with hypothesis 6.100.0 and 6.170.15; `pyproject.toml` excludes hypothesis 7 until it has been tried. A version that lacks one of these names
never did what it turns off, or does it at the cost of some milliseconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import Phase, control, settings
from hypothesis.errors import InvalidArgument


def ignore_local_constants() -> None:
    """Stop hypothesis from drawing constants that it finds in loaded modules, such as the learner's or those of the person graded before.

    Relies on `hypothesis.internal.conjecture.providers`. No setting turns this off; older versions do not do it.
    """
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        providers.is_local_module_file = lambda path: False  # type: ignore[assignment]  # the original has a cache; this needs none
        providers._get_local_constants = lambda: providers._local_constants  # the original searches all modules for local ones


def skip_database_key(test: Any) -> None:
    """There is no database; to find a test's key in one, hypothesis reads the test's source. Relies on `_hypothesis_internal_database_key`."""
    test._hypothesis_internal_database_key = b""


def only_generate(test: Any) -> None:
    """Do not look for the smallest example that fails. Relies on `_hypothesis_internal_use_settings`."""
    if drawn := getattr(test, "_hypothesis_internal_use_settings", None):
        test._hypothesis_internal_use_settings = settings(drawn, phases=(Phase.generate,))


def looks_for_smaller(test: Any) -> bool:
    """Whether hypothesis looks for the smallest example that fails. Relies on `_hypothesis_internal_use_settings`."""
    drawn = getattr(test, "_hypothesis_internal_use_settings", None)
    return drawn is not None and Phase.shrink in drawn.phases


def is_simplest() -> bool:
    """Whether the running example is the simplest that its strategies have, so that hypothesis would find no smaller one.

    Relies on `hypothesis.control.current_build_context` and on `nodes` of its data; a version without them never says so.
    """
    try:
        nodes = control.current_build_context().data.nodes  # type: ignore[attr-defined]
        return all(node.trivial for node in nodes)
    except (AttributeError, InvalidArgument):  # an example that is not drawn has no context
        return False


@contextlib.contextmanager
def drawing_others(test: Any, seed: int, count: Callable[[int], int]) -> Iterator[None]:
    """Draw the examples of another seed; `count` makes their number from the usual one. Relies on `_hypothesis_internal_use_settings` and `…_use_seed`."""
    usual, common = test._hypothesis_internal_use_settings, test._hypothesis_internal_use_seed
    test._hypothesis_internal_use_settings = settings(usual, max_examples=count(usual.max_examples))
    test._hypothesis_internal_use_seed = seed
    try:
        yield
    finally:
        test._hypothesis_internal_use_settings, test._hypothesis_internal_use_seed = usual, common
