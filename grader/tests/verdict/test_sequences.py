"""Wrong lists, strings and dicts in words: each sentence if it is true, and nothing otherwise."""

import pytest
from grader.verdict.sequences import explain_plain

CASES = [
    (None, ["a"], "The result is None"),
    (("a", "b"), ["a", "b"], "The items are right, but it is a tuple"),
    ({"a", "b"}, ["a", "b"], "It is a set; it should be a list."),
    (["b", "a", "c"], ["a", "b", "c"], "in the wrong order"),
    (["c", "b", "a"], ["a", "b", "c"], "in reverse order"),
    ([1, 2], [1, 2, 3], "One item is missing: 3, the last"),
    ([0, 1, 2], [1, 2], "One item is unexpected: 0, the first"),
    ([1, 9, 2, 3], [1, 2, 3], "One item is unexpected: 9, at index 1"),
    ([2, 3, 4], [1, 2, 3], "Every number is 1 too high"),
    (["1", "2"], [1, 2], "each is a string"),
    ([1, 2], [1, 2, 3, 4, 5], "stops after 2 items of 5"),
    ([1, 7, 3, 4], [1, 2, 3, 5], "first differs at index 1: 7 instead of 2"),
    ([], [1], "It is empty"),
    ({(0, 0): 1, (0, 1): 5}, {(0, 0): 3, (0, 1): 5}, "1 of 2 values is wrong: at (0, 0) it is 2 too low"),
    ({(0, 1): 1, (1, 1): 0}, {(0, 1): 2, (1, 1): 1}, "every value is 1 too low"),
    ({(0, 1): 1}, {(0, 1): 1, (1, 2): 1}, "The key (1, 2) is missing"),
    ({(0, 1): 1, (1, 2): 1}, {(0, 1): 1}, "The key (1, 2) is unexpected"),
    ({"0,0": 3}, {(0, 0): 3}, "keys are each a string; they should be a tuple"),
    ({"b": 2, "a": 1}, {"a": 1, "b": 2}, "wrong order"),
    ("a B", "a b", "upper and lower case"),
    ("ab", "a b", "white space"),
    (b"ab", "ab", "It is a bytes; it should be a string"),
    ("abxd", "abcd", "character 2: 'xd' instead of 'cd'"),
    ("abc", "abcd", "stops after 3 characters of 4"),
    (3, 4, "1 too low"),
    ("a", [1], "a string; it should be a list"),
]


@pytest.mark.parametrize("got, expected, words", CASES)
def test_a_wrong_value_is_explained(got, expected, words):
    assert words in " ".join(explain_plain(got, expected))


@pytest.mark.parametrize("got, expected", [(True, 1), ([[1], [2, 3]], [[2], [3]]), (object(), 1), ([1] * 5000, [2] * 5000), (1.5, 2)])
def test_nothing_is_said_if_nothing_is_certain(got, expected):
    assert explain_plain(got, expected) == []
