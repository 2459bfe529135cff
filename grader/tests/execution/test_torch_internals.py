"""Private interfaces of torch are used in one module only."""

import ast

from grader.course.syllabus import ROOT

SENT = {  # its source is sent to the implementation's side, where only torch can be imported
    "grader/verdict/memory.py": ["torch.utils._python_dispatch", "torch.UntypedStorage._expired", "torch.UntypedStorage._free_weak_ref"],
}
ALLOWED = ROOT / "grader" / "course" / "torch_internals.py"
OF_OPERATORS = {"_op_dk", "_schema"}  # private attributes of torch's objects; no other object in the kit has them


def private_parts(text: str) -> list[str]:
    """Each use of a private name below `torch`, and each private module of torch that is imported."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            path = ast.unparse(node)
            below_torch = path.startswith("torch.") and node.attr.startswith("_") and not node.attr.endswith("__")
            if below_torch or node.attr in OF_OPERATORS:
                found.append(path)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [f"{node.module}.{alias.name}" for alias in node.names if _is_private(f"{node.module}.{alias.name}")]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if _is_private(alias.name)]
    return found


def _is_private(path: str) -> bool:
    root, *parts = path.split(".")
    return root == "torch" and any(part.startswith("_") and not part.endswith("__") for part in parts)


def test_only_one_module_uses_private_interfaces_of_torch():
    kit = [path for path in (ROOT / "grader").rglob("*.py") if "tests" not in path.relative_to(ROOT).parts and path != ALLOWED]
    assert len(kit) > 200
    assert {str(path.relative_to(ROOT)): found for path in kit if (found := private_parts(path.read_text(encoding="utf-8")))} == SENT


def test_a_private_interface_is_found():
    text = "import torch\nfrom torch.utils._python_dispatch import Mode\ntorch._C._nn.gelu(torch.__version__)\noverload._op_dk()\n"
    assert sorted(private_parts(text)) == ["overload._op_dk", "torch._C", "torch._C._nn", "torch.utils._python_dispatch.Mode"]
    assert len(private_parts(ALLOWED.read_text(encoding="utf-8"))) > 10
