"""What the page of `headway chat --web` can ask for, as plain data. The page keeps the conversation, each tab its
own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch16_published_model.published.chat import (
    HIGHEST_TEMPERATURE,
    ChatProblem,
    Message,
    answer,
    answer_ids,
)
from grader.chapters.ch16_published_model.published.opening import Published, look_inside, show_token
from grader.console.local_server import Data, WrongRequest
from grader.models.play.web_page import MOST_CHARACTERS, SHARED, Turns
from grader.teaching.walks.parts import hidden_prints

ROLES = ("system", "user", "assistant")
MOST_MESSAGES = 1000
STATIC = Path(__file__).parent / "static"
FILES = {**SHARED, "": STATIC / "chat.html", **{path.name: path for path in STATIC.glob("chat.*")}}


@dataclass(frozen=True)
class Request:
    messages: list[Message]
    temperature: float = 0.0
    place: int | None = None  # of a token


def read_request(body: bytes, fields: Collection[str]) -> Request:
    """The request in this JSON. WrongRequest if the page sends no such request."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not data.keys() <= set(fields):
        raise WrongRequest("the page sends no such request")
    messages, temperature, place = data.get("messages"), data.get("temperature", 0.0), data.get("place")
    if not isinstance(messages, list) or not 0 < len(messages) <= MOST_MESSAGES or not all(map(_is_message, messages)):
        raise WrongRequest("the page sends no such messages")
    if any(len(message["content"]) > MOST_CHARACTERS for message in messages):
        raise WrongRequest(f"the text is too long: the page sends at most {MOST_CHARACTERS} characters; shorten it")
    if type(temperature) not in (int, float) or not 0 <= temperature <= HIGHEST_TEMPERATURE:
        raise WrongRequest(f"the temperature is a number from 0 to {HIGHEST_TEMPERATURE:g}")
    if place is not None and type(place) is not int:
        raise WrongRequest("the page sends no such place")
    return Request(messages, temperature, place)


def _is_message(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and data.keys() == {"role", "content"}
        and data["role"] in ROLES
        and isinstance(data["content"], str)
    )


class ChatApi(Turns):
    questions = {"inside": ("messages", "place")}
    streams = {"answer": ("messages", "temperature")}
    read = staticmethod(read_request)

    def __init__(self, published: Published, about: list[str], temperature: float) -> None:
        super().__init__()
        self._published, self._about, self._temperature = published, about, temperature

    def describe(self) -> Data:
        """What the page shows first."""
        sizes = self._published.sizes
        return {
            "name": self._published.name,
            "about": self._about,
            "blocks": sizes.n_layers,
            "heads": sizes.n_heads,
            "temperature": self._temperature,
        }

    def answer(self, request: Request) -> Generator[Data, None, None]:
        """The model's answer: its pieces, then the end."""
        if request.messages[-1]["role"] != "user":
            raise WrongRequest("the last message must be a question of the user")
        return self._in_turns(self._published.own, self._pieces(request))

    def _pieces(self, request: Request) -> Iterator[Data]:
        for piece in answer(self._published, request.messages, request.temperature):
            yield {"event": "piece", "text": piece}
        yield {"event": "end"}

    def inside(self, request: Request) -> Data:
        """What each block would say after a token of the conversation, and where each head looked from it; without a
        place, from the last token."""
        if len(request.messages) < 2 or request.messages[-1]["role"] != "assistant":
            raise WrongRequest("the last message is no answer")
        return self._answer(self._published.own, lambda: self._inside(request))

    def _inside(self, request: Request) -> Data:
        with hidden_prints():
            ids = answer_ids(self._published, request.messages)
        place = len(ids) - 1 if request.place is None else request.place
        if not 0 <= place < len(ids):
            raise ChatProblem(f"the conversation has no token {place}")
        with hidden_prints():
            found = look_inside(self._published, ids[: place + 1])
        weights = (found.attention.nan_to_num().clamp(0, 1) * 255).round().to(torch.uint8)  # (n_layers, H, place + 1)
        return {
            "tokens": [show_token(self._published, i) for i in ids],
            "place": place,
            "next": ids[place + 1] if place + 1 < len(ids) else None,
            "layers": [[asdict(likely) for likely in layer] for layer in found.layers],
            "weights": base64.b64encode(bytes(weights.flatten().tolist())).decode(),
        }
