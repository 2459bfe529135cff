"""`headway play`: type a beginning, and a trained model goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grader.console.output import make_console, print_error, print_wrapped, supports_unicode

if TYPE_CHECKING:
    from grader.models.play.engine import Engine
    from grader.models.play.opening import Opener
    from grader.models.play.session import Session

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


def play(name: str | None, gpt2: Path | None, with_cache: bool) -> int:
    """Play until the input ends. Exit status 1: a model that cannot be used, or learner's code that raises; 2: wrong use; 130: Control-C."""
    if name is not None and gpt2 is not None:
        print_error("give the name of a checkpoint or --gpt2, not both; in play, /compare takes a second checkpoint")
        return UNUSABLE
    from importlib.util import find_spec

    if not find_spec("torch"):
        print_error("torch is not installed for this Python; `headway doctor` says what to do")
        return UNUSABLE
    from grader.models.checkpoint import CheckpointProblem, missing_packages
    from grader.models.play.opening import Opener
    from grader.teaching.walks.parts import NotInHandout
    from grader.teaching.walks.progress_line import show_progress

    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if problem := missing_packages("safetensors", *(["prompt_toolkit"] if is_terminal else [])):
        print_error(problem)
        return UNUSABLE
    opener = Opener(with_cache, "cpu", show_progress)
    try:
        engine = opener.open_gpt2(gpt2) if gpt2 is not None else opener.open_checkpoint(name)
        _say_what_plays(engine, opener, with_cache)
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
    console = make_console(stderr=True)
    design = engine.design
    parameters = sum(parameter.numel() for parameter in engine.model.parameters())
    kind = {"gpt": "a GPT", "moe": "a GPT with experts", "translate": "a translator"}[design.kind]
    said = [f"{engine.name}: {kind} of {design.n_layers} layers, {design.n_heads} heads and {parameters:,} parameters.", *opener.own[-1].sentences()]
    if with_cache and engine.cached is None and not engine.translates:
        said.append("It writes without the KV cache, because chapter 10's CachedGPT is made for pre-norm blocks.")
    for sentence in said:
        print_wrapped(console, sentence, style="dim")


def _run_prompt(engine: Engine, opener: Opener) -> int:
    from grader.models.own_parts import describe_problem
    from grader.models.play.prompt import run_prompt

    print_wrapped(make_console(), "Type a sentence to translate; /help lists the commands." if engine.translates else "Type a beginning; /help lists the commands.")
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
