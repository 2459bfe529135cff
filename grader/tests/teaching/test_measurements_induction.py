"""The measurement of chapter 12's lesson: training produces an induction head, and the kit finds it."""

import re

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements import induction
from grader.teaching.measurements.induction import EXAM, FOUND, LENGTH, PERIODS, VOCABULARY, Checkpoint, Findings, describe_findings, make_repeating_texts, measure

pytestmark = pytest.mark.thorough

COLUMNS = ["step", "first half", "second half", "layer 0", "layer 1"]


@pytest.fixture(scope="module")
def chapters():
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch12"), whole=True), "tested")
    yield package.module("ch07_models"), package.module("ch12_interpretability")
    package.close()


@pytest.fixture(scope="module")
def found(chapters):
    """The real training: about 20 seconds of one processor."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return measure(*chapters)
    finally:
        torch.set_num_threads(threads)


def rows_of(lines, edges):
    return [[cell.strip(" `*") for cell in re.split(f"[{edges}]", line)[1:-1]] for line in lines if line and line[0] in edges]


def test_training_grows_an_induction_head_and_it_is_found(found):
    chance = 1 / LENGTH
    layer, head = found.head
    assert layer == 1 and found.scores[layer][head] > FOUND > 10 * chance
    assert found.appeared and max(found.checkpoints[0].best) < 3 * chance
    assert all(max(row) < 0.2 for row in found.scores[:1])  # the first layer cannot: it takes two
    assert all(score > 0.2 for score in found.other_periods.values())


def test_repeated_tokens_become_easy_when_the_head_appears(found):
    guessing = torch.log(torch.tensor(VOCABULARY)).item()
    before, after = found.checkpoints[0], found.checkpoints[-1]
    assert before.second == pytest.approx(guessing, abs=0.1) and after.second < 0.6
    assert all(abs(moment.first - guessing) < 0.3 for moment in found.checkpoints)
    before = [moment for moment in found.checkpoints if max(moment.best) < 0.1]
    assert min(moment.second for moment in before) > 3.0


def test_a_table_is_printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    threads = torch.get_num_threads()
    try:
        assert induction.main(["--steps", "2"]) == 0
    finally:
        torch.set_num_threads(threads)
    out = capsys.readouterr().out
    printed = rows_of(out.splitlines(), "┃│")
    assert printed[0] == COLUMNS and [row[0] for row in printed[1:]] == ["0", "2"]
    assert "No head scored above 0.5 in 2 steps." in " ".join(out.split()) and "Heads of layer 1: " in out


def test_the_moment_and_the_head_are_determined():
    checkpoints = [Checkpoint(0, 4.2, 4.2, [0.0, 0.1]), Checkpoint(50, 4.2, 2.0, [0.1, 0.6]), Checkpoint(100, 4.2, 0.3, [0.1, 0.9])]
    story = Findings(checkpoints, [[0.1, 0.2], [0.9, 0.3]], {8: 0.8}, [["previous", "mixed"], ["sparse", "self"]])
    assert story.appeared == 50 and story.head == (1, 0)
    first, second, *_ = describe_findings(story)
    assert [first, second] == ["An induction head appears by step 50.", "The best is head 0 of layer 1: 0.90 with period 16, 0.80 with period 8, not used in training."]


def test_texts_repeat_with_their_own_periods():
    periods = torch.tensor([[PERIODS[0]], [EXAM], [PERIODS[1]]])
    texts = make_repeating_texts(3, periods, torch.Generator().manual_seed(0))
    assert texts.shape == (3, LENGTH + 1)
    for text, period in zip(texts, periods[:, 0].tolist()):
        assert torch.equal(text[period:], text[:-period])
        assert (text[1:] == text[:-1]).float().mean() < 0.2


def test_a_seed_gives_the_same_numbers_and_leaves_the_random_state_alone(chapters):
    before = torch.get_rng_state()
    once, again, other = (measure(*chapters, seed, steps=3) for seed in (3, 3, 4))
    assert once == again != other
    assert torch.equal(before, torch.get_rng_state())


def test_other_chapters_can_be_measured_and_what_cannot_is_one_sentence(capsys, tmp_path):
    for folder, sentence in ((tmp_path / "nowhere", "there is no folder"), (tmp_path, "contains none of the chapters")):
        with pytest.raises(SystemExit) as stopped:
            induction.main(["--target", str(folder)])
        assert stopped.value.code == 2 and sentence in capsys.readouterr().err
