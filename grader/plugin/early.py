"""Headway's options for pytest, and a second start when pytest looks for its settings in the wrong place.

pytest does not know the options yet when it reads `pytest --target /elsewhere` or `--results /elsewhere/results.json`,
and takes what exists there for tests: it takes that for its root and never finds the kit's settings. This small module
(an entry point, so it is always loaded) detects that and runs pytest again from the kit's root.

PYTEST_DONT_REWRITE: this module has no assertions, and at the second start pytest would warn that it is too late to
rewrite it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITH_PATH, WITH_VALUE = ("--target", "--results"), ("--chapter", "--exercise", "--seed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headway", "Headway: whose code to grade, and how")
    group.addoption(
        "--target",
        metavar="DIR",
        help="a folder with some of the chNN_name.py files, or the word `solutions`; the exercises unless given",
    )
    group.addoption("--chapter", metavar="ch03", action="append", help="only this chapter (may be repeated)")
    group.addoption("--exercise", metavar="NAME", action="append", help="only this exercise (may be repeated)")
    group.addoption(
        "--worker",
        action="store_true",
        help="run the code in a separate process, in a sandbox (Linux), not in the tests' process",
    )
    group.addoption(
        "--whole",
        action="store_true",
        help="everything that an exercise uses is the target's own; nothing is replaced by the reference's",
    )
    group.addoption("--seed", type=int, default=0, metavar="N", help="other examples, just as repeatable (default 0)")
    group.addoption("--results", metavar="FILE", help="write the results as JSON")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """If an option's value misled pytest about its root, run again with an explicit root, before anything found there
    is used.

    The first start has installed an import hook that follows the settings found there: with `python_files = *.py` it
    would parse all of torch again, for seconds. The second start installs its own.
    """
    known = early_config.known_args_namespace
    given = any(
        value
        for value in (known.target, known.results, known.exercise, known.chapter, known.seed, known.worker, known.whole)
    )
    if given and not early_config.pluginmanager.has_plugin("grader.plugin.hooks"):
        arguments = _joined(list(early_config.invocation_params.args))
        from grader.plugin.pytest_internals import remove_import_hooks  # here: other runs need not import it so early

        remove_import_hooks()
        tests = [] if known.file_or_dir else [str(ROOT / "tests")]
        raise SystemExit(
            pytest.main([f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}", *arguments, *tests])
        )
    return (yield)


def _joined(arguments: list[str]) -> list[str]:
    """Each option of this module in one word, `--target=/whole/path`, which pytest does not take for a folder of
    tests."""
    joined: list[str] = []
    while arguments:
        word = arguments.pop(0)
        if word in WITH_PATH + WITH_VALUE and arguments:
            word = f"{word}={arguments.pop(0)}"
        name, _, value = word.partition("=")
        if name in WITH_PATH and value != "solutions" and value:
            word = f"{name}={os.path.abspath(os.path.expanduser(value))}"
        joined.append(word)
    return joined
