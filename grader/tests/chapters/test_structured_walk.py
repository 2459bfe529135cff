"""The walk of chapter 25: its statements are true for the numbers of a run on the reference, and of a wrong one."""

from __future__ import annotations

import json

import pytest
from grader.chapters.ch25_structured_output import walk_form as form
from grader.console.output import hide_progress
from grader.teaching.walks.parts import MixedChapters
from walk_runs import check_walk


@pytest.fixture(scope="module", params=(0, 1, 2))
def n(request):
    parts = MixedChapters(form.REQUIRED_EXERCISES, ())
    yield form.measure(parts, request.param, hide_progress)
    parts.close()


def test_the_walk_fits_the_page_and_names_exactly_the_exercises_that_run():
    check_walk("form")


def test_the_automaton_accepts_whole_numbers_only(n):
    assert n.accepted == [("7", True), ("-12", True), ("007", False), ("1.5", False), ("-", False)]


def test_each_form_holds_and_fits_its_budget(n):
    assert n.valid and not form.is_json(n.free) and min(n.texts) == n.least
    for budget, (text, tokens, passes) in n.texts.items():
        assert json.loads(text)["kind"] in ("cat", "cow") and passes <= tokens <= budget
    assert n.refusal.startswith(f"no text of at most max_new_tokens = {n.least - 1} tokens matches")


def test_the_mask_leaves_little_of_what_the_model_would_say(n):
    """And a token without a choice has the probability 1 among those that are allowed."""
    assert len(n.steps) == list(n.texts.values())[-1][1]
    assert all(0 < share < 1 for _, _, share, _ in n.steps) and min(share for _, _, share, _ in n.steps) < 0.05
    assert all(chance == pytest.approx(1) for _, count, _, chance in n.steps if count == 1)


def test_the_call_is_read_and_run(n):
    a, b = json.loads(n.arguments).values()
    assert n.name == "multiply" and [message["role"] for message in n.messages] == ["user", "assistant"] * 3
    assert "there is no tool 'times'" in n.messages[2]["content"] and n.messages[4]["content"] == f"<tool_response>{a * b}</tool_response>"
    assert form.describe(n)["vocabulary"] == len(form.TOKENS)
