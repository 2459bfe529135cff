"""The record of what dev-check found correct: its form, what a fingerprint depends on, and how it is used."""

import ast
import json
import re
import subprocess
import sys

import pytest
from grader.course.syllabus import ROOT, load_syllabus
from grader.quality.devcheck.record import DECIDING, HEAD, RECORD, deciding_files, read_record

NOT_DECIDING = ("files.py", "version.py", "processes/", "reproduction/", "teaching/show/catalog.py")


def test_the_record_has_the_form_that_dev_check_writes():
    record, names = read_record(), [exercise.name for exercise in load_syllabus().exercises]
    assert set(record) <= set(names)
    assert all(re.fullmatch("[0-9a-f]{32}", value) for value in record.values())
    if RECORD.exists():
        lines = [f'{name} = "{record[name]}"\n' for name in names if name in record]
        assert RECORD.read_text(encoding="utf-8") == HEAD + "".join(lines)


def test_results_depend_on_no_other_room():
    """Modules that decide results import only others that decide, or that carry or print files, jobs and results."""
    grader = ROOT / "grader"
    deciding = [path.relative_to(grader).as_posix() for path in deciding_files()]
    assert "course/torch_operators.toml" in deciding and "execution/host.py" in deciding
    assert all((grader / part).exists() for part in DECIDING)
    allowed = (*DECIDING, *NOT_DECIDING, "quality/devcheck")
    for name in deciding:
        if name.endswith(".py"):
            for node in ast.walk(ast.parse((grader / name).read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grader."):
                    imported = node.module.removeprefix("grader.").replace(".", "/")
                    assert f"{imported}.py/".startswith(allowed), f"{name} imports {imported}"


@pytest.mark.thorough
def test_correct_exercises_are_recorded_and_not_tried_again_until_they_change(kit):
    record = kit.root / "tests" / "checked.toml"
    record.unlink(missing_ok=True)
    assert "1 exercise, one seed: every promise holds" in kit.run("dev-check", "causal_mask", "--changed")
    assert record.read_text(encoding="utf-8").count("causal_mask = ") == 1
    export = kit.root / "grader" / "classroom" / "exports" / "gradescope.py"
    export.write_text(export.read_text(encoding="utf-8") + "\nOTHER = 1\n", encoding="utf-8")
    said = kit.run("dev-check", "causal_mask", "--changed")
    assert "1 unchanged since tests/checked.toml was written and not tried: every promise holds" in said
    wrong = kit.root / "tests" / "variants" / "ch03_attention" / "causal_mask.py"
    variant = "\n# variant: wrong\ndef causal_mask(length):\n    return length\n"
    wrong.write_text(wrong.read_text(encoding="utf-8") + variant, encoding="utf-8")
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
def test_a_change_concerns_its_chapter_and_those_after_it(kit):
    names = ("gelu", "softmax", "causal_mask", "build_vocab")
    ask = (
        "import json; from grader.course.syllabus import load_syllabus\n"
        "from grader.quality.devcheck.record import fingerprint\n"
        f"print(json.dumps({{name: fingerprint(load_syllabus().exercise(name)) for name in {names}}}))"
    )

    def fingerprints():
        more = {"cwd": kit.root, "env": kit.environment(), "capture_output": True, "text": True}
        return json.loads(subprocess.run([sys.executable, "-c", ask], check=True, **more).stdout)

    def changed_by(path, old, new):
        path = kit.root / path
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        after = fingerprints()
        path.write_text(text, encoding="utf-8")
        return [name for name, value in before.items() if after[name] != value]

    before = fingerprints()
    assert len(set(before.values())) == len(before)
    solution = "solutions/ch03_attention.py"
    assert changed_by(solution, "largest = x.amax", "largest = 0 + x.amax") == ["gelu", "softmax", "causal_mask"]
    assert changed_by(solution, "import math", "import math  # for -inf") == ["softmax", "causal_mask"]
    assert changed_by("tests/test_ch03_attention.py", "def test_", "def test_a_") == ["softmax", "causal_mask"]
    assert changed_by("grader/verdict/comparing.py", "import ", "import math\nimport ") == list(before)
    assert changed_by("grader/cli/main.py", "import ", "import math\nimport ") == []
