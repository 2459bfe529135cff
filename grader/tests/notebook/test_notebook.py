"""`%%check`, `check`, `hint` and `repro` in a notebook: cells that are really executed, in one kernel, in a folder outside the kit."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
import threading

import nbformat
import pytest
import torch
from grader.course.source import definition, find_definition
from grader.course.syllabus import ROOT, SOLUTIONS
from kit_copy import Kit
from notebooks import RIGHT, opened, with_check

WRONG = """
def softmax(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum()
"""


def reference(module: str, name: str) -> str:
    """The reference's definition, as a learner would have it in a cell."""
    text = find_definition((SOLUTIONS / f"{module}.py").read_text(encoding="utf-8"), name).text
    return "\n".join(line for line in text.splitlines() if "SOLUTION" not in line)


@pytest.fixture(scope="module")
def notebook(template, tmp_path_factory):
    with with_check(template, tmp_path_factory.mktemp("notebook")) as notebook:
        yield notebook


@pytest.fixture
def chapter(notebook):
    """The learner's file of chapter 3, a stub. It and the recorded points are restored afterwards."""
    path = notebook.kit.file("ch03_attention")
    before = path.read_bytes()
    yield path
    path.write_bytes(before)
    (notebook.kit.exercises / "progress.txt").unlink(missing_ok=True)


def progress(notebook) -> str:
    path = notebook.kit.exercises / "progress.txt"
    return path.read_text() if path.exists() else ""


def passes(shown, name="softmax") -> bool:
    """Does the page say that this exercise passes?"""
    return re.search(rf"^  {name} +(\d+)/\1   passed", shown.text, re.M) is not None


def written(path, name: str) -> str:
    return definition(path.read_text(encoding="utf-8"), name).text


def test_importing_the_package_imports_no_torch():
    code = "import sys, grader; print('torch' in sys.modules); from grader import check, hint; print('torch' in sys.modules, callable(check))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == ["False", "False", "True"]


# ---- a cell


def test_a_correct_cell_is_written_tested_and_recorded(notebook, chapter):
    before = chapter.read_text(encoding="utf-8")
    shown = notebook.run("%%check softmax" + RIGHT)
    assert "softmax works." in shown.text and 'Next: write `causal_mask` in' in shown.line and 'check("causal_mask")' in shown.text
    assert "exercises/ch03_attention.py: softmax." in shown.line and "saved in" not in shown.line
    assert written(chapter, "softmax") == RIGHT.lstrip()
    assert chapter.read_text(encoding="utf-8").replace(RIGHT.lstrip(), "") == before.replace(definition(before, "softmax").text, "")
    assert "softmax 10/10" in progress(notebook)
    assert notebook.run("softmax(torch.zeros(2)).tolist()").text == "[0.5, 0.5]", "the cell ran in the notebook, too"


def test_what_an_exercise_needs_is_written_with_it(notebook, chapter):
    """A constant, helpers, a class and imports, of this cell and of others; only what it reaches."""
    notebook.run("import operator as op\nfrom math import inf, pi\nLOWEST = -1e38\ntotal = 3")
    notebook.run("# the largest value\ndef largest_of(x: Tensor, dim):\n    return Shift(x).largest(dim)")
    notebook.run("%%time\nclass Shift:\n    def __init__(self, x):\n        self.x = x\n    def largest(self, dim):\n        return self.x.amax(dim, keepdim=True)")
    cell = RIGHT.replace("x.amax(dim, keepdim=True).clamp(min=-1e38)", "limited(largest_of(x, dim))").replace("(x - largest)", "op.sub(x, largest)")
    assert passes(notebook.run("%%check\ndef limited(x):\n    return x.clamp(min=LOWEST)\n" + cell))
    text = chapter.read_text(encoding="utf-8")
    assert "from torch import Tensor, nn\nimport operator as op\n" in text and "pi" not in text.partition("LOWEST")[0].split()
    assert find_definition(text, "total") is None and "# the largest value\ndef largest_of" in text
    assert text.index("LOWEST = -1e38") < text.index("def largest_of") < text.index("class Shift") < text.index("def limited") < text.index("def softmax")
    notebook.run("def largest_of(x, dim):\n    return x.amax(dim, keepdim=True)")
    assert passes(notebook.run("%%check" + cell)) and chapter.read_text(encoding="utf-8").count("def largest_of") == 1
    assert written(chapter, "largest_of") == "def largest_of(x, dim):\n    return x.amax(dim, keepdim=True)\n"


def test_a_definition_below_an_if_is_written(notebook, chapter):
    notebook.run("try:\n    from math import inf\nexcept ImportError:\n    inf = 1e38\nif True:\n    # a constant\n    LOWEST = -1e38")
    shown = notebook.run("%%check\nif inf:\n" + textwrap.indent(RIGHT.replace("min=-1e38", "min=LOWEST"), "    "))
    assert passes(shown), shown.text
    assert written(chapter, "softmax") == RIGHT.replace("min=-1e38", "min=LOWEST").lstrip()
    assert written(chapter, "LOWEST") == "# a constant\nLOWEST = -1e38\n"


def test_other_exercises_of_the_notebook_are_written_where_the_file_has_the_stub(notebook, chapter):
    notebook.run(RIGHT + "\ndef merge_heads(x):\n    raise NotImplementedError")
    chapter.write_text(chapter.read_text(encoding="utf-8") + "\n\ndef split_heads(x, n_heads):\n    return x  # mine\n", encoding="utf-8")
    for name in ("scaled_dot_product_attention", "split_heads"):
        notebook.run(reference("ch03_attention", name))
    shown = notebook.run("%%check\n" + reference("ch03_attention", "MultiHeadAttention"))
    assert passes(shown, "MultiHeadAttention")
    assert re.search("with the reference's (split_heads and merge_heads|merge_heads and split_heads)", shown.line), shown.text
    assert written(chapter, "softmax") == RIGHT.lstrip() and "# mine" in written(chapter, "split_heads")
    assert "TODO" in written(chapter, "merge_heads"), "a stub of the notebook does not replace the stub in the file"


def test_several_exercises_in_one_cell(notebook, chapter):
    shown = notebook.run("%%check\ndef causal_mask(q_len, k_len=None):\n    return None\n" + RIGHT)
    assert passes(shown) and not passes(shown, "causal_mask") and "FAILED" in shown.text
    assert "ch03_attention.py: softmax and causal_mask." in shown.line


def test_an_earlier_chapter_is_imported(notebook, chapter):
    notebook.run(RIGHT)
    later = notebook.kit.file("ch05_layers")
    before = later.read_bytes()
    try:
        notebook.run(
            "%%check gelu\nfrom exercises.ch03_attention import merge_heads as merged\ndef gelu(x):\n    return softmax(x) if merged else x"
        )
        text = later.read_text(encoding="utf-8")
        assert "from .ch03_attention import merge_heads as merged\nfrom .ch03_attention import softmax\n" in text
        assert "def softmax" not in text
    finally:
        later.write_bytes(before)


def test_written_code_that_is_replaced_is_kept(notebook, chapter):
    own = "def softmax(x, dim=-1):\n    return x  # written in the file\n"
    chapter.write_text(chapter.read_text(encoding="utf-8").replace(written(chapter, "softmax"), own), encoding="utf-8")
    shown = notebook.run("%%check" + RIGHT)
    assert "The softmax that was there is saved in" in shown.line and "!headway reset softmax --undo" in shown.line
    assert (notebook.kit.exercises / ".headway" / "kept" / "ch03_attention.softmax.1.py").read_text(encoding="utf-8") == own
    assert "saved in" not in notebook.run("%%check" + WRONG).line, "the notebook itself wrote the one before"
    assert "earlier code again" in notebook.kit.run("reset", "softmax", "--undo") and written(chapter, "softmax") == own


def test_a_cell_that_fails_writes_nothing(notebook, chapter):
    before = chapter.read_bytes()
    shown = notebook.run("%%check\ndef softmax(:\n    pass")
    assert shown.error == "SyntaxError" and "line 2" in shown.traceback and not shown.text
    shown = notebook.run("%%check" + RIGHT + "1 / 0")
    assert shown.error == "ZeroDivisionError" and not shown.text
    assert notebook.run("%%check\nx = 1").line.endswith("or define an exercise, for example count_bigrams.")
    assert "This cell does not define causal_mask" in notebook.run("%%check causal_mask" + RIGHT).line
    assert "did you mean softmax?" in notebook.run("%%check sofmax" + RIGHT).line
    for first in ("%%check", "%%check average_loss"):
        misspelt = notebook.run(f"{first}\ndef helper():\n    pass\ndef averge_loss(ids):\n    return 0").line
        assert misspelt == "This cell defines no exercise, so Headway wrote and tested nothing. It defines averge_loss; did you mean average_loss?"
    assert chapter.read_bytes() == before


def test_a_file_that_cannot_be_used_stays_as_it_is(notebook, chapter):
    chapter.write_text("def split_heads(:\n", encoding="utf-8")
    for cell in ("%%check" + RIGHT, "check('softmax')"):
        shown = notebook.run(cell)
        assert shown.line.startswith("ch03_attention.py, line 1: this is not valid Python") and "correct the file first" in shown.line
    assert chapter.read_text(encoding="utf-8") == "def split_heads(:\n"
    chapter.unlink()
    assert "There is no file" in notebook.run("%%check" + RIGHT).line and "to create it: `!headway reset ch03`" in notebook.run("check('softmax')").line
    chapter.write_text("import nowhere\n", encoding="utf-8")
    shown = notebook.run("check('softmax')")
    assert "ch03_attention.py does not import" in shown.text and "nowhere" in shown.text


# ---- names


def test_a_name_checks_the_file(notebook, chapter):
    assert "these exercises are not implemented yet" in notebook.run('check("softmax")').text
    chapter.write_text(chapter.read_text(encoding="utf-8") + RIGHT, encoding="utf-8")
    assert notebook.run('bool(check("softmax"))').text == "True" and "softmax 10/10" in progress(notebook)
    shown = notebook.run('check("ch03")')
    assert passes(shown) and "Next: write `causal_mask`" in shown.text
    for cell in ('check("softmax", "causal-mask")', "check(3)", "%%check chapter 3\n" + RIGHT):
        shown = notebook.run(cell)
        assert passes(shown) and "causal_mask" in shown.text


def test_the_failed_call_is_code_for_a_cell(notebook, chapter):
    shown = notebook.run("%%check softmax" + WRONG)
    assert "The whole tensor sums to 1, where every slice along `dim` should." in shown.text and max(map(len, shown.text.splitlines())) <= 80
    assert 'run again repro("softmax")' in shown.line and 'For a hint: hint("softmax")' in shown.text
    code = notebook.run('repro("softmax")')
    printed = notebook.run(code.text).printed
    assert "got\ntensor(" in printed and "expected\ntensor(" in printed
    assert notebook.run("torch.allclose(got, expected)").text == "False"
    replacing = "repro()\n[it['replace'] for it in get_ipython().payload_manager.read_payload() if it['source'] == 'set_next_input']"
    assert notebook.run(replacing).text == "[True]"
    notebook.run("%%check softmax" + RIGHT)
    notebook.run(code.text)
    assert notebook.run("torch.allclose(got, expected)").text == "True"
    assert "There is no failed check of softmax to run again" in notebook.run('repro("softmax")').line


def test_larger_tensors_of_a_failed_call_are_loaded(notebook):
    script = notebook.kit.exercises / ".headway" / "repro" / "gelu.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text('from pathlib import Path\nimport torch\nsaved = torch.load(Path(__file__).with_suffix(".pt"), weights_only=True)\n')
    torch.save({"x": torch.ones(3)}, script.with_suffix(".pt"))
    notebook.run(notebook.run("repro('gelu')").text)
    assert notebook.run("saved").text == "{'x': tensor([1., 1., 1.])}"


# ---- the kernel


@pytest.mark.parametrize("line", ["sum(range(10**12))", "import os; os._exit(3)"])
def test_the_kernel_survives(notebook, chapter, line):
    """A loop in C cannot be interrupted: the process of the tests is killed."""
    shown = notebook.run(f"%%check softmax\ndef softmax(x, dim=-1):\n    {line}")
    assert ("ended the pro" if "_exit" in line else "The call did not end within 5 s.") in shown.line
    assert notebook.run("1 + 1").text == "2"


def test_the_stop_button_stops_it(notebook, chapter):
    timer = threading.Timer(2.0, notebook.stop)
    timer.start()
    shown = notebook.run("%%check softmax\ndef softmax(x, dim=-1):\n    while True:\n        pass")
    timer.join()
    assert shown.error == "Stopped" and shown.traceback == "The check was stopped."
    assert passes(notebook.run("%%check softmax" + RIGHT))


def test_two_checks_at_once(notebook, chapter):
    notebook.run("%%check softmax" + RIGHT)
    shown = notebook.run("import asyncio\nboth = await asyncio.gather(*(asyncio.to_thread(check, 'softmax') for _ in range(2)))\n[bool(answer) for answer in both]")
    assert shown.text == "[True, True]"


def test_the_extension_can_be_loaded_by_name(notebook):
    assert notebook.run("del get_ipython().magics_manager.magics['cell']['check']").error == ""
    assert not notebook.run("%load_ext grader").error and "This cell defines no exercise" in notebook.run("%%check\npass").line


# ---- hints and wrong calls


def test_hints_go_on_from_level_to_level(notebook):
    levels = notebook.kit.exercises / ".headway" / "hints.json"
    assert "split_qkv, hint 1 of 3" in notebook.run('hint("split_qkv")').text
    shown = notebook.run('hint("split_qkv")')
    assert "hint 2 of 3" in shown.text and 'For the next hint: hint("split_qkv")' in shown.text
    assert 'To see an earlier one again: hint("split_qkv", 1)' in shown.text
    assert "hint 1 of 3" in notebook.run('hint("split_qkv", 1)').text
    assert json.loads(levels.read_text())["split_qkv"] == 2
    assert "hint 3 of 3" in notebook.kit.run("hint", "split_qkv")
    assert "This is the last hint." in notebook.run('hint("split_qkv")').text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('check("sofmax")', "There is no exercise or chapter called 'sofmax'; did you mean softmax?"),
        ("check(print)", 'The argument must be the name of an exercise in quotes: check("count_bigrams").'),
        ("check(softmax)", 'The argument must be the name of an exercise in quotes: check("softmax"). To test what a cell defines, write `%%check` into'),
        ('hint("ch03")', 'Give the name of an exercise, not of a chapter: hint("softmax").'),
        ('hint("softmax", 0)', 'The level must be a number from 1 to 3: hint("softmax", 1).'),
        ('hint("softmx")', "There is no exercise or chapter called 'softmx'; did you mean softmax?"),
    ],
)
def test_wrong_use_gets_a_sentence(notebook, cell, said):
    notebook.run(RIGHT)
    shown = notebook.run(cell)
    assert not shown.error and shown.line.startswith(said) and len(shown.text.splitlines()) <= 2
    assert notebook.run(f"bool({cell})").text == "False"


def test_a_prompt_without_a_notebook(kit):
    session = "from grader import check, hint\nhint('softmax')\ncheck('sofmax')\n"
    done = subprocess.run([sys.executable, "-i", "-q"], input=session, cwd=kit.root, env=kit.environment(), capture_output=True, text=True)
    assert 'For the next hint: hint("softmax")' in done.stdout and "did you mean softmax?" in done.stdout


def test_the_notebook_for_hosted_machines_installs_and_tests(template, tmp_path):
    """pip only finds out what it would install: tests have no network."""
    shutil.copytree(template, tmp_path / "kit")
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "kit")):
        subprocess.run(["git", "-C", str(tmp_path / "kit"), *words], check=True)
    cells = nbformat.read(ROOT / "grader" / "notebook" / "start.ipynb", 4).cells
    first, second = (cell.source for cell in cells if cell.cell_type == "code")
    dry = "import os\nos.environ |= {'PIP_DRY_RUN': '1', 'PIP_NO_DEPS': '1', 'PIP_NO_BUILD_ISOLATION': '0'}"
    with opened(Kit(tmp_path / "none"), tmp_path / "hosted") as notebook:
        notebook.run(dry)
        said = notebook.run(first.replace('ADDRESS = ""', f"ADDRESS = {str(tmp_path / 'kit')!r}"))
        assert not said.error, said.traceback
        failed = notebook.run(second)
        assert "softmax" in failed.line and not failed.error and "passed" not in failed.line
        assert "hint 1 of 3" in notebook.run('hint("softmax")').line
    assert "torch.exp(x).sum()" in (tmp_path / "hosted" / "headway" / "exercises" / "ch03_attention.py").read_text()


def test_the_container_is_described_in_json_and_its_script_exists():
    described = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    script = ROOT / described["onCreateCommand"]
    assert script.stat().st_mode & 0o111 and subprocess.run(["bash", "-n", script]).returncode == 0
    assert "make .venv/.learn" in script.read_text() and "\n.venv/.learn:" in (ROOT / "Makefile").read_text()
