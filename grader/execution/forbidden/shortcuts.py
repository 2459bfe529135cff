"""Reports what the learner's code runs of the functions that its exercise forbids (the syllabus's `forbids`), and in
every exercise a look at the grader's own objects.

The source check (grader/course/source_check.py) reads what is written plainly, and names its line. This watch runs
along with the code and also sees `getattr(torch, "soft" + "max")` and `x.softmax(-1)`: operators in torch's dispatcher
(operators.py), functions that torch has in Python by their code (functions.py), imports by audit events (audit.py).
Everything that runs before the answer is sent counts, whatever called it: the course's own chapters run nothing that is
forbidden.
"""

from __future__ import annotations

import contextlib

from grader.course.torch_operators import reportable, reportable_at_import
from grader.execution.forbidden import Notice, Watch, audit, functions, operators, watches

_prepared: set[tuple[str, ...]] = set()


def watching(
    forbids: tuple[str, ...], notice: Notice, importing: bool = False
) -> contextlib.AbstractContextManager[None]:
    """In this context, call `notice` with the name of each forbidden thing that runs (see `reportable`)."""
    prepare(forbids)
    names = reportable_at_import(forbids) if importing else reportable(forbids)
    return _Watching(names, notice, importing, operators_too=bool(forbids) and not importing)


class _Watching(contextlib.AbstractContextManager[None]):
    """Activates a watch. A class, because entering and leaving a generator takes three times as long."""

    def __init__(self, names: frozenset[str], notice: Notice, importing: bool, operators_too: bool) -> None:
        self.watch = Watch(names, notice, importing)
        self.operators_too = operators_too
        self.before: bool | None = None

    def __enter__(self) -> None:
        watches.append(self.watch)
        if self.operators_too:
            self.before = operators.switch_key(True)

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            operators.switch_key(self.before)
        watches.remove(self.watch)


def prepare(forbids: tuple[str, ...]) -> None:
    """Prepare for these names, once and for all in a process. What is prepared does nothing while nobody watches."""
    if forbids not in _prepared:
        _prepared.add(forbids)
        audit.install_hook()
        operators.guard()
        if forbids:
            operators.attach(forbids)
            functions.replace_functions(forbids)
