"""How commands speak: the page of `headway COMMAND --help` shows arguments without their types in Python, and a wrong value gets a plain sentence."""

from __future__ import annotations

from typing import Any

from grader.cli.wrong_values import plain_words
from typer.core import TyperCommand


class ReadableCommand(TyperCommand):
    """A command whose help shows `NAME`, where newer versions of typer show `NAME <list[str]>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with plain_words():
            return super().parse_args(ctx, args)


class ForwardingCommand(ReadableCommand):
    """A command whose first argument names a program. Everything after it belongs to that program, also `--help`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and "--" not in args:
            args = [args[0], "--", *args[1:]]
        return super().parse_args(ctx, args)
