"""The chapters read as one program: with --whole a learner's GPT and translator use the learner's own code, and nothing else."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from grader.course.source import replace_definition
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from learning import Chapters, continued, learn_sentences
from pytest_runs import grade, module, solution

pytestmark = pytest.mark.thorough

CHAPTERS = [chapter for chapter in load_syllabus().chapters if (SOLUTIONS / f"{chapter.name}.py").is_file()]
SOFTMAXES = {
    "wrong": "    return torch.exp(x - x.amax(dim, keepdim=True))\n",
    "broken": "    return x.softmacks(dim)\n",
    "stub": "    raise NotImplementedError\n",
}


def folder_of(place: Path, name: str, **changed: str | None) -> Path:
    """All chapters filled in; `ch03=text` is another text for one chapter, None omits it."""
    folder = place / name
    folder.mkdir()
    for chapter in CHAPTERS:
        text = changed.get(chapter.id, solution(chapter.id))
        if text is not None:
            (folder / f"{chapter.name}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("learner")
    changed = {name: replace_definition(solution("ch03"), "softmax", f"def softmax(x, dim=-1):\n{body}") for name, body in SOFTMAXES.items()}
    return {name: folder_of(place, name, ch03=text) for name, text in {"right": solution("ch03"), "no ch03": None, **changed}.items()}


@pytest.fixture(scope="module")
def runs(folders, tmp_path_factory):
    """Every run of this file, two at a time."""
    place = tmp_path_factory.mktemp("results")
    gpt = ["--exercise", "GPT", "--whole"]
    runs = {
        "right": ("right", ["--whole"]),
        "wrong": ("wrong", [*gpt, "--exercise", "softmax"]),
        "wrong, with reference": ("wrong", ["--exercise", "GPT"]),
        "wrong, alone": ("wrong", [*gpt, "--exercise", "Seq2Seq"]),
        "broken": ("broken", gpt),
        "stub": ("stub", gpt),
        "no ch03": ("no ch03", ["--chapter", "ch05", "--chapter", "ch07", "--whole"]),
    }
    if sys.platform.startswith("linux"):
        runs["no ch03, worker"] = ("no ch03", [*gpt, "--worker"])
    with ThreadPoolExecutor(2) as pool:
        waiting = {
            name: pool.submit(grade, f"--target={folders[folder]}", *options, results=place / f"{name}.json") for name, (folder, options) in runs.items()
        }
        return {name: run.result() for name, run in waiting.items()}


# ---- graded


def test_a_learner_with_every_chapter_right_gets_every_point(runs):
    run = runs["right"]
    wrong = {f"{e['name']}: {t['name']}": t["message"] for e in run.results["exercises"] for t in e["tests"] if t["outcome"] != "passed"}
    assert not wrong and run.status == 0
    assert run.results["earned"] == run.results["points"] == sum(chapter.points for chapter in load_syllabus().chapters)
    assert "(--whole)" in run.out and "All tests passed." in run.out


def test_a_mistake_in_chapter_3_is_a_mistake_in_the_gpt_and_named_as_the_one_to_fix_first(runs):
    assert runs["wrong, with reference"].status == 0 and runs["wrong, with reference"].exercise("GPT")["earned"] == 38
    for run, name in ((runs["wrong"], "GPT"), (runs["wrong, alone"], "GPT"), (runs["wrong, alone"], "Seq2Seq")):
        assert run.exercise(name)["outcome"] == "failed" and run.exercise(name)["earned"] < 0.75 * run.exercise(name)["points"]
    run = runs["wrong"]
    assert run.status == 1 and "GPT also fails; it builds on softmax of ch03, so fix `softmax` first." in " ".join(run.out.split())
    assert run.exercise("GPT")["diagnosis"] is None and "Next: fix `softmax` in" in run.out and run.out.count("builds on") == 1


def test_the_command_to_try_again_finds_the_same(runs):
    out = runs["wrong, alone"].out
    assert "--exercise GPT --whole\n" in out
    assert "--whole" not in runs["wrong, with reference"].out


def test_an_error_is_shown_at_the_learners_own_line_in_any_chapter(runs):
    assert "ch03_attention.py, line" in runs["broken"].out and "return x.softmacks(dim)" in runs["broken"].out


def test_a_stub_in_an_earlier_chapter_is_named(runs):
    run = runs["stub"]
    assert run.status == 0 and run.exercise("GPT")["outcome"] == "todo"
    assert {test["message"] for test in run.exercise("GPT")["tests"] if "head" not in test["name"]} >= {"softmax in ch03_attention.py is not implemented yet"}
    assert "Next: write the code that `GPT` needs:\n      softmax in ch03_attention.py is not implemented yet" in run.out
    assert "Nothing is wrong" not in run.out


# ---- a missing chapter


def test_a_missing_chapter_is_one_clear_sentence(runs):
    for name in ("no ch03", "no ch03, worker"):
        if name not in runs:
            continue
        run = runs[name]
        sentence = "ch03_attention.py is not in the folder of ch07_models.py, which builds on it; put it there, or run without --whole."
        assert " ".join(run.out.split()).count(sentence) == 1 and run.status == 1, run.out
        assert "Traceback" not in run.out
        assert {test["outcome"] for test in run.exercise("GPT")["tests"]} == {"error"}
    assert {e["outcome"] for e in runs["no ch03"].results["exercises"] if e["chapter"] == "ch05"} == {"passed"}


# ---- trained, with the learner's code alone


def test_the_learners_gpt_learns_with_the_learners_code_alone(folders):
    with closing(ChapterPackage(package_sources(resolve(str(folders["right"])), CHAPTERS[-1], whole=True), "whole")) as package:
        model, tokenizer, losses = learn_sentences(Chapters.of(package), epochs=60)
        assert losses[-1] < 0.5 * losses[0], losses[-1]
        assert continued(model, tokenizer, "the cat sat on", 2).startswith("the cat sat on the")
        assert {type(part).__module__.partition(".")[0] for part in model.modules()} - {"torch"} == {package.name}
        loaded = [found for name, found in sys.modules.items() if name.startswith(package.name + ".")]
        assert {found.__name__.rpartition(".")[2] for found in loaded} == {module(f"ch0{n}") for n in range(1, 9)}
        assert {Path(found.__file__).parent for found in loaded} == {folders["right"]}
        assert not [name for name in sys.modules if name.partition(".")[0] == "solutions"]
