"""`headway play`: type a beginning, and a trained model goes on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grader.console.local_server import open_browser
from grader.console.output import command_line, make_console, print_error, print_wrapped, supports_unicode

if TYPE_CHECKING:
    from grader.models.play.engine import Engine
    from grader.models.play.opening import Opener
    from grader.models.play.session import Session

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
PATIENCE = 5.0  # seconds that Control-C waits for the present token of every text


def play(name: str | None, gpt2: Path | None, with_cache: bool, web: bool = False, port: int | None = None, browser: bool = True) -> int:
    """Play until the input ends, or on a page until Control-C.

    Exit status 1: a model or a port that cannot be used, or learner's code that raises; 2: wrong use; 130: Control-C while a model is loaded or in the terminal.
    """
    if name is not None and gpt2 is not None:
        print_error("give the name of a checkpoint or --gpt2, not both; in play, /compare takes a second checkpoint")
        return UNUSABLE
    if not web and (port is not None or not browser):
        print_error("--port and --no-browser are about the page of --web; add --web, or leave them out")
        return UNUSABLE
    from importlib.util import find_spec

    if not find_spec("torch"):
        print_error("torch is not installed for this Python; `headway doctor` says what to do")
        return UNUSABLE
    from grader.models.checkpoint import CheckpointProblem, missing_packages
    from grader.models.play.opening import Opener
    from grader.teaching.walks.parts import NotInHandout
    from grader.teaching.walks.progress_line import show_progress

    is_terminal = not web and sys.stdin.isatty() and sys.stdout.isatty()
    if problem := missing_packages("safetensors", *(["prompt_toolkit"] if is_terminal else [])):
        print_error(problem)
        return UNUSABLE
    opener = Opener(with_cache, "cpu", show_progress)
    try:
        engine = opener.open_gpt2(gpt2) if gpt2 is not None else opener.open_checkpoint(name)
        _say_what_plays(engine, opener, with_cache)
        if web:
            return _run_web(engine, opener, port or 0, browser)
        return _run_prompt(engine, opener) if is_terminal else _run_plain(engine, opener)
    except NotInHandout as problem:
        print_error(str(problem))
        return UNUSABLE
    except CheckpointProblem as problem:
        print_error(str(problem))
        return FAILED
    except KeyboardInterrupt:
        print(flush=True)
        return INTERRUPTED
    finally:
        opener.close()


def _say_what_plays(engine: Engine, opener: Opener, with_cache: bool) -> None:
    """Which model this is, whose parts run in it, and whether the cache is used; on standard error, because a pipe gets the texts."""
    from grader.models.play.notes import model_note

    console = make_console(stderr=True)
    said = [model_note(engine), *opener.own[-1].sentences()]
    if with_cache and engine.cached is None and not engine.translates:
        said.append("It writes without the KV cache, because chapter 10's CachedGPT is made for pre-norm blocks.")
    for sentence in said:
        print_wrapped(console, sentence, style="dim")


def _run_web(engine: Engine, opener: Opener, port: int, browser: bool) -> int:
    from grader.models.play.web.api import Api
    from grader.models.play.web.page_models import PageModels
    from grader.models.play.web.server import PageServer

    def open_other(name: str) -> tuple[Engine, list[str]]:
        return opener.open_other(name), opener.own[-1].sentences()

    api = Api(PageModels(engine, opener.own[-1].sentences(), open_other))
    try:
        serving = PageServer(api, port)
    except (OSError, OverflowError):
        print_error(f"port {port} is in use or not allowed; leave out --port to use a free one")
        return FAILED
    with serving:
        try:
            _say_where(serving.address, browser and open_browser(serving.address))
            serving.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            pass
        has_stopped = api.close(PATIENCE)
    if not has_stopped:  # a step in a model that does not end also hides what is printed, and Python's own end could break off in the middle of torch
        opener.close()
        print("\nStopped.", file=sys.__stdout__, flush=True)
        os._exit(DONE)
    make_console().print("\nStopped.")
    return DONE


def _say_where(address: str, opened: bool) -> None:
    console = make_console()
    print_wrapped(console, "The page is open in your browser, at" if opened else "To play, open this address in a browser:")
    console.print(command_line(address), soft_wrap=True)
    print_wrapped(console, "Press Control-C to stop.", style="dim")


def _run_prompt(engine: Engine, opener: Opener) -> int:
    from grader.models.own_parts import describe_problem
    from grader.models.play.commands import invitation
    from grader.models.play.prompt import run_prompt

    print_wrapped(make_console(), f"{invitation(engine)} /help lists the commands." if engine.translates else "Type a beginning; /help lists the commands.")
    session = _session(engine, opener)
    run_prompt(session, lambda problem: describe_problem(problem, session.engine.parts))
    return DONE


def _run_plain(engine: Engine, opener: Opener) -> int:
    from grader.models.own_parts import describe_problem
    from grader.models.play.plain import run_plain

    session = _session(engine, opener)
    try:
        good = run_plain(session, sys.stdin, sys.stdout, sys.stderr, print_error)
    except (OSError, KeyboardInterrupt):
        raise
    except Exception as problem:
        sys.stdout.flush()
        print_error(describe_problem(problem, session.engine.parts))
        return FAILED
    return DONE if good else UNUSABLE


def _session(engine: Engine, opener: Opener) -> Session:
    from grader.models.play.session import Session

    return Session(engine, opener.open_other, unicode=supports_unicode())
