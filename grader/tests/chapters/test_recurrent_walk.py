"""The walk of chapter 22: its statements are true for the numbers of a run on the reference."""

from __future__ import annotations

import pytest
from grader.chapters.ch22_recurrent import walk_state as state
from grader.console.output import hide_progress
from grader.teaching.walks.parts import MixedChapters
from walk_runs import check_walk

LAST = len(state.PAIRS)


@pytest.fixture(scope="module", params=(0, 1, 2))
def n(request):
    parts = MixedChapters(state.REQUIRED_EXERCISES, ())
    yield state.measure(parts, request.param, hide_progress)
    parts.close()


def test_the_walk_fits_the_page_and_names_exactly_the_exercises_that_run():
    check_walk("state")


def test_the_column_of_a_colour_is_the_key_that_was_stored(n):
    """After one pair; and no two keys are at a right angle."""
    grey = [row[state.COLOURS.index("grey")] for row in n.states["delta", 1]]
    assert sum(value**2 for value in grey) == pytest.approx(1)
    assert all(row.count(0) == len(state.COLOURS) - 1 for row in n.states["delta", 1])
    assert all(abs(n.products[a][b]) > 1e-3 for a in range(3) for b in range(a))


def test_the_delta_rule_replaces_and_the_sum_adds(n):
    grey, white = state.COLOURS.index("grey"), state.COLOURS.index("white")
    replaced, added = n.answers["delta", 3]["crane"], n.answers["sum", 3]["crane"]
    assert replaced[white] == pytest.approx(1) and replaced[grey] == pytest.approx(0)
    assert added[white] == pytest.approx(1) and added[grey] == pytest.approx(1)
    green = state.COLOURS.index("green")
    assert n.answers["delta", 2]["frog"][green] == pytest.approx(1) != pytest.approx(n.answers["delta", 3]["frog"][green])


def test_the_newest_pair_is_exact_and_a_state_that_fades_has_halved_the_rest(n):
    word, colour = state.PAIRS[-1]
    for rule in ("delta", "fading"):
        assert n.answers[rule, LAST][word] == pytest.approx([float(name == colour) for name in state.COLOURS])
    for before, faded in zip(n.answers["delta", 1]["crane"], n.answers["fading", 1]["crane"]):
        assert before == faded  # its own factor does not apply
    white = state.COLOURS.index("white")
    assert n.answers["fading", LAST]["crane"][white] == pytest.approx(state.FACTOR * n.answers["delta", LAST]["crane"][white])


def test_all_forms_agree(n):
    assert all(value < 1e-12 for found in n.difference.values() for value in found.values())
    assert n.layer_difference < 1e-5 * n.layer_largest * 10
    assert n.shapes == [(1, 3, 3 * state.LAYER_WIDTH), (1, 4, 16, 16)] and n.kept == 3 * 3 * 64 + 4 * 16 * 16
