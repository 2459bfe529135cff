"""Wrong lists, strings and dicts in words: each sentence where it is true, and silence elsewhere."""

import pytest
from grader.verdict.sequences import explain_plain

CASES = [
    (None, ["a"], "None came back"),
    (("a", "b"), ["a", "b"], "in a tuple"),
    ({"a", "b"}, ["a", "b"], "It is a set"),
    ({"a": 0, "b": 1}, ["a", "b"], "a dict whose keys"),
    ("a b", ["a", "b"], "joined to a string"),
    (["b", "a", "c"], ["a", "b", "c"], "in another order"),
    (["c", "b", "a"], ["a", "b", "c"], "from last to first"),
    ([1, 2], [1, 2, 3], "One item is missing: 3, the last"),
    ([0, 1, 2], [1, 2], "One item is too many: 0, the first"),
    ([1, 9, 2, 3], [1, 2, 3], "One item is too many: 9, at index 1"),
    ([2, 3, 4], [1, 2, 3], "Every number is 1 too high"),
    (["1", "2"], [1, 2], "each is a string"),
    (["The", "a"], ["the", "a"], "upper and lower case"),
    (["a", "a", "b", "b"], ["a", "b"], "some of them more than once"),
    ([1, 2], [1, 2, 3, 4, 5], "stops after 2 items of 5"),
    ([1, 7, 3, 4], [1, 2, 3, 5], "first differs at index 1: 7, where 2 should stand"),
    ([], [1], "It is empty"),
    ({(0, 0): 2}, {(0, 0): 3}, "The key is right; its value is 1 too low"),
    ({(0, 0): 1, (0, 1): 5}, {(0, 0): 3, (0, 1): 5}, "1 of 2 values is wrong: at (0, 0) it is 2 too low"),
    ({(0, 1): 1, (1, 1): 0}, {(0, 1): 2, (1, 1): 1}, "every value is 1 too low"),
    ({(0, 1): 1}, {(0, 1): 1, (1, 2): 1}, "The key (1, 2) is missing"),
    ({(0, 1): 1, (1, 2): 1}, {(0, 1): 1}, "The key (1, 2) is too many"),
    ({256: (1, 2)}, {(1, 2): 256}, "changed places"),
    ({(2, 1): 1}, {(1, 2): 1}, "wrong way round"),
    ({"0,0": 3}, {(0, 0): 3}, "keys are each a string; they should be a tuple"),
    ([((0, 0), 3)], {(0, 0): 3}, "(key, value) pairs"),
    ({"b": 2, "a": 1}, {"a": 1, "b": 2}, "another order"),
    ("a B", "a b", "upper and lower case"),
    ("a b ", "a b", "at its beginning or end"),
    ("ab", "a b", "white space"),
    (b"ab", "ab", "as bytes"),
    (["a", "b"], "a b", "joined with a space between"),
    ("abxd", "abcd", "character 2: 'xd', where 'cd'"),
    ("abc", "abcd", "stops after 3 characters of 4"),
    (3, 4, "1 too low"),
    ("a", [1], "a string, and a list"),
]


@pytest.mark.parametrize("got, expected, words", CASES)
def test_a_wrong_value_is_explained(got, expected, words):
    assert words in " ".join(explain_plain(got, expected))


@pytest.mark.parametrize("got, expected", [(True, 1), ([[1], [2, 3]], [[2], [3]]), (object(), 1), ([1] * 5000, [2] * 5000), (1.5, 2)])
def test_nothing_is_said_where_nothing_is_certain(got, expected):
    assert explain_plain(got, expected) == []
