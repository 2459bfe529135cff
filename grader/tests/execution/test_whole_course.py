"""The chapters read as one program: with --whole a learner's GPT and translator use the learner's own code, and nothing else."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from grader.course.source import replace_definition
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import builds_on, package_sources, reference_of, resolve, uses
from learning import Chapters, continued, learn_sentences
from pytest_runs import grade, module, solution
from torch import nn

pytestmark = pytest.mark.thorough

CHAPTERS = [chapter for chapter in load_syllabus().chapters if (SOLUTIONS / f"{chapter.name}.py").is_file()]
NAMES = [chapter.name for chapter in CHAPTERS]
WRONG_SOFTMAX = """def softmax(x, dim=-1):
    return torch.exp(x - x.amax(dim, keepdim=True))
"""
BROKEN_SOFTMAX = """def softmax(x, dim=-1):
    return x.softmacks(dim)
"""
STUB_SOFTMAX = """def softmax(x, dim=-1):
    raise NotImplementedError
"""
NO_MASK = """def causal_mask(q_len, k_len=None):
    return torch.ones(q_len, k_len or q_len, dtype=torch.bool)
"""


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
    third = solution("ch03")
    return {
        "right": folder_of(place, "right"),
        "wrong": folder_of(place, "wrong", ch03=replace_definition(third, "softmax", WRONG_SOFTMAX)),
        "unmasked": folder_of(place, "unmasked", ch03=replace_definition(third, "causal_mask", NO_MASK)),
        "broken": folder_of(place, "broken", ch03=replace_definition(third, "softmax", BROKEN_SOFTMAX)),
        "stub": folder_of(place, "stub", ch03=replace_definition(third, "softmax", STUB_SOFTMAX)),
        "no ch03": folder_of(place, "no ch03", ch03=None),
    }


@pytest.fixture(scope="module")
def runs(folders, template, tmp_path_factory):
    """Every run of this file, two at a time."""
    place = tmp_path_factory.mktemp("results")
    gpt = ["--exercise", "GPT"]
    runs = {
        "right": ("right", ["--whole"]),
        "wrong": ("wrong", [*gpt, "--exercise", "softmax", "--whole"]),
        "wrong, with reference": ("wrong", gpt),
        "wrong, alone": ("wrong", [*gpt, "--exercise", "Seq2Seq", "--whole"]),
        "unmasked": ("unmasked", [*gpt, "--exercise", "causal_mask", "--exercise", "gelu", "--whole"]),
        "broken": ("broken", [*gpt, "--whole"]),
        "stub": ("stub", [*gpt, "--whole"]),
        "no ch03": ("no ch03", ["--chapter", "ch05", "--chapter", "ch07", "--whole"]),
        "no ch03, with reference": ("no ch03", gpt),
    }
    if sys.platform.startswith("linux"):
        runs["no ch03, worker"] = ("no ch03", [*gpt, "--whole", "--worker"])
    with ThreadPoolExecutor(2) as pool:
        waiting = {
            name: pool.submit(grade, f"--target={folders[folder]}", *options, results=place / f"{name}.json") for name, (folder, options) in runs.items()
        }
        waiting["fresh"] = pool.submit(grade, "--whole", results=place / "fresh.json", cwd=template, PYTHONPATH=str(template))
        return {name: run.result() for name, run in waiting.items()}


@pytest.fixture
def package_of(folders):
    made = []

    def make(name, chapter=CHAPTERS[-1]):
        made.append(ChapterPackage(package_sources(resolve(str(folders[name])), chapter, whole=True), "whole"))
        return made[-1]

    yield make
    for package in made:
        package.close()


# ---- graded


def test_a_learner_with_every_chapter_right_gets_every_point(runs):
    run = runs["right"]
    wrong = {f"{e['name']}: {t['name']}": t["message"] for e in run.results["exercises"] for t in e["tests"] if t["outcome"] != "passed"}
    assert not wrong and run.status == 0
    assert run.results["earned"] == run.results["points"] == sum(chapter.points for chapter in load_syllabus().chapters)
    assert "(--whole)" in run.out and "All tests passed." in run.out


def test_fresh_stubs_do_not_fail_with_whole_either(runs):
    run = runs["fresh"]
    assert run.status == 0 and run.results["earned"] == 0, run.out
    assert {test["outcome"] for exercise in run.results["exercises"] for test in exercise["tests"]} == {"todo"}


def test_a_mistake_in_chapter_3_is_a_mistake_in_the_gpt(runs):
    assert runs["wrong, with reference"].status == 0 and runs["wrong, with reference"].exercise("GPT")["earned"] == 38
    assert runs["wrong"].status == 1
    for run, name in ((runs["wrong"], "GPT"), (runs["wrong, alone"], "GPT"), (runs["wrong, alone"], "Seq2Seq")):
        assert run.exercise(name)["outcome"] == "failed" and run.exercise(name)["earned"] < 0.75 * run.exercise(name)["points"]


def test_the_earlier_chapter_is_named_as_the_one_to_fix_first(runs):
    for name, guilty in (("wrong", "softmax"), ("unmasked", "causal_mask")):
        run = runs[name]
        assert f"GPT also fails; it builds on {guilty} of ch03, so fix {guilty} first." in " ".join(run.out.split())
        assert run.exercise("GPT")["diagnosis"] is None and f"Next: fix {guilty} in" in run.out
        assert "builds on" not in run.out.replace("it builds on", "", 1)
    assert runs["unmasked"].exercise("gelu")["outcome"] == "passed"


def test_the_command_to_try_again_finds_the_same(runs):
    out = runs["wrong, alone"].out
    assert "--exercise GPT --whole\n" in out
    assert "If it passes then, the problem is in something that it uses." in out
    assert "--whole" not in runs["no ch03, with reference"].out


def test_an_error_is_shown_at_the_learners_own_line_in_any_chapter(runs):
    assert "ch03_attention.py, line" in runs["broken"].out and "return x.softmacks(dim)" in runs["broken"].out


def test_a_stub_in_an_earlier_chapter_is_named(runs):
    run = runs["stub"]
    assert run.status == 0 and run.exercise("GPT")["outcome"] == "todo"
    assert {test["message"] for test in run.exercise("GPT")["tests"] if "head" not in test["name"]} >= {"softmax in ch03_attention.py is not implemented yet"}
    assert "Next: write the code that GPT needs:\n      softmax in ch03_attention.py is not implemented yet" in run.out
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
    assert runs["no ch03, with reference"].status == 0


# ---- nothing of the reference


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.id)
def test_every_chapter_of_the_package_is_the_learners(folders, chapter):
    sources = package_sources(resolve(str(folders["right"])), chapter, whole=True)
    assert {source.name for source in sources} == {name for name in NAMES if name <= chapter.name}
    assert all(Path(source.filename).parent == folders["right"] for source in sources)
    assert not any("SOLUTION" in source.text or source.filename == reference_of(source.name).filename for source in sources)


@pytest.mark.parametrize("spoiled", NAMES[:-1])
def test_a_broken_chapter_breaks_what_builds_on_it(folders, tmp_path, spoiled):
    """Each earlier chapter in turn refuses to be imported: every chapter that builds on it then fails with --whole, and does not without."""
    target = resolve(str(folder_of(tmp_path, "spoiled", **{spoiled[:4]: "raise ValueError('mine')\n"})))
    for chapter in CHAPTERS:
        if chapter.name == spoiled:
            continue
        for whole in (True, False):
            package = ChapterPackage(package_sources(target, chapter, whole), "whole")
            try:
                if whole and spoiled in builds_on(target, chapter.name):
                    with pytest.raises(ValueError, match="mine"):
                        package.module(chapter.name)
                else:
                    package.module(chapter.name)
            finally:
                package.close()


def test_dependencies_between_chapters(folders):
    target = resolve(str(folders["right"]))
    assert builds_on(target, module("ch05")) == set() == builds_on(target, module("ch01"))
    assert builds_on(target, module("ch07")) == {module(f"ch0{n}") for n in (2, 3, 4, 5, 6)}
    assert builds_on(resolve(str(folders["no ch03"])), module("ch06")) >= {module("ch03"), module("ch05")}


def test_what_a_definition_uses_is_found_through_chapters_and_other_names(tmp_path):
    used = uses(resolve("solutions"), "ch10_kv_cache", "CachedSelfAttention")
    assert {(module("ch03"), "softmax"), (module("ch04"), "apply_rope")} <= used and (module("ch09"), "translate") not in used
    (tmp_path / f"{module('ch03')}.py").write_text("def softmax(x): ...\nnormal = softmax\ndef unused(x): ...\n")
    (tmp_path / f"{module('ch06')}.py").write_text("from .ch03_attention import normal as n\ndef mix(x): return n(x)\nclass Block:\n    f = mix\n")
    used = uses(resolve(str(tmp_path)), module("ch06"), "Block")
    assert used == {(module("ch06"), "Block"), (module("ch06"), "mix"), (module("ch03"), "normal"), (module("ch03"), "softmax")}


# ---- trained, with the learner's code alone


def authors(module: nn.Module) -> set[str]:
    return {type(part).__module__.partition(".")[0] for part in module.modules()}


def test_the_learners_gpt_learns_with_the_learners_code_alone(package_of, folders):
    package = package_of("right")
    chapters = Chapters.of(package)
    model, tokenizer, losses = learn_sentences(chapters, epochs=60)
    assert losses[-1] < 0.5 * losses[0], losses[-1]
    assert continued(model, tokenizer, "the cat sat on", 2).startswith("the cat sat on the")
    assert authors(model) - {"torch"} == {package.name}
    loaded = [found for name, found in sys.modules.items() if name.startswith(package.name + ".")]
    assert {found.__name__.rpartition(".")[2] for found in loaded} == {module(f"ch0{n}") for n in range(1, 9)}
    assert {Path(found.__file__).parent for found in loaded} == {folders["right"]}
    assert not [name for name in sys.modules if name.partition(".")[0] == "solutions"]
