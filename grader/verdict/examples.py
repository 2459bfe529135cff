"""Makes hypothesis draw the same examples for a graded test in every run, whatever other code is loaded.

Every run draws the common examples, those of seed 0. A run with another seed then draws some of its own. So whatever
the common examples catch is caught at every seed, and no submission can contain the answers to all examples. Examples
that a test pins with `@example` run at every seed too, after the common ones. `needed_examples.py` chooses which of the
drawn ones run.

This module has all uses of hypothesis's private interfaces, tried with hypothesis 6.100.0 and 6.170.15;
`pyproject.toml` excludes hypothesis 7 until it has been tried. A version that lacks one of these names never did what
it turns off, or does it at the cost of some milliseconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
from grader.verdict import comparing
from hypothesis import Phase, control, settings
from hypothesis.errors import InvalidArgument

EXAMPLES = 6
OWN_SHARE = 3  # at a seed other than 0, a run draws a third as many additional examples


@dataclass(frozen=True)
class Pinned:
    """An argument of `@example` that is created when the test runs, like a drawn one: a test may change it."""

    make: Callable[[], Any]

    def map(self, change: Callable[[Any], Any]) -> Pinned:
        """The argument after a change that its strategy applies too."""
        return Pinned(lambda: change(self.make()))


def collect_pinned(test: Any) -> None:
    """Remove the examples of `@example` from hypothesis, which would run them first and not shrink them.

    They run last: they cost nothing if a drawn example already fails, and a failure then shows the smallest example.
    """
    test.hypothesis.pinned = [pin.kwargs for pin in reversed(vars(test).pop("hypothesis_explicit_examples", ()))]


def run_pinned(test: Any, fixtures: dict[str, Any]) -> None:
    """Run the test on each of its pinned examples."""
    handle: Any = getattr(test, "hypothesis", None)
    for pinned in handle.pinned if handle else ():
        comparing.current.sizes.clear()
        arguments = {name: value.make() if isinstance(value, Pinned) else value for name, value in pinned.items()}
        handle.inner_test(**fixtures, **arguments)


def seed_examples(test: Any, name: str, seed: int) -> None:
    """Set which examples hypothesis draws for this test: the common ones, and those of another seed."""
    hypothesis.seed(_seed_of(name, 0))(test)
    test.hypothesis.own_seed = _seed_of(name, seed) if seed else None


def _seed_of(name: str, seed: int) -> int:
    return zlib.crc32(f"{seed} {name}".encode())


def has_own_examples(test: Any) -> bool:
    """Whether the run's seed gives this test examples of its own; a test that draws nothing never has any."""
    return getattr(getattr(test, "hypothesis", None), "own_seed", None) is not None


def run_own_examples(test: Any, fixtures: dict[str, Any], trial: Any) -> None:
    """Run the test on the examples of the run's own seed."""
    if not has_own_examples(test):
        return
    trial.own_examples = True
    try:
        with _drawing_others(test, test.hypothesis.own_seed):
            test(**fixtures)
    finally:
        trial.own_examples = False


def use_headway_profile() -> None:
    """Load the hypothesis profile `headway`."""
    hypothesis.settings.register_profile(
        "headway",
        derandomize=True, database=None, deadline=None, print_blob=False, max_examples=EXAMPLES,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    hypothesis.settings.load_profile("headway")
    ignore_local_constants()


# ---- private interfaces of hypothesis


def ignore_local_constants() -> None:
    """Stop hypothesis from drawing constants that it finds in loaded modules, such as the learner's or those of the
    person graded before.

    Relies on `hypothesis.internal.conjecture.providers`. No setting turns this off; older versions do not do it.
    """
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture import providers

        # the original has a cache; this needs none
        providers.is_local_module_file = lambda path: False  # type: ignore[assignment]
        # the original searches all modules for local ones
        providers._get_local_constants = lambda: providers._local_constants


def skip_database_key(test: Any) -> None:
    """Without a database no key is needed: hypothesis would read the test's source for it."""
    test._hypothesis_internal_database_key = b""


def only_generate(test: Any) -> None:
    """Do not look for the smallest example that fails."""
    set_phases(test, (Phase.generate,))


def set_phases(test: Any, phases: tuple[Phase, ...]) -> None:
    """Draw the same examples in each run, in these phases. Relies on `_hypothesis_internal_use_settings`."""
    if drawn := getattr(test, "_hypothesis_internal_use_settings", None):
        fixed: dict[str, Any] = dict(derandomize=True, database=None, deadline=None)
        test._hypothesis_internal_use_settings = settings(drawn, phases=phases, **fixed)


def is_simplest() -> bool:
    """Whether the running example is the simplest that its strategies have, so that hypothesis would find no smaller
    one.

    Relies on `hypothesis.control.current_build_context` and on `nodes` of its data; a version without them never says
    so.
    """
    try:
        nodes = control.current_build_context().data.nodes  # type: ignore[attr-defined]
        return all(node.trivial for node in nodes)
    except (AttributeError, InvalidArgument):  # an example that is not drawn has no context
        return False


def example_key() -> str:
    """A short digest of what hypothesis has drawn for the running example; it does not depend on the test's arguments,
    so not on the versions of torch and pickle.

    Relies on the same interfaces; "" with a version without them.
    """
    try:
        nodes = control.current_build_context().data.nodes  # type: ignore[attr-defined]
        return hashlib.blake2b(repr([node.value for node in nodes]).encode(), digest_size=4).hexdigest()
    except (AttributeError, InvalidArgument):
        return ""


@contextlib.contextmanager
def _drawing_others(test: Any, seed: int) -> Iterator[None]:
    """Draw the examples of another seed, a few."""
    usual, common = test._hypothesis_internal_use_settings, test._hypothesis_internal_use_seed
    test._hypothesis_internal_use_settings = settings(usual, max_examples=max(2, usual.max_examples // OWN_SHARE))
    test._hypothesis_internal_use_seed = seed
    try:
        yield
    finally:
        test._hypothesis_internal_use_settings, test._hypothesis_internal_use_seed = usual, common
