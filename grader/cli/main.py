"""The `headway` command.

Each command is one function in grader/cli/commands, which parses, calls and prints; its result is the exit status.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from grader.console.output import print_error, replace_unencodable
from grader.course.syllabus import ROOT, UnknownName, is_handout
from grader.files import NotWritten, UserProblem, problem
from grader.version import __version__
from typer.core import TyperCommand, TyperGroup

GROUPS = {  # for whom a command is: its name, and where its function, or its group of commands, is
    "Learn": {
        "status": "status:status", "check": "check:check", "watch": "exercise:watch", "hint": "exercise:hint",
        "repro": "repro:repro", "next": "status:show_next", "list": "status:list_all", "path": "path:path",
        "open": "exercise:open_in_editor", "show": "show:show", "diff": "exercise:diff", "reset": "reset:reset",
        "book": "book:book", "walk": "explore:walk", "lab": "explore:lab", "measure": "explore:measure",
        "again": "again:again", "hunt": "hunt:hunt", "try-test": "try_test:try_test", "lsp": "lsp:lsp",
        "tutor": "tutor:tutor", "report": "report:report", "update": "update:update", "doctor": "doctor:doctor",
        "stop": "stop:stop",
    },
    "Train and use models of your own parts": {
        "progress": "progress:progress", "train": "train:train", "play": "play:play", "compare": "compare:compare",
        "chat": "chat:chat", "tune": "tune:tune", "scale": "scale:scale", "evaluate": "evaluate:evaluate",
        "features": "features:features", "reason": "reason:reason", "capstone": "capstone:capstone",
    },
    "Teach a class": {
        "handout": "handout:handout", "grade": "grade:grade", "regrade": "grade:regrade",
        "person": "term:person", "override": "correct:override", "course": "term:course_commands",
        "marks": "term:marks", "export": "export:export", "similarity": "similarity:similarity",
        "gradescope": "handout:gradescope",
    },
    "Maintain the kit": {"stubs": "maintain:stubs", "dev-check": "maintain:dev_check"},
}  # fmt: skip
COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}
# a handout, which learners have, cannot do these
WHOLE_KIT_ONLY = GROUPS["Teach a class"].keys() | GROUPS["Maintain the kit"].keys()
# what works where only the wheel is installed, without a learner's folder; that folder's name is packaging's
WITHOUT_CLONE, INSTALLED_IN = {*GROUPS["Teach a class"], "doctor", "book", "help"}, "headway_kit"
VALUE_PROBLEMS = {  # typer checks values with pydantic, whose sentences are about "inputs"
    "int": "is not a whole number",
    "float": "is not a number",
    "less": "is too large; the largest value is",
    "greater": "is too small; the smallest value is",
}


# before a command imports torch: on a busy machine, threads that wait actively slow each other down
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class ReadableCommand(TyperCommand):
    """A command whose help shows `NAME`, and not `NAME <list[str]>`; a wrong value gets a plain sentence."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None
                if param.metavar in ("NAME", "SUBJECT"):  # not `[NAME]...`: it is one name, of several words
                    param.get_usage_pieces = partial(_one_piece, param.get_usage_pieces)
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as problem:
            errors = getattr(problem.__cause__, "errors", None)  # older versions of typer have no pydantic
            if errors is not None:
                problem.message = _describe_value(errors()[0]) or problem.message
            problem.message += _suggest(problem.message)
            raise


def _one_piece(pieces: Any, ctx: Any) -> list[str]:
    return [piece.removesuffix("...") for piece in pieces(ctx)]


class ForwardingCommand(ReadableCommand):
    """A command whose first argument names a program. Everything after it belongs to that program, also `--help`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and "--" not in args:
            args = [args[0], "--", *args[1:]]
        return super().parse_args(ctx, args)


class LazyGroup(TyperGroup):
    """Imports the module of a command when the command is used."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if not (is_handout() and name in WHOLE_KIT_ONLY)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in the help, by reader."""
        listed = self.list_commands(ctx)
        for title, group in GROUPS.items():
            if rows := [(name, _summary(place)) for name, place in group.items() if name in listed]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command; `headway help check` is its help. UserProblem for the name of an exercise or a chapter."""
        if args == ["help"]:
            print(ctx.get_help())
            ctx.exit()
        if args[0] == "help":
            args = [args[1], "--help"]
        elif args[0] not in COMMANDS:
            self._refuse_name([word for word in args if not word.startswith("-")])
        return super().resolve_command(ctx, args)

    def _refuse_name(self, words: list[str]) -> None:
        from grader.course.status import read_course

        with suppress(UnknownName):
            typed = " ".join(found.short_name for found in read_course().find_all(words))
            raise UserProblem(f"{words[0]!r} is not a command; to test your code: `headway check {typed}`")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a problem that the user can fix is printed as one sentence, without a traceback."""
        try:
            status = super().invoke(ctx) or 0
        except UserProblem as problem:
            print_error(str(problem))
            status = problem.exit_status
        except KeyboardInterrupt:
            print(flush=True)
            print_error("stopped")
            status = 130
        ctx.exit(status)


def _summary(place: str) -> str:
    """The first line of a command's help. It is read from the source, because importing all commands takes longer."""
    module, _, name = place.partition(":")
    source = Path(__file__).parent / "commands" / f"{module}.py"
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=found) if found == name:
                return (ast.get_docstring(node) or "").partition("\n")[0]
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(keywords=options)) if found == name:
                return next(ast.literal_eval(option.value) for option in options if option.arg == "help")
    return ""


def _load(name: str) -> Any:
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(f"grader.cli.commands.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        function = found
        found = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
        found.command(name)(function)
    for command in found.registered_commands:
        command.cls = ForwardingCommand if name == "measure" else ReadableCommand
    return typer.main.get_command(found)


def _describe_value(error: dict[str, Any]) -> str:
    """What is wrong, for an entry of the errors of a pydantic ValidationError; "" where typer says it well."""
    given, kind = str(error["input"]), str(error["type"]).partition("_")[0]
    kind = "float" if given.strip().lower() == "nan" else kind
    limits = error.get("ctx", {}).values() if kind in ("less", "greater") else ()
    if kind == "value":  # a sentence of typer's, after words of pydantic's
        return str(error["msg"]).removeprefix("Value error, ")
    if kind not in VALUE_PROBLEMS:
        return ""
    return " ".join([repr(given), VALUE_PROBLEMS[kind], *(f"{limit:.15g}" for limit in limits)])


def _suggest(sentence: str) -> str:
    """The choice that is written most like the given one, for a sentence such as "'minni' is not one of 'mini'."."""
    given, _, choices = sentence.partition(" is not one of ")
    near = get_close_matches(given.strip("'").lower(), re.findall(r"'([^']+)'", choices), n=1, cutoff=0.7)
    return f" Did you mean '{near[0]}'?" if near else ""


app = typer.Typer(
    cls=LazyGroup,
    name="headway",
    help="Build a transformer by hand, one tested piece at a time. "
    "`headway` alone shows your points and the next exercise.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _status(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version of Headway.")] = False,
) -> int:
    if version:
        print(f"headway {__version__}")
    elif context.invoked_subcommand is None:
        from grader.cli.commands.status import status

        return status()
    return 0


def main() -> None:
    """Run `headway`; a file that cannot be used is one sentence."""
    replace_unencodable()
    name = (sys.argv[1:2] or [""])[0]
    if is_handout() and name in WHOLE_KIT_ONLY:
        what = "does not work in a handout (the folder that learners get); it needs the whole kit"
        print_error(f"`headway {name}` {what}")
        sys.exit(2)
    if ROOT.name == INSTALLED_IN and not name.startswith("-") and name not in WITHOUT_CLONE:
        print_error(
            "this Headway is installed without a clone: it makes handouts and grades (`headway --help`); "
            "to learn, use a clone, or a handout: `headway handout FOLDER`"
        )
        sys.exit(2)
    try:
        app()
    except NotWritten as error:
        print_error(problem(error, f"write {os.path.relpath(error.filename)}"))
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print_error(f"{where}{(error.strerror or str(error)).lower()}")
        sys.exit(1)


if __name__ == "__main__":
    main()
