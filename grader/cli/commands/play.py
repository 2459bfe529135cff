"""`headway play`: type a beginning, and a trained model goes on."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import argument, complete_checkpoint, option
from grader.cli.commands.train import DONE, FAILED, UNUSABLE
from grader.console.local_server import Files, PageApi, PageServer, open_browser, print_address
from grader.console.output import make_console, print_error, print_wrapped, supports_unicode
from grader.files import UserProblem
from grader.models.packages import require_packages

if TYPE_CHECKING:
    from grader.models.play.engine import Engine
    from grader.models.play.opening import Opener
    from grader.models.play.session import Session


Web = Annotated[bool, option("A page in your browser, which also shows the inside of the model.", "--web")]
Port = Annotated[
    int | None, option("With --web: the port of the page's server; 0 is any free port.", min=0, max=65535, metavar="N")
]
Browser = Annotated[bool, option("With --web: open your browser, or only print the address.", "--browser/--no-browser")]


def play(
    checkpoint: Annotated[
        str | None,
        argument("CHECKPOINT", "A checkpoint's name or folder; by default the newest.", complete_checkpoint),
    ] = None,
    gpt2: Annotated[
        Path | None, option("Play with GPT-2, downloaded from Hugging Face.", "--gpt2", metavar="FOLDER")
    ] = None,
    cache: Annotated[bool, option("Write with your KV cache, or feel the difference.", "--cache/--no-cache")] = True,
    web: Web = False,
    port: Port = None,
    browser: Browser = True,
) -> int:
    """Type the beginning of a text, and your model continues it.

    /help lists the commands. Without a terminal, each line of the input is answered. With --web, Control-C stops the
    page."""
    if checkpoint is not None and gpt2 is not None:
        advice = "in play, /compare takes a second checkpoint"
        raise UserProblem(f"give the name of a checkpoint or --gpt2, not both; {advice}")
    refuse_options_of_page(web, port, browser)
    is_terminal = not web and sys.stdin.isatty() and sys.stdout.isatty()
    require_packages("play")
    from grader.console.output import show_progress
    from grader.models.play.opening import Opener

    opener = Opener(cache, "cpu", show_progress)
    with contextlib.closing(opener):
        engine = opener.open_gpt2(gpt2) if gpt2 is not None else opener.open_checkpoint(checkpoint)
        _print_models(engine, opener, cache)
        if web:
            return _run_web(engine, opener, port or 0, browser)
        session = _session(engine, opener)
        return _run_prompt(session) if is_terminal else _run_plain(session)


def refuse_options_of_page(web: bool, port: int | None, browser: bool) -> None:
    if not web and (port is not None or not browser):
        raise UserProblem("--port and --no-browser are about the page of --web; add --web, or leave them out")


def _print_models(engine: Engine, opener: Opener, with_cache: bool) -> None:
    """Which model this is, and whose parts run in it; on standard error, because a pipe gets the texts."""
    from grader.models.play.session import model_note

    console = make_console(stderr=True)
    said = [model_note(engine), *opener.own[-1].sentences()]
    if with_cache and engine.cached is None and not engine.translates:
        said.append("It writes without the KV cache, because chapter 10's CachedGPT is made for pre-norm blocks.")
    for sentence in said:
        print_wrapped(console, sentence, style="dim")


def _run_web(engine: Engine, opener: Opener, port: int, browser: bool) -> int:
    from grader.models.play.web_page import FILES, Api, PageModels

    def open_other(name: str) -> tuple[Engine, list[str]]:
        return opener.open_other(name), opener.own[-1].sentences()

    api = Api(PageModels(engine, opener.own[-1].sentences(), open_other))
    return run_page(api, FILES, port, browser, "play", opener.close)


def run_page(api: PageApi, files: Files, port: int, browser: bool, purpose: str, close: Callable[[], None]) -> int:
    """Serve a page until Control-C."""
    try:
        serving = PageServer(files, port, api)
    except (OSError, OverflowError):
        print_error(f"port {port} is in use or not allowed; leave out --port to use a free one")
        return FAILED
    with serving:
        try:
            print_address(serving.address, "The page", browser and open_browser(serving.address), purpose)
            serving.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            pass
    # Other threads may still write texts. What is printed meanwhile is hidden, and Python's own end would abort a
    # thread that is inside torch.
    close()
    print("\nStopped.", file=sys.__stdout__, flush=True)
    os._exit(DONE)


def _run_prompt(session: Session) -> int:
    from grader.models.own_parts import describe_problem
    from grader.models.play.prompt import run_prompt
    from grader.models.play.session import invitation

    what = invitation(session.engine) if session.engine.translates else "Type a beginning;"
    print_wrapped(make_console(), f"{what} /help lists the commands.")
    run_prompt(session, lambda problem: describe_problem(problem, session.engine.parts))
    return DONE


def _run_plain(session: Session) -> int:
    from grader.models.own_parts import describe_problem
    from grader.models.play.prompt import run_plain

    try:
        good = run_plain(session, sys.stdin, sys.stdout, sys.stderr, print_error)
    except (OSError, KeyboardInterrupt):
        raise
    except Exception as error:
        sys.stdout.flush()
        print_error(describe_problem(error, session.engine.parts))
        return FAILED
    return DONE if good else UNUSABLE


def _session(engine: Engine, opener: Opener) -> Session:
    from grader.models.play.session import Session

    return Session(engine, opener.open_other, unicode=supports_unicode())
