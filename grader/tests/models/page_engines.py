"""Small models with random weights for the page of `headway play --web`, and a server of the page in this process."""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from grader.chapters.corpora import SENTENCES
from grader.console.local_server import PageServer
from grader.models.checkpoint import Loaded
from grader.models.design import Design, build_model
from grader.models.play.engine import Engine, Piece, PlayProblem, Settings
from grader.models.play.web_page import FILES, Api, PageModels
from grader.models.tokenizers import WordModelTokenizer
from grader.tests.models.own_models import GPT, TINY, own_parts_of, solved

SECONDS = 120
ENDLESS = Design(positions="alibi", **TINY)  # no table of positions, so a text can be long
PUT = "    return logits / temperature\n"  # the line of apply_temperature that a broken version replaces


def engine_of(parts: Any, tokenizer: Any, design: Design = GPT, with_cache: bool = True, record: dict | None = None, name: str = "tiny") -> Engine:
    torch.manual_seed(5)
    model = build_model(parts, design, tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.dim() > 1 else 1)  # far from uniform
    return Engine(Loaded(model, tokenizer, design, record or {}, Path(name)), parts, with_cache)


def random_engine(parts: Any, tokenizer: Any, design: Design = ENDLESS, name: str = "tiny") -> Engine:
    """A model that never ends a text by itself: it does not know which id is the end mark."""
    if design.kind != "translate":
        tokenizer = copy.copy(tokenizer)
        tokenizer.end_id = None
    return engine_of(parts, tokenizer, design, name=name)


def written(engine: Engine, text: str, settings: Settings) -> list[int]:
    """The ids that the model writes after this beginning."""
    return [piece.id for piece in engine.write(engine.read(text, settings.length).ids, settings) if isinstance(piece, Piece)]


def written_ids(engine: Engine, text: str, length: int) -> list[int]:
    """The ids of a beginning and of what the model writes after it, with the first seed."""
    return [*engine.read(text, length).ids, *written(engine, text, Settings(length=length))]


@contextlib.contextmanager
def engine_of_learner(line: str) -> Iterator[Engine]:
    """An engine in which the learner's apply_temperature ends with this line."""
    with own_parts_of(ENDLESS, ch09_sampling=solved("ch09_sampling", (PUT, f"    {line}\n"))) as own:
        yield random_engine(own.parts, WordModelTokenizer.of_texts(own.parts, [f"{sentence}." for sentence in SENTENCES]))


def api_of(engine: Engine, **others: Engine) -> Api:
    """The api of these models; the others are checkpoints that can be compared with."""

    def open_other(name: str) -> tuple[Engine, list[str]]:
        if name == "damaged":
            raise PlayProblem("damaged/checkpoint.json is damaged; train the model again")
        return others[name], ["Your own code: all 9 parts."]

    models = PageModels(engine, ["Your own code: none of the 29 parts yet."], open_other)
    models.checkpoints = lambda: [*others, "damaged"]  # type: ignore[method-assign]
    return Api(models)


@contextlib.contextmanager
def served(api: Api) -> Iterator[PageServer]:
    with PageServer(FILES, api=api) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()
    with api.turn:
        pass  # whoever used a model has ended


def request(server: PageServer, path: str, body: Any = None, method: str | None = None, change: Callable[[dict[str, str]], Any] = dict) -> tuple[int, str, Any]:
    """The status, the text and the headers of the answer to a request as the page sends it; `change` may change its headers."""
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), port, timeout=SECONDS)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Host": f"{host}:{port}"} | ({} if data is None else {"Content-Type": "application/json", "Content-Length": str(len(data))})
        change(headers)
        connection.putrequest(method or ("GET" if data is None else "POST"), path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()
