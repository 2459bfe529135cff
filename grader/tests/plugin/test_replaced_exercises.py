"""A mistake costs its own points only: what an exercise uses and what fails is the reference's while that exercise is judged."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from grader.classroom.judging.dispatch import GradeJob
from grader.course.source import find_definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.sandbox.isolation import available
from grader.processes.client import ServerProcess
from grader.verdict.results import NOT_IMPLEMENTED, Verdict
from pytest_runs import grade, solution

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only")

CHAPTER, ATTENTION = "ch03_attention", "scaled_dot_product_attention"
WRONG = "def softmax(x, dim=-1):\n    exps = torch.exp(x - x.amax())\n    return exps / exps.sum()\n"
USERS = (ATTENTION, "SelfAttentionHead", "MultiHeadAttention", "FusedSelfAttention")
NOTE = "open({!r}, 'a').write('{}\\n')"


@pytest.fixture
def write(warm, tmp_path):
    """Write chapter 3 (or another) with these definitions; everything else is the reference's with a comment of the learner's in each body."""
    (warm.kit.exercises / ".headway" / "verdicts.json").unlink(missing_ok=True)

    def write(chapter: str = CHAPTER, stubs: tuple[str, ...] = (), **definitions: str) -> None:
        text = solution(chapter[:4])
        stub = (warm.kit.root / "stub").joinpath(f"{chapter}.py").read_text(encoding="utf-8")
        for name in stubs:
            text = replace_definition(text, name, find_definition(stub, name).text)
        for name, new in definitions.items():
            text = replace_definition(text, name, new)
        warm.kit.file(chapter).write_text(text, encoding="utf-8")

    if not (warm.kit.root / "stub").exists():
        shutil.copytree(warm.kit.exercises, warm.kit.root / "stub")
    return write


def own(name: str, text: str = "", chapter: str = "ch03", body: str = "") -> str:
    """A correct definition that is not the reference's: the last line of its first function follows a statement without effect."""
    lines = (text or find_definition(solution(chapter), name).text).splitlines(keepends=True)
    place = max(number for number, line in enumerate(lines) if line.strip().startswith(("return ", "self.")))
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    return "".join([*lines[:place], f"{indent}{body or 'unused = None'}\n", *lines[place:]])


def test_a_wrong_softmax_costs_its_own_points_only(warm, write):
    write(softmax=WRONG)
    output = warm.ask("ch03", in_worker=True)
    worth = {exercise.name: exercise.points for exercise in load_syllabus().chapter("ch03").exercises}
    earned = {result.exercise.name: result.earned for result in output.verdict.results}
    assert earned.pop("softmax") < worth.pop("softmax") and earned == worth
    assert all(output.result(name).replaced == {"softmax": "failed"} for name in USERS)
    assert not output.result("causal_mask").replaced and not output.result("split_heads").replaced
    assert "with the reference's softmax" in output.prose


def test_a_mistake_in_both_is_diagnosed_in_both(warm, write):
    text = find_definition(solution("ch03"), ATTENTION).text.replace("q / math.sqrt(q.size(-1))", "q / q.size(-1)")
    write(softmax=WRONG.replace("exps.sum()", "exps.sum(0, keepdim=True)"), **{ATTENTION: text})
    output = warm.ask(ATTENTION)
    assert output.result(ATTENTION).diagnosis.id
    assert "Your softmax fails its tests, so the reference's softmax was used here." in output.prose
    assert "divides 0 by 0" not in output.prose and "also fails" not in output.prose
    heads = warm.ask("MultiHeadAttention").result("MultiHeadAttention")
    assert heads.outcome == "passed" and heads.replaced == {"softmax": "failed", ATTENTION: "failed"}


def test_the_last_exercise_can_be_written_first(warm, write):
    names = [exercise.name for exercise in load_syllabus().chapter("ch03").exercises]
    write(stubs=tuple(names[:-1]))
    output = warm.ask("ch03")
    assert output.result(names[-1]).outcome == "passed" and set(output.result(names[-1]).replaced.values()) == {"not written"}
    assert {test.message for name in names[:-1] for test in output.result(name).tests} == {NOT_IMPLEMENTED}
    text = warm.kit.file(CHAPTER).read_text()
    for name in names[:-1]:
        text = replace_definition(text, name, "")
    warm.kit.file(CHAPTER).write_text(text)
    output = warm.ask(names[-1])
    assert output.result(names[-1]).outcome == "passed", "deleted definitions count as not written"


@pytest.mark.parametrize(
    ("in_worker", "first", "first_text", "second", "second_text"),
    [
        (
            False,
            "split_heads", "def split_heads(x, n_heads):\n    return _gradient(merge_heads, x.new_zeros(len(x), n_heads, x.size(1), x.size(2) // n_heads), x)\n",
            "merge_heads", "def merge_heads(x):\n    return _gradient(lambda y: split_heads(y, x.size(1)), x.new_zeros(len(x), x.size(2), x.size(1) * x.size(3)), x)\n",
        ),
        (
            True,
            "softmax", f"def softmax(x, dim=-1):\n    return {ATTENTION}(x, x, x)[1]\n",
            ATTENTION, f"def {ATTENTION}(q, k, v, mask=None, bias=None):\n    return v, softmax(q @ k.mT)\n",
        ),
    ],
    ids=["gradients", "forward"],
)  # fmt: skip
def test_two_exercises_that_only_call_each_other_earn_nothing_by_it(warm, write, in_worker, first, first_text, second, second_text):
    """While the first is judged, the second is the learner's own: the reference never stands in for a later exercise."""
    helper = (
        "def _gradient(f, x, dy):\n    with torch.enable_grad():\n        x.requires_grad_()\n"
        "        return torch.autograd.grad(f(x), x, dy, create_graph=True)[0]\n\n\n"
    )
    write(**{first: helper + first_text, second: second_text})
    output = warm.ask(first, in_worker)
    assert output.result(first).earned == 0 and "passed" not in {test.outcome for test in output.result(first).tests}
    assert output.result(first).replaced[second] == "later"
    assert f"This exercise uses {second}, which comes later in the course. Your own was used here" in output.prose


def test_a_later_exercise_that_is_not_written_is_named(warm, write):
    write(stubs=("merge_heads",), split_heads="def split_heads(x, n_heads):\n    merge_heads(x)\n    return x\n")
    output = warm.ask("split_heads")
    assert output.result("split_heads").earned == 0
    assert "Next: write the code that `split_heads` needs: merge_heads in ch03_attention.py is not implemented yet" in output.prose


def test_a_later_exercise_of_ones_own_may_be_used(warm, write):
    softmax = "def softmax(x, dim=-1):\n    return _weights(x.movedim(dim, -1)).movedim(-1, dim)\n"
    mask = find_definition(solution("ch03"), "causal_mask").text
    weights = find_definition(solution("ch03"), "softmax").text.replace("def softmax(", "def _weights(")
    write(softmax=softmax, causal_mask=weights + "\n\n" + mask)
    assert warm.ask("softmax").result("softmax").outcome == "passed"


@pytest.mark.parametrize("in_worker", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_an_endless_loop_does_not_slow_later_exercises_and_forbidden_code_costs_its_own_points_only(warm, write, in_worker):
    forbidden = own(ATTENTION, body="torch.nn.functional.scaled_dot_product_attention(q, k, v)")
    write(softmax="def softmax(x, dim=-1):\n    while True:\n        pass\n", **{ATTENTION: forbidden})
    output = warm.ask("ch03", in_worker)
    assert {test.outcome for test in output.result("softmax").tests} == {"timeout"}
    longest = max(test.seconds for test in output.result("softmax").tests)
    assert output.result(ATTENTION).forbidden and output.result(ATTENTION).replaced == {"softmax": "timeout"}
    for name in ("SelfAttentionHead", "MultiHeadAttention", "FusedSelfAttention"):
        assert output.result(name).outcome == "passed" and output.result(name).replaced == {"softmax": "timeout", ATTENTION: "forbidden"}
        assert max(test.seconds for test in output.result(name).tests) < longest, "no test of it has waited for the loop"


@pytest.mark.thorough
def test_subclasses_are_rebuilt_on_a_replaced_base(warm, write):
    text = solution("ch10")
    base = find_definition(text, "CachedSelfAttention").text
    broken = base.replace("def forward(self", "def forward(self, *args, **kwargs):\n        return torch.zeros(1)\n\n    def unused(self", 1)
    assert broken != base
    write("ch10_kv_cache", CachedSelfAttention=broken)
    output = warm.ask("ch10")
    assert output.result("CachedSelfAttention").outcome == "failed"
    others = [result for result in output.verdict.results if result.exercise.name != "CachedSelfAttention"]
    assert {result.outcome for result in others} == {"passed"}
    assert output.result("CachedGPT").replaced == {"CachedSelfAttention": "failed"}


def test_a_right_exercise_runs_no_other_test(warm, write, tmp_path):
    log = tmp_path / "log"
    write(softmax=own("softmax", body=NOTE.format(str(log), "softmax")), causal_mask=own("causal_mask", body=NOTE.format(str(log), "causal_mask")))
    assert warm.ask(ATTENTION).result(ATTENTION).outcome == "passed"
    assert log.exists() and "causal_mask" not in log.read_text()
    assert recorded(warm) == {ATTENTION: ["passed"]}, "only the exercise itself has a state"


def recorded(warm) -> dict[str, list[str]]:
    """The recorded states of each exercise, the newest last."""
    data = json.loads((warm.kit.exercises / ".headway" / "verdicts.json").read_text())
    return {name: [entry["state"] for entry in entries] for name, entries in data.items()}


def test_states_are_recorded_by_content(warm, write, tmp_path):
    log = tmp_path / "log"
    wrong = find_definition(solution("ch03"), "FusedSelfAttention").text.replace("return self.c_proj(", "return 2 * self.c_proj(")
    mask = own("causal_mask", body=NOTE.format(str(log), "causal_mask"))

    def calls_of_mask() -> int:
        log.unlink(missing_ok=True)
        output = warm.ask("FusedSelfAttention")
        assert output.result("FusedSelfAttention").outcome == "failed" and not output.result("FusedSelfAttention").replaced
        return log.read_text().count("causal_mask")

    write(FusedSelfAttention=wrong, causal_mask=mask)
    first = calls_of_mask()
    write(FusedSelfAttention=wrong, causal_mask=mask + "\n# changed\nchanged = 1\n")
    assert calls_of_mask() < first and recorded(warm)["causal_mask"] == ["passed"], "a comment and a name that it does not use change nothing"
    write(FusedSelfAttention=wrong, causal_mask=own("causal_mask", mask, body="pass"))
    assert calls_of_mask() == first, "its text has changed, so its tests run again"


def test_an_exercise_that_passes_only_with_its_own_helper_passes(warm, write):
    """Replacing takes no point away: here two functions agree on another interface than the reference's."""
    split = "def split_heads(x, n_heads):\n    B, T, D = x.shape\n    return x.reshape(B, T, n_heads, D // n_heads)\n"
    attention = find_definition(solution("ch03"), "MultiHeadAttention").text
    for queries in ("Tq", "Tk"):
        attention = attention.replace(f"self.n_heads)  # (B, H, {queries}, d_head)", "self.n_heads).transpose(1, 2)")
    write(split_heads=split, MultiHeadAttention=attention)
    assert warm.ask("MultiHeadAttention").result("MultiHeadAttention").outcome == "passed"
    assert warm.ask("split_heads").result("split_heads").outcome == "failed"
    assert warm.ask("FusedSelfAttention").result("FusedSelfAttention").replaced == {"split_heads": "failed"}


def test_whole_replaces_nothing_and_marks_what_follows(tmp_path):
    (tmp_path / f"{CHAPTER}.py").write_text(replace_definition(solution("ch03"), "softmax", WRONG))
    run = grade(f"--target={tmp_path}", "--chapter=ch03", "--whole", results=tmp_path / "whole.json")
    assert run.exercise(ATTENTION)["outcome"] == "failed" and run.exercise(ATTENTION)["diagnosis"] is None
    assert all(exercise["replaced"] == [] for exercise in run.results["exercises"])
    assert f"{ATTENTION} also fails; it uses softmax, so fix `softmax` first." in " ".join(run.out.split())


@pytest.mark.thorough
def test_the_class_grader_replaces_too():
    server = ServerProcess(str(available()), module="grader.classroom.judging.start_server")
    try:
        names = [exercise.name for exercise in load_syllabus().chapter("ch03").exercises]
        job = GradeJob({CHAPTER: replace_definition(solution("ch03"), "softmax", WRONG)}, {}, names, 3, 300.0)
        verdict = next(Verdict.from_data(message["verdict"]) for message in server.answers(job, 5) if "verdict" in message)
    finally:
        server.end()
    assert {result.exercise.name for result in verdict.results if result.outcome != "passed"} == {"softmax"}
    assert verdict.result(ATTENTION).replaced == {"softmax": "failed"}
