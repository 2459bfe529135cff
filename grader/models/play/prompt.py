"""`headway play` in a terminal: line editing, history and completion by prompt_toolkit; the text appears as it is
written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from grader.console.output import make_console, print_wrapped
from grader.console.word_wrap import WordWrap
from grader.models.play.commands import COMMANDS, NOTES, answer, is_quit, without_controls
from grader.models.play.session import Session, Shown
from grader.models.play.settings import PlayProblem
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.console import Console
from rich.text import Text

TEXTS = ("prompt", "text")  # broken between words; tables have lines of their own
STYLES = {"prompt": "bold", "note": "dim", "head": "cyan"}


def run_prompt(session: Session, describe: Callable[[Exception], str]) -> None:
    """Answer lines until Control-D or /quit. `describe` says in a sentence what an exception of the learner's code
    was."""
    reader: PromptSession[str] = PromptSession(completer=CommandCompleter(), complete_while_typing=True)
    while True:
        console = make_console()
        try:
            line = reader.prompt("> ")
        except KeyboardInterrupt:
            print_wrapped(console, "Control-D or /quit ends.", style="dim")
            continue
        except EOFError:
            return
        if is_quit(line):
            return
        wrap = WordWrap(console.width)
        try:
            for piece in answer(session, line):
                _print(console, wrap, piece)
        except KeyboardInterrupt:
            console.print()
            print_wrapped(console, "Stopped. Enter goes on.", style="dim")
        except PlayProblem as problem:
            _say_problem(console, str(problem))
        except Exception as problem:
            _say_problem(console, describe(problem))


class CommandCompleter(Completer):
    """The commands, each with what it does."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if typed.startswith("/"):
            yield from (
                Completion(command.name, -len(typed), display_meta=command.about)
                for command in COMMANDS
                if command.name.startswith(typed)
            )


def _print(console: Console, wrap: WordWrap, piece: Shown) -> None:
    if piece.style in NOTES:
        print_wrapped(console, piece.text.strip(), style="dim")
    elif piece.style in TEXTS:
        _write(console, wrap.feed(piece.text), STYLES.get(piece.style, ""))
    else:
        _write(console, piece.text, STYLES.get(piece.style, ""))


def _write(console: Console, text: str, style: Any = "") -> None:
    console.print(Text(without_controls(text), style=style), end="", soft_wrap=True)


def _say_problem(console: Console, sentence: str) -> None:
    end = "" if sentence.endswith((".", "?")) else "."
    print_wrapped(console, without_controls(f"{sentence[:1].upper()}{sentence[1:]}{end}"), style="yellow")
