"""Says what is wrong with the value of an option. Newer versions of typer check values with pydantic, and print its sentences about "inputs"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

WORDS = {  # by the first word of pydantic's name for the kind of error
    "int": "is not a whole number",
    "float": "is not a number",
    "less": "is too large; the largest value is",
    "greater": "is too small; the smallest value is",
}


@contextmanager
def plain_words() -> Iterator[None]:
    """Replace a sentence of pydantic about a value by ours."""
    try:
        yield
    except typer.BadParameter as problem:
        errors = getattr(problem.__cause__, "errors", None)  # older versions of typer have no pydantic, and say it well
        if errors is not None and (sentence := describe(errors()[0])):
            problem.message = sentence
        raise


def describe(error: dict[str, Any]) -> str:
    """What is wrong, for one entry of the errors of a pydantic ValidationError; "" where typer says it well."""
    given, kind = str(error["input"]), str(error["type"]).partition("_")[0]
    if given.strip().lower() == "nan":
        kind = "float"
    if kind not in WORDS:
        return ""
    limit = next((f" {bound:.15g}" for bound in error.get("ctx", {}).values() if kind in ("less", "greater")), "")
    return f"{given!r} {WORDS[kind]}{limit}"
