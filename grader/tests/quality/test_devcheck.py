"""dev-check notices each thing that can go wrong with an exercise, in a copy of the kit in which it went wrong."""

import json
import re
import tomllib

import pytest
from grader.course.known_mistakes import variants
from grader.course.syllabus import load_syllabus
from grader.tests.quality.devcheck import invariants
from grader.tests.quality.devcheck.subjects import TRIVIAL_KINDS, subjects, trivial_code

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


def edit(path, old, new, after=""):
    """Replace the first `old` in the file, or the first one behind the text `after`."""
    text = path.read_text(encoding="utf-8")
    start = text.index(old, text.index(after))
    path.write_text(text[:start] + new + text[start + len(old) :], encoding="utf-8")


NO_EXERCISE = '[no_exercise.another]\nreplace = "a"\nwith = "b"\nsays = "c"\nhint = "d"\n'


def test_the_files_of_the_course_keep_the_rules():
    """What dev-check finds without running code. Stubs, pictures and the table of chapters are checked elsewhere."""
    course = load_syllabus()
    found = [sentence for chapter in course.chapters for sentence in invariants.of_chapter(chapter)]
    found += [sentence for exercise in course.exercises for sentence in invariants.of_exercise(exercise)]
    assert not found, "\n".join(found)


def test_every_weakness_of_a_suite_is_reported(kit):
    """Of merge_heads, with a suite that checks only shapes, two hints, and one variant, which is wrong."""
    (kit.root / "tests" / "test_ch03_attention_heads.py").write_text(WEAK_SUITE, encoding="utf-8")
    syllabus = kit.exercises / "syllabus.toml"
    text = syllabus.read_text(encoding="utf-8")
    start = text.index("hints = [", text.index('name = "merge_heads"'))
    hints = text[start : text.index("]\n", start) + 2]
    edit(syllabus, hints, 'hints = ["one", "x.transpose(1, 2).flatten(2)"]\n', 'name = "merge_heads"')
    wrong = kit.root / "tests" / "variants" / "ch03_attention" / "merge_heads.py"
    wrong.write_text("# variant: forgets to merge\ndef merge_heads(x):\n    return x\n", encoding="utf-8")
    catalogue = kit.root / "tests" / "misconceptions" / "ch03_attention.toml"
    catalogue.write_text(catalogue.read_text(encoding="utf-8") + NO_EXERCISE, encoding="utf-8")
    said = kit.run("dev-check", "merge_heads", status=1)
    assert re.search(r"is not caught \(seed 0, in process\); `python -m grader.tests.quality.proof examples merge_heads` chooses", said)
    assert "is trivial code and earns" in said
    assert "the variant `forgets to merge` is correct and gets" in said
    assert "it has 2 hints" in said and "hint 2 contains code of the reference, `x.transpose(1, 2).flatten(2)`" in said
    assert "· merge_heads has 1 variants in tests/variants/ch03_attention/merge_heads.py; 3 are usual" in said
    assert "tests/misconceptions/ch03_attention.toml: this chapter has no exercise no_exercise" in said


def test_what_a_new_exercise_lacks_is_said_at_once(kit):
    words = 'points = 3\npromise = "p"\nwhy = "w"\nunlocks = "u"\nhints = ["a", "b", "c"]\n\n'
    entry = '[[chapter.exercise]]\nname = "split_heads"'
    edit(kit.exercises / "syllabus.toml", entry, f'[[chapter.exercise]]\nname = "flip"\n{words}{entry}')
    said = kit.run("dev-check", "flip", status=1)
    assert "✗ ch03: no paragraph of exercises/ch03_attention.md begins with **`flip`**" in said
    assert "✗ flip: solutions/ch03_attention.py does not define it; write it, then run `headway stubs`" in said
    assert '✗ flip: no test in tests/test_ch03_attention_SUBJECT.py is marked @exercise("flip")' in said
    assert "✗ flip: 0 known mistakes in tests/misconceptions/ch03_attention.toml; at least 3" in said
    assert "· flip has 0 variants in tests/variants/ch03_attention/flip.py; 3 are usual, and may follow" in said
    assert "4 promises broken" in said


@pytest.mark.thorough
def test_three_known_mistakes_are_enough_and_variants_and_attempts_may_follow(kit):
    catalogue = kit.root / "tests" / "misconceptions" / "ch03_attention.toml"
    head, *entries = re.split(r"(?m)^(?=\[)", catalogue.read_text(encoding="utf-8"))
    own = [entry for entry in entries if entry.startswith("[merge_heads.")]
    catalogue.write_text(head + "".join(entry for entry in entries if entry not in own[3:]), encoding="utf-8")
    promises = kit.root / "tests" / "promises" / "ch03_attention.toml"
    table = "\n".join(f'{json.dumps(key)} = "a reason"' for key in tomllib.loads(promises.read_text(encoding="utf-8"))["merge_heads"])
    promises.write_text(re.sub(r"(?ms)^\[merge_heads\]\n.*?(?=^\[|\Z)", lambda _: f"[merge_heads]\n{table}\n\n", promises.read_text(encoding="utf-8")), encoding="utf-8")
    (kit.root / "tests" / "variants" / "ch03_attention" / "merge_heads.py").unlink()
    (kit.root / "grader" / "tests" / "field" / "ch03.toml").unlink()
    said = kit.run("dev-check", "merge_heads")
    assert "· merge_heads has 0 variants" in said
    assert "· merge_heads has no attempts in grader/tests/field/ch03.toml" in said
    assert re.search(r"`merge_heads` +\| +\d+ \| +3/3 \| +3/3 \| +0/0 \|", said) and "every promise holds" in said
    catalogue.write_text(head + "".join(entry for entry in entries if entry not in own[2:]), encoding="utf-8")
    said = kit.run("dev-check", "merge_heads", status=1)
    assert "2 known mistakes in tests/misconceptions/ch03_attention.toml; at least 3" in said


def test_a_catalogue_that_cannot_be_used_is_reported(kit):
    catalogue = kit.root / "tests" / "misconceptions" / "ch03_attention.toml"
    text = catalogue.read_text(encoding="utf-8")
    known = re.search(r"^\[merge_heads\.(\w+)\]", text, re.MULTILINE)[1]
    edit(catalogue, "replace = ", 'replace = "no such code"\n# ', "[merge_heads.")
    said = kit.run("dev-check", "merge_heads", status=1)
    assert "its `replace` occurs 0 times in merge_heads, where it should occur once" in said
    for lines, says in ((f"[merge_heads.{known}]\n", "Cannot declare"), ('[merge_heads.another]\nreplace = "a"\n', "[merge_heads.another] should hold the texts")):
        catalogue.write_text(f"{text}\n{lines}", encoding="utf-8")
        said = kit.run("dev-check", "merge_heads", status=1)
        assert "tests/misconceptions/ch03_attention.toml" in said and says in said


def test_every_sentence_of_a_docstring_has_a_known_mistake_or_a_reason(kit):
    promises = kit.root / "tests" / "promises" / "ch03_attention.toml"
    text = promises.read_text(encoding="utf-8")
    key, answer = next(iter(tomllib.loads(text)["merge_heads"].items()))
    edit(promises, f"{json.dumps(key, ensure_ascii=False)} = ", '"A sentence of no docstring" = ["no_mistake"]\n# ', "[merge_heads]")
    said = kit.run("dev-check", "merge_heads", status=1)
    assert f"merge_heads: tests/promises/ch03_attention.toml names no known mistake that breaks `{key}" in said
    assert "no sentence of its docstring or of the rules begins with `A sentence of no docstring`" in said
    assert "`A sentence of no docstring` names no_mistake, which is no known mistake of it" in said


@pytest.mark.thorough
def test_an_error_that_must_name_a_value_is_promised(kit):
    promise = "Raises a ValueError that names D and n_heads if n_heads does"
    edit(kit.root / "solutions" / "ch03_attention.py", promise, "Raises ValueError if n_heads does")
    said = kit.run("dev-check", "split_heads", status=1)
    assert "split_heads: a test expects an error to name a value, but the docstring does not promise it" in said


def test_zeros_reach_what_a_generator_yields():
    space = {"__name__": "trivial"}
    text = trivial_code("def pieces():\n    yield 'a'\n    yield 2.0", "pieces", "zeros")
    exec(compile(text, "trivial", "exec"), space)
    assert list(space["pieces"]()) == ["", 0.0]


def test_a_suite_is_tried_on_implementations_of_every_kind():
    exercise = load_syllabus().exercise("softmax")
    kinds = [subject.kind for subject in subjects(exercise)]
    assert kinds.count("stub") == kinds.count("reference") == 1 and kinds.count("trivial") == len(TRIVIAL_KINDS)
    assert kinds.count("mistake") >= 3 and kinds.count("variant") == len(variants(exercise.module, exercise.name)) >= 3


def test_ten_tenths_are_all_known_mistakes():
    exercise = load_syllabus().exercise("softmax")
    tenths = [[each.name for each in subjects(exercise, tenth) if each.kind == "mistake"] for tenth in range(1, 11)]
    assert sorted(sum(tenths, [])) == sorted(each.name for each in subjects(exercise) if each.kind == "mistake")
    assert max(map(len, tenths)) - min(map(len, tenths)) <= 1
