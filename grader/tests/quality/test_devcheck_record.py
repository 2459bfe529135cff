"""The record of what dev-check found correct: its form, what a fingerprint depends on, and how it is used."""

import ast
import json
import re
import subprocess
import sys

import pytest
from grader.course.syllabus import ROOT, TESTS, load_syllabus
from grader.quality.devcheck.fingerprint import GRADER, PRINTING, deciding_files, meaning, suites_with
from grader.quality.devcheck.record import HEAD, RECORD, read_record

SUITE = '''
"""About heads."""
from grader.runner.marks import exercise


def three():
    """Three."""
    return 3  # heads


@exercise("split_heads", weight=2)
def test_split(learner):
    """It splits."""
    assert learner.split_heads(1) == three()


@exercise("merge_heads")
def test_merge(learner):
    assert learner.merge_heads(1) == 1
'''


def test_the_record_has_the_form_that_dev_check_writes():
    record = read_record()
    assert set(record) <= {exercise.name for exercise in load_syllabus().exercises}
    assert all(re.fullmatch("[0-9a-f]{32}", value) for value in record.values())
    if RECORD.exists():
        lines = [f'{exercise.name} = "{record[exercise.name]}"\n' for exercise in load_syllabus().exercises if exercise.name in record]
        assert RECORD.read_text(encoding="utf-8") == HEAD + "".join(lines)


def test_comments_docstrings_and_layout_mean_nothing():
    other = SUITE.replace("About heads", "Of heads").replace("  # heads", "").replace('    """It splits."""\n', "").replace("\n\n\n", "\n\n")
    assert other != SUITE and meaning(other, "split_heads") == meaning(SUITE, "split_heads")


def test_a_helper_and_an_exercises_own_test_mean_something():
    for old, new in (("return 3", "return 4"), ("split_heads(1)", "split_heads(2)"), ("weight=2", "weight=3"), ("test_split(learner)", "test_split()")):
        assert meaning(SUITE.replace(old, new), "split_heads") != meaning(SUITE, "split_heads")


def test_the_test_of_another_exercise_means_nothing_to_this_one():
    other = SUITE.replace("merge_heads(1) == 1", "merge_heads(2) == 2")
    assert meaning(other, "split_heads") == meaning(SUITE, "split_heads")
    assert meaning(other, "merge_heads") != meaning(SUITE, "merge_heads")


def test_an_exercises_suites_are_found():
    found = {path for exercise in load_syllabus().exercises for path in suites_with(exercise)}
    assert found == set(TESTS.glob("test_ch*.py"))
    assert all(suites_with(exercise) for exercise in load_syllabus().exercises)


def test_results_depend_on_no_other_room():
    """Modules that decide results import only others that decide, that print, or that carry files, jobs and results."""
    for name in PRINTING:
        assert (GRADER / name).exists(), name
    deciding = {path.relative_to(GRADER).as_posix() for path in deciding_files()}
    assert "course/torch_operators.toml" in deciding and "execution/host.py" in deciding and not any(name.startswith("classroom") for name in deciding)
    known = {*deciding, *PRINTING, "files.py", "version.py", "processes/job.py", "processes/report.py"}
    checks = ("quality/devcheck/check.py", "quality/devcheck/pool.py")  # they start the trials and classify them; their other imports are not checked
    for path in deciding_files():
        if path.suffix != ".py" or path.relative_to(GRADER).as_posix() in checks:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grader."):
                names = [ROOT.joinpath(*node.module.split("."), alias.name) for alias in node.names]
                module = next((p.with_suffix(".py") for p in names if p.with_suffix(".py").is_file()), ROOT.joinpath(*node.module.split(".")))
                module = module if module.suffix else module.with_suffix(".py") if module.with_suffix(".py").is_file() else module / "__init__.py"
                found = module.relative_to(GRADER).as_posix()
                assert found in known or any(found.startswith(f"{name}/") for name in PRINTING), f"{path}: {found}"


@pytest.mark.thorough
def test_correct_exercises_are_recorded_and_not_tried_again_until_they_change(kit):
    record = kit.root / "tests" / "checked.toml"
    record.unlink(missing_ok=True)
    assert "1 exercise, one seed: every promise holds" in kit.run("dev-check", "causal_mask", "--changed")
    assert record.read_text(encoding="utf-8").count("causal_mask = ") == 1
    export = kit.root / "grader" / "classroom" / "exports" / "gradescope.py"
    export.write_text(export.read_text(encoding="utf-8") + "\nOTHER = 1\n", encoding="utf-8")
    assert "1 unchanged since tests/checked.toml was written and not tried: every promise holds" in kit.run("dev-check", "causal_mask", "--changed")
    wrong = kit.root / "tests" / "variants" / "ch03_attention" / "causal_mask.py"
    wrong.write_text(wrong.read_text(encoding="utf-8") + "\n# variant: wrong\ndef causal_mask(length):\n    return length\n", encoding="utf-8")
    said = kit.run("dev-check", "causal_mask", "--changed", status=1)
    assert "the variant `wrong` is correct and gets" in said and "not tried" not in said
    assert "causal_mask" not in record.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_an_exercise_with_a_broken_promise_is_not_recorded(kit):
    record, syllabus = kit.root / "tests" / "checked.toml", kit.exercises / "syllabus.toml"
    text = syllabus.read_text(encoding="utf-8")
    start = text.index('why = "', text.index('name = "causal_mask"'))
    syllabus.write_text(text[:start] + 'why = ""' + text[text.index("\n", start) :], encoding="utf-8")
    assert "its `why` in the syllabus is empty" in kit.run("dev-check", "causal_mask", status=1)
    assert "causal_mask" not in record.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_change_of_the_reference_concerns_only_the_exercises_that_reach_it(kit):
    def fingerprints() -> dict[str, str]:
        names = ("causal_mask", "softmax", "MultiHeadAttention", "GPT", "gelu", "top_p_filter")
        ask = (
            "import json; from grader.course.syllabus import load_syllabus; from grader.quality.devcheck.fingerprint import fingerprint\n"
            f"print(json.dumps({{name: fingerprint(load_syllabus().exercise(name)) for name in {names}}}))"
        )
        done = subprocess.run([sys.executable, "-c", ask], cwd=kit.root, env=kit.environment(), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def changed_by(old: str, new: str) -> set[str]:
        path = kit.root / "solutions" / "ch03_attention.py"
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        after = fingerprints()
        path.write_text(text, encoding="utf-8")
        return {name for name, value in before.items() if after[name] != value}

    before = fingerprints()
    assert changed_by("def softmax(", "def unused_filter(x):\n    return x\n\n\ndef softmax(") == set()
    assert changed_by("largest = x.amax", "largest = 0 + x.amax") == {"softmax", "MultiHeadAttention", "GPT", "top_p_filter"}
    assert changed_by("import math", "import math\nmath.tau") == before.keys()
