"""The walks of chapter 15, on speculation and on paging: their statements are true for the numbers of a run on the reference."""


import pytest
from grader.teaching.walks import paging, speculation
from walk_runs import changed, check_page, check_required_exercises, printed_text, run_once


@pytest.fixture(scope="module", autouse=True)
def in_seconds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speculation, "DRAWS", 60)
        yield


@pytest.mark.parametrize("name", ["speculation", "paging"])
def test_a_walk_names_exactly_the_exercises_that_run(name):
    check_required_exercises(name)


@pytest.mark.parametrize("name", ["speculation", "paging"])
def test_a_walk_fits_the_page_and_is_the_same_twice(name):
    check_page(name)


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


def test_speculation_calculates_the_models_distribution_from_kept_and_replaced_words():
    n = run_once("speculation").numbers
    target = n.after_prompt["model"]
    for expected, kept, rest in zip(target, n.after_prompt["kept"], n.after_prompt["residual"]):
        assert kept + n.refused * rest == pytest.approx(expected, abs=1e-5)
    assert 0 < n.refused < 1 and all(abs(share - expected) < 0.3 for share, expected in zip(n.shares, target))


def test_speculation_saves_passes_and_changes_no_text():
    n, text = run_once("speculation").numbers, run_once("speculation").text
    assert n.different == 0
    assert all(160 / (size + 1) <= passes < 160 for size, passes in n.passes.items())
    assert "All 100 texts are those of generate" in text
    assert "1 of 100 texts differ from those of generate, but they should not." in printed_text("speculation", changed(n, different=1))


def test_paging_takes_shares_copies_and_gives_back_as_it_says():
    n, text = run_once("paging").numbers, run_once("paging").text
    prompts, written, forked, branch, own, gone, reused = n.states
    assert [state.free for state in n.states] == [6, 5, 5, 4, 4, 6, 4]
    for state in n.states:
        for name, table in state.tables.items():
            assert len(table) == -(-state.lengths[name] // paging.SIZE)
        used = {block for table in state.tables.values() for block in table}
        assert len(used) + state.free == paging.N_BLOCKS
        assert state.holders == {block: sum(block in table for table in state.tables.values()) for block in sorted(used)}
    assert forked.tables["B2"] == forked.tables["B"] and branch.tables["B2"][:2] == branch.tables["B"][:2] and branch.tables["B2"][2] != branch.tables["B"][2]
    assert own.tables == branch.tables and "A" not in gone.tables
    assert "C took a new block" in " ".join(text.split())
    assert n.wrong == 0 and n.is_unchanged and "Nothing has changed" in text


def test_paging_reports_a_cache_that_breaks_its_promises():
    n = run_once("paging").numbers
    assert "something has changed, and it should not" in printed_text("paging", changed(n, is_unchanged=False))
    assert "although the pool has not enough blocks" in " ".join(printed_text("paging", changed(n, error="")).split())
