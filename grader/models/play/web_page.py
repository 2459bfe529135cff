"""What the page of `headway play --web` can ask for: a text is a stream of events, everything else is one answer.

One request at a time uses a model. What the user or the learner's code did wrong is `{"problem": sentence}`, and the
server lives on. Every request carries its own settings and its whole text, so two tabs do not disturb each other. The
page is in `static/`: page.html, page.css and its scripts; nothing is built.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from grader.console.local_server import Data, WrongRequest
from grader.files import UserProblem
from grader.models.checkpoint import list_checkpoints
from grader.models.own_parts import describe_problem
from grader.models.play.engine import (
    CONTEXT_TOKENS,
    MAX_TOKENS,
    MOST_READ,
    OFF,
    PART,
    REPLACEMENT,
    SETTINGS,
    Candidate,
    Ending,
    Engine,
    Piece,
    PlayProblem,
    Settings,
    require_same_task,
)
from grader.models.play.session import full_note, left_out_note, model_note, reading_notes, unknown_note
from grader.teaching import book

INSIDE = ("attention_patterns", "logit_lens", "classify_head")  # a handout may lack chapter 12


class PageModels:
    """Engines by their name on the page; the first one has the name "". Use it in a turn: opening a model imports the
    learner's code."""

    def __init__(
        self, engine: Engine, sentences: list[str], open_other: Callable[[str], tuple[Engine, list[str]]]
    ) -> None:
        self._open_other = open_other
        self._opened = {"": (engine, sentences)}

    @property
    def first(self) -> Engine:
        return self._opened[""][0]

    def engine(self, name: str) -> Engine:
        """An opened model. PlayProblem if this name is none."""
        if name not in self._opened:
            raise PlayProblem(f"the model {name!r} is not open; choose it again under “Compare with”")
        return self._opened[name][0]

    def open(self, name: str) -> None:
        """Load a checkpoint by its name; no other folder can be opened from the page. PlayProblem with a sentence if
        that is not possible."""
        if name in self._opened:
            return
        if name not in self.checkpoints():
            raise PlayProblem(f"there is no checkpoint {name!r}; load the page again to see those that you have")
        other, sentences = self._open_other(name)
        require_same_task(self.first, other)
        self._opened[name] = other, sentences

    def checkpoints(self) -> list[str]:
        return [path.name for path in list_checkpoints()]

    def describe(self, name: str) -> dict[str, Any]:
        """What the page shows of an opened model."""
        engine, sentences = self._opened[name]
        return {
            "model": name,
            "name": engine.name,
            "about": [model_note(engine), *sentences],
            "translates": engine.translates,
            "layers": engine.design.n_layers,
            "heads": engine.design.n_heads,
            "start_ids": engine.start_ids,
            "end_id": engine.tokenizer.end_id,
            "tokenizer": engine.tokenizer.fingerprint,
            "inside": engine.is_plain_gpt and all(hasattr(engine.parts, name) for name in INSIDE),
        }


MOST_WEIGHTS = 2**24  # of all attention maps of one text
MOST_LOGITS = 2**28  # that the logit lens computes: 1 GiB
MOST_CHARACTERS = 20_000
MOST_IDS = MOST_READ + 10_000  # a beginning, and the longest text
STATIC = Path(__file__).parent / "static"
BOOK = Path(book.__file__).parent / "static"
SHARED = {path.name: path for path in (*sorted(STATIC.glob("*.*")), BOOK / "icon.svg", BOOK / "theme.js")}
FILES = {"": STATIC / "page.html"} | SHARED


@dataclass(frozen=True)
class Request:
    """What a request is about. Without a model's name, it is about the model that the command names."""

    model: str = ""
    settings: Settings = Settings()
    text: str | None = None
    ids: tuple[int, ...] | None = None


CHECKS: dict[str, Callable[[Any], bool]] = {
    "model": lambda value: isinstance(value, str),
    "text": lambda value: isinstance(value, str),
    "ids": lambda value: isinstance(value, list) and bool(value) and all(type(i) is int for i in value),
    "settings": lambda value: isinstance(value, dict) and value.keys() <= SETTINGS.keys(),
}


def read_request(body: bytes, fields: Collection[str]) -> Request:
    """The request in this JSON. It may have these fields and no others. WrongRequest if it is not possible."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise WrongRequest("the request is not a JSON object")
    wrong = next((name for name, value in data.items() if name not in fields or not CHECKS[name](value)), None)
    if wrong is not None:
        raise WrongRequest(f"the page sends no such {wrong}")
    if len(data.get("text", "")) > MOST_CHARACTERS or len(data.get("ids", ())) > MOST_IDS:
        raise WrongRequest(f"the text is too long: the page sends at most {MOST_CHARACTERS} characters; shorten it")
    settings = Settings()
    try:
        for name, value in data.get("settings", {}).items():
            settings = settings.changed(name, OFF[0] if value is None else str(value))
    except PlayProblem as problem:
        raise WrongRequest(str(problem)) from None
    ids = tuple(data["ids"]) if "ids" in data else None
    return replace(Request(), **{**data, "settings": settings, "ids": ids})


class HasParts(Protocol):
    parts: Any


class Turns:
    """One request at a time uses a model. What cannot be done is an answer with a sentence."""

    def __init__(self) -> None:
        self.turn = threading.Lock()

    def _answer(self, model: HasParts, work: Callable[[], Any]) -> Any:
        """What `work` returns, in a turn; a sentence if it is not possible."""
        with self.turn:
            try:
                return work()
            except UserProblem as problem:
                says = str(problem)
            # also a sys.exit in the learner's code; Control-C arrives in the main thread only
            except BaseException as problem:
                says = describe_problem(problem, model.parts)
        return {"event": "problem", "problem": _sentence(says)}

    def _in_turns(self, model: HasParts, events: Iterator[Data]) -> Generator[Data, None, None]:
        """Each event needs a turn of its own, so that texts of several tabs are written side by side."""
        while True:
            event = self._answer(model, lambda: next(events, None))
            if event is None:
                return
            yield event
            if "problem" in event:
                return


class Api(Turns):
    questions = {
        "open": ("model",),
        "likeliest": ("model", "settings", "ids"),
        "attention": ("model", "ids"),
        "lens": ("model", "ids"),
        "translate": ("model", "settings", "text"),
    }
    streams = {"write": ("model", "settings", "text", "ids")}
    read = staticmethod(read_request)

    def __init__(self, models: PageModels) -> None:
        super().__init__()
        self._models = models

    # ---- answers

    def describe(self) -> Data:
        """What the page shows first."""
        with self.turn:
            names = [name for name in self._models.checkpoints() if name != self._models.first.name]
            return {**self._models.describe(""), "others": names, "settings": asdict(Settings()), "longest": MAX_TOKENS}

    def open(self, request: Request) -> Data:
        """Load a checkpoint to compare with."""

        def work() -> Data:
            self._models.open(request.model)
            return self._models.describe(request.model)

        return self._answer(self._models.first, work)

    def likeliest(self, request: Request) -> Data:
        """The tokens that are most likely to come after these."""
        engine, ids = self._engine_and_ids(request)
        return self._answer(engine, lambda: {"likeliest": _rows(engine.likeliest(ids, request.settings))})

    def lens(self, request: Request) -> Data:
        """What each layer would say after these tokens, the embeddings first."""
        engine, ids = self._engine_and_ids(request)
        most = MOST_LOGITS // (engine.tokenizer.vocab_size * (engine.design.n_layers + 1))
        return self._answer(
            engine, lambda: {"layers": [_rows(layer) for layer in engine.lens(_short(ids, most, "the logit lens"))]}
        )

    def attention(self, request: Request) -> Data:
        """The weights of every head: for each layer, head and token, one byte for the token itself and each token
        before it, 255 for the weight 1."""
        engine, ids = self._engine_and_ids(request)
        most = int((2 * MOST_WEIGHTS / (engine.design.n_layers * engine.design.n_heads)) ** 0.5)

        def work() -> Data:
            patterns = engine.attention(_short(ids, most, "the attention map")).detach()  # (L, H, T, T)
            rows, columns = torch.tril_indices(len(ids), len(ids))
            weights = (patterns[:, :, rows, columns].nan_to_num().clamp(0, 1) * 255).round().to(torch.uint8)
            kinds = [[engine.head_kind(pattern) for pattern in heads] for heads in patterns]
            return {
                "length": len(ids),
                "kinds": kinds,
                "weights": base64.b64encode(bytes(weights.flatten().tolist())).decode(),
            }

        return self._answer(engine, work)

    def translate(self, request: Request) -> Data:
        """The translation of a sentence, with notes on what the model cannot read of it."""
        engine, text = self._engine(request), (request.text or "").strip()
        if not engine.translates:
            raise WrongRequest(f"{engine.name} is not a translator")

        def work() -> Data:
            if not text:
                raise PlayProblem("type a sentence to translate")
            notes = unknown_note(engine, tuple(engine.tokenizer.unknown_words(engine.sentence(text))))
            return {"translation": engine.translate(text, request.settings.length), "notes": notes}

        return self._answer(engine, work)

    # ---- texts

    def write(self, request: Request) -> Generator[Data, None, None]:
        """Go on with a text or with ids: first the tokens of the beginning, then each new token, then why the text
        ends."""
        if (request.text is None) == (request.ids is None):
            raise WrongRequest("a text begins with text or with ids, and not with both")
        engine, ids = (self._engine(request), None) if request.ids is None else self._engine_and_ids(request)
        if engine.translates:
            raise WrongRequest(f"{engine.name} is a translator; it cannot go on with a text")
        return self._in_turns(engine, self._write(engine, request, ids))

    def _write(self, engine: Engine, request: Request, ids: list[int] | None) -> Iterator[Data]:
        if ids is None:
            prompt = engine.read((request.text or "").strip(), request.settings.length)
            notes = reading_notes(engine, prompt)
            if not prompt.ids:
                raise PlayProblem(f"{engine.name} cannot begin by itself; type the beginning of a text")
        else:
            prompt = engine.fit(ids, request.settings.length)
            notes = left_out_note(engine, prompt.left_out)
        ids = list(prompt.ids)
        yield {"event": "begin", "tokens": _tokens(engine, ids), "left_out": prompt.left_out, "notes": notes}
        for piece in engine.write(ids, request.settings):
            if isinstance(piece, Ending):
                yield {
                    "event": "end",
                    "reason": piece.reason,
                    "text": piece.text,
                    "notes": [full_note(engine)] if piece.reason == "full" else [],
                }
            else:
                ids.append(piece.id)
                yield _token(engine, ids, piece)

    # ---- both

    def _engine(self, request: Request) -> Engine:
        try:
            return self._models.engine(request.model)
        except PlayProblem as problem:
            raise WrongRequest(str(problem)) from None

    def _engine_and_ids(self, request: Request) -> tuple[Engine, list[int]]:
        engine = self._engine(request)
        if request.ids is None:
            raise WrongRequest("the request has no ids")
        size = engine.tokenizer.vocab_size
        wrong = next((i for i in request.ids if not 0 <= i < size), None)
        if wrong is not None:
            raise WrongRequest(f"{engine.name} has no token {wrong}; its ids are 0 to {size - 1}")
        return engine, list(request.ids)


def _sentence(says: str) -> str:
    says = says.removeprefix("/")
    return says[:1].upper() + says[1:] + ("" if says.endswith((".", "?", "!")) else ".")


def _short(ids: list[int], most: int, what: str) -> list[int]:
    if len(ids) > most:
        raise PlayProblem(f"{what} of this model needs too much memory for {len(ids)} tokens; it works up to {most}")
    return ids


def _rows(candidates: Sequence[Candidate]) -> list[Data]:
    return [asdict(candidate) for candidate in candidates]


def _tokens(engine: Engine, ids: list[int]) -> list[Data]:
    """What each token adds to the text, and its name where it adds nothing. An incomplete character at the end appears
    when it is complete."""
    pieces, labels = engine.tokenizer.pieces(ids), engine.tokens(ids)
    if pieces[-1].endswith(REPLACEMENT):
        pieces[-1], labels[-1] = pieces[-1].removesuffix(REPLACEMENT), PART
    return [{"id": i, "text": text, "label": label} for i, text, label in zip(ids, pieces, labels)]


def _token(engine: Engine, ids: list[int], piece: Piece) -> Data:
    label = engine.tokens(ids[-CONTEXT_TOKENS - 1 :])[-1]
    return {
        "event": "token",
        "id": piece.id,
        "text": piece.text,
        "label": label,
        "probability": piece.probability,
        "likeliest": _rows(piece.likeliest),
    }
