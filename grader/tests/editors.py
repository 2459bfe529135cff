"""An editor that speaks the language server's protocol over its standard input and output: pygls's own client."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kit_copy import Kit
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from watching import SECONDS


class Editor:
    """The editor's thread runs the client; the test asks it to open, change and save files, and waits for what it shows."""

    def __init__(self, kit: Kit, *, can_show_documents: bool = True) -> None:
        self.kit, self.client = kit, LanguageClient("editor", "1")
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}  # by the name of the file
        self.messages: list[str] = []
        self.documents: list[str] = []  # that the server asked to show
        self.verdicts = 0  # how often the server asked to draw the lenses again: once for each verdict
        self.versions: dict[str, int] = {}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self._listen()
        self._on_loop(self.client.start_io(sys.executable, "-m", "grader.cli", "lsp", cwd=str(kit.root), env=kit.environment()))
        capabilities = types.ClientCapabilities(
            workspace=types.WorkspaceClientCapabilities(code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True)),
            window=types.WindowClientCapabilities(show_document=types.ShowDocumentClientCapabilities(support=can_show_documents)),
        )
        self.server = self.request(self.client.initialize_async, types.InitializeParams(capabilities, root_uri=kit.root.as_uri()))
        self._notify(self.client.initialized, types.InitializedParams())

    def _listen(self) -> None:
        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.diagnostics[params.uri.rpartition("/")[2]] = list(params.diagnostics)

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def show(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)

        @self.client.feature(types.WINDOW_SHOW_DOCUMENT)
        def open_document(params: types.ShowDocumentParams) -> types.ShowDocumentResult:
            self.documents.append(params.uri)
            return types.ShowDocumentResult(True)

        @self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def refresh(*_: Any) -> None:
            self.verdicts += 1

    def _on_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def request(self, method: Callable[..., Any], params: Any) -> Any:
        async def ask() -> Any:
            return await method(params)

        return self._on_loop(ask())

    def _notify(self, method: Callable[..., None], params: Any) -> None:
        async def send() -> None:
            method(params)

        self._on_loop(send())

    @property
    def pid(self) -> int:
        return self.client._server.pid

    # ---- what a person does

    def uri(self, module: str) -> str:
        """The address of a chapter; of another file, if that is its path."""
        return (Path(module) if module.endswith(".py") else self.kit.file(module)).as_uri()

    def open(self, module: str) -> None:
        path = Path(module) if module.endswith(".py") else self.kit.file(module)
        item = types.TextDocumentItem(path.as_uri(), "python", 1, path.read_text(encoding="utf-8"))
        self.versions[module] = 1
        self._notify(self.client.text_document_did_open, types.DidOpenTextDocumentParams(item))

    def close(self, module: str) -> None:
        self._notify(self.client.text_document_did_close, types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(self.uri(module))))

    def type(self, module: str, text: str) -> None:
        """Replace what the editor shows, without saving it."""
        self.versions[module] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[module], self.uri(module))
        change = types.TextDocumentContentChangeWholeDocument(text)
        self._notify(self.client.text_document_did_change, types.DidChangeTextDocumentParams(document, [change]))

    def save(self, module: str, old: str = "", new: str = "") -> None:
        """Edit and save, as an editor does: it writes the file, and then reports the save. Returns when the server has read the report."""
        self.kit.edit(module, old, new)
        if module in self.versions:
            self.type(module, self.kit.file(module).read_text(encoding="utf-8"))
        self.report_save(module)

    def report_save(self, module: str) -> None:
        self._notify(self.client.text_document_did_save, types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(self.uri(module))))
        self.lenses(module)  # answered after it

    def run(self, command: str, *arguments: str) -> None:
        self.request(self.client.workspace_execute_command_async, types.ExecuteCommandParams(command, list(arguments)))

    def lenses(self, module: str) -> dict[str, int]:
        """The title of each lens, and its line, counted from 0."""
        found = self.request(self.client.text_document_code_lens_async, types.CodeLensParams(types.TextDocumentIdentifier(self.uri(module))))
        return {lens.command.title: lens.range.start.line for lens in found}

    def actions(self, module: str, line: int) -> list[types.CodeAction]:
        place = types.Range(types.Position(line, 0), types.Position(line, 0))
        params = types.CodeActionParams(types.TextDocumentIdentifier(self.uri(module)), place, types.CodeActionContext([]))
        return self.request(self.client.text_document_code_action_async, params)

    def hover(self, module: str, line: int, column: int) -> str:
        params = types.HoverParams(types.TextDocumentIdentifier(self.uri(module)), types.Position(line, column))
        found = self.request(self.client.text_document_hover_async, params)
        return found.contents.value if found else ""

    # ---- what a person sees

    def line(self, module: str, code: str) -> int:
        """The line, counted from 0, in which this code is."""
        return next(number for number, line in enumerate(self.kit.file(module).read_text(encoding="utf-8").splitlines()) if code in line)

    def shown(self, module: str) -> list[tuple[str, int]]:
        """The diagnostics of a chapter: each code with its line, counted from 0."""
        return [(diagnostic.code, diagnostic.range.start.line) for diagnostic in self.diagnostics.get(f"{module}.py", [])]

    def wait(self, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + SECONDS
        while not (found := condition()):
            assert time.monotonic() < deadline, f"diagnostics: {self.diagnostics}, messages: {self.messages}"
            time.sleep(0.02)
        return found

    def verdict(self, verdicts: int) -> None:
        """Wait until so many verdicts have come since the start."""
        self.wait(lambda: self.verdicts >= verdicts)

    # ---- the end

    def hang_up(self) -> None:
        """Close the server's input and output, as happens when an editor crashes."""
        for stream in (0, 1):
            self.loop.call_soon_threadsafe(self.client._server._transport.get_pipe_transport(stream).close)

    def quit(self) -> int:
        """Leave as an editor does, and return the server's exit status."""
        self.request(lambda _: self.client.shutdown_async(None), None)
        self._notify(self.client.exit, None)
        return self._on_loop(self.client._server.wait())

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.client._server.kill()
        with contextlib.suppress(Exception):
            self._on_loop(self.client.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(SECONDS)
        self.loop.close()


@contextlib.contextmanager
def editing(kit: Kit, **options: Any) -> Iterator[Editor]:
    editor = Editor(kit, **options)
    try:
        yield editor
    finally:
        editor.stop()
