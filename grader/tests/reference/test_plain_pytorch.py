"""The reference is plain PyTorch that can be read from top to bottom: nothing compiled, no device named."""

from __future__ import annotations

import ast
import re
import sys

import pytest
from grader.course.source_check import imported_paths
from grader.course.syllabus import SOLUTIONS

CHAPTERS = sorted(SOLUTIONS.glob("ch*.py"))
NOT_PLAIN = (
    "torch.compile", "torch.jit", "torch._dynamo", "torch.cuda", "torch.vmap", "torch.func", "torch.set_default_device",
    "torch.set_default_dtype",
)  # fmt: skip


def paths(text: str) -> set[str]:
    """Every dotted path that an expression of the module means."""
    tree = ast.parse(text)
    imported = {name: path for node in ast.walk(tree) for name, (path, _) in imported_paths(node)}
    spelled = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)]
    parts = [text.partition(".") for text in spelled]
    return {f"{imported[base]}{dot}{rest}" for base, dot, rest in parts if base in imported}


def used(text: str) -> set[str]:
    found = paths(text)
    return {name for name in NOT_PLAIN for path in found if path == name or path.startswith(name + ".")}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_imports_torch_and_earlier_chapters_compiles_nothing_and_names_no_device(chapter):
    text = chapter.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        roots = []
        if isinstance(node, ast.Import):
            roots = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            roots = [node.module.partition(".")[0]]
        elif isinstance(node, ast.ImportFrom):
            assert re.fullmatch(r"ch\d\d_\w+", node.module) and node.module < chapter.stem, f"line {node.lineno} imports {node.module}"
        assert {"torch", *sys.stdlib_module_names}.issuperset(roots), f"line {node.lineno} imports {roots}"
    assert not used(text)
    assert not re.search(r"""["']cuda|["']mps""", text)


def test_what_is_not_plain_is_seen():
    assert used("import torch\nmodel = torch.compile(model)") == {"torch.compile"}
    assert used("import torch.jit as j\n@j.script\ndef f(x): return x") == {"torch.jit"}
