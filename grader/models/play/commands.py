"""Answers a line that the user types: a command, or the beginning of a text. To add a command, write a function and put
it in COMMANDS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from grader.models.play.engine import Engine, require_same_task
from grader.models.play.session import Session, Shown
from grader.models.play.settings import PlayProblem
from grader.models.play.views import attention_lines, lens_lines, likeliest_lines

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


def without_controls(text: str) -> str:
    """The text with a replacement character for each control character, which a terminal might obey."""
    return "".join(c if c in "\n\t" or not (ord(c) < 32 or 127 <= ord(c) < 160) else "\ufffd" for c in text)
