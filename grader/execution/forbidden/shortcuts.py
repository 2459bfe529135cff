"""Reports what the learner's code runs of the functions that its exercise forbids (the syllabus's `forbids`).

The source check (grader/course/source_check.py) reads the code. This watch runs with it and sees `getattr(torch, "soft" + "max")` and `x.softmax(-1)` too:
operators in torch's dispatcher (operators.py), functions that torch has in Python by their code (functions.py), imports by audit events
(audit.py). Whatever runs before the answer has left counts, whoever called it: nothing of the course's own chapters runs a forbidden one.
"""

from __future__ import annotations

import contextlib

from grader.course.torch_operators import reportable, reportable_at_import
from grader.execution.forbidden import audit, functions, operators
from grader.execution.forbidden.reports import Notice, Watch, watches

_prepared: set[tuple[str, ...]] = set()


def watching(forbids: tuple[str, ...], notice: Notice, importing: bool = False) -> contextlib.AbstractContextManager[None]:
    """While this lasts, call `notice` with the names of what runs and is forbidden (see `reportable`)."""
    if not forbids:
        return contextlib.nullcontext()
    if forbids not in _prepared:
        prepare(forbids)
    return _Watching(reportable_at_import(forbids) if importing else reportable(forbids), notice, importing)


class _Watching(contextlib.AbstractContextManager[None]):
    """A watch; a class, because a generator would take three times as long to enter and leave."""

    def __init__(self, names: frozenset[str], notice: Notice, importing: bool) -> None:
        self.watch = Watch(names, notice, importing)
        self.before: bool | None = None

    def __enter__(self) -> None:
        watches.append(self.watch)
        if not self.watch.importing:
            self.before = operators.switch_key(True)

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            operators.switch_key(self.before)
        watches.remove(self.watch)


def prepare(forbids: tuple[str, ...]) -> None:
    """Make ready for these names: what costs time once in a process, or in a test run."""
    _prepared.add(forbids)
    operators.attach(forbids)
    operators.guard()
    functions.exchange(forbids)
    audit.listen()


def restore() -> None:
    """Torch's and Python's functions are what they were. The kernels that stay do nothing while the key is off."""
    _prepared.clear()
    operators.detach()
    functions.restore()
    operators.unguard()
