"""The walks on caches, experts, positions, serving and the inside of models: their statements are true for the numbers of a run on the reference.

Three of them train for so long that they run here with a few seconds of training; tests of their measurements cover two in full.
"""

from types import SimpleNamespace

import pytest
from grader.chapters.ch07_models import walk_positions as positions
from grader.chapters.ch10_kv_cache import walk_kv_cache as kv_cache
from grader.chapters.ch11_moe import walk_moe as moe
from grader.chapters.ch12_interpretability import walk_induction as induction
from grader.chapters.ch12_interpretability import walk_patching as patching
from grader.chapters.ch15_serving import walk_speculation as speculation
from grader.teaching.walks import load
from walk_runs import changed, check_walk, printed_text, run_once

pytestmark = pytest.mark.thorough
SMALLER = {
    kv_cache: {"COUNTED": (8, 16, 64), "TIMED": (4, 8), "WIDTH": 32},
    moe: {"STEPS": 100},
    positions: {"STEPS": 20},
    induction: {"MAX_STEPS": 60},
    speculation: {"DRAWS": 60},
}
WALKS = ("kv-cache", "moe", "positions", "logit-lens", "heads", "induction", "patching", "tiles", "speculation", "paging")


@pytest.fixture(scope="module", autouse=True)
def in_seconds():
    with pytest.MonkeyPatch.context() as patch:
        for walk, sizes in SMALLER.items():
            for name, value in sizes.items():
                patch.setattr(walk, name, value)
        yield


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_fits_the_page_and_names_exactly_the_exercises_that_run(name):
    check_walk(name)


@pytest.mark.parametrize("name", ["moe", "induction"])
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


def test_memory_and_time_are_distinguished_from_counts():
    n, text = run_once("kv-cache").numbers, run_once("kv-cache").text
    assert kv_cache.MODELS[1][0] == "Llama 2, 7B" and n.memory[1] == [2**29, 2**32, 2**36] and "512 MiB    4 GiB   64 GiB" in text
    assert n.same and [row.tokens for row in n.timed] == [4, 8]
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


def test_losses_and_weights_by_position_belong_to_their_positions():
    n = run_once("positions").numbers
    assert [row.name for row in n.rows][2:] == list(n.heads) == list(positions.SCHEMES)
    for row in n.rows:
        assert len(row.places) == 64 - 2 and sum(row.places) / len(row.places) == pytest.approx(row.at[64], abs=1e-4)


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


# ---- induction


def test_the_observed_head_is_the_best_one():
    n, text = run_once("induction").numbers, run_once("induction").text
    assert [moment.step for moment in n.found.checkpoints] == [0, 50, 60] and len(n.patterns) == len(n.previous) == 3
    assert n.text[:12] == n.text[12:] and len(set(n.text)) == 12
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for pattern in n.patterns for row in pattern)
    assert "In 60 steps no head reached 0.5." in text


def test_the_moment_is_reported():
    n = run_once("induction").numbers
    rows = ((0, 4.2, [0.0, 0.1]), (50, 1.9, [0.1, 0.6]), (100, 0.3, [0.1, 0.7]))
    checkpoints = [SimpleNamespace(step=step, first=4.2, second=second, best=best) for step, second, best in rows]
    best = {"appeared": 50, "layer": 1, "head": 0, "score": 0.7, "other_periods": {8: 0.81, 24: 0.62}}
    found = changed(n.found, checkpoints=checkpoints, **best)
    text = " ".join(printed_text("induction", changed(n, found=found)).split())
    assert "At step 50 it has appeared: head 0 of layer 1." in text and "<- appears" in text
    assert "from step 0 to 50: the best score goes from 0.10 to 0.60, and the loss in the second half from 4.20 to 1.90" in text
    assert "0.81 with period 8 and 0.62 with period 24" in text


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


# ---- speculation and paging


def test_speculation_keeps_guesses_in_order_and_replaces_the_first_refused_one():
    n = run_once("speculation").numbers
    fates = [fate for one in n.rounds for *_, fate in one.guesses]
    assert len(n.rounds) == speculation.ROUNDS and {"kept", "refused"} <= set(fates)
    for one, following in zip(n.rounds, n.rounds[1:]):
        assert following.before == " ".join([one.before, *one.written])
    for one in n.rounds:
        kept = [word for word, *_, fate in one.guesses if fate == "kept"]
        assert one.written[:-1] == kept and [guess[0] for guess in one.guesses][: one.kept] == kept
        assert [guess[-1] for guess in one.guesses].count("refused") == (len(kept) < speculation.DRAFTED)


def test_speculation_saves_passes_and_changes_no_text():
    n, text = run_once("speculation").numbers, run_once("speculation").text
    assert n.different == 0
    assert all(160 / (size + 1) <= passes < 160 for size, passes in n.passes.items())
    assert "All 100 texts are those of generate" in text
    assert "1 of 100 texts differ from those of generate, but they should not." in printed_text("speculation", changed(n, different=1))


def test_paging_takes_shares_copies_and_gives_back_as_it_says():
    n, text = run_once("paging").numbers, run_once("paging").text
    _, _, forked, branch, own, gone, _ = n.states
    assert [state.free for state in n.states] == [6, 5, 5, 4, 4, 6, 4]
    assert forked.tables["B2"] == forked.tables["B"] and branch.tables["B2"][2] != branch.tables["B"][2]
    assert own.tables == branch.tables and "A" not in gone.tables
    assert "C took a new block" in " ".join(text.split())
    assert n.wrong == 0 and n.is_unchanged and "Nothing has changed" in text


def test_paging_reports_a_cache_that_breaks_its_promises():
    n = run_once("paging").numbers
    assert "something has changed, and it should not" in printed_text("paging", changed(n, is_unchanged=False))
    assert "although the pool has not enough blocks" in " ".join(printed_text("paging", changed(n, error="")).split())
