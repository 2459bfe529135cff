"""The page that `headway COMMAND --help` prints: arguments without their types in Python."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class ReadableCommand(TyperCommand):
    """A command whose help shows `NAME`, where newer versions of typer show `NAME <list[str]>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None
        return params
