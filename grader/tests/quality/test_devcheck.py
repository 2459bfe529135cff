"""dev-check notices each thing that can go wrong with an exercise, in a copy of the kit in which it went wrong."""

import re
import subprocess
import sys

import pytest
from grader.course.source import definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.target import reference_of
from grader.quality.devcheck.degenerate import KINDS, degenerate
from grader.quality.devcheck.subjects import subjects, variants
from grader.quality.devcheck.table import Mutants, Row, for_a_page
from kit_copy import posix

WEAK_SUITE = '''
from grader.verdict.comparing import holds, shaped
from grader.runner.marks import exercise
from strategies import tensor


@exercise("merge_heads")
def test_merging_gives_a_tensor(learner, reference):
    """merge_heads gives a tensor of three axes."""
    shaped(learner.merge_heads(tensor(0, 2, 3, 5, 4)), (2, 5, 12), "the merged heads")


@exercise("merge_heads")
def test_merging_gives_something(learner, reference):
    """merge_heads gives something."""
    holds(True, "it should")
    learner.merge_heads(tensor(0, 2, 3, 5, 4))
'''


@pytest.fixture
def weak(kit):
    """A kit whose merge_heads has a suite that checks only shapes, a stale edit, two hints, and a variant that is wrong."""
    (kit.root / "tests" / "test_ch03_attention_heads.py").write_text(WEAK_SUITE, encoding="utf-8")
    syllabus = kit.exercises / "syllabus.toml"
    text = syllabus.read_text(encoding="utf-8")
    start = text.index('name = "merge_heads"')
    hints = text.index("hints = [", start)
    syllabus.write_text(text[:hints] + 'hints = ["one", "x.transpose(1, 2).flatten(2)"]\n' + text[text.index("]\n", hints) + 2 :], encoding="utf-8")
    wrong = kit.root / "tests" / "variants" / "ch03_attention" / "merge_heads.py"
    wrong.write_text("# variant: forgets to merge\ndef merge_heads(x):\n    return x\n", encoding="utf-8")
    return kit


def test_every_weakness_of_a_suite_is_reported(weak):
    said = weak.run("dev-check", "merge_heads", status=1)
    assert "is not caught" in said
    assert "is trivial code and earns" in said
    assert "the variant `forgets to merge` is correct and gets" in said
    assert "it has 2 hints" in said and "hint 2 contains code of the reference, `x.transpose(1, 2).flatten(2)`" in said
    assert "1 variants in tests/variants/ch03_attention/merge_heads.py; at least 3" in said
    assert "broken" in said


def test_an_edit_that_does_not_fit_is_reported(kit):
    catalogue = kit.root / "tests" / "misconceptions" / "ch03_attention.toml"
    text = catalogue.read_text(encoding="utf-8")
    start = text.index("[merge_heads.")
    line = text.index("replace = ", start)
    catalogue.write_text(text[:line] + 'replace = "no such code"\n' + text[text.index("with = ", line) :], encoding="utf-8")
    said = kit.run("dev-check", "merge_heads", status=1)
    assert "its `replace` occurs 0 times in merge_heads, where it should occur once" in said


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('[merge_heads.{known}]\nreplace = "a"\nwith = "b"\nsays = "c"\nhint = "d"\n', "Cannot declare"),
        ('[merge_heads.another]\nreplace = "a"\nwith = "b"\nsays = "c"\n', "[merge_heads.another] should hold the texts replace, with, says, hint"),
        ('[no_exercise.another]\nreplace = "a"\nwith = "b"\nsays = "c"\nhint = "d"\n', "this chapter has no exercise no_exercise"),
    ],
)
def test_a_catalogue_that_cannot_be_used_is_reported(kit, lines, says):
    catalogue = kit.root / "tests" / "misconceptions" / "ch03_attention.toml"
    text = catalogue.read_text(encoding="utf-8")
    known = re.search(r"^\[merge_heads\.(\w+)\]", text, re.MULTILINE)[1]
    catalogue.write_text(f"{text}\n{lines.format(known=known)}", encoding="utf-8")
    said = kit.run("dev-check", "merge_heads", status=1)
    assert "tests/misconceptions/ch03_attention.toml" in said and says in said and "Traceback" not in said


@pytest.mark.thorough
def test_an_error_that_must_name_a_value_is_promised(kit):
    solution = kit.root / "solutions" / "ch03_attention.py"
    text = solution.read_text(encoding="utf-8")
    promise = "Raises a ValueError that names D and n_heads if n_heads does"
    assert promise in text
    solution.write_text(text.replace(promise, "Raises ValueError if n_heads does"), encoding="utf-8")
    said = kit.run("dev-check", "split_heads", status=1)
    assert "split_heads: a test expects an error to name a value, but the docstring does not promise it" in said


@pytest.mark.thorough
def test_a_second_run_is_answered_from_the_cache(kit):
    first = kit.run("dev-check", "padding_mask")
    second = kit.run("dev-check", "padding_mask")
    table = [line for line in first.splitlines() if "padding_mask" in line]
    assert table and table == [line for line in second.splitlines() if "padding_mask" in line]
    assert list((kit.root / ".headway" / "devcheck").iterdir())
    page = kit.run("dev-check", "padding_mask", "--table").splitlines()
    name, tests, _, caught, named, variants, milliseconds = table[0].split()
    assert f"| `{name}` | {tests} | {caught} | {named} | {variants} | – | – | {milliseconds} |" in page[:5]
    assert [line.split(" | ")[0] for line in page[:5]] == ["| exercise", "| ---", "| **ch03 Attention**", "| `padding_mask`", "| **1 exercise**"]
    assert page[2].partition(" | ")[2] == page[3].partition(" | ")[2] == page[4].partition(" | ")[2]


@posix
@pytest.mark.thorough
def test_the_page_has_the_mutants_that_were_tried_on_these_sources(kit):
    def page():
        return kit.run("dev-check", "padding_mask", "causal_mask", "--table").splitlines()

    def cells(name):
        return next(line for line in page() if line.startswith(f"| `{name}` |")).split(" | ")[5:7]

    command = [sys.executable, "-m", "grader.quality.proof", "mutants", "padding_mask"]
    tried = subprocess.run(command, cwd=kit.root, env=kit.environment(), capture_output=True, text=True, encoding="utf-8", check=True).stdout
    total, caught, equivalent, _ = re.search(r"^  padding_mask +(\d+) +(\d+) +(\d+) +(\d+)$", tried, re.M).groups()
    assert cells("padding_mask") == [f"{caught}/{total}", equivalent]
    assert cells("causal_mask") == ["–", "–"]
    assert next(line for line in page() if "ch03 Attention" in line).split(" | ")[5:7] == ["–", "–"]
    assert any("`python -m grader.quality.proof mutants`" in line for line in page())
    suite = kit.root / "tests" / "strategies.py"
    suite.write_text(suite.read_text(encoding="utf-8") + "\nOTHER = 1\n", encoding="utf-8")
    assert cells("padding_mask") == ["–", "–"]


def test_the_mutants_of_a_chapter_are_added_up():
    one, other, unknown = (Row(exercise) for exercise in load_syllabus().chapter("ch03").exercises[:3])
    one.mutants, other.mutants = Mutants(9, 7, 2), Mutants(3, 3, 0)
    lines = for_a_page([one, other]).splitlines()
    assert [line.split(" | ")[5:7] for line in lines[2:]] == [["10/12", "2"], ["7/9", "2"], ["3/3", "0"], ["10/12", "2"]]
    assert [line.split(" | ")[5:7] for line in for_a_page([one, other, unknown]).splitlines()[2:7:4]] == [["–", "–"]] * 2


def test_an_unknown_name_gets_a_suggestion(kit):
    assert "did you mean padding_mask" in kit.run("dev-check", "pading_mask", status=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_degenerate_implementation_keeps_the_names(kind):
    for name in ("softmax", "MultiHeadAttention", "fuse_qkv"):
        space = {"__name__": "degenerate"}
        exec(compile(degenerate(reference_of("ch03_attention").text, name, kind), "degenerate", "exec"), space)
        assert name in space


def test_subjects_include_all_exercises_of_an_edit():
    exercise = load_syllabus().exercise("softmax")
    kinds = [subject.kind for subject in subjects(exercise)]
    assert kinds.count("stub") == kinds.count("reference") == 1
    assert kinds.count("mistake") >= 8 and kinds.count("variant") >= 3 and kinds.count("degenerate") == len(KINDS)
    assert len(variants(exercise)) == kinds.count("variant")


def test_a_replaced_definition_is_found_again():
    text = replace_definition(reference_of("ch03_attention").text, "softmax", "def softmax(x):\n    return x\n")
    assert "return x" in definition(text, "softmax").text
