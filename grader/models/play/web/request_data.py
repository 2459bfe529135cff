"""Checks what a request of the page contains. A request that the page itself would not send gets a sentence too."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from grader.models.play.engine import MOST_READ
from grader.models.play.settings import OFF, SETTINGS, Settings

LONGEST_TEXT = 20_000  # characters
MOST_IDS = MOST_READ + 10_000  # a beginning, and the longest text


class WrongRequest(Exception):
    """The request is not one that the page sends; the message is a sentence."""


@dataclass(frozen=True)
class Request:
    """What a request is about. Without a model's name, it is about the model that the command names."""

    model: str = ""
    settings: Settings = Settings()
    text: str | None = None
    ids: tuple[int, ...] | None = None


def read_request(body: bytes, fields: Collection[str]) -> Request:
    """The request in this JSON. It may have these fields and no others. WrongRequest if it is not possible."""
    try:
        data = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise WrongRequest("the request is not valid JSON") from None
    if not isinstance(data, dict):
        raise WrongRequest("the request is not a JSON object")
    for name in data:
        if name not in fields:
            raise WrongRequest(f"the request has {_shown(name)}; it can have {', '.join(fields)}")
    return replace(Request(), **{name: READERS[name](value) for name, value in data.items()})


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_model(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise WrongRequest(f"model is the name of a checkpoint, not {_shown(value)}")
    return value


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongRequest(f"text is a string, not {_shown(value)}")
    if len(value) > LONGEST_TEXT:
        raise WrongRequest(
            f"the text has {len(value)} characters, and the page sends at most {LONGEST_TEXT}; shorten it"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WrongRequest("the text has half of a character, which no tokenizer can read; type it again") from None
    return value


def _read_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(i) is int for i in value):
        raise WrongRequest(f"ids is a list of whole numbers, not {_shown(value)}")
    if not 1 <= len(value) <= MOST_IDS:
        raise WrongRequest(f"ids has {len(value)} numbers; it can have 1 to {MOST_IDS}")
    return tuple(value)


def _read_settings(value: Any) -> Settings:
    if not isinstance(value, dict):
        raise WrongRequest(f"settings is a JSON object, not {_shown(value)}")
    settings = Settings()
    for name, wanted in value.items():
        if name not in SETTINGS:
            near = get_close_matches(name, SETTINGS, n=1)
            raise WrongRequest(
                f"there is no setting {_shown(name)}; "
                + (f"did you mean {near[0]}?" if near else f"the settings are {', '.join(SETTINGS)}")
            )
        setting = SETTINGS[name]
        if wanted is None and setting.can_be_off:
            settings = settings.changed(name, OFF[0])
            continue
        read = (
            setting.read(str(wanted).strip())
            if isinstance(wanted, (int, float, str)) and not isinstance(wanted, bool)
            else None
        )
        if read is None:
            raise WrongRequest(f"{setting.command.removeprefix('/')} takes {setting.takes}, not {_shown(wanted)}")
        settings = settings.changed(name, str(wanted))
    return settings


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"


READERS: dict[str, Callable[[Any], Any]] = {
    "model": _read_model,
    "settings": _read_settings,
    "text": _read_text,
    "ids": _read_ids,
}
