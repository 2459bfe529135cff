"""The texts of `headway play`: a model goes on with a beginning. Everything is returned as pieces to print, in their
order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

from grader.models.play.engine import Ending, Engine, Prompt
from grader.models.play.settings import PlayProblem, Settings
from grader.models.play.views import side_by_side


@dataclass(frozen=True)
class Shown:
    """Something to print: "prompt" and "text" are the text itself, "note" is about it, "view" is a table, "head" its
    first line."""

    text: str
    style: str = "text"


@dataclass
class Session:
    engine: Engine
    load_other: Callable[[str], Engine]  # for /compare: the engine of another checkpoint, by its name
    settings: Settings = Settings()
    width: int = 80
    unicode: bool = True
    beginning: str = ""  # what the user typed
    ids: list[int] | None = None  # the text so far
    ended: bool = False  # whether the model ended it
    other: Engine | None = None  # of /compare
    head: tuple[int, int] = (0, 0)  # the layer and the head that /attend shows

    def answer(self, line: str) -> Iterator[Shown]:
        """Go on with this beginning, or with the text so far where nothing is typed; translate it, if the model is a
        translator."""
        if self.engine.translates:
            yield from self._translate(line)
        elif not line:
            yield from self._go_on()
        elif self.other is not None:
            yield from self.compare(line)
        else:
            yield from self._begin(line)

    def _begin(self, line: str) -> Iterator[Shown]:
        ids = yield from self.read(self.engine, line)
        self.beginning = line
        yield Shown(self.engine.text(ids), "prompt")
        yield from self._write(ids)

    def _go_on(self) -> Iterator[Shown]:
        if self.ids is None:
            raise PlayProblem("there is no text yet; type its beginning")
        if self.ended:
            raise PlayProblem("the model has ended this text; type the beginning of another one")
        prompt = self.engine.fit(self.ids, self.settings.length)
        yield from _notes(left_out_note(self.engine, prompt.left_out))
        yield from self._write(prompt.ids)

    def _write(self, ids: list[int]) -> Iterator[Shown]:
        """Write on, note the text so far also where Control-C stops it, and give the next text another seed."""
        settings, self.ids, self.ended = self.settings, list(ids), False
        self.settings = replace(settings, seed=settings.seed + 1)
        for piece in self.engine.write(ids, settings):
            if isinstance(piece, Ending):
                self.ended = piece.reason == "end"
                yield Shown(piece.text + "\n")
                yield from self._ending(piece)
            else:
                self.ids.append(piece.id)
                yield Shown(piece.text)

    def _ending(self, ending: Ending) -> Iterator[Shown]:
        if ending.reason == "full":
            yield Shown(f"{full_note(self.engine)} Enter goes on without the beginning.\n", "note")

    def _translate(self, line: str) -> Iterator[Shown]:
        if not line:
            raise PlayProblem("type a sentence to translate")
        engines = [self.engine, *([self.other] if self.other else [])]
        for engine in engines:
            yield from _notes(unknown_note(engine, tuple(engine.tokenizer.unknown_words(engine.sentence(line)))))
        said = [engine.translate(line, self.settings.length) for engine in engines]
        if len(engines) == 1:
            yield Shown(said[0] + "\n")
        else:
            yield Shown("\n".join(side_by_side([engine.name for engine in engines], said, self.width)) + "\n", "view")

    def compare(self, line: str) -> Iterator[Shown]:
        """The same beginning and seed, by both models."""
        assert self.other is not None
        self.beginning, settings, texts = line, self.settings, []
        self.settings = replace(settings, seed=settings.seed + 1)
        for engine in (self.engine, self.other):
            ids = yield from self.read(engine, line)
            written = ids + [piece.id for piece in engine.write(ids, settings) if not isinstance(piece, Ending)]
            texts.append(engine.text(written))
            if engine is self.engine:
                self.ids, self.ended = written, False
        heads = [engine.name for engine in (self.engine, self.other)]
        yield Shown("\n".join(side_by_side(heads, texts, self.width)) + "\n", "view")

    # ---- reading

    def ids_of(self, text: str) -> Generator[Shown, None, list[int]]:
        """Return the ids that a command is about, of this text or of the text so far, after notes as in `read`."""
        if text:
            return (yield from self.read(self.engine, text))
        if self.ids is None:
            raise PlayProblem("there is no text yet; type its beginning first, or put it after the command")
        return self.ids

    def read(self, engine: Engine, text: str) -> Generator[Shown, None, list[int]]:
        """Return the ids of a beginning, after notes on what the model cannot read: `ids = yield from
        session.read(engine, text)`."""
        prompt = engine.read(text, self.settings.length)
        yield from _notes(reading_notes(engine, prompt))
        return prompt.ids


def _notes(sentences: Iterable[str]) -> Iterator[Shown]:
    yield from (Shown(sentence + "\n", "note") for sentence in sentences)


MOST_NAMED_WORDS = 4  # unknown words in a sentence; of more, the rest is counted

KINDS = {"gpt": "a GPT", "moe": "a GPT with experts", "translate": "a translator"}


def model_note(engine: Engine) -> str:
    design = engine.design
    parameters = sum(parameter.numel() for parameter in engine.model.parameters())
    layers, heads = (
        f"{count} {what}{'s' * (count != 1)}" for count, what in ((design.n_layers, "layer"), (design.n_heads, "head"))
    )
    return f"{engine.name}: {KINDS[design.kind]} of {layers}, {heads} and {parameters:,} parameters."


def reading_notes(engine: Engine, prompt: Prompt) -> list[str]:
    """What the model does not see of this beginning: nothing, one sentence or two."""
    return [*unknown_note(engine, prompt.unknown), *left_out_note(engine, prompt.left_out)]


def unknown_note(engine: Engine, words: tuple[str, ...]) -> list[str]:
    if not words:
        return []
    named = [
        f"{word!r}" + (f" (the nearest word it knows is {near!r})" if (near := engine.nearest_words(word)) else "")
        for word in words[:MOST_NAMED_WORDS]
    ]
    more = f" and {len(words) - MOST_NAMED_WORDS} more" if len(words) > MOST_NAMED_WORDS else ""
    return [
        f"Words that {engine.name} does not have: {', '.join(named)}{more}. It reads one common token for all of them."
    ]


def left_out_note(engine: Engine, count: int) -> list[str]:
    if not count:
        return []
    tokens = "1 token" if count == 1 else f"{count} tokens"
    return [f"This is more than {engine.name} reads, so the model does not see the first {tokens}."]


def full_note(engine: Engine) -> str:
    """Why a text with the ending "full" ends."""
    return f"The text ends here, because the table of {engine.name} has {engine.longest} positions."
