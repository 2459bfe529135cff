"""The features of the language server: diagnostics after a save, a code lens, code actions, hover."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from grader.course.excerpt import find_problem
from grader.course.progress import reveal_hint
from grader.course.source import SourceProblem, read_source, split_lines
from grader.course.status import is_stub_now, short_path
from grader.course.stubs import is_stub
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.language_server.checks import Checks
from grader.language_server.exercise_texts import hover_text, points_text
from grader.language_server.findings import Finding, find, name_columns, outline, place, problem_message
from grader.verdict.summary import Verdict
from grader.version import __version__
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

SCRIPTS = EXERCISES / ".headway" / "repro"  # as in reproduction/files.py, which would load torch
CHECK, HINT, REPRO = "headway.check", "headway.hint", "headway.repro"


class HeadwayServer(LanguageServer):
    def __init__(self) -> None:
        super().__init__("headway", __version__)
        self.checks = Checks(self.on_verdict, self.on_trouble)
        self.findings: dict[str, dict[str, Finding]] = {}  # of a chapter, by exercise ("" for the chapter itself)
        self.shown: dict[str, int] = {}  # how many diagnostics the editor shows in a chapter
        self.uris: dict[str, str] = {}  # of a chapter, as the editor writes it
        self.announced: set[str] = set()  # exercises whose next verdict is shown as a message too

    # ---- chapters and their texts

    def module_of(self, uri: str) -> str | None:
        """The chapter that this file is, in the learner's folder; None for any other file."""
        path = Path(to_fs_path(uri) or "")
        try:
            is_here = path.suffix == ".py" and os.path.samefile(path.parent, EXERCISES)
        except (OSError, ValueError):
            return None
        if not is_here or path.stem not in {chapter.name for chapter in load_syllabus().chapters}:
            return None
        self.uris[path.stem] = uri
        return path.stem

    def uri_of(self, module: str) -> str:
        return self.uris.get(module) or from_fs_path(str(EXERCISES / f"{module}.py")) or ""

    def text_of(self, module: str) -> str:
        """The chapter as the editor shows it; as it is saved, if it is not open."""
        document = self.workspace.get_text_document(self.uri_of(module))
        if document.version is not None:
            return document.source
        try:
            return read_source(EXERCISES / f"{module}.py")
        except SourceProblem:
            return ""

    def lines_of_exercises(self, module: str) -> dict[Exercise, range]:
        spans = outline(self.text_of(module))
        exercises = (exercise for exercise in load_syllabus().exercises if exercise.module == module)
        return {exercise: spans[exercise.name] for exercise in exercises if exercise.name in spans}

    def range_of(self, lines: list[str], number: int) -> types.Range:
        """The code of a line, or the name that it defines, in the units in which the editor counts columns."""
        number = max(0, min(number, len(lines) - 1))
        code = lines[number].rstrip() if lines else ""
        start, end = name_columns(code) or (len(code) - len(code.lstrip()), len(code))
        units = self.workspace.position_codec.client_num_units
        return types.Range(types.Position(number, units(code[:start])), types.Position(number, units(code[:end])))

    # ---- diagnostics

    def on_saved(self, module: str) -> None:
        self.checks.on_saved(module)
        self.publish(module)

    def on_changed(self, module: str) -> None:
        """Remove a diagnostic at once where its exercise is the stub again or is gone; anything else waits for a
        save."""
        if self.shown.get(module) and len(self.diagnostics_of(module)) != self.shown[module]:
            self.publish(module)

    def on_verdict(self, name: str, verdict: Verdict) -> None:
        module = load_syllabus().exercise(name).module
        known = self.findings.setdefault(module, {})
        for outdated in ("", name):
            known.pop(outdated, None)
        try:
            found = find(name, verdict, read_source(EXERCISES / f"{module}.py"))
        except SourceProblem:  # it was saved while the tests ran, so it is tested again
            found = None
        if found is not None:
            known[found.exercise] = found
        self.publish(module)
        refreshes = self.client_capabilities.workspace and self.client_capabilities.workspace.code_lens
        if refreshes and refreshes.refresh_support:
            self.workspace_code_lens_refresh(None)
        if name in self.announced:
            self.announced.discard(name)
            self.say(f"{name}: {points_text(load_syllabus().exercise(name), is_untouched=False)}.")

    def on_trouble(self, sentence: str) -> None:
        self.announced.clear()
        self.say(sentence, types.MessageType.Warning)

    def diagnostics_of(self, module: str) -> list[types.Diagnostic]:
        """The error of a file that is not valid Python; else at most one diagnostic for each exercise."""
        text = self.text_of(module)
        lines = split_lines(text)
        problem = find_problem(EXERCISES / f"{module}.py")
        if problem is not None:
            return [self.diagnostic(lines, (problem.line or 1) - 1, problem_message(problem), module)]
        placed = [(found, place(found, text)) for found in self.findings.get(module, {}).values()]
        return [
            self.diagnostic(lines, line, found.message, found.exercise or module, found.is_error)
            for found, line in placed
            if line is not None
        ]

    def diagnostic(
        self, lines: list[str], line: int, message: str, code: str, is_error: bool = True
    ) -> types.Diagnostic:
        severity = types.DiagnosticSeverity.Error if is_error else types.DiagnosticSeverity.Information
        return types.Diagnostic(self.range_of(lines, line), message, severity, code=code, source="headway")

    def publish(self, module: str) -> None:
        """Send the chapter's diagnostics, unless there are none and the editor shows none."""
        found = self.diagnostics_of(module)
        if found or self.shown.get(module):
            self.shown[module] = len(found)
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(self.uri_of(module), found))

    # ---- what the learner sees of an exercise

    def say(self, sentence: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.window_show_message(types.ShowMessageParams(kind, sentence))

    def lenses(self, module: str) -> list[types.CodeLens]:
        text = self.text_of(module)
        lines, found = split_lines(text), []
        for exercise, span in self.lines_of_exercises(module).items():
            title = f"{exercise.name}: {points_text(exercise, is_stub(exercise, text))} · check"
            command = types.Command(title, CHECK, arguments=[exercise.name])
            found.append(types.CodeLens(self.range_of(lines, span.start), command))
        return found

    def actions(self, module: str, line: int) -> list[types.CodeAction]:
        """What can be done with the exercise that this line belongs to."""
        for exercise, span in self.lines_of_exercises(module).items():
            if line in span:
                name = exercise.name
                titles = {f"Headway: check {name}": CHECK, f"Headway: next hint for {name}": HINT}
                if (SCRIPTS / f"{name}.py").is_file():
                    titles[f"Headway: open the failing call of {name}"] = REPRO
                return [
                    types.CodeAction(
                        title, types.CodeActionKind.QuickFix, command=types.Command(title, command, arguments=[name])
                    )
                    for title, command in titles.items()
                ]
        return []

    def hover(self, module: str, position: types.Position) -> types.Hover | None:
        """What the exercise under the cursor promises; None for any other name."""
        text = self.text_of(module)
        document = self.workspace.get_text_document(self.uri_of(module))
        word = document.word_at_position(position)
        shown = hover_text(module, word, text)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, shown)) if shown else None

    # ---- commands

    def check(self, name: str) -> None:
        exercise = load_syllabus().exercise(name)
        problem = find_problem(EXERCISES / f"{exercise.module}.py")
        if problem is not None:
            self.say(str(problem), types.MessageType.Warning)
        elif is_stub_now(exercise):
            self.say(f"{name} is not implemented yet: write its code, and save the file.")
        else:
            self.announced.add(name)
            self.checks.test([name])

    def hint(self, name: str) -> None:
        found = reveal_hint(load_syllabus().exercise(name))
        self.say(f"{found.title}: {found.text}" if found else f"{name} has no hints.")
        if found and found.problem:
            self.say(found.problem, types.MessageType.Warning)

    def repro(self, name: str) -> None:
        script = SCRIPTS / f"{load_syllabus().exercise(name).name}.py"
        window = self.client_capabilities.window
        if not script.is_file():
            self.say(f"There is no failed call of {name} to make again; `headway check {name}` runs the tests.")
        elif window and window.show_document and window.show_document.support:
            uri = from_fs_path(str(script)) or ""
            self.window_show_document(types.ShowDocumentParams(uri, take_focus=True))
        else:
            self.say(f"The failing call is {short_path(script)}; `headway repro {name}` runs it.")


def make_server() -> HeadwayServer:
    server = HeadwayServer()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        if module := server.module_of(params.text_document.uri):
            server.publish(module)  # what the editor showed before it closed the file

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        if module := server.module_of(params.text_document.uri):
            server.on_changed(module)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        if module := server.module_of(params.text_document.uri):
            server.on_saved(module)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        module = server.module_of(params.text_document.uri)
        return server.lenses(module) if module else []

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION)
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        module = server.module_of(params.text_document.uri)
        return server.actions(module, params.range.start.line) if module else []

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        module = server.module_of(params.text_document.uri)
        return server.hover(module, params.position) if module else None

    @server.command(CHECK)
    def check(name: str) -> None:
        server.check(name)

    @server.command(HINT)
    def hint(name: str) -> None:
        server.hint(name)

    @server.command(REPRO)
    def repro(name: str) -> None:
        server.repro(name)

    return server


def serve() -> int:
    """Serve the editor that started this process, until it closes the connection."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what is printed must not get between the messages
    server = make_server()
    try:
        server.start_io(stdin, stdout)
    finally:
        server.checks.close()
    return 0
