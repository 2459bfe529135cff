"""Chooses which drawn examples of a test run: of the common ones, those that `tests/needed_examples.toml` lists.

`python -m grader.tests.quality.proof examples` writes that file. A test that it does not list runs all its examples. So
does one of which it lists an example that hypothesis does not draw: the test has changed, or hypothesis is another
version.
"""

from __future__ import annotations

import contextlib
import json
import tomllib
from functools import cache

from grader.course.syllabus import TESTS, load_syllabus
from grader.verdict.recordings import Example

NEEDED = TESTS / "needed_examples.toml"
HEADER = """\
# Written by `make proof ONLY=examples`: the common examples that a test needs, by a digest of what hypothesis draws.
# For all wrong code that any example of a test catches, one of them fails. A test that is not listed runs all examples.
"""

Needed = dict[str, dict[str, list[str]]]  # exercise → test → keys


@cache
def needed_examples() -> Needed:
    """The content of the file; nothing if it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError):
        return tomllib.loads(NEEDED.read_text(encoding="utf-8"))
    return {}


def format_needed_examples(needed: Needed) -> str:
    """The text of the file, in the order of the course."""
    names = [exercise.name for exercise in load_syllabus().exercises if needed.get(exercise.name)]
    tables = [f"[{name}]\n" + "".join(f"{test} = {json.dumps(keys)}\n" for test, keys in needed[name].items())
              for name in names]  # fmt: skip
    return "\n".join([HEADER, *tables])


def needed_of(exercise: str, test: str, drawn: list[Example], seed: int) -> list[Example]:
    """Those of a seed's examples that the test needs, and the one with the largest sizes: a mistake that nobody has
    listed may begin at some size. Of a run's own ones, all but the simplest, which are the same at every seed."""
    if seed:
        return [example for example in drawn if not example.simplest]
    keys = set(needed_examples().get(exercise, {}).get(test, ()))
    if not keys or not keys <= {example.key for example in drawn}:
        return drawn
    largest = max(drawn, key=_size)
    return [example for example in drawn if example.key in keys or example is largest]


def _size(example: Example) -> int:
    """The sum of the sizes that it names, or of its arguments that are whole numbers."""
    return sum(value for value in (example.sizes or example.values()).values() if type(value) is int)
