"""Answers that are right in more than one form, brought into one."""

from __future__ import annotations

from typing import Any


def as_list(ids: Any) -> Any:
    """Ids as a list, when they came as a tuple or a tensor; anything else as it is."""
    if isinstance(ids, tuple) or hasattr(ids, "tolist"):
        return list(ids) if isinstance(ids, tuple) else ids.tolist()
    return ids
