"""The texts of `headway play`: a model goes on with a beginning; and the commands that a user types between them.

Everything is returned as pieces to print, in their order. To add a command, write a function and put it in COMMANDS.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from grader.counts import format_count
from grader.models.play.engine import Candidate, Ending, Engine, PlayProblem, Prompt, Settings, require_same_task
from grader.teaching.terminal_drawing import BAR_CHARACTERS, bar, percent, side_by_side
from torch import Tensor


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
        format_count(count, what) for count, what in ((design.n_layers, "layer"), (design.n_heads, "head"))
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
    left_out = format_count(count, "token")
    return [f"This is more than {engine.name} reads, so the model does not see the first {left_out}."]


def full_note(engine: Engine) -> str:
    """Why a text with the ending "full" ends."""
    return f"The text ends here, because the table of {engine.name} has {engine.longest} positions."


QUIT = "/quit"


@dataclass(frozen=True)
class Command:
    usage: str
    about: str
    run: Callable[[Session, str], Iterator[Shown]]
    translators_too: bool = False  # a translator takes the likeliest token each time, and has no text to look into

    @property
    def name(self) -> str:
        return self.usage.partition(" ")[0]


def answer(session: Session, line: str) -> Iterator[Shown]:
    """What to print for this line. PlayProblem with a sentence if it is not possible. The caller looks for /quit with
    `is_quit`."""
    line = line.strip()
    if not line.startswith("/"):
        yield from session.answer(line)
        return
    name, _, argument = line.partition(" ")
    command = find_command(name)
    if session.engine.translates and not command.translators_too:
        raise PlayProblem(
            f"{command.name} needs a model that goes on with a text, and {session.engine.name} is a translator"
        )
    yield from command.run(session, argument.strip())


def is_quit(line: str) -> bool:
    return line.strip().lower() in (QUIT, "/exit", "/q")


def find_command(name: str) -> Command:
    """The command of this name. PlayProblem with the nearest one if there is none."""
    typed = name.lower().replace("_", "-")
    for command in COMMANDS:
        if command.name == typed:
            return command
    names = [command.name for command in COMMANDS]
    near = [name for name in names if name.startswith(typed[:4])] or get_close_matches(typed, names, n=1)
    raise PlayProblem(
        f"there is no command {name}; " + (f"did you mean {near[0]}?" if near else "/help lists them all")
    )


# ---- settings


def _setting(name: str) -> Callable[[Session, str], Iterator[Shown]]:
    def run(session: Session, argument: str) -> Iterator[Shown]:
        if argument:
            session.settings = session.settings.changed(name, argument)
        yield Shown(f"{name.replace('_', '-')} is {session.settings.shown(name)}\n", "note")

    return run


# ---- looking inside


def _why(session: Session, text: str) -> Iterator[Shown]:
    ids = yield from session.ids_of(text)
    candidates = session.engine.likeliest(ids, session.settings)
    yield _head(session, "after", ids)
    yield _view(likeliest_lines(candidates, session.unicode))


def _attend(session: Session, argument: str) -> Iterator[Shown]:
    words = argument.split()
    chosen, text = (
        (words[:2], " ".join(words[2:]))
        if len(words) > 1 and words[0].isdigit() and words[1].isdigit()
        else ([], argument)
    )
    ids = yield from session.ids_of(text)
    patterns = session.engine.attention(ids)  # (n_layers, H, T, T)
    n_layers, n_heads = patterns.shape[:2]
    layer, head = (int(word) - 1 for word in chosen) if chosen else session.head
    if not (0 <= layer < n_layers and 0 <= head < n_heads):
        raise PlayProblem(
            f"there is no layer {layer + 1} with a head {head + 1}; {session.engine.name} has layers 1 "
            f"to {n_layers} and heads 1 to {n_heads}"
        )
    session.head = (layer, head)
    kind = session.engine.head_kind(patterns[layer, head])
    called = f"; classify_head calls it {kind!r}" if kind else ""
    yield Shown(
        f"where head {head + 1} of {n_heads} in layer {layer + 1} of {n_layers} looks from each token{called}\n", "head"
    )
    yield _view(attention_lines(session.engine.tokens(ids), patterns[layer, head], session.unicode))
    if not chosen and n_layers * n_heads > 1:
        yield Shown("/attend LAYER HEAD shows another head.\n", "note")


def _lens(session: Session, text: str) -> Iterator[Shown]:
    ids = yield from session.ids_of(text)
    layers = session.engine.lens(ids)
    yield _head(session, "what each layer would say after", ids)
    yield _view(lens_lines(layers, session.unicode))


def _head(session: Session, words: str, ids: list[int]) -> Shown:
    end = " ".join(session.engine.text(ids).split())
    return Shown(f"{words} {('…' if session.unicode else '...') + end[-40:] if len(end) > 40 else end!r}\n", "head")


def _view(lines: list[str]) -> Shown:
    return Shown("\n".join(lines) + "\n", "view")


# ---- two models


def _compare(session: Session, name: str) -> Iterator[Shown]:
    if name.lower() == "off":
        session.other = None
        yield Shown(f"only {session.engine.name} writes now\n", "note")
        return
    if not name:
        raise PlayProblem("/compare needs the name of a checkpoint, or `off`")
    other = session.load_other(name)
    require_same_task(session.engine, other)
    session.other = other
    yield Shown(f"{session.engine.name} and {other.name} answer side by side now; `/compare off` ends that\n", "note")
    if other.tokenizer.fingerprint != session.engine.tokenizer.fingerprint:
        yield Shown("Their tokenizers differ, so the same seed draws other tokens.\n", "note")
    if session.ids is not None and session.beginning and not other.translates:
        yield from session.compare(session.beginning)


def invitation(engine: Engine) -> str:
    """What to type for this model."""
    if not engine.translates:
        return "Type a beginning: the model goes on."
    example = engine.record.get("prompt")
    return "Type a sentence: the model translates it." + (
        f" It knows the words of sentences such as {example!r}." if example else ""
    )


def _help(session: Session, argument: str) -> Iterator[Shown]:
    commands = [command for command in COMMANDS if command.translators_too or not session.engine.translates]
    width = max(len(command.usage) for command in commands)
    lines = [f"  {command.usage.ljust(width)}  {command.about}" for command in commands]
    what = (
        f"{invitation(session.engine)} Enter alone goes on with the text so far."
        if not session.engine.translates
        else invitation(session.engine)
    )
    yield Shown(what + "\n", "head")
    yield _view([*lines, "Control-C stops a text, Control-D ends."])


COMMANDS = (
    Command(
        "/temperature N", "below 1 is safer, above 1 is bolder; 0 takes the likeliest token", _setting("temperature")
    ),
    Command("/top-k N", "draw from the N likeliest tokens; `off` ends that", _setting("top_k")),
    Command("/top-p N", "draw from the fewest tokens with probability N together", _setting("top_p")),
    Command("/min-p N", "draw from tokens at least N times as likely as the likeliest", _setting("min_p")),
    Command("/seed N", "the next text draws with this seed, the one after it with N + 1", _setting("seed")),
    Command("/length N", "tokens of a text, at most", _setting("length"), translators_too=True),
    Command("/why [TEXT]", "the five likeliest next tokens", _why),
    Command("/attend [LAYER HEAD] [TEXT]", "which earlier words a head looks at", _attend),
    Command("/lens [TEXT]", "what each layer would say next", _lens),
    Command("/compare CHECKPOINT", "two models side by side; `off` ends that", _compare, translators_too=True),
    Command("/help", "this list", _help, translators_too=True),
    Command(QUIT, "end", lambda session, argument: iter(()), translators_too=True),
)


# ---- what commands show, as lines

LONGEST_TOKEN = 18
MOST_ATTENTION_TOKENS = 16


def likeliest_lines(candidates: Sequence[Candidate], unicode: bool) -> list[str]:
    """One line for each candidate: the model's probability as a bar and a number, and the chance to be drawn."""
    width = _column([candidate.text for candidate in candidates])
    lines = [f"  {'next token'.ljust(width)}  {'the model'.ljust(BAR_CHARACTERS + 9)}  drawn"]
    for candidate in candidates:
        lines.append(
            f"  {_fit(candidate.text, width)}  {bar(candidate.probability, BAR_CHARACTERS, unicode)} "
            f"{percent(candidate.probability)}  {percent(candidate.drawn)}"
        )
    return lines


def attention_lines(tokens: Sequence[str], pattern: Tensor, unicode: bool) -> list[str]:
    """For each of the last tokens: where the head looked most, and second most. `pattern` is (T, T)."""
    first = max(0, len(tokens) - MOST_ATTENTION_TOKENS)
    width = _column(tokens[first:])
    lines = []
    for position in range(first, len(tokens)):
        weights, keys = pattern[position, : position + 1].topk(min(2, position + 1))
        looked = "   ".join(
            f"{percent(weight)} {_fit(tokens[key], 0)}" for weight, key in zip(weights.tolist(), keys.tolist())
        )
        lines.append(f"  {_fit(tokens[position], width)}  {bar(weights[0].item(), 12, unicode)} {looked}")
    return lines


def lens_lines(layers: Sequence[Sequence[Candidate]], unicode: bool) -> list[str]:
    """One line for each layer, the embeddings first: the likeliest tokens, and a bar for the first of them."""
    names = ["embeddings", *(f"layer {i}" for i in range(1, len(layers)))]
    width = max(map(len, names))
    said = [
        "   ".join(f"{_fit(c.text, 0)} {percent(c.probability).strip()}" for c in candidates) for candidates in layers
    ]
    return [
        f"  {name.ljust(width)}  {bar(candidates[0].probability, 12, unicode)}  {line}"
        for name, candidates, line in zip(names, layers, said)
    ]


def _column(texts: Sequence[str]) -> int:
    return min(max([len("next token"), *map(len, texts)]), LONGEST_TOKEN)


def _fit(text: str, width: int) -> str:
    return (text if len(text) <= LONGEST_TOKEN else text[: LONGEST_TOKEN - 1] + "…").ljust(width)
