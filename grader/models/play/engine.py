"""A trained model that writes: token by token, with probabilities. Nothing is printed here.

The model and the sampling functions are the learner's parts. With the KV cache, their CachedGPT writes with the same
weights. First how the next token is chosen, and the check of each value that a user types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import torch
from grader.files import UserProblem
from grader.models.checkpoint import Loaded
from grader.models.design import TABLES, gpt_config
from grader.teaching.walks.parts import hidden_prints
from torch import Tensor

MAX_TOKENS = 10_000
OFF = ("off", "none")


class PlayProblem(UserProblem):
    """The user asked for something that is not possible; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Settings:
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0
    length: int = 100

    def changed(self, name: str, typed: str) -> Settings:
        """These settings with one value as the user typed it. PlayProblem if it is not possible."""
        setting = SETTINGS[name]
        word = typed.strip().lower()
        if setting.can_be_off and word in OFF:
            return self._with(name, None)
        value = setting.read(word)
        if value is None:
            raise PlayProblem(f"{setting.command} takes {setting.takes}, not {typed.strip()!r}")
        return self._with(name, value)

    def _with(self, name: str, value: Any) -> Settings:
        changes: dict[str, Any] = {name: value}
        return replace(self, **changes)

    def shown(self, name: str) -> str:
        value = getattr(self, name)
        return "off" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Setting:
    command: str
    takes: str
    read: Callable[[str], Any]  # the value, or None if it is not one
    can_be_off: bool = False


def _number(low: float, high: float, above: bool = False) -> Callable[[str], float | None]:
    def read(word: str) -> float | None:
        try:
            value = float(word)
        except ValueError:
            return None
        fits = math.isfinite(value) and low <= value <= high and not (above and value == low)
        return value if fits else None

    return read


def _count(low: int, high: int) -> Callable[[str], int | None]:
    def read(word: str) -> int | None:
        return int(word) if word.isascii() and word.isdigit() and len(word) < 20 and low <= int(word) <= high else None

    return read


def _temperature(word: str) -> float | None:
    value = _number(0, 100)(word)
    return None if value is None or 0 < value < 0.01 else value


SETTINGS = {
    "temperature": Setting(
        "/temperature", "0, which always takes the likeliest token, or a number from 0.01 to 100", _temperature
    ),
    "top_k": Setting("/top-k", "a whole number from 1, or `off`", _count(1, 10**9), can_be_off=True),
    "top_p": Setting("/top-p", "a number above 0 and at most 1, or `off`", _number(0, 1, above=True), can_be_off=True),
    "min_p": Setting("/min-p", "a number from 0 to 1, or `off`", _number(0, 1), can_be_off=True),
    "seed": Setting("/seed", "a whole number from 0", _count(0, 2**63 - 1)),
    "length": Setting("/length", f"a whole number from 1 to {MAX_TOKENS}", _count(1, MAX_TOKENS)),
}


MOST_READ = 4096  # tokens of a beginning, where the model has no limit of its own
CONTEXT_TOKENS = 16  # they decide how the next token is written: with a space, with a capital
END_MARKS = ".!?…"
REPLACEMENT = "\ufffd"
PART = "<part of a character>"  # how a token is shown that adds nothing yet


@dataclass(frozen=True)
class Candidate:
    """A token that could come next."""

    id: int
    text: str
    probability: float  # that the model gives it
    drawn: float  # the chance to be drawn with these settings


@dataclass(frozen=True)
class Piece:
    """A token that was written."""

    id: int
    text: str  # what it adds to the text; nothing while a character is not complete
    probability: float
    likeliest: list[Candidate]


@dataclass(frozen=True)
class Ending:
    """Why the text ends: "length" (as many tokens as asked for), "end" (the model wrote its end mark) or "full" (no
    more positions)."""

    reason: str
    text: str = ""  # an incomplete character at the end


@dataclass(frozen=True)
class Prompt:
    """A beginning as the model reads it."""

    ids: list[int]
    left_out: int = 0  # tokens at its beginning that do not fit
    unknown: tuple[str, ...] = ()


class Engine:
    def __init__(self, loaded: Loaded, parts: Any, with_cache: bool = True, device: str = "cpu") -> None:
        self.name, self.design, self.tokenizer, self.parts = loaded.name, loaded.design, loaded.tokenizer, parts
        self.record = loaded.record
        self.device = torch.device(device)
        self.model = loaded.model.to(self.device).eval()
        self.is_plain_gpt = self.design.is_plain_gpt
        own_text = isinstance(corpus := loaded.record.get("corpus"), dict) and corpus.get("kind") == "text"
        # windows of a user's text begin anywhere, without a mark
        self.start_ids = [] if own_text else list(self.tokenizer.start_ids)
        self.longest = self.design.max_len if self.design.positions in TABLES else None
        self.cached: Any = self._make_cached() if with_cache and self.is_plain_gpt else None

    def _make_cached(self) -> Any:
        """The learner's CachedGPT, which shares the numbers of the model; None if no CachedGPT is here."""
        if not hasattr(self.parts, "CachedGPT"):
            return None
        cached = self.parts.CachedGPT(gpt_config(self.parts, self.design, self.model.token_emb.weight.size(0)))
        own = {name: value for name, value in self.model.state_dict().items() if not name.startswith("further_heads.")}
        cached.to(self.device).load_state_dict(own, assign=True)
        return cached.eval()

    @property
    def translates(self) -> bool:
        return self.design.kind == "translate"

    # ---- reading

    def read(self, text: str, room: int) -> Prompt:
        """The ids of a beginning. Where positions are a table, so many are left out that `room` tokens, but at most
        half the table, can follow."""
        with hidden_prints():
            prompt = self.fit([*self.start_ids, *self.tokenizer.encode(text)], room)
        return Prompt(prompt.ids, prompt.left_out, tuple(self.tokenizer.unknown_words(text)))

    def fit(self, ids: list[int], room: int) -> Prompt:
        """The last of these ids that leave the room."""
        if not ids and self.tokenizer.end_id is not None:
            ids = [self.tokenizer.end_id]  # GPT-2 begins a text after the end of another
        most = MOST_READ if self.longest is None else max(self.longest - min(room, self.longest // 2), 1)
        return Prompt(list(ids[-most:]), max(len(ids) - most, 0))

    def nearest_words(self, word: str) -> str | None:
        """The known word that is written most like this one."""
        known = [known for known in self.tokenizer.to_data().get("vocab", ()) if not known.startswith("<")]
        return next(iter(get_close_matches(word.lower(), known, n=1)), None)

    def text(self, ids: list[int]) -> str:
        """The text of these ids, without an incomplete character at its end; `write` goes on from there."""
        return self.tokenizer.decode(ids).removesuffix(REPLACEMENT)

    # ---- writing

    def write(self, ids: list[int], settings: Settings) -> Iterator[Piece | Ending]:
        """Go on after these ids, one piece a token, and say at the end why the text ends. The same settings give the
        same text."""
        generator = torch.Generator(self.device).manual_seed(settings.seed)
        ids = list(ids)
        shown = len(self.text(ids))
        caches, unseen = (self.cached.new_caches(), ids) if self.cached is not None else (None, ids)
        for _ in range(settings.length):
            if self.longest is not None and len(ids) >= self.longest:
                yield Ending("full", self.tokenizer.decode(ids)[shown:])
                return
            logits = self._logits(unseen if caches is not None else ids, caches)  # (V,)
            new = self._choose(logits, settings, generator)
            likeliest = self._rank(logits, ids, settings, 5)
            if new == self.tokenizer.end_id:
                yield Ending("end", self.tokenizer.decode(ids)[shown:])
                return
            ids.append(new)
            unseen = [new]
            text = self.text(ids)
            yield Piece(new, text[shown:], torch.softmax(logits.float(), dim=-1)[new].item(), likeliest)
            shown = max(shown, len(text))
        yield Ending("length", self.tokenizer.decode(ids)[shown:])

    def likeliest(self, ids: list[int], settings: Settings, count: int = 5) -> list[Candidate]:
        """The tokens that are most likely to come next, the likeliest first."""
        self._require_writer("/why")
        return self._rank(self._logits(ids), ids, settings, count)

    def sentence(self, text: str) -> str:
        """The sentence as a translator reads it: without the marks at its end that the training's sentences do not
        have."""
        unknown = self.tokenizer.unknown_words(text)
        return text.rstrip("".join(mark for mark in unknown if mark in END_MARKS) + " \t")

    def translate(self, text: str, most: int) -> str:
        """The model's translation of a sentence, of so many tokens at most."""
        source = self.tokenizer.encode(self.sentence(text))
        if not source:
            raise PlayProblem("type a sentence to translate")
        if len(source) > self.design.max_len:
            raise PlayProblem(
                f"this sentence has {len(source)} tokens, and {self.name} reads at most "
                f"{self.design.max_len}; type a shorter one"
            )
        (start,), end = self.tokenizer.start_ids[-1:], self.tokenizer.end_id
        with hidden_prints():
            target = self.parts.translate(
                self.model, self._batch(source), start, end, min(most, self.design.max_len - 1)
            )[0].tolist()
        written = target[1:]
        return self.tokenizer.decode(written[: written.index(end)] if end in written else written)

    # ---- looking inside

    def attention(self, ids: list[int]) -> Tensor:
        """The weights of every head: (n_layers, H, T, T)."""
        self._require_plain_gpt("/attend")
        with hidden_prints():
            return self.parts.attention_patterns(self.model, self._batch(ids))[:, 0].float().cpu()

    def head_kind(self, pattern: Tensor) -> str | None:
        """What the learner's classify_head calls this pattern (T, T); None for a text that is too short."""
        return self.parts.classify_head(pattern) if pattern.size(0) > 2 else None

    def lens(self, ids: list[int]) -> list[list[Candidate]]:
        """What each layer would say comes next, the embeddings first: for each, its likeliest tokens."""
        self._require_plain_gpt("/lens")
        with hidden_prints():
            layers = self.parts.logit_lens(self.model, self._batch(ids))[:, 0, -1]  # (n_layers + 1, V)
        return [self._rank(logits, ids, Settings(temperature=1.0), 3) for logits in layers]

    def tokens(self, ids: list[int]) -> list[str]:
        """How each token is shown alone: a space at its beginning is visible, as is an end mark."""
        return [self._show(i, piece) for i, piece in zip(ids, self.tokenizer.pieces(ids))]

    def _require_writer(self, command: str) -> None:
        if self.translates:
            raise PlayProblem(f"{command} needs a model that goes on with a text, and {self.name} is a translator")

    def _require_plain_gpt(self, command: str) -> None:
        self._require_writer(command)
        if not self.is_plain_gpt:
            design = self.design
            reasons = {
                "experts": design.kind == "moe",
                f"{design.norm}-norm blocks": design.norm != "pre",
                f"{design.attention} attention": design.attention != "plain",
                "a soft cap": True,
            }
            what = next(what for what, has_it in reasons.items() if has_it)
            raise PlayProblem(
                f"{command} works with a GPT of pre-norm blocks, as in chapter 12, and this model has {what}"
            )

    # ---- one step

    def _batch(self, ids: list[int]) -> Tensor:
        return torch.tensor([ids if self.longest is None else ids[-self.longest :]], device=self.device)

    @torch.no_grad()
    def _logits(self, ids: list[int], caches: Any = None) -> Tensor:
        with hidden_prints():
            output = self.model(self._batch(ids)) if caches is None else self.cached(self._batch(ids), caches)
        logits = (output[0] if isinstance(output, tuple) else output)[0, -1]
        if not logits.isfinite().all():
            raise PlayProblem(
                f"the model {self.name} gives scores that are not numbers, so its training has failed; "
                "train it again with a smaller learning rate"
            )
        return logits

    @torch.no_grad()
    def _filtered(self, logits: Tensor, settings: Settings) -> Tensor:
        """The logits that a token is drawn from: after temperature and filters, in the order of sample_next_token, then
        min-p."""
        logits = self.parts.apply_temperature(logits[None], settings.temperature)
        if settings.top_k is not None:
            logits = self.parts.top_k_filter(logits, settings.top_k)
        if settings.top_p is not None:
            logits = self.parts.top_p_filter(logits, settings.top_p)
        if settings.min_p is not None:
            logits = self.parts.min_p_filter(logits, settings.min_p)
        return logits[0]

    @torch.no_grad()
    def _choose(self, logits: Tensor, settings: Settings, generator: torch.Generator) -> int:
        # sample_next_token has no min-p, so everything is filtered before
        if settings.temperature > 0 and settings.min_p is not None:
            return int(self.parts.sample_next_token(self._filtered(logits, settings)[None], generator=generator)[0])
        sampling = dict(
            temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, generator=generator
        )
        return int(self.parts.sample_next_token(logits[None], **sampling)[0])

    def _rank(self, logits: Tensor, ids: list[int], settings: Settings, count: int) -> list[Candidate]:
        probabilities = torch.softmax(logits.float(), dim=-1)
        best, order = probabilities.topk(min(count, probabilities.numel()))
        if settings.temperature == 0:
            chances = [1.0, *[0.0] * (len(order) - 1)]
        else:
            chances = torch.softmax(self._filtered(logits, settings).float(), dim=-1)[order].tolist()
        before = ids[-CONTEXT_TOKENS:]
        texts = [self._show(i, self.tokenizer.pieces([*before, i])[-1]) for i in order.tolist()]
        return [Candidate(*values) for values in zip(order.tolist(), texts, best.tolist(), chances)]

    def _show(self, i: int, piece: str) -> str:
        if i == self.tokenizer.end_id:
            return "<end>"
        if i in self.tokenizer.start_ids:
            return "<start>"
        if self.tokenizer.kind == "words":
            return piece.strip() or "<pad>"
        return repr(piece)[1:-1].replace(" ", "·") if piece else PART


def require_same_task(one: Engine, other: Engine) -> None:
    """PlayProblem if one of them translates and the other goes on with a text: they cannot answer the same line."""
    if one.translates != other.translates:
        translator, writer = (one, other) if one.translates else (other, one)
        raise PlayProblem(
            f"{translator.name} is a translator and {writer.name} is not, so they cannot answer the same line"
        )
