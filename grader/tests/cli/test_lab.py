"""`headway lab`: each lab of the lessons has every part, and a prediction is kept."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from grader.course import labs
from grader.course.labs import LabProblem, list_labs
from grader.course.syllabus import ROOT, load_syllabus
from grader.models.comparison.training import is_design, settings_for
from grader.models.training.settings import Settings
from grader.teaching.measurements import list_measurements
from grader.teaching.walks import list_walks

LESSON = """# A lesson

## Lab heads: one or four?

The question.

**Predict.** Which loss is lower?

    headway compare heads=1 heads=4

Look at the last line.

<details>
<summary>What was found here</summary>

Four.

</details>

**Open question.** Why?

## Read more
"""


def write_lesson(tmp_path, monkeypatch, text):
    (tmp_path / "ch03_attention.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(labs, "EXERCISES", tmp_path)
    return list_labs()


def test_a_lab_is_read_from_its_lesson(tmp_path, monkeypatch):
    [lab] = write_lesson(tmp_path, monkeypatch, LESSON).values()
    assert (lab.name, lab.title, lab.chapter.number) == ("heads", "one or four?", 3)
    assert (lab.question, lab.predict, lab.look_at) == ("The question.", "Which loss is lower?", "Look at the last line.")
    assert lab.experiment == "headway compare heads=1 heads=4" and lab.is_command
    assert (lab.found, lab.open_question) == ("Four.", "Why?")
    code = "    for n in (1, 2):\n\n        print(n)"
    [lab] = write_lesson(tmp_path, monkeypatch, LESSON.replace("    headway compare heads=1 heads=4", code)).values()
    assert lab.experiment == "for n in (1, 2):\n\n    print(n)" and not lab.is_command


@pytest.mark.parametrize("part", ["The question.", "**Predict.**", "    headway compare heads=1 heads=4", "Four.", "Why?"])
def test_a_lab_without_a_part_names_its_lesson(tmp_path, monkeypatch, part):
    with pytest.raises(LabProblem, match="the lab heads of ch03_attention.md lacks a part"):
        write_lesson(tmp_path, monkeypatch, LESSON.replace(part, ""))


def test_a_prediction_is_kept_and_then_what_was_found_is_shown(kit):
    name, lab = next(iter(list_labs().items()))
    found, expected = lab.found.split("\n")[0][:20], "the second one, by a tenth"
    before = kit.run("lab", name)
    assert found not in before and f"headway lab {name} --predict" in before
    after = kit.run("lab", name, "--predict", expected)
    assert expected in after and "What was found here" in after
    assert "You have written down what you expect." in " ".join(kit.run("lab").split())
    assert expected in kit.run("lab", name)
    (kit.exercises / ".headway" / "predictions.json").write_text("[{]")
    assert "You have written down" not in kit.run("lab")
    assert f"did you mean {name}?" in kit.run("lab", name + "x", status=2)


LABS = list_labs()


def test_every_chapter_from_3_on_ends_with_a_lab():
    chapters = [chapter.number for chapter in load_syllabus().chapters if chapter.number >= 3]
    assert {lab.chapter.number for lab in LABS.values()} >= set(chapters)


def test_the_command_of_a_lab_is_one_that_the_kit_accepts():
    for lab in filter(lambda lab: lab.is_command, LABS.values()):
        command, *words = shlex.split(lab.experiment)[1:]
        names, options = [word for word in words if not word.startswith("--")], [word for word in words if word.startswith("--")]
        if command == "compare" and names == ["modern"]:
            assert not options
        elif command == "compare":
            assert all(is_design(word) and settings_for(word, Settings()) for word in names[:2]) and set(options) <= {"--steps", "--text", "--seed"}
        elif command == "measure":
            assert names[0] in list_measurements()
        elif command == "walk":
            assert names[0] in list_walks()
        else:
            assert command in {"play", "show", "progress", "train", "scale"}, command


@pytest.mark.parametrize("name", [name for name, lab in LABS.items() if not lab.is_command])
def test_the_code_of_a_lab_runs_with_correct_functions(name):
    code = LABS[name].experiment.replace("from exercises.", "from solutions.")
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True).stdout
