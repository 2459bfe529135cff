"""A learner's chapter with some of its definitions replaced by the reference's."""

from __future__ import annotations

import inspect
import textwrap
import traceback
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from grader.course.chapter_source import ChapterSource
from grader.course.source import definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage, replacement_module
from grader.execution.target import (
    Target,
    is_reference_definition,
    package_sources,
    reference_definitions,
    reference_of,
    replaceable,
    resolve,
    uses,
)

REFERENCE = ChapterSource("ch01_one", textwrap.dedent('''
    """Doc."""

    from __future__ import annotations

    FACTOR = 2

    def double(x):
        """Doc."""
        return FACTOR * x

    def quadruple(x):
        return double(double(x))

    class Base:
        def value(self):
            return quadruple(1)

    def fail(x):
        raise ValueError("the reference refuses")
'''), "solutions/ch01_one.py")  # fmt: skip

LEARNER = textwrap.dedent('''
    """A learner's chapter."""
    from __future__ import annotations
    from functools import partial

    def double(x):
        return 3 * x

    twice = double
    half = partial(double, 1)

    class Base:
        def value(self):
            return -1

    class Child(Base):
        def value(self):
            return super().value() + 1

    def with_default(x, f=double):
        return f(x)

    def fail(x):
        pass

    def calls_fail(x):
        y = x
        return fail(y)
''')


@pytest.fixture
def package_of():
    made = []

    def make(text: str, *names: str):
        sources = [ChapterSource("ch01_one", text, "mine/ch01_one.py", replaced=names), reference_definitions(REFERENCE, names)]
        made.append(ChapterPackage(sources))
        return made[-1]

    yield make
    for package in made:
        package.close()


def test_everything_that_is_defined_later_uses_the_replaced_definition(package_of):
    module = package_of(LEARNER, "Base", "double").module("ch01_one")
    assert (module.double(1), module.twice(1), module.half(), module.with_default(1)) == (2, 2, 2, 2)
    assert module.Child().value() == 5


@pytest.mark.parametrize(("outer", "after"), [("if True:", ""), ("try:", "except ImportError:\n    raise\n"), ("if not [1]:\n    pass\nelse:", "")])
def test_below_an_if_too_everything_that_is_defined_later_uses_the_replaced_definition(package_of, outer, after):
    head, body = LEARNER.split("from functools", 1)
    inside = head + outer + "\n" + textwrap.indent("from functools" + body, "    ") + after
    package = package_of(inside, "Base", "double")
    module = package.module("ch01_one")
    assert (module.double(1), module.twice(1), module.half(), module.with_default(1)) == (2, 2, 2, 2)
    assert module.Child().value() == 5
    line = inside.splitlines().index("    def with_default(x, f=double):") + 1
    assert module.with_default.__code__.co_firstlineno == line, "the learner's lines keep their numbers"


@pytest.mark.parametrize(
    "binding",
    [
        "globals()['double'] = three\n", "globals().update(double=three)\n", "for name in ['double']:\n    globals()[name] = three\n",
        "import sys\nif sys.maxsize == 1:\n    double = three\nelse:\n    double = three\n",
        "match three:\n    case double:\n        pass\n", "for double in [three]:\n    pass\n",
        "def start():\n    global double\n    double = three\nstart()\n",
    ],
)  # fmt: skip
def test_what_is_called_later_uses_the_replaced_definition_however_its_name_is_bound(package_of, binding):
    text = f"__all__ = ['double']\ndef three(x): return 3 * x\n{binding}def calls(x): return double(x)\n"
    module = package_of(text, "double").module("ch01_one")
    assert (module.double(4), module.calls(4)) == (8, 8)


def test_a_missing_definition_can_be_used_by_the_first_statement(package_of):
    module = package_of('"""Doc."""\nfrom __future__ import annotations\nclass Child(Base):\n    pass\n', "Base").module("ch01_one")
    assert module.Child().value() == 4 and module.__doc__ == "Doc."
    assert package_of("", "double").module("ch01_one").double(4) == 8
    assert package_of("twice = double\n__all__ = ['double']\n", "double").module("ch01_one").twice(4) == 8


def test_every_way_to_bind_a_name_is_replaced(package_of):
    for text in (
        "if True:\n    def double(x): return 3 * x\n", "from operator import neg as double\n", "double: object = None\n",
        "from math import *\ndouble = 3\nfrom math import *\n", "try:\n    double = 1\nexcept ValueError as double:\n    pass\n", "(double := 3)\n",
    ):  # fmt: skip
        assert package_of(text, "double").module("ch01_one").double(4) == 8


def test_lines_and_sources_of_the_learner_stay_and_no_line_of_the_reference_is_shown(package_of, tmp_path):
    path = tmp_path / "ch01_one.py"
    path.write_text(LEARNER)
    source = ChapterSource("ch01_one", LEARNER, str(path), replaced=("Base", "fail"))
    package = ChapterPackage([source, reference_definitions(REFERENCE, ("Base", "fail"))])
    module = package.module("ch01_one")
    assert inspect.getsource(module.with_default) == "def with_default(x, f=double):\n    return f(x)\n"
    assert inspect.getsource(module.Child).startswith("class Child(Base):")
    with pytest.raises(ValueError, match="refuses") as raised:
        module.calls_fail(1)
    frames = traceback.extract_tb(raised.value.__traceback__)[1:]
    assert [(frame.name, frame.line) for frame in frames] == [("calls_fail", "return fail(y)"), ("fail", "")]
    assert frames[0].lineno == LEARNER.splitlines().index("    return fail(y)") + 1
    package.close()


def test_only_what_the_replaced_names_use_is_in_the_package(package_of):
    package = package_of(LEARNER, "double")
    package.module("ch01_one")
    found = vars(package.module(replacement_module("ch01_one")))
    assert {"FACTOR", "double"} <= found.keys() and not {"quadruple", "Base", "fail"} & found.keys()
    assert b"refuses" not in reference_definitions(REFERENCE, ("double",)).code


def test_what_needs_the_judged_exercise_is_not_replaced():
    assert replaceable(REFERENCE, ["double", "quadruple", "Base", "missing"], {"double"}) == ()
    assert replaceable(REFERENCE, ["double", "quadruple", "Base", "missing"], {"quadruple"}) == ("double",)
    chapter = reference_of("ch03_attention")
    assert "softmax" in replaceable(chapter, ["softmax", "MultiHeadAttention"], {"scaled_dot_product_attention"})
    assert replaceable(chapter, ["MultiHeadAttention"], {"softmax"}) == ()


def test_a_definition_is_compared_with_the_references_without_its_comments():
    reference = reference_of("ch03_attention")
    names = frozenset({"softmax", "scaled_dot_product_attention", "MultiHeadAttention"})
    text = reference.text.replace("    exps = torch.exp(x - largest)", "    # mine\n    exps = torch.exp(x - largest)\n")
    assert all(is_reference_definition(text, reference, name, names) for name in names)
    changed = text.replace("torch.exp(x - largest)", "torch.exp(x)")
    assert not is_reference_definition(changed, reference, "softmax", names)
    assert is_reference_definition(changed, reference, "scaled_dot_product_attention", names), "other exercises are judged themselves"
    assert not is_reference_definition(changed, reference, "scaled_dot_product_attention", frozenset()), "helpers belong to the definition"


def test_a_definition_with_an_alternative_is_not_the_references():
    reference = reference_of("ch03_attention")
    softmax = definition(reference.text, "softmax").text
    both = "if True == 1:\n    def softmax(x, dim=-1): return x\nelse:\n" + textwrap.indent(softmax, "    ")
    names = frozenset({"softmax"})
    assert not is_reference_definition(replace_definition(reference.text, "softmax", both), reference, "softmax", names)
    below = "if True:\n" + textwrap.indent(softmax, "    ")
    assert is_reference_definition(replace_definition(reference.text, "softmax", below), reference, "softmax", names)
    assert not is_reference_definition("x = 1\ndel x\ndef softmax(): return x\n", reference, "softmax", names)


def test_parameters_and_attributes_are_not_uses_of_an_exercise():
    text = textwrap.dedent('''
        def softmax(x): ...
        def dropout(x): ...
        def mask(x): ...
        class Layer:
            def __init__(self, dropout=0.0):
                self.dropout = dropout
                self.mask = [mask for mask in ()]
            def forward(self, x):
                return self.dropout(_scores(x))
        def _scores(x):
            return softmax(x)
    ''')
    used = uses(Target("mine", None, {"ch03_attention": text}), "ch03_attention", "Layer")
    assert used == {("ch03_attention", name) for name in ("Layer", "softmax", "_scores")}


def test_what_a_definition_uses_is_found_through_chapters_and_other_names(tmp_path):
    used = {name for chapter, name in uses(resolve("solutions"), "ch03_attention", "split_qkv") if chapter == "ch03_attention"}
    assert "MultiHeadAttention" in used and "fuse_qkv" not in used
    used = uses(resolve("solutions"), "ch10_kv_cache", "CachedSelfAttention")
    assert {("ch03_attention", "softmax"), ("ch04_positions_in_attention", "apply_rope")} <= used
    (tmp_path / "ch03_attention.py").write_text("def softmax(x): ...\nnormal = softmax\ndef unused(x): ...\n")
    (tmp_path / "ch06_blocks.py").write_text("from .ch03_attention import normal as n\ndef mix(x): return n(x)\nclass Block:\n    f = mix\n")
    used = uses(resolve(str(tmp_path)), "ch06_blocks", "Block")
    assert used == {("ch06_blocks", "Block"), ("ch06_blocks", "mix"), ("ch03_attention", "normal"), ("ch03_attention", "softmax")}


@pytest.mark.parametrize(("spoiled", "following"), [("ch01_tokenizer", ()), ("ch05_layers", ("ch06_blocks", "ch07_models"))])
def test_with_whole_a_broken_chapter_breaks_what_builds_on_it(tmp_path, spoiled, following):
    """Every chapter of the package is then the learner's; without it, all others are the reference's."""
    chapters = [chapter for chapter in load_syllabus().chapters if chapter.number <= 7]
    for chapter in chapters:
        text = "raise ValueError('mine')\n" if chapter.name == spoiled else reference_of(chapter.name).text
        (tmp_path / f"{chapter.name}.py").write_text(text)
    target = resolve(str(tmp_path))
    for chapter in [chapter for chapter in chapters if chapter.name != spoiled]:
        for whole in (True, False):
            sources = package_sources(target, chapter, whole)
            assert all(Path(source.filename).parent == tmp_path for source in (sources if whole else sources[:1]))
            with closing(ChapterPackage(sources, "whole")) as package:
                with pytest.raises(ValueError, match="mine") if whole and chapter.name in following else nullcontext():
                    package.module(chapter.name)
