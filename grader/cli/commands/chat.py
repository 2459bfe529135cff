"""`headway chat`: a conversation with a published model that runs on the learner's own parts."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import argument, option
from grader.cli.commands.play import Browser, Port, Web, refuse_options_of_page, run_page
from grader.cli.commands.train import DONE
from grader.console.output import WordWrap, make_console, print_error, print_wrapped
from grader.counts import format_count
from grader.files import UserProblem
from grader.models.packages import MODELS, require_packages

if TYPE_CHECKING:
    from grader.chapters.ch16_published_model.published.chat import Chat


def chat(
    place: Annotated[
        Path | None,
        argument("FOLDER", "A folder from Hugging Face with a model of the Llama type, or a GGUF file."),
    ] = None,
    temperature: Annotated[
        float, option("0 always takes the likeliest token; 0.7 varies.", min=0.0, max=10.0, metavar="N")
    ] = 0.0,
    adapter: Annotated[
        str | None, option("Use the adapters that `headway tune` made under this name.", metavar="NAME")
    ] = None,
    form: Annotated[
        Path | None,
        option("Each answer is JSON that this schema accepts: a filled form.", "--json", metavar="SCHEMA.json"),
    ] = None,
    tools: Annotated[
        bool, option("The model may call a calculator, and look up words of the book.", "--tools")
    ] = False,
    web: Web = False,
    port: Port = None,
    browser: Browser = True,
) -> int:
    """Talk to a published model that runs on your own code.

    Without FOLDER the model is SmolLM2 with 135 million parameters. /help lists the commands. Without a terminal, each
    line of the input is answered. --json and --tools run your parts of chapter 25. With --web, Control-C stops the
    page."""
    refuse_options_of_page(web, port, browser)
    if (form is not None) + tools + web > 1:
        raise UserProblem("--json, --tools and --web cannot be combined; give one of them")
    require_packages("chat", MODELS if adapter or form or tools or (place and place.is_dir()) else ())
    from grader.chapters.ch16_published_model.published.chat import Chat
    from grader.chapters.ch16_published_model.published.opening import EARLIER, EXERCISES, build, find_source
    from grader.chapters.ch17_fine_tuning.tuning.adapters import ADAPTER_EXERCISES, find_place, merge, read
    from grader.chapters.ch25_structured_output.writing.form import FormChat, check_schema, read_schema
    from grader.chapters.ch25_structured_output.writing.token_guide import GUIDING
    from grader.chapters.ch25_structured_output.writing.tool_chat import CALLING, ToolChat
    from grader.console.output import show_progress
    from grader.models.own_parts import explaining_crashes, find_own_parts

    schema = read_schema(form) if form else None
    saved = read(adapter) if adapter else None
    source = find_source(find_place(saved, place) if saved else place)
    adapting = ADAPTER_EXERCISES if saved else ()
    writing = (*GUIDING, *CALLING) if tools else GUIDING if form else ()
    own = find_own_parts((*EARLIER, *EXERCISES, *source.loading, *adapting, *writing), show_progress)
    with contextlib.closing(own):
        console = make_console(stderr=True)
        note = partial(print_wrapped, console, style="dim")
        if form:
            check_schema(own.parts, schema, form)
        note(f"Reading {source.name} ...")
        with explaining_crashes(own.parts):
            published = build(source, own)
            if saved:
                merge(own.parts, published.model, saved)
        parameters = sum(parameter.numel() for parameter in published.model.parameters())
        layers = format_count(source.sizes.n_layers, "block")
        said = [f"{source.name}: {layers} and {parameters:,} parameters.", *own.sentences()]
        if adapter:
            said.insert(1, f"The adapters {adapter} are merged into it.")
        for sentence in said:
            note(sentence)
        if web:
            from grader.chapters.ch16_published_model.published.chat_page import FILES, ChatApi

            return run_page(ChatApi(published, said, temperature), FILES, port or 0, browser, "chat", own.close)
        with explaining_crashes(own.parts):
            if form:
                return _talk(FormChat.open(published, temperature, schema, form), wraps=False)
            if tools:
                return _talk(ToolChat.open(published, temperature, note))
        return _talk(Chat(published, temperature))


def _talk(talk: Chat, wraps: bool = True) -> int:
    """Answer lines until the input ends or /quit. Without a terminal, each line of the input is answered."""
    from grader.chapters.ch16_published_model.published.chat import ChatProblem
    from grader.models.own_parts import CodeProblem, explaining_crashes
    from grader.models.play.session import is_quit

    is_terminal, status = sys.stdin.isatty() and sys.stdout.isatty(), DONE
    if is_terminal:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # input() edits lines with it
        print("Type to the model; /help lists the commands.")
    while True:
        try:
            line = input("> " if is_terminal else "")
        except EOFError:
            print(end="\n" if is_terminal else "")
            return status
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print("\nControl-D or /quit ends.")
            continue
        if is_quit(line):
            return status
        if not line.strip():
            continue
        try:
            with explaining_crashes(talk.published.own.parts):
                wrap = WordWrap(make_console().width) if is_terminal and wraps and line.lstrip()[0] != "/" else None
                for piece in talk.reply(line):
                    print(wrap.feed(piece) if wrap else piece, end="", flush=True)
            print(flush=True)
        except KeyboardInterrupt:
            print("\nStopped.", flush=True)
            if not is_terminal:
                raise
        except (ChatProblem, CodeProblem) as problem:
            print_error(str(problem))
            status = problem.exit_status
