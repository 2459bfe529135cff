"""headway lsp, with a client that talks to it as an editor does."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from editors import editing
from grader.course.source import definition
from kit_copy import posix
from linux_processes import children_of, descendants
from watching import RIGHT, SECONDS, STUB, WHOLE, nothing_remains

pytestmark = posix
CHAPTER = "ch03_attention"
EVERYWHERE = "    return torch.ones(q_len, k_len or q_len, dtype=torch.bool)"  # as a causal mask, wrong
LOOP = "    while True:\n        x = x + 0"


def test_a_session_from_stub_to_pass(kit):
    """A wrong softmax is underlined with its diagnosis, a right one is not; before a save nothing runs, and in the end nothing is left."""
    with editing(kit) as editor:
        editor.open(CHAPTER)
        lenses = editor.lenses(CHAPTER)
        assert lenses["softmax: 10 points · check"] == editor.line(CHAPTER, "def softmax") and len(lenses) == 11
        assert not children_of(editor.pid) and editor.diagnostics == {}

        editor.save(CHAPTER, STUB, WHOLE)
        editor.verdict(1)
        [diagnostic] = editor.diagnostics[f"{CHAPTER}.py"]
        assert diagnostic.message.startswith("The whole tensor sums to 1, where every slice along `dim` should.\nSum along `dim`")
        assert "\ncalled: " in diagnostic.message and "\ngot: " in diagnostic.message and "\nexpected: " in diagnostic.message
        assert (diagnostic.code, diagnostic.source, diagnostic.severity) == ("softmax", "headway", 1)
        assert editor.shown(CHAPTER) == [("softmax", editor.line(CHAPTER, "return exps / total"))]

        editor.save(CHAPTER, "exps.sum()", "exps.sum(dim, keepdim=True)")
        editor.verdict(2)
        assert editor.shown(CHAPTER) == []
        assert "softmax: 10/10 points, passed · check" in editor.lenses(CHAPTER)
        assert editor.quit() == 0
    assert nothing_remains(kit)


def test_what_was_saved_while_the_server_started_is_tested(kit):
    """The editor reports no save, or reports it before the server can know what was there. Stubs and tested code are left alone."""
    for chapter in (CHAPTER, "ch05_layers"):
        kit.edit(chapter, STUB, "    return x  # saved too early")
        later = time.time() + 10 * SECONDS  # however long the start takes
        os.utime(kit.file(chapter), (later, later))
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.verdict(1)
        assert editor.shown(CHAPTER) == [("softmax", editor.line(CHAPTER, "# saved too early"))]
        editor.report_save("ch05_layers")
        editor.verdict(2)
        assert [code for code, _ in editor.shown("ch05_layers")] == ["gelu"]
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.save(CHAPTER, "return x  # saved too early", "return x * 0  # saved")
        editor.verdict(1)
        assert editor.shown(CHAPTER) == [("softmax", editor.line(CHAPTER, "# saved"))] and editor.verdicts == 1


@pytest.mark.thorough
def test_a_save_tests_only_what_it_changed_and_leaves_other_diagnostics(kit):
    """A saved comment tests nothing; a diagnostic moves with the lines above it; a stub has none, also after a reset without a save."""
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.save(CHAPTER, STUB, WHOLE)
        editor.verdict(1)
        editor.save(CHAPTER, "def softmax", "# a comment\n\n\ndef softmax")
        editor.save(CHAPTER, STUB, EVERYWHERE)
        editor.verdict(2)
        softmax, mask = ("softmax", editor.line(CHAPTER, "return exps /")), ("causal_mask", editor.line(CHAPTER, EVERYWHERE))
        assert editor.shown(CHAPTER) == [softmax, mask]

        editor.close(CHAPTER)
        editor.diagnostics.clear()
        editor.open(CHAPTER)
        editor.wait(lambda: editor.shown(CHAPTER) == [softmax, mask])

        editor.type(CHAPTER, kit.file(CHAPTER).read_text().replace(EVERYWHERE, STUB))
        editor.wait(lambda: editor.shown(CHAPTER) == [softmax])
        editor.save(CHAPTER, WHOLE, RIGHT)
        editor.verdict(3)
        editor.wait(lambda: editor.shown(CHAPTER) == [mask])
        assert editor.verdicts == 3


@pytest.mark.thorough
def test_stubs_are_never_underlined_and_a_broken_file_is_at_one_line(kit):
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.save(CHAPTER, STUB, WHOLE + "  # 𝟙")
        editor.verdict(1)
        editor.save(CHAPTER, STUB, '    "𝟙"; return (')
        editor.wait(lambda: editor.shown(CHAPTER) == [(CHAPTER, editor.line(CHAPTER, '"𝟙"'))])
        [diagnostic] = editor.diagnostics[f"{CHAPTER}.py"]
        assert diagnostic.message.startswith("This is not valid Python ('(' was never closed).")
        assert (diagnostic.range.start.character, diagnostic.range.end.character) == (4, 18), "columns in UTF-16"

        editor.save(CHAPTER, '    "𝟙"; return (', STUB)
        editor.wait(lambda: editor.shown(CHAPTER) == [("softmax", editor.line(CHAPTER, "return exps / total"))])

        table = definition(kit.file("ch02_embeddings").read_text(), "sinusoidal_positions").text
        editor.save("ch02_embeddings", table, table.replace(STUB, "    return torch.zeros(max_len, d_model)"))
        editor.verdict(2)
        editor.save("ch02_embeddings", "from torch import Tensor, nn", "from torch import nn")  # Python notices it in a stub
        editor.run("headway.check", "sinusoidal_positions")
        editor.verdict(3)
        assert editor.shown("ch02_embeddings") == [("ch02_embeddings", 0)]
        for name in ("softmax", "causal_mask", "gelu"):
            editor.run("headway.check", name)
        editor.wait(lambda: sum("is not implemented yet" in message for message in editor.messages) == 2)


@pytest.mark.thorough
def test_code_that_is_begun_gets_a_remark_and_a_broken_import_an_error(kit):
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.save(CHAPTER, STUB, f"    largest = x.amax(dim)\n{STUB}  # soon")
        editor.verdict(1)
        [diagnostic] = editor.diagnostics[f"{CHAPTER}.py"]
        assert diagnostic.severity == 3 and "softmax has code, but line" in diagnostic.message
        assert editor.shown(CHAPTER) == [("softmax", editor.line(CHAPTER, "# soon"))]

        editor.save(CHAPTER, "import torch\n", "import torch\nLARGEST = 1 / 0\n")
        editor.save(CHAPTER, f"{STUB}  # soon", "    return largest")
        editor.verdict(2)
        assert editor.shown(CHAPTER) == [(CHAPTER, editor.line(CHAPTER, "LARGEST = 1 / 0"))]
        assert "does not import" in editor.diagnostics[f"{CHAPTER}.py"][0].message


@pytest.mark.thorough
def test_actions_hints_the_failing_call_and_hover(kit):
    with editing(kit) as editor:
        editor.open(CHAPTER)
        place = editor.line(CHAPTER, "TODO 2: exponentiate")
        assert [action.title for action in editor.actions(CHAPTER, place)] == ["Headway: check softmax", "Headway: next hint for softmax"]
        assert not editor.actions(CHAPTER, 0)

        softmax = hover_on(editor, "def softmax", "softmax")
        assert softmax.startswith("**softmax**: 10 points\n\nTurn scores into weights") and "e^x divided by the sum of e^x" in softmax and "Hint" not in softmax
        assert hover_on(editor, "def softmax", "dim") == ""
        editor.run("headway.hint", "softmax")
        editor.wait(lambda: any(message.startswith("softmax, hint 1 of 3: ") for message in editor.messages))
        assert "\n\nHint 1: " in hover_on(editor, "def softmax", "softmax")
        assert "**split_heads**" in hover_on(editor, "import causal_mask", "split_heads", "ch04_positions_in_attention")

        editor.save(CHAPTER, STUB, WHOLE)
        editor.verdict(1)
        assert "Headway: open the failing call of softmax" in [action.title for action in editor.actions(CHAPTER, editor.line(CHAPTER, "amax"))]
        editor.run("headway.repro", "softmax")
        editor.wait(lambda: editor.documents == [(kit.exercises / ".headway/repro/softmax.py").as_uri()])
        editor.run("headway.check", "softmax")
        editor.wait(lambda: any(message.startswith("softmax: ") and message.endswith("/10 points.") for message in editor.messages))
        with pytest.raises(Exception, match="did you mean softmax"):
            editor.run("headway.check", "sofmax")


def hover_on(editor, line: str, word: str, module: str = CHAPTER) -> str:
    number = editor.line(module, line)
    return editor.hover(module, number, editor.kit.file(module).read_text().splitlines()[number].index(word) + 1)


def test_other_files_are_ignored(kit, tmp_path):
    elsewhere = tmp_path / f"{CHAPTER}.py"
    elsewhere.write_text("def softmax(x): return (")
    with editing(kit) as editor:
        editor.open(str(elsewhere))
        editor.report_save(str(elsewhere))
        assert editor.lenses(str(elsewhere)) == {} and not editor.actions(str(elsewhere), 0)
        assert editor.diagnostics == {} and not editor.messages and not children_of(editor.pid)


@pytest.mark.thorough
def test_whatever_the_code_does_the_server_lives(kit):
    """A loop, the end of its process, the death of the tests' server: there is a verdict, and a right one after it."""
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.save(CHAPTER, STUB, LOOP)
        editor.verdict(1)
        assert "did not end within" in editor.diagnostics[f"{CHAPTER}.py"][0].message
        assert editor.shown(CHAPTER)[0][1] in (editor.line(CHAPTER, "while True"), editor.line(CHAPTER, "x = x + 0"))
        editor.save(CHAPTER, LOOP, "    import os; os._exit(3)")
        editor.verdict(2)
        assert "it exited with status 3" in editor.diagnostics[f"{CHAPTER}.py"][0].message
        editor.save(CHAPTER, "    import os; os._exit(3)", LOOP)
        tests_server = editor.wait(lambda: children_of(editor.pid))[0]
        subprocess.run(["kill", "-KILL", str(tests_server)], check=True)
        editor.save(CHAPTER, LOOP, RIGHT)
        editor.verdict(3)
        assert editor.shown(CHAPTER) == [] and "softmax: 10/10 points, passed · check" in editor.lenses(CHAPTER)


@pytest.mark.thorough
def test_a_newer_save_interrupts_a_run_which_is_repeated(kit):
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.save(CHAPTER, STUB, WHOLE)
        editor.wait(lambda: children_of(editor.pid))
        editor.save(CHAPTER, STUB, EVERYWHERE)
        editor.save(CHAPTER, "    return torch.ones", "    return (torch.ones")
        editor.wait(lambda: editor.shown(CHAPTER) and editor.shown(CHAPTER)[0][0] == CHAPTER)
        editor.save(CHAPTER, "    return (torch.ones", "    return torch.ones")
        editor.verdict(2)
        assert [code for code, _ in editor.shown(CHAPTER)] in (["softmax", "causal_mask"], ["causal_mask", "softmax"])


@pytest.mark.thorough
@pytest.mark.parametrize("dies", ["editor", "server"])
def test_nothing_is_left_after_the_editor_or_the_server_dies(kit, dies):
    with editing(kit) as editor:
        editor.open(CHAPTER)
        editor.save(CHAPTER, STUB, LOOP)
        editor.wait(lambda: len(descendants(editor.pid)) > 1)  # the server, and the run
        if dies == "editor":
            editor.hang_up()
        else:
            editor.client._server.send_signal(signal.SIGKILL)
        assert nothing_remains(kit)


def test_the_command_in_a_terminal_and_without_its_package(kit):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "grader.cli", "lsp"]
    done = subprocess.run(command, stdin=theirs, cwd=kit.root, env=kit.environment(), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2 and "an editor starts" in done.stderr
    (kit.root / "sitecustomize.py").write_text("import sys\nsys.modules['pygls'] = None\n")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, cwd=kit.root, env=kit.environment(), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2 and ".[editor]" in " ".join(done.stderr.split()), done.stderr
