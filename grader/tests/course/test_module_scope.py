"""What a chapter defines, in each way in which Python can bind a name when it imports a module."""

from __future__ import annotations

import pytest
from grader.course.chapter_source import bindings, scope_statements
from grader.course.source import (
    definition,
    find_definition,
    find_statement,
    is_written,
    module_names,
    outline,
    parse,
    replace_definition,
)
from grader.course.stubs import is_stub, reference_stub
from grader.course.syllabus import load_syllabus
from grader.execution.names_used import code_of, names_reached, names_used, reachable

STUB = 'def causal_mask(T, *, device=None):\n    """Words."""\n    raise NotImplementedError\n\n\n'
WRITTEN = {
    "if True": "if True:\n    def causal_mask(T): return _tri(T)\n",
    "if 0: else": "if 0:\n    def causal_mask(T): raise NotImplementedError\nelse:\n    def causal_mask(T): return _tri(T)\n",
    "one branch is not written": "import sys\nif sys.maxsize > 1:\n    def causal_mask(T): return _tri(T)\nelse:\n    def causal_mask(T): raise NotImplementedError\n",
    "elif": "import sys\nif sys.maxsize == 1: pass\nelif sys.maxsize > 1:\n    class causal_mask(_Base): pass\n",
    "try": "try:\n    import missing\n    causal_mask = missing.mask\nexcept ImportError:\n    def causal_mask(T): return _tri(T)\n",
    "try with raise": "try:\n    def causal_mask(T): return _tri(T)\nexcept ImportError:\n    raise\n",
    "finally": "try:\n    pass\nfinally:\n    def causal_mask(T): return _tri(T)\n",
    "with": "import contextlib\nwith contextlib.nullcontext():\n    def causal_mask(T): return _tri(T)\n",
    "for": "for size in (1, 2):\n    def causal_mask(T, size=size): return _tri(T)\n",
    "for as target": "for causal_mask in (_tri,):\n    pass\n",
    "while": "while True:\n    def causal_mask(T): return _tri(T)\n    break\n",
    "match": "match 1:\n    case 1:\n        def causal_mask(T): return _tri(T)\n",
    "nested": "if True:\n    try:\n        if True:\n            def causal_mask(T): return _tri(T)\n    except ValueError:\n        pass\n",
    "lambda": "causal_mask = lambda T: _tri(T)\n",
    "on one line": "if True: causal_mask = _tri\n",
    "partial": "import functools\ncausal_mask = functools.partial(_tri)\n",
    "alias": "causal_mask = _tri\n",
    "annotated": "causal_mask: object = _tri\n",
    "walrus": "(causal_mask := _tri)\n",
    "several": "causal_mask, other = _tri, _tri\n",
    "decorator": "import functools\n@functools.lru_cache\ndef causal_mask(T): return _tri(T)\n",
    "wrapped": "def _other(f): return _tri\n@_other\ndef causal_mask(T): return _tri(T)\n",
    "import": "from builtins import abs as causal_mask\n",
    "class by type": "causal_mask = type('causal_mask', (_Base,), {})\n",
    "globals": "globals()['causal_mask'] = _tri\n",
    "globals in a loop": "for name in ('causal_mask', 'other'):\n    globals()[name] = _tri\n",
    "globals by keyword": "globals().update(causal_mask=_tri)\n",
    "a register": "def _register(name): return lambda f: globals().update({name: f})\n@_register('causal_mask')\ndef _mask(T): return _tri(T)\n",
    "sys.modules": "import sys\nsetattr(sys.modules.get(__name__) or _Base, 'causal_mask', _tri)\n",
    "replaced later": "def causal_mask(T): raise NotImplementedError\ndef causal_mask(T): return _tri(T)\n",
    "raises in a branch": "def causal_mask(T):\n    if T < 0:\n        raise NotImplementedError\n    return _tri(T)\n",
    "raise was left behind a return": "def causal_mask(T):\n    return _tri(T)\n    raise NotImplementedError\n",
}
BEFORE = "class _Base: pass\ndef _tri(T): return T\n"
NOT_WRITTEN = {
    "stub": STUB,
    "stub below if": "if True:\n    def causal_mask(T): raise NotImplementedError\n",
    "stub below try": "try:\n    def causal_mask(T): raise NotImplementedError\nexcept ImportError: pass\n",
    "stub in both branches": "if T:\n    def causal_mask(T): raise NotImplementedError\nelse:\n    def causal_mask(T): raise NotImplementedError\n",
    "the stub comes later": "def causal_mask(T): return T\nif True:\n    def causal_mask(T): raise NotImplementedError\n",
    "class": "if True:\n    class causal_mask:\n        def forward(self): raise NotImplementedError\n",
    "async": "async def causal_mask(T): raise NotImplementedError\n",
    "property": "class causal_mask:\n    @property\n    def value(self): raise NotImplementedError\n",
    "missing": "x = 1\n",
    "deleted": "causal_mask = 1\ndel causal_mask\n",
    "local": "def f():\n    def causal_mask(T): return T\n",
    "a method": "class A:\n    if True:\n        def causal_mask(T): return T\n",
    "only when it is run": "if __name__ == '__main__':\n    def causal_mask(T): return T\n",
    "never": "if False:\n    def causal_mask(T): return T\n",
    "in a comprehension": "[causal_mask for causal_mask in ()]\n",
}


@pytest.mark.parametrize("way", WRITTEN)
def test_a_definition_counts_in_each_way_in_which_python_binds_its_name(way):
    text, found = BEFORE + WRITTEN[way], {"__name__": "chapter"}
    if way != "sys.modules":
        exec(text, found)
        assert "causal_mask" in found, "Python itself says that the name is there"
    exercise = load_syllabus().exercise("causal_mask")
    assert is_written(text, "causal_mask") and find_definition(text, "causal_mask")
    assert not is_stub(exercise, text)
    line = text.splitlines()[definition(text, "causal_mask").line - 1]
    assert "causal_mask" in line or "_tri" in line or "name in" in line
    for indent, wrapped in (("if", "if True:\n"), ("try", "try:\n")):  # the whole file
        inside = wrapped + "".join(f"    {line}\n" for line in text.splitlines())
        inside += "except ImportError:\n    raise\n" if indent == "try" else ""
        assert is_written(inside, "causal_mask") and not is_stub(exercise, inside)


@pytest.mark.parametrize("way", NOT_WRITTEN)
def test_what_is_not_written_stays_so(way):
    text = NOT_WRITTEN[way]
    assert not is_written(text, "causal_mask")
    assert not is_written("try:\n" + "".join(f"    {line}\n" for line in text.splitlines()) + "finally: pass\n", "causal_mask")


def test_each_stub_is_a_stub_also_below_if_and_try():
    for chapter in load_syllabus().chapters:
        text = reference_stub(chapter.name)
        for exercise in chapter.exercises:
            stub = find_definition(text, exercise.name).text
            for outer, after in (("if True:", ""), ("try:", "except ImportError:\n    raise\n")):
                inside = f"{outer}\n" + "".join("    " + line for line in stub.splitlines(keepends=True)) + after
                assert is_stub(exercise, text) and is_stub(exercise, inside) and not is_written(inside, exercise.name)
                assert not is_stub(exercise, inside + f"globals()[{exercise.name!r}] = print\n")


def test_names_are_followed_into_branches_and_each_definition_uses_its_own():
    text = "if True:\n    def a(x): return b(x)\n    def b(x): return x\n    if x:\n        def c(x): return a(x)\n    else:\n        def c(x): return d(x)\n    def d(x): return x\n"
    known = names_used(text)
    found = {name: {there for _, there in reachable([("", name)], {"": known}.get)} for name in "abcd"}
    assert found == {"a": {"a", "b"}, "b": {"b"}, "c": {"a", "b", "c", "d"}, "d": {"d"}}
    assert names_reached(known, "a") == {"b", "x"}
    assert code_of(text, "a") != code_of(text.replace("def b(x): return x", "def b(x): return -x"), "a")
    assert code_of(text, "a") == code_of(text.replace("def d(x): return x", "def d(x): return -x"), "a")
    assert code_of(text, "b") != code_of(text.replace("if x:", "if y:"), "b"), "a condition decides what is defined"


def test_the_statements_of_the_scope_come_in_order_and_once():
    text = "a = 1\ntry:\n    b = 2\nexcept E:\n    c = 3\nfinally:\n    d = 4\nif True:\n    def f():\n        e = 5\n"
    assert [type(node).__name__ for node in scope_statements(parse(text).body)] == ["Assign", "Try", "Assign", "Assign", "Assign", "If", "FunctionDef"]
    assert module_names(text) == {"a", "b", "c", "d", "f"}
    assert [node.lineno for node in bindings(parse("x = 1\nif y:\n    x = 2\nelif z:\n    x = 3\n"))["x"]] == [1, 3, 5]
    assert [node.lineno for node in bindings(parse("x = 1\nif y:\n    x = 2\nelse:\n    x = 3\n"))["x"]] == [3, 5]
    assert find_statement("if y:\n    x = 2\nelse:\n    x = 3\n", "x").lineno == 4


NESTED = '''import torch

if True:
    # about f:
    @decorated
    def f(x):
        """First.

    Second, further left.
        """
        return """
  text"""

    y = 1
'''


def test_the_text_of_a_nested_definition_is_as_at_the_left_margin():
    segment = definition(NESTED, "f")
    assert (segment.start, segment.end, segment.line, segment.indent) == (4, 12, 6, "    ")
    lines = segment.text.splitlines()
    assert lines[:3] == ["# about f:", "@decorated", "def f(x):"] and lines[-2:] == ['    return """', '  text"""']
    assert replace_definition(NESTED, "f", segment.text) == NESTED


def test_a_nested_definition_is_replaced_at_its_place_and_an_alternative_at_the_end():
    new = replace_definition(NESTED, "f", 'def f():\n    """A.\n\n  B"""\n    pass\n')
    assert '    def f():\n        """A.\n\n  B"""\n        pass\n\n    y = 1\n' in new
    for text in ("if y:\n    f = 1\nelse:\n    f = 2\n", "if True: f = 1\n", "from x import f, g\n", "globals()['f'] = 1\n"):
        replaced = replace_definition(text, "f", "def f(): pass\n")
        assert replaced.startswith(text) and definition(replaced, "f").text == "def f(): pass\n"


def test_the_outline_has_nested_definitions_also_while_the_text_is_not_python():
    text = "import a\nif True:\n    def f(x):\n        def inner(): pass\n        y = 1\n\n    # words\n    class G:\n        def forward(self): pass\nz = g(\n    w=2,\n)\n"
    wanted = {"f": range(2, 5), "G": range(7, 9), "z": range(9, 12)}
    assert {name: span for name, span in outline(text).items() if name != "a"} == wanted
    assert outline(text + "def broken(:\n") == wanted | {"broken": range(12, 13)}
