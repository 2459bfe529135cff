"""The walks on caches, experts, positions and the inside of models: their statements are true for the numbers of a run on the reference.

Three of them train for so long that they run here with a few seconds of training; tests of their measurements cover two in full.
"""

from dataclasses import replace

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.walks import cache_speed, heads, induction, kv_cache, load, logit_lens, moe, patching, positions
from grader.teaching.walks.induction import Checkpoint, Findings
from walk_runs import changed, check_page, check_required_exercises, printed_text, run_once

SMALLER = {
    kv_cache: {"COUNTED": (8, 16, 64), "TIMED": (4, 8), "WIDTH": 32},
    moe: {"STEPS": 100},
    positions: {"STEPS": 20},
    induction: {"MAX_STEPS": 60},
}
WALKS = ("kv-cache", "moe", "positions", "logit-lens", "heads", "induction", "patching", "tiles")


@pytest.fixture(scope="module", autouse=True)
def in_seconds():
    with pytest.MonkeyPatch.context() as patch:
        for walk, sizes in SMALLER.items():
            for name, value in sizes.items():
                patch.setattr(walk, name, value)
        yield


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.thorough
def test_a_walk_names_exactly_the_exercises_that_run(name):
    check_required_exercises(name)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in ("heads", "patching"))) for name in WALKS])  # these train a model
def test_a_walk_fits_the_page_and_is_the_same_twice(name):
    check_page(name)


@pytest.mark.parametrize("name", ["moe", "logit-lens", "heads", "induction", "patching"])  # for positions, the measurement's own test checks this
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(name, monkeypatch):
    walk = load(name)
    monkeypatch.setattr(walk, "MAX_STEPS" if hasattr(walk, "MAX_STEPS") else "STEPS", 3)
    if hasattr(walk, "SMOOTH"):
        monkeypatch.setattr(walk, "SMOOTH", 1)
    once, again, other = (run_once.__wrapped__(name, seed) for seed in (3, 3, 4))  # __wrapped__ is without the cache
    assert once.numbers == again.numbers and once.text == again.text
    assert once.numbers != other.numbers


# ---- kv-cache


def test_the_cache_grows_by_one_position_and_what_it_holds_stays():
    n = run_once("kv-cache").numbers
    config_numbers = 2 * n.layers * n.passes[0].keys[1] * n.passes[0].keys[3]
    assert [one.cached for one in n.passes] == [2, 3, 4, 5, 6, 7] == [one.keys[2] for one in n.passes]
    assert [one.numbers for one in n.passes] == [positions * config_numbers for positions in range(2, 8)]
    words = [word for one in n.passes for word in one.reads]
    assert n.moved < 1e-5 and len(n.last_keys) == len(words) == 7
    assert all(a == pytest.approx(b, abs=1e-5) for a, b in zip(n.first_keys, n.last_keys))
    assert n.written == n.written_cached == " ".join([*words, n.passes[-1].chooses])


def test_operations_are_counted_as_the_formula_says():
    class Config:
        d_model, n_layers, vocab_size = 64, 2, 256

    for length, without, with_cache in run_once("kv-cache").numbers.by_length:
        assert without == cache_speed.multiply_adds(Config, length, length)
        assert with_cache == cache_speed.multiply_adds(Config, 1, length)
    assert "without     with" in run_once("kv-cache").text


def test_memory_and_time_are_distinguished_from_counts():
    n, text = run_once("kv-cache").numbers, run_once("kv-cache").text
    assert kv_cache.MODELS[1][0] == "Llama 2, 7B" and n.memory[1] == [2**29, 2**32, 2**36] and "512 MiB    4 GiB   64 GiB" in text
    assert [kv_cache.size(count) for count in (36 * 2**20, 2**30, 5 * 2**29)] == ["36 MiB", "1 GiB", "2.5 GiB"]
    assert n.same and [row.tokens for row in n.timed] == [4, 8]
    slower = changed(n, timed=[replace(row, seconds=2 * row.seconds) for row in n.timed])
    before, _, after = text.partition("Speed, measured")
    assert printed_text("kv-cache", slower).partition("Speed, measured")[0] == before and printed_text("kv-cache", slower).partition("Speed, measured")[2] != after
    assert "they should not" not in text and "they should not" in printed_text("kv-cache", changed(n, written="something else"))


# ---- moe


def test_three_models_have_the_stated_sizes():
    n, text = run_once("moe").numbers, run_once("moe").text
    narrow, experts, wide = n.models
    idle = (moe.EXPERTS - moe.TOP_K) * (2 * moe.WIDTH * moe.D_FF + moe.D_FF + moe.WIDTH)
    assert experts.active == experts.parameters - idle and narrow.active == narrow.parameters and wide.active == wide.parameters
    assert 0 < experts.active - narrow.active < 0.05 * narrow.active and 0 < experts.parameters - wide.parameters < 0.05 * wide.parameters
    assert all(f"{model.parameters:,}" in text for model in n.models)
    assert all(model.losses[-1] < 0.8 * model.losses[0] and len(model.losses) == 100 / moe.SMOOTH for model in n.models)
    assert all(model.right == pytest.approx(sum(model.by_operation) / 8, abs=1e-6) for model in n.models)


def test_the_sums_are_right_and_routing_adds_up():
    sums, targets = moe.all_sums()
    by_text = {" ".join(moe.WORDS[i] for i in row): moe.WORDS[target] for row, target in zip(sums.tolist(), targets[:, -1].tolist())}
    assert len(by_text) == 800 and (targets[:, :-1] == -100).all()
    assert [by_text[text] for text in ("7 plus 5", "3 minus 5", "7 times 5", "2 max 9", "2 min 9", "2 apart 9", "4 twice-plus 5", "4 square-plus 5")] == list("28592731")
    n = run_once("moe").numbers
    for table in (n.by_operation, n.by_place, [n.shares], [n.chances]):
        assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in table)
    assert n.by_place[2] == pytest.approx([sum(column) / len(moe.OPERATIONS) for column in zip(*n.by_operation)], abs=1e-5)
    assert n.balance == pytest.approx(moe.EXPERTS * sum(f * p for f, p in zip(n.shares, n.chances)), abs=1e-5)
    for routed, text in zip(n.routed, moe.SHOWN):
        assert [word for word, _, _ in routed] == text.split()
        assert all(sum(weights) == pytest.approx(1, abs=1e-5) and len(set(experts)) == 2 for _, experts, weights in routed)


# ---- positions


def test_what_each_scheme_computes_for_a_position():
    n = run_once("positions").numbers
    assert [n.scores["alibi"][place] for place in positions.QUERY_PLACES] == [[-0.25 * d for d in range(positions.MAX_DISTANCE + 1)]] * 2
    assert max(n.unequal[scheme] for scheme in ("sinusoidal", "rope", "alibi")) < 1e-4 < n.unequal["learned"]
    assert n.scores["rope"][15][0] == pytest.approx(8**0.5, abs=1e-5)
    assert {scheme: outcome.partition(":")[0] for scheme, outcome in n.beyond_table.items()} == {
        "learned": "ValueError", "sinusoidal": "ValueError", "rope": "no error", "alibi": "no error",
    }  # fmt: skip
    assert n.parameters["learned"] - n.parameters["rope"] == positions.LENGTH * positions.WIDTH


def test_losses_and_weights_by_position_belong_to_their_positions():
    n = run_once("positions").numbers
    assert [row.name for row in n.rows][2:] == list(n.heads) == list(positions.SCHEMES)
    for row in n.rows:
        assert len(row.places) == 64 - 2 and sum(row.places) / len(row.places) == pytest.approx(row.at[64], abs=1e-4)
    assert positions.binned([5.0] * 6 + [1.0] * 8, 2) == [5.0, 1.0] and positions.binned([1.0, 2.0, 3.0], 7) == [1.0, 2.5]


# ---- logit-lens


def test_the_lens_ends_at_the_models_own_words():
    n, text = run_once("logit-lens").numbers, run_once("logit-lens").text
    assert n.apart < 1e-4 and n.loss_after < 0.3 and n.agreed[-1] == 1
    assert n.same_word[0] > 0.8 > 0.3 > n.same_word[1] and n.surprise == sorted(n.surprise, reverse=True)
    for reading in n.readings:
        assert reading.answer[-1] == reading.chances[-1]
        for t, layer in enumerate(reading.decided):
            assert all(row[t] == reading.best[-1][t] for row in reading.best[layer:])
            assert layer == 0 or reading.best[layer - 1][t] != reading.best[-1][t]
    assert n.readings[0].best[-1][-1] in text and "embedding" in text


def test_a_decision_counts_from_the_layer_after_which_it_never_changes():
    reading = logit_lens.Reading(["a", "b"], [["x", "y"], ["z", "y"], ["x", "y"]], [], [])
    assert reading.decided == [2, 0]


# ---- heads


def test_heads_are_named_by_what_the_language_needs_and_are_needed_for_it():
    n = run_once("heads").numbers
    assert {head.before for head in n.heads} == {"uniform"}
    assert {"previous", "first"} & {head.name for head in n.heads}  # both, on the machine on which this was written
    for head in n.heads:
        assert (max(head.first, head.previous, head.own) > 0.6) == (head.name in ("first", "previous", "self"))
    assert n.best < sum(n.losses[-20:]) / 20 < n.best + 0.2
    whole = n.by_rule["all heads"]
    assert max(whole) < 1.5
    for name, rule in (("without first", 0), ("without previous", 1)):
        rises = [late - early for early, late in zip(whole, n.by_rule.get(name, whole))]
        assert name not in n.by_rule or rises[rule] == max(rises) > 0.5


def test_the_language_of_the_heads_follows_its_rules():
    language = heads.Language(5)
    texts, rules, chances = language.texts(50)
    assert texts.shape == (50, heads.LENGTH + 1) and rules.shape == chances.shape == (50, heads.LENGTH - 2)
    for text, made_by, chance in zip(texts.tolist(), rules.tolist(), chances.tolist()):
        for t, rule in enumerate(made_by, start=3):
            options = [language.of_theme[text[0]], language.of_before_last[text[t - 2] - 8], language.of_last[text[t - 1] - 8]]
            assert text[t] == options[rule] and chance[t - 3] == pytest.approx(sum(int(option) == text[t] for option in options) / 3)


# ---- induction


def test_the_observed_head_is_the_best_one():
    n, text = run_once("induction").numbers, run_once("induction").text
    assert [moment.step for moment in n.found.checkpoints] == [0, 50, 60] and len(n.patterns) == len(n.previous) == 3
    assert n.text[:12] == n.text[12:] and len(set(n.text)) == 12
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for pattern in n.patterns for row in pattern)
    assert "In 60 steps no head reached 0.5." in text


def test_the_moment_is_reported():
    n = run_once("induction").numbers
    checkpoints = [Checkpoint(0, 4.2, 4.2, [0.0, 0.1]), Checkpoint(50, 4.2, 1.9, [0.1, 0.6]), Checkpoint(100, 4.2, 0.3, [0.1, 0.7])]
    found = Findings(checkpoints, [[0.1] * 4, [0.7, 0.3, 0.1, 0.1]], {8: 0.81, 24: 0.62}, [["previous"] * 4, ["mixed"] * 4])
    text = " ".join(printed_text("induction", changed(n, found=found)).split())
    assert "At step 50 it has appeared: head 0 of layer 1." in text and "<- appears" in text
    assert "from step 0 to 50: the best score goes from 0.10 to 0.60, and the loss in the second half from 4.20 to 1.90" in text
    assert "0.81 with period 8 and 0.62 with period 24" in text


def test_training_ends_a_while_after_a_head_was_found(monkeypatch):
    monkeypatch.setattr(induction, "FOUND", 0.0)
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch12"), whole=True), "tested")
    looks = []
    try:
        chapters = package.module("ch07_models"), package.module("ch12_interpretability")
        found = induction.train(*chapters, steps=50, every=2, longer=3, at_checkpoint=lambda model: looks.append(model.training))
    finally:
        package.close()
    assert [moment.step for moment in found.checkpoints] == [0, 2, 4, 5] and len(looks) == 4


# ---- patching


def test_the_fact_moves_from_the_country_to_the_last_place():
    n, text = run_once("patching").numbers, run_once("patching").text
    assert n.right == len(patching.SENTENCES) == 36 and n.pairs == 24 and n.loss_after < 0.05
    assert n.everywhere == pytest.approx([1] * 4, abs=1e-4)
    for table in (n.one, n.other_country, n.other_question, n.needed):
        assert all(abs(row[0]) < 1e-5 for row in table), "nothing comes before the first word"
        assert table[-1] == pytest.approx([0, 0, 0, 0, 1], abs=1e-4)
    to_the_last = [row[patching.LAST] for row in n.other_country]
    at_the_country = [row[patching.COUNTRY] for row in n.other_country]
    assert to_the_last[0] < 0.9 and to_the_last == sorted(to_the_last) and at_the_country[0] > at_the_country[2]
    assert all(row[patching.COUNTRY] == pytest.approx(0, abs=1e-4) for row in n.other_question), "the country is the same in these"
    assert n.says[-1][-1] == n.answers[0] == "paris" and n.says[0][0] == n.answers[1] == "rome"
    assert text.count("it is mostly at") >= 2 and patching.strongest_places(n.other_country)[-1] == patching.LAST
