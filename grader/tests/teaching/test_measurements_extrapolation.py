"""The measurement of chapter 4's lesson, reduced to seconds: does a model work beyond its training length?"""

import re

import pytest
import torch
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements import extrapolation
from grader.teaching.measurements.extrapolation import ECHO, SCHEMES, VOCABULARY, measure, train

pytestmark = pytest.mark.thorough

ROWS = ["best possible", "last token alone", *SCHEMES]
LESSON = EXERCISES / "ch04_positions_in_attention.md"


@pytest.fixture(scope="module")
def chapter():
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch07"), whole=True), "tested")
    yield package.module("ch07_models")
    package.close()


@pytest.fixture(scope="module")
def rows(chapter):
    return measure(chapter, length=8, steps=40, texts=50)


def test_each_scheme_is_measured_at_each_length(rows):
    assert [row.name for row in rows] == ROWS
    for row in rows:
        assert list(row.at) == [8, 16, 32]
        n = {length: length - (ECHO - 1) for length in row.at}
        assert row.at[32] * n[32] == pytest.approx(row.at[8] * n[8] + row.beyond * (n[32] - n[8]), rel=1e-4)


def test_the_learned_loss_is_between_chance_and_the_best_possible(rows):
    by_name = {row.name: row for row in rows}
    guessing = torch.log(torch.tensor(VOCABULARY)).item()
    for scheme in SCHEMES:
        assert by_name["best possible"].at[8] < by_name[scheme].at[8] < guessing, by_name[scheme]
    assert by_name["best possible"].beyond < by_name["last token alone"].beyond < guessing


def test_a_seed_gives_the_same_numbers_and_leaves_the_random_state_alone(chapter):
    before = torch.get_rng_state()
    once, again, other = (measure(chapter, seed, length=8, steps=5, texts=5) for seed in (3, 3, 4))
    assert once == again != other
    assert torch.equal(before, torch.get_rng_state())


def test_rows_of_a_table_that_no_text_reached_are_never_trained(chapter):
    lessons = torch.randint(VOCABULARY, (20, 4, 9), generator=torch.Generator().manual_seed(0))
    before, after = (train(chapter, "learned", lessons[:steps], seed=0).pos_emb.weight for steps in (0, 20))
    assert before.shape == after.shape == (32, 32)
    assert torch.equal(before[8:], after[8:]) and (before[:8] != after[:8]).all(1).all()


def test_the_language_echoes_and_follows():
    followers = extrapolation._draw_language(0)
    texts, chances = extrapolation._draw_texts(followers, 400, 40, torch.Generator().manual_seed(0))
    assert texts.shape == (400, 41) and chances.shape == (400, 41 - ECHO)
    assert followers.sum(1) == pytest.approx(torch.ones(VOCABULARY)) and (followers > 0.4).sum() == 2 * VOCABULARY
    echoes = (texts[:, ECHO:] == texts[:, :-ECHO]).float().mean()
    following = (followers > 0.4)[texts[:, ECHO - 1 : -1], texts[:, ECHO:]].float().mean()
    assert 0.5 < echoes < 0.7 and 0.5 < following < 0.7


def test_a_table_is_printed_and_the_lesson_has_the_same_one(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    threads = torch.get_num_threads()
    try:
        assert extrapolation.main(["--steps", "2"]) == 0
    finally:
        torch.set_num_threads(threads)
    printed = [[cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in capsys.readouterr().out.splitlines() if line[:1] in {"┃", "│"}]
    assert [line[0] for line in printed] == ["positions", *ROWS]
    section = LESSON.read_text(encoding="utf-8").split("### Does it reach further than it was trained?")[1].split("\n#")[0]
    written = [[cell.strip(" `*") for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    assert [line[0] for line in written if not line[0].startswith(("-", ":"))] == ["positions", *ROWS]
    assert written[0] == printed[0]
    assert all(re.fullmatch(r"\d\.\d\d", cell) for line in written[2:] + printed[1:] for cell in line[1:])


def test_other_chapters_can_be_measured_and_what_cannot_is_one_sentence(capsys, tmp_path):
    for folder, said in ((tmp_path / "nowhere", "there is no folder"), (tmp_path, "contains none of the chapters")):
        with pytest.raises(SystemExit) as stopped:
            extrapolation.main(["--target", str(folder)])
        assert stopped.value.code == 2 and said in capsys.readouterr().err
