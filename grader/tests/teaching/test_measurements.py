"""`headway measure`: the command, and the laws behind its numbers; test_lessons_measured.py compares these."""

from __future__ import annotations

import re

import pytest
import torch
from grader.chapters.ch07_models import walk_positions as positions
from grader.chapters.ch08_training import measurements as training
from grader.chapters.ch10_kv_cache import walk_kv_cache as kv_cache
from grader.chapters.ch12_interpretability import pronouns
from grader.chapters.small_models import names_of
from grader.course.syllabus import EXERCISES
from grader.teaching.measurements import list_measurements, run_measurement
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.thorough


def printed(capsys, *words: str) -> str:
    run_measurement(words[0], words[1:])
    return capsys.readouterr().out


# ---- the command


def test_every_measurement_is_listed_with_what_it_measures(kit):
    out = " ".join(kit.run("measure").split())
    assert '"""' not in out
    assert all(f"{name} {one.title}" in out for name, one in list_measurements().items())
    assert "headway measure NAME" in out and len(list_measurements()) >= 16


def test_a_measurement_is_run_with_its_options_and_its_status(kit):
    assert "1,000 draws" in kit.run("measure", "draws", "--seed", "5")
    assert "unrecognized arguments: --steps" in kit.run("measure", "draws", "--steps", "5", status=2)
    assert "did you mean extrapolation?" in kit.run("measure", "extrapolatoin", status=2)


def test_the_help_of_a_measurement_is_its_own(kit):
    said = " ".join(kit.run("measure", "balance", "--help").split())
    assert said.startswith("usage: headway measure balance [-h] [--seed SEED] [--steps STEPS]") and "Lesson 11" in said
    assert "headway measure NAME --help" in kit.run("measure", "--help")


def test_what_cannot_be_measured_is_one_sentence(capsys, tmp_path):
    nowhere = tmp_path / "nowhere"
    cases = {nowhere: "there is no folder", tmp_path: "contains none of the chapters", EXERCISES: "not implemented yet"}
    for folder, said in cases.items():
        with pytest.raises(SystemExit) as stopped:
            run_measurement("balance", ["--target", str(folder), "--steps", "10"])
        assert stopped.value.code == 2 and said in capsys.readouterr().err


def test_a_seed_gives_the_same_numbers_and_leaves_the_random_state_alone(capsys):
    before = torch.get_rng_state()
    for name in ("balance", "extrapolation", "induction", "pronouns"):
        once, again, other = (printed(capsys, name, "--steps", "2", "--seed", seed) for seed in "334")
        assert once == again != other
    assert torch.equal(before, torch.get_rng_state())


# ---- lesson 4


def test_each_scheme_is_measured_at_each_length_and_learns(solutions):
    rows = {row.name: row for row in positions.extrapolate(solutions("ch07_models"), length=8, steps=40, texts=50)}
    assert list(rows) == ["best possible", "last token alone", *positions.SCHEMES]
    guessing = torch.log(torch.tensor(positions.VOCABULARY)).item()
    n = {length: length - positions.BACK for length in (8, 16, 32)}
    for name, row in rows.items():
        assert list(row.at) == list(n)
        assert row.at[32] * n[32] == pytest.approx(row.at[8] * n[8] + row.beyond * (n[32] - n[8]), rel=1e-4)
        assert name not in positions.SCHEMES or rows["best possible"].at[8] < row.at[8] < guessing
    assert rows["best possible"].beyond < rows["last token alone"].beyond < guessing


# ---- lesson 8


def test_what_the_lesson_says_about_overfitting(solutions):
    lesson = " ".join((EXERCISES / "ch08_training.md").read_text(encoding="utf-8").split())
    found = training.measure_overfitting(names_of(*map(solutions, ("ch01_tokenizer", "ch07_models", "ch08_training"))))
    assert "These are six of the twenty" in lesson and found.held_out == 6
    assert "eight words of the other six do not occur" in lesson and found.unknown_words == 8
    assert "`mat`" in lesson and found.next_word == "mat" and found.least < found.memorised[-1]
    assert min(found.validation) == pytest.approx(found.validation[19], rel=0.05) and "lowest at epoch 20" in lesson
    assert (found.judged[19], found.judged[39]) == ("learning", "overfitting")


# ---- lesson 10


def small_config(models, **others):
    return models.GPTConfig(**{"vocab_size": 11, "max_len": 40, "d_model": 12, "n_heads": 3, "n_layers": 2} | others)


def counted(f) -> int:
    with FlopCounterMode(display=False) as counter:
        f()
    return counter.get_total_flops() // 2  # a multiplication and an addition are two


def test_the_formula_is_what_torch_counts(solutions):
    config = small_config(solutions("ch07_models"), positions="rope")
    model = solutions("ch10_kv_cache").CachedGPT(config)
    for past, new in ((0, 9), (0, 1), (9, 1), (5, 4)):
        caches = model.new_caches()
        ids = torch.arange(past + new)[None] % 11
        if past:
            model(ids[:, :past], caches)
        assert counted(lambda: model(ids[:, past:], caches)) == kv_cache.multiply_adds(config, new, past + new)  # noqa: B023


@pytest.mark.parametrize(("prompt", "tokens"), [(1, 6), (9, 1), (7, 8)])
def test_whole_texts_are_counted_as_torch_counts_them(solutions, prompt, tokens):
    config, caching = small_config(solutions("ch07_models")), solutions("ch10_kv_cache")
    model, ids = caching.CachedGPT(config), torch.arange(prompt)[None] % 11
    ways = (solutions("ch09_sampling").generate, caching.generate_cached)
    counts = tuple(counted(lambda way=way: way(model, ids, tokens, temperature=0.0)) for way in ways)
    assert counts == kv_cache.count_work(config, prompt, tokens)


def test_the_lessons_counts_are_those_of_the_formula_and_its_speeds_the_promised_ones(solutions):
    """Speeds differ from machine to machine; numbers of operations and bytes do not. 20 times from 256 tokens on."""
    text = (EXERCISES / "ch10_kv_cache.md").read_text(encoding="utf-8")
    lines = text[text.index("### Measured") :].splitlines()
    lines = [line.strip("|").split("|") for line in lines if re.match(r"\| [\d,]+ \|", line)][:4]
    rows = [[cell.strip() for cell in line] for line in lines]
    config = solutions("ch07_models").GPTConfig(256, 512 + 1024, d_model=256, n_heads=4, n_layers=2)
    for tokens, slow, fast, faster, *counts in rows:
        n = int(tokens.replace(",", ""))
        without, cached = kv_cache.count_work(config, 512, n)
        size = solutions("ch10_kv_cache").kv_cache_bytes(2, 4, 64, 512 + n, bytes_per_value=4)
        work = [kv_cache.format_count(count) for count in (without, cached)]
        assert counts == [*work, f"{without / cached:.0f}x", f"{size / 2**20:.1f} MiB"]
        quotient = float(fast.replace(",", "")) / float(slow.replace(",", ""))
        assert float(faster.rstrip("x")) == pytest.approx(quotient, rel=0.05, abs=0.6) and (n < 200 or quotient >= 20)
    assert [row[0] for row in rows] == ["16", "64", "256", "1,024"]


# ---- lesson 12


def test_a_pronoun_means_the_name_of_its_kind_and_only_the_text_says_whose_thing_is_whose():
    texts, meant = pronouns.make_texts(4000, torch.Generator().manual_seed(0))
    kinds = texts[:, [0, 2]] // pronouns.NAMES
    assert kinds.sum(1).eq(1).all() and (texts[:, 1] != texts[:, 3]).all()
    means = (kinds == texts[:, 4:5] - 2 * pronouns.NAMES - pronouns.THINGS).long().argmax(1)
    rows = torch.arange(len(texts))
    assert means.equal(meant) and texts[rows, 2 * means].equal(texts[:, 5]) and texts[rows, 2 * means + 1].equal(texts[:, 6])
    for column in (meant, kinds[:, 0], texts[:, 4] % 2, texts[:, 6] % 2):  # nothing alone gives the answer away
        assert abs(column.float().mean() - 0.5) < 0.05


def test_whom_a_pronoun_means_is_learned_when_it_is_said_and_not_otherwise(solutions):
    for kept, last in (([0, 1, 2, 3, 4, 6], [0.5]), ([0, 1, 2, 3, 4, 5, 6], [1.0, 1.0])):
        with torch.random.fork_rng(devices=[]):
            _, history = pronouns.train(solutions("ch07_models"), 1, 400, kept, lambda: None)
        assert history[-1] == pytest.approx(last, abs=0.1)
