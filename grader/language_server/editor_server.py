"""The features of the language server: diagnostics after a save, a code lens, code actions, hover.

`Checks` tests what a save has changed, one exercise after the other, on the watch's own server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from grader.course.progress import reveal_hint
from grader.course.source import SourceProblem, find_problem, name_columns, outline, read_source, split_lines
from grader.course.status import is_stub_now, short_path
from grader.course.stubs import is_stub
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.language_server.findings import Finding, find, hover_text, place, points_text, problem_message
from grader.verdict.last_verdicts import current_fingerprint, load_verdicts
from grader.verdict.results import Verdict
from grader.version import __version__
from grader.watch.changes import SavedChapters
from grader.watch.runs import Message, Runs
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

START_SECONDS = 60.0  # for which a server may start, on a busy machine


class Checks:
    """The exercises to test. `on_verdict` gets a name and its verdict, `on_trouble` a sentence that says why there is
    none. Everything happens in the thread of the event loop; a run is started by the first save."""

    def __init__(self, on_verdict: Callable[[str, Verdict], None], on_trouble: Callable[[str], None]) -> None:
        self.on_verdict, self.on_trouble = on_verdict, on_trouble
        self.chapters = SavedChapters(EXERCISES)
        self.saved_at_start = {module for module in self.chapters.texts if _was_saved_just_now(module)}
        self.runs = Runs(self._from_thread)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.waiting: list[str] = []
        self.running = ""  # an exercise
        self.number = 0  # of its run
        self.has_verdict = False
        self.failed_tests: dict[str, tuple[str, ...]] = {}  # of an exercise, in its last run

    def on_opened(self, module: str) -> None:
        """Test what was saved while this server started, or just before: it cannot compare that with the text before,
        so it tests the code that has no verdict."""
        if module in self.saved_at_start:
            self.saved_at_start.discard(module)
            known = load_verdicts()
            own = [exercise for exercise in load_syllabus().exercises if exercise.module == module]
            self.test(
                each.name
                for each in own
                if current_fingerprint(each) not in {verdict.code for verdict in known.get(each.name, ())}
            )

    def on_saved(self, module: str) -> None:
        """Test the exercises whose code, or that of a helper, this save has changed; a run that it interrupts is
        repeated afterwards."""
        self.on_opened(module)
        changes = self.chapters.update([module])
        exercises = [*changes.changed, *(exercise for exercise, _ in changes.using)]
        is_broken = find_problem(EXERCISES / f"{module}.py") is not None
        if is_broken and self.running and load_syllabus().exercise(self.running).module == module:
            self._interrupt()
        self.test(exercise.name for exercise in exercises)

    def test(self, names: Iterable[str]) -> None:
        """Test these exercises now, before those that wait."""
        first = list(dict.fromkeys(names))
        if first:
            self._interrupt()
            self.waiting = list(dict.fromkeys([*first, *self.waiting]))
        if not self.running:
            self._start_next()

    def close(self) -> None:
        self.runs.close()

    def _interrupt(self) -> None:
        if self.running:
            self.runs.stop()
            self.waiting.insert(0, self.running)
            self.running = ""

    def _start_next(self) -> None:
        """Start the first that can be tested: a chapter that is not valid Python waits for its next save."""
        exercises = {name: load_syllabus().exercise(name) for name in self.waiting}
        self.waiting = [name for name in self.waiting if not is_stub_now(exercises[name])]
        valid = (name for name in self.waiting if find_problem(EXERCISES / f"{exercises[name].module}.py") is None)
        self.running = next(valid, "")
        if self.running:
            self.waiting.remove(self.running)
            self.loop = asyncio.get_running_loop()
            self.has_verdict = False
            self.number = self.runs.start(self.running, self.failed_tests.get(self.running, ()))

    def _from_thread(self, number: int, message: Message) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            assert self.loop is not None
            self.loop.call_soon_threadsafe(self._on_message, number, message)

    def _on_message(self, number: int, message: dict[str, Any]) -> None:
        if number != self.number or not self.running:
            return
        name = self.running
        match message:
            case {"verdict": data}:
                verdict, self.has_verdict = Verdict.from_data(data), True
                result = verdict.result(name)
                self.failed_tests[name] = tuple(test.name for test in result.failures) if result else ()
                self.on_verdict(name, verdict)
            case {"done": _}:
                if not self.has_verdict:
                    self.on_trouble(f"No verdict on {name}: the tests ended without one. See `headway check {name}`.")
                self.running = ""
                self._start_next()
            case {"trouble": sentence}:  # no server starts, or the code has ended three of them
                self.running, self.waiting = "", []
                self.on_trouble(sentence)


def _was_saved_just_now(module: str) -> bool:
    try:
        return (EXERCISES / f"{module}.py").stat().st_mtime > time.time() - START_SECONDS
    except OSError:
        return False


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
            server.checks.on_opened(module)
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
