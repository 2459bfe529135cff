"""Notebooks that are handed in: which code of their cells is graded, and what their owners are told."""

import ast
import json
import textwrap

import nbformat
import pytest
from grader.classroom.intake.loose_code import MAX_NOTEBOOK_BYTES, read_cells, read_code, write_chapter
from grader.classroom.intake.reader import read_in_subprocess
from grader.course.source import definition, is_written
from grader.course.stubs import reference_stub
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from pytest_runs import solution
from submission_archives import CHAPTER, by_name, one, write, zipped

MODULE = "ch03_attention"
SOFTMAX = "def softmax(x, dim=-1):\n    powers = (x - shift(x, dim)).exp()\n    return powers / powers.sum(dim, keepdim=True)"
SHIFT = "def shift(x, dim):\n    return x.amax(dim, keepdim=True)"


def notebook(*cells: str) -> str:
    """A notebook file of these code cells; one that begins with "#: " is a cell of text."""
    made = new_notebook(cells=[new_markdown_cell(text[3:]) if text.startswith("#: ") else new_code_cell(text) for text in cells])
    return nbformat.writes(made)


def written(*cells: str, module: str = MODULE) -> str:
    return write_chapter(read_code(read_cells(notebook(*cells).encode(), "hw.ipynb"), "hw.ipynb"), module).text


def body(text: str, name: str) -> str:
    return ast.unparse(ast.parse(definition(text, name).text))


def test_a_notebook_is_read_without_its_outputs_and_text(tmp_path):
    cells = [new_markdown_cell("def padding_mask(ids):\n    return 1"), new_code_cell(SHIFT), new_code_cell("print(softmax(torch.ones(3)))")]
    cells.insert(2, new_code_cell(SOFTMAX, outputs=[new_output("stream", text="def causal_mask(n):\n    return 1\n")]))
    write(tmp_path / "alpha" / "homework.ipynb", nbformat.writes(new_notebook(cells=cells)))
    found = one(tmp_path)
    assert not found.problem and list(found.sources) == [MODULE]
    text = found.sources[MODULE]
    assert body(text, "softmax") == SOFTMAX and body(text, "shift") == SHIFT and "print" not in text
    assert found.notes == ("the notebook homework.ipynb was used as ch03_attention.py: softmax from cell 3 (cells are counted from the top)",)
    assert not is_written(text, "causal_mask") and not is_written(text, "padding_mask"), "the other exercises keep their stub"


def test_magics_and_shell_lines_are_left_out():
    text = written(
        "%matplotlib inline\n!pip install torch \\\n   numpy\nimport math\nfiles = !ls",
        f"%%time\n{SHIFT}",
        f"%%bash\n{SOFTMAX.replace('exp', 'wrong')}",
        f"%%writefile ch03_attention.py\n{SOFTMAX}",
        "softmax?",
        "if True:\n    %timeit softmax(1)\n",
        "def causal_mask(n):\n    !date\n    note = '''\n    %d'''\n    return note",
    )
    assert body(text, "softmax") == SOFTMAX and "def shift" in text
    assert "pass" in body(text, "causal_mask") and "date" not in text and "timeit" not in text and "pip" not in text


def test_the_last_definition_counts_also_for_helpers():
    text = written(SOFTMAX.replace("exp", "tanh"), SHIFT.replace("amax", "amin"), SOFTMAX, SHIFT, "from torch import softmax")
    assert body(text, "softmax") == SOFTMAX and body(text, "shift") == SHIFT
    assert "tanh" not in text and "amin" not in text and "import softmax" not in text


def test_definitions_below_if_try_and_with_count_where_these_only_define():
    below = "if True:\n" + textwrap.indent(f"{SHIFT}\n{SOFTMAX}\ndef unused(x):\n    return 0\n", "    ")
    text = written(below)
    assert body(text, "softmax") == SOFTMAX and body(text, "shift") == SHIFT and "unused" not in text
    text = written("try:\n    import einops\nexcept ImportError:\n    einops = None\nif einops is None:\n" + textwrap.indent(SHIFT, "    ") + "\nelse:\n    shift = einops.reduce\n", SOFTMAX)
    assert is_written(text, "softmax") and "    import einops\n" in text and "    shift = einops.reduce\n" in text
    text = written(SHIFT, SOFTMAX, "if train():\n    def shift(x, dim):\n        return 0\nfor step in range(9):\n    def softmax(x):\n        return 0\nraise SystemExit\n")
    assert body(text, "softmax") == SOFTMAX and body(text, "shift") == SHIFT and "train()" not in text and "SystemExit" not in text


def test_only_what_the_exercises_need_is_kept_and_nothing_is_called(tmp_path):
    touched = tmp_path / "touched"
    harmful = f"open({str(touched)!r}, 'w')"
    text = written(
        "from __future__ import annotations\nimport torch\nfrom nothing_like_it import Trainer\nfrom pathlib import Path",
        "EPS: float = 1e-9\nFLOOR = float('-inf')\nHEADS, SIZES = 4, [8 * n for n in range(3)]\nsquare = lambda x: x * x",
        f"{harmful}\nfor epoch in range(3):\n    {harmful}\nwith {harmful}:\n    pass\nassert {harmful}\nmodel = {harmful}\nx: int = {harmful}",
        f"if {harmful}:\n    def shift(x, dim):\n        return 0\n",
        f"try:\n    {harmful}\nexcept OSError:\n    pass",
        "def shift(x, dim):\n    return square(x).amax(dim, keepdim=True) + EPS * HEADS + FLOOR",
        SOFTMAX,
        "class Plot:\n    def draw(self):\n        return Path('.')",
    )
    compile(text, "chapter", "exec")
    assert str(touched) not in text and not touched.exists() and "Trainer" not in text and "Plot" not in text and "Path" not in text
    for kept in ("EPS: float = 1e-9", "FLOOR = float('-inf')", "HEADS, SIZES", "square = lambda"):
        assert kept in text, kept
    assert text.startswith("from __future__ import annotations") and text.count("from __future__") == 2, "the stub's and the notebook's"


def test_a_name_that_a_cell_computes_is_reported(tmp_path):
    write(tmp_path / "alpha" / "hw.ipynb", notebook("import torch\nlargest = torch.rand(3).max()", SOFTMAX.replace("shift(x, dim)", "largest")))
    [_, note] = one(tmp_path).notes
    assert note == "cell 1 of hw.ipynb sets largest, which the exercises use, by running code; the grader runs no cells, so move it into a function"


def test_each_chapter_of_a_notebook_gets_its_own_code(tmp_path):
    gelu = "def gelu(x):\n    return torch.softmax(x, 0) * 0.5"
    block = "class PreNormBlock(nn.Module):\n    def forward(self, x):\n        return gelu(softmax(x)) + C.shift"
    cells = ["import torch\nfrom torch import nn\nfrom exercises.ch04_positions_in_attention import CausalSelfAttention as C", SHIFT, SOFTMAX, gelu, block]
    write(tmp_path / "alpha" / "all.ipynb", notebook(*cells))
    found = one(tmp_path)
    assert list(found.sources) == [MODULE, "ch05_layers", "ch06_blocks"]
    assert "torch.softmax" not in found.sources[MODULE], "what chapter 3 forbids is allowed in chapter 5"
    last = found.sources["ch06_blocks"]
    assert "from .ch05_layers import gelu\n" in last and f"from .{MODULE} import softmax\n" in last and "def gelu" not in last
    assert "from .ch04_positions_in_attention import CausalSelfAttention as C\n" in last and "CausalSelfAttention as C" not in found.sources[MODULE]


def test_a_cell_that_is_not_python_is_reported_and_the_others_count(tmp_path):
    cells = [SHIFT, SOFTMAX, "def causal_mask(n:\n    return n", "return 3", "def padding_mask(ids):\n    return ids"]
    write(tmp_path / "alpha" / "hw.ipynb", notebook(*cells))
    found = one(tmp_path)
    assert found.notes[0].startswith("cell 3 of hw.ipynb, line 1: ") and found.notes[0].endswith("(this cell was left out)")
    assert is_written(found.sources[MODULE], "softmax") and is_written(found.sources[MODULE], "padding_mask")
    assert not is_written(found.sources[MODULE], "causal_mask")


def test_a_file_with_the_chapters_name_comes_first_unless_it_is_the_stub(tmp_path):
    for person, text in (("alpha", SOFTMAX), ("beta", reference_stub(MODULE)), ("chi", "def softmax(:\n")):
        write(tmp_path / person / CHAPTER, text)
        write(tmp_path / person / "hw.ipynb", notebook(SHIFT, SOFTMAX))
    found = by_name(tmp_path)
    assert found["alpha"].sources == {MODULE: SOFTMAX} and found["alpha"].notes == ()
    assert body(found["beta"].sources[MODULE], "softmax") == SOFTMAX
    assert found["chi"].sources == {MODULE: "def softmax(:\n"}, "a mistake in the chapter is its owner's to see"


CAUSAL = "def causal_mask(n):\n    return n"
BEGUN = "def softmax(x, dim=-1):\n    return x\n"


@pytest.mark.parametrize("newer, other", [("ipynb", "py"), ("py", "ipynb")])
def test_a_notebook_with_the_chapters_name_is_a_version_like_any_other(tmp_path, newer, other):
    name = tmp_path / "class" / "alpha" / CHAPTER[:-3]
    write(name.with_suffix(".py"), BEGUN, time=1_790_000_000 + (newer == "py"))
    write(name.with_suffix(".ipynb"), notebook(SHIFT, SOFTMAX, CAUSAL), time=1_790_000_000 + (newer == "ipynb"))
    found = one(tmp_path / "class")
    assert is_written(found.sources[MODULE], "causal_mask") == (newer == "ipynb")
    assert found.notes[-1] == f"there are several versions of {CHAPTER}; {MODULE}.{newer} was graded, not {MODULE}.{other}"
    write(name.with_suffix(".ipynb"), notebook(reference_stub(MODULE)), time=1_795_000_000)
    assert one(tmp_path / "class").sources == {MODULE: BEGUN}, "an unchanged stub is not a version, also in a notebook"


def test_an_import_that_is_repeated_below_its_use_is_kept_above_it():
    text = written("import torch", "EPS = 1", "class MultiHeadAttention(torch.nn.Module):\n    eps = EPS\n", "import torch\nEPS = 1")
    compile(text, "chapter", "exec")
    assert text.index("import torch") < text.index("EPS = 1") < text.index("class MultiHeadAttention(torch.nn.Module)")


def test_notebooks_belong_to_people_in_every_form_of_a_class(tmp_path):
    text = notebook(SHIFT, SOFTMAX)
    write(tmp_path / "class" / "alpha.ipynb", text)
    write(tmp_path / "class" / "beta_ch03_attention.ipynb", text)
    write(tmp_path / "class" / "beta_ch05_layers.ipynb", notebook("def gelu(x):\n    return x"))
    write(tmp_path / "class" / "onechi_LATE_12_345_homework.ipynb", text)
    write(tmp_path / "class" / "delta.zip", zipped({"deep/hw.ipynb": text}))
    found = by_name(tmp_path / "class")
    assert {name: sorted(s.sources) for name, s in found.items()} == {
        "alpha": [MODULE], "beta": [MODULE, "ch05_layers"], "delta": [MODULE], "onechi": [MODULE],
    }  # fmt: skip
    assert one(write(tmp_path / "zeta.ipynb", text)).name == "zeta"


@pytest.mark.parametrize(
    "data, says",
    [
        (b'{"cells": [', "hw.ipynb is not a valid notebook; save it again in Jupyter"),
        (b"[" * 100_000, "hw.ipynb is not a valid notebook; save it again in Jupyter"),
        (b'{"cells": 3}', "hw.ipynb is not a notebook: it has no cells; save it again in Jupyter"),
        (b'{"cells": [3, {"cell_type": "code"}, {"cell_type": "code", "source": [1, {}]}]}', "hw.ipynb defines no exercise; its cells must define functions"),
        (json.dumps({"cells": [{}] * 5001}).encode(), "hw.ipynb has more than 5000 cells; keep only the cells of the exercises"),
        (b'{"cells": []}' + b" " * MAX_NOTEBOOK_BYTES, "hw.ipynb is larger than 20,000 KB and was not read; delete its outputs"),
    ],
)
def test_an_unusable_notebook_gives_its_owner_a_sentence(tmp_path, data, says):
    write(tmp_path / "alpha" / "hw.ipynb", data)
    write(tmp_path / "beta" / CHAPTER)
    found = by_name(tmp_path)
    assert found["alpha"].problem.startswith(f"it contains no readable chapter: {says}") and not found["beta"].problem


def test_a_cell_that_is_too_deep_for_python_costs_only_that_cell(tmp_path):
    write(tmp_path / "alpha" / "hw.ipynb", notebook(SHIFT, SOFTMAX + "\n" + "x = " + "-" * 150_000 + "1"))
    write(tmp_path / "beta" / "hw.ipynb", notebook(SHIFT, SOFTMAX))
    found = {submission.name: submission for submission in read_in_subprocess(tmp_path)}
    assert "cell 2 of hw.ipynb" in found["alpha"].problem and list(found["beta"].sources) == [MODULE]


@pytest.mark.parametrize("module", ["ch03_attention", "ch07_models"])
def test_the_reference_in_cells_is_complete(module):
    """Each statement of the solution in a cell of its own; every definition survives unchanged."""
    tree = ast.parse(solution(module[:4]))
    made = written(*(ast.unparse(node) for node in tree.body), module=module)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert names and {name: body(made, name) for name in names} == {name: ast.unparse(next(n for n in tree.body if getattr(n, "name", "") == name)) for name in names}
