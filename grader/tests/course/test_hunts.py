"""`headway hunt`: a chapter with one known mistake, which the learner finds by what goes wrong, and repairs."""

import ast
import json
import re
import signal
import subprocess
import sys
import time

import pytest
from grader.course.hunts import Hunt, chapter_with, choose, huntable, is_rewritten, lines_changed
from grader.course.known_mistakes import misconceptions
from grader.course.source import definition, read_source, replace_definition
from grader.course.stubs import reference_stub
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.tests.quality.benchmarks.workplace import without_markers
from kit_copy import Kit, posix

MODULE = "ch04_positions_in_attention"
EXERCISES = load_syllabus().exercises


@pytest.fixture
def passed(kit):
    """A kit in which chapter 4 is right and recorded."""
    kit.solve(MODULE)
    kit.pass_chapter("ch04")
    return kit


def hunted(kit):
    return kit.exercises / "hunts" / f"{MODULE}.py"


def saved(kit):
    return json.loads((kit.exercises / ".headway" / "hunts" / "hunts.json").read_text())


def going_on(kit):
    """The exercise of the hunt and its mistake."""
    hunt = saved(kit)[-1]
    return hunt["exercise"], next(each for each in misconceptions(MODULE, hunt["exercise"]) if each.id == hunt["mistake"])


def repair(kit, rewrite=False):
    name, _ = going_on(kit)
    right = definition(without_markers((SOLUTIONS / f"{MODULE}.py").read_text()), name).text
    if rewrite:
        names = {node.id for node in ast.walk(ast.parse(right)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        right = re.sub(rf"(?<!\.)\b({'|'.join(names)})\b", r"my_\1", right)
    path = hunted(kit)
    path.write_text(replace_definition(read_source(path), name, right))


def have_hunted(kit, name, *left):
    """Write that all mistakes of an exercise but these were hunted."""
    hunt = {"exercise": name, "told": "call", "mine": False, "begun": 1.0, "ended": "2030-01-01", "repaired": True}
    path = kit.exercises / ".headway" / "hunts" / "hunts.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = [each.id for each in misconceptions(MODULE, name) if each.id not in left]
    path.write_text(json.dumps([hunt | {"mistake": mistake} for mistake in known]))


def own_files(kit):
    return {path.name: path.read_bytes() for path in kit.exercises.iterdir() if path.is_file()}


@pytest.mark.parametrize("chapter", [chapter for chapter in load_syllabus().chapters if chapter.exercises], ids=lambda chapter: chapter.id)
def test_each_exercise_has_mistakes_to_hunt_and_each_is_the_only_one_in_its_file(chapter):
    names = {exercise.name for exercise in chapter.exercises}
    right = (SOLUTIONS / f"{chapter.name}.py").read_text(encoding="utf-8")
    for exercise in chapter.exercises:
        mistakes = huntable(exercise)
        assert len(mistakes) >= 3, exercise.name
        text = chapter_with(exercise, mistakes[0], names)
        ast.parse(text)
        assert "### " not in text and "# TODO" not in text and "NotImplementedError" not in text.replace(f"{exercise.name} is not", "")
        assert mistakes[0].applied_to_chapter(right) != right


def test_what_no_thought_can_find_is_not_hunted():
    def ids(name):
        return {mistake.id for mistake in huntable(load_syllabus().exercise(name))}

    assert "softmax_nothing_subtracted" in ids("softmax")
    assert not {"split_no_check", "split_error_without_numbers"} & ids("split_heads")
    for exercise in EXERCISES[::10]:
        own = definition((SOLUTIONS / f"{exercise.module}.py").read_text(encoding="utf-8"), exercise.name).text
        for mistake in huntable(exercise):
            assert 1 <= lines_changed(own.splitlines(), mistake.applied_to(own).splitlines()) <= 3


def test_what_is_not_passed_is_a_stub_in_the_file():
    exercise = load_syllabus().exercise("softmax")
    _, text = next(choose([exercise], False, {"softmax", "split_heads"}, lambda mistake: False))
    stub = reference_stub(exercise.module)
    assert definition(text, "causal_mask").text == definition(stub, "causal_mask").text.replace("    # TODO", "#").split("#")[0] + "    raise NotImplementedError\n"
    assert "raise NotImplementedError" not in definition(text, "split_heads").text


@pytest.mark.parametrize("level", [(), ("--promise",), ("--blind",)], ids=["call", "promise", "blind"])
def test_a_hunt_says_what_a_user_sees_and_never_the_mistake(passed, level):
    before = own_files(passed)
    have_hunted(passed, "apply_rope", "rope_clockwise")
    said = [passed.run("hunt", "apply_rope", *level), passed.run("hunt", status=1)]
    _, mistake = going_on(passed)
    hunted(passed).write_text(hunted(passed).read_text() + "\n# read\n")
    said += [passed.run("hunt", status=1), passed.run("status")]
    for text in (" ".join(each.split()) for each in said):
        assert mistake.says not in text and mistake.hint not in text and mistake.id not in text
    assert all(("called apply_rope(" in " ".join(text.split())) == (not level) for text in said[:3])
    for text in said[:3]:
        assert level != ("--blind",) or "apply_rope" not in text
    assert "The mistake is still there: exercises/hunts/ch04_positions_in_attention.py has not changed." in " ".join(said[1].split())
    assert f"{'The chapter' if level == ('--blind',) else 'apply_rope'} does not work yet." in said[2] and "still" not in said[2]
    assert "A mistake hides in exercises/hunts/ch04_positions_in_attention.py: headway hunt" in " ".join(said[3].split())
    assert saved(passed)[-1]["tests"] == 1, "a test of the file as it was is not counted"
    assert own_files(passed) == before


def test_a_repair_is_counted_and_says_what_the_mistake_was(passed):
    before = own_files(passed)
    passed.run("hunt", "alibi_bias")
    _, mistake = going_on(passed)
    hunted(passed).write_text(hunted(passed).read_text() + "\n# read\n")
    passed.run("hunt", status=1)
    repair(passed)
    said = " ".join(passed.run("hunt").split())
    assert f"Repaired: alibi_bias. The mistake was: {' '.join(mistake.says.split())}" in said and "with 2 test runs and" in said
    assert "alibi_bias" in passed.run("hunt", "--list") and not hunted(passed).exists()
    assert "You have found 1 mistake in code that others wrote: headway hunt" in " ".join(passed.run().split())
    assert own_files(passed) == before
    assert [(hunt["repaired"], hunt["rewritten"], hunt["tests"]) for hunt in saved(passed)] == [(True, False, 2)]


@pytest.mark.thorough
def test_an_exercise_that_is_written_anew_counts_and_is_said_to_be(passed):
    passed.run("hunt", "apply_rope")
    repair(passed, rewrite=True)
    assert "You have rewritten the exercise" in passed.run("hunt")
    assert " most " in passed.run("hunt", "--list")


SOFTMAX = """
    shifted = x - x.amax(dim, keepdim=True).detach().clamp(min=torch.finfo(x.dtype).min)
    weights = shifted.exp()
    sums = weights.sum(dim, keepdim=True)
    return torch.where(sums > 0, weights / sums, 0.0)
"""
LOSS = """
    better = chosen - rejected - margin
    losses = F.softplus(-better)
    total = losses.sum()
    return total / len(losses)
"""
REAL = "real = ids != pad_id"


@pytest.mark.parametrize(
    "name, mistake, new, is_new",
    [
        ("softmax", "softmax_base_two", SOFTMAX, True),
        ("softmax", "softmax_base_two", {}, False),
        ("softmax", "softmax_nan_hidden", {}, False),  # this mistake is three statements
        ("softmax", "softmax_base_two", {"largest": "biggest", "exps": "powers"}, True),
        ("softmax", "softmax_base_two", {"    total": "    x = x\n    x = x\n    x = x\n    total", " / ": "  /  "}, False),
        ("padding_mask", "padding_two_axes", {}, False),
        ("padding_mask", "padding_two_axes", {REAL: f"{REAL}\n    real = real.bool()\n    real = real.bool()"}, False),
        ("padding_mask", "padding_two_axes", "    mask = ids.ne(pad_id)\n    return mask[:, None, None]\n", True),
        ("reward_loss", "reward_sign", {}, False),  # one statement
        ("reward_loss", "reward_where_nan", {}, False),  # two that one was
        ("reward_loss", "reward_sign", {".mean()": ".mean(0)"}, False),
        ("reward_loss", "reward_sign", LOSS, True),
    ],
)
def test_an_exercise_is_rewritten_if_most_of_its_statements_are_others(name, mistake, new, is_new):
    exercise = load_syllabus().exercise(name)
    [known] = [each for each in huntable(exercise) if each.id == mistake]
    right = (SOLUTIONS / f"{exercise.module}.py").read_text(encoding="utf-8")
    own = definition(right, name).text
    if isinstance(new, str):
        repaired = own.partition("    ### BEGIN")[0] + new
    else:
        begin, mark, repaired = own.partition("### BEGIN")
        for old, other in new.items():
            assert old in repaired
            repaired = repaired.replace(old, other)
        repaired = f"{begin}{mark}{repaired}\n    # mine\n"
    hunt = Hunt(name, mistake, "call", False, 0.0)
    assert is_rewritten(hunt, known.applied_to_chapter(right), replace_definition(right, name, repaired)) == is_new


def test_a_repair_that_puts_in_another_mistake_is_not_told_that_the_first_is_still_there(passed):
    have_hunted(passed, "apply_rope", "rope_clockwise")
    passed.run("hunt", "apply_rope")
    repair(passed)
    other = next(each for each in huntable(load_syllabus().exercise("apply_rope")) if each.id != "rope_clockwise")
    hunted(passed).write_text(other.applied_to_chapter(hunted(passed).read_text()))
    said = passed.run("hunt", status=1)
    assert "apply_rope does not work yet." in said and "called apply_rope(" in " ".join(said.split()) and "still" not in said


def test_a_repair_that_breaks_another_exercise_is_none(passed):
    passed.run("hunt", "alibi_bias")
    repair(passed)
    path = hunted(passed)
    path.write_text(path.read_text().replace("def alibi_slopes(n_heads: int) -> Tensor:\n", "def alibi_slopes(n_heads: int) -> Tensor:\n    return torch.ones(n_heads)\n"))
    assert "The mistake is gone, but alibi_slopes, which worked, fails now." in " ".join(passed.run("hunt", status=1).split())


def test_one_hunt_at_a_time_and_each_mistake_once(passed):
    passed.run("hunt", "rope_angles")
    for more in (["alibi_bias"], ["--blind"], ["--mine"]):
        assert "a hunt goes on in exercises/hunts/" in passed.run("hunt", *more, status=2)
    assert f"The mistake was in rope_angles. {' '.join(going_on(passed)[1].says.split())}" in " ".join(passed.run("hunt", "--give-up").split())
    assert "given up" in passed.run("hunt", "--list")
    assert "no hunt goes on" in passed.run("hunt", "--give-up", status=2)
    last = huntable(load_syllabus().exercise("rope_angles"))[3]
    have_hunted(passed, "rope_angles", last.id)
    passed.run("hunt", "rope_angles")
    assert going_on(passed)[1].id == last.id
    passed.run("hunt", "--give-up")
    assert "There is no mistake left to hunt in this code." in passed.run("hunt", "rope_angles", status=1)


@pytest.mark.thorough
def test_a_mistake_that_was_named_before_is_not_hunted(passed):
    mistake = next(each for each in huntable(load_syllabus().exercise("rope_angles")) if each.id == "angles_twice_side_by_side")
    own = passed.file(MODULE).read_text()
    passed.file(MODULE).write_text(mistake.applied_to_chapter(own))
    assert " ".join(mistake.says.split())[:50] in " ".join(passed.run("check", "rope_angles", status=1).split())
    passed.file(MODULE).write_text(own)
    passed.run("check", "rope_angles")
    have_hunted(passed, "rope_angles", mistake.id)
    assert "There is no mistake left to hunt in this code." in passed.run("hunt", "rope_angles", status=1)


@pytest.mark.thorough
def test_a_mistake_hides_in_the_learners_own_code(passed):
    passed.edit(MODULE, "base ** (-pairs / d_head)", "base ** (-pairs / d_head)  # my own words")
    passed.run("hunt", "alibi_bias", "--mine")
    own, text = passed.file(MODULE).read_text(), hunted(passed).read_text()
    assert "# my own words" in text and 1 <= lines_changed(own.splitlines(), text.splitlines()) <= 3
    hunted(passed).write_text(own)
    assert "Repaired: alibi_bias" in passed.run("hunt")


def test_a_file_that_is_gone_or_half_edited(passed):
    passed.run("hunt", "apply_rope")
    text = hunted(passed).read_text()
    hunted(passed).write_text(text + "\ndef (\n")
    said = passed.run("hunt", status=1)
    assert "(invalid syntax)" in said and "headway hunt" in said
    hunted(passed).unlink()
    assert "was gone, so it has been written again" in " ".join(passed.run("hunt", status=1).split())
    assert hunted(passed).read_text() == text
    hunted(passed).write_text(text.replace("def apply_rope", "def apply_ropes"))
    assert "apply_rope does not work yet." in passed.run("hunt", status=1)
    passed.run("reset", "ch04")
    assert "def apply_ropes" in hunted(passed).read_text(), "a reset leaves hunts alone"


def test_what_cannot_be_hunted_is_said(passed):
    assert "there is no exercise or chapter called 'softmx'; did you mean softmax" in passed.run("hunt", "softmx", status=2)
    assert "Pass softmax first." in passed.run("hunt", "softmax", status=1)
    assert "Pass an exercise of ch05 first." in " ".join(passed.run("hunt", "ch05", status=1).split())
    assert "You have not hunted yet" in passed.run("hunt", "--list")
    passed.run("hunt", "ch04")
    for damaged in ("{", "[3]", '[{"exercise": "apply_rope"}]', "[" * 100_000, '{"a": 1}'):
        (passed.exercises / ".headway" / "hunts" / "hunts.json").write_text(damaged)
        assert "You have not hunted yet" in passed.run("hunt", "--list")


@posix
def test_control_c_at_the_beginning_leaves_nothing(passed):
    command = [sys.executable, "-c", "from grader.cli.main import main; main()", "hunt", "apply_rope"]
    process = subprocess.Popen(command, cwd=passed.root, env=passed.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while not hunted(passed).exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130 and b"Traceback" not in said, said
    assert not hunted(passed).exists() and not (passed.exercises / ".headway" / "hunts" / "hunts.json").exists()


def test_a_mistake_that_was_named_in_a_training_run_is_repaired(kit):
    kit.solve("ch08_training")
    state = {"over": [], "found": [], "case": "schedule_whole_division"}
    path = kit.exercises / ".headway" / "hunts" / "training.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(state))
    assert "When you have passed warmup_cosine, you can also repair what you have found." in " ".join(kit.run("hunt", "--training", "--name", "warmup_cosine").split())
    kit.record(warmup_cosine=load_syllabus().exercise("warmup_cosine").points)
    path.write_text(json.dumps(state))
    assert "Now repair it." in kit.run("hunt", "--training", "--name", "warmup_cosine")
    file = kit.exercises / "hunts" / "ch08_training.py"
    assert "NotImplementedError" in file.read_text(), "what is not passed is a stub"
    right = definition(without_markers((SOLUTIONS / "ch08_training.py").read_text()), "warmup_cosine").text
    file.write_text(replace_definition(read_source(file), "warmup_cosine", right))
    assert "Repaired: warmup_cosine" in kit.run("hunt")
    assert "belong to `headway hunt --training`" in " ".join(kit.run("hunt", "--look", "rate", status=2).split())


@pytest.mark.thorough
def test_in_a_handout_the_mistake_hides_in_the_learners_own_code(passed, tmp_path):
    passed.run("handout", str(tmp_path / "out"), "--chapters", "ch04")
    handout = Kit(tmp_path / "out")
    handout.file(MODULE).write_text(passed.file(MODULE).read_text() + "\n# my own words\n")
    (handout.exercises / "progress.txt").write_text((passed.exercises / "progress.txt").read_text())
    assert "Someone has found a mistake in your code." in handout.run("hunt", "apply_rope")
    assert "# my own words" in hunted(handout).read_text()
