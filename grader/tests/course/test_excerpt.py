"""The line of a syntax error, with a caret below the place."""

import pytest
from grader.course.source import SourceProblem, excerpt, parse


@pytest.mark.parametrize(
    ("text", "marked", "reason"),
    [
        ("x = 1\ny = (x\nz = 2\n", "(", "'(' was never closed"),
        ("def f(x)\n    return x\n", "", "expected ':'"),
        ("def f(x):\n\treturn x +* 2\n", "*", "invalid syntax"),
        ("名前 = '数' +* 2\n", "*", "invalid syntax"),
        ("x = " + "1 + " * 60 + "2 2\n", "2", "invalid syntax"),
        ("if x = 1:\n    pass\n", "x = 1", "instead of '='"),
    ],
)
def test_the_caret_is_below_the_place(text, marked, reason):
    with pytest.raises(SourceProblem) as caught:
        parse(text, "ch01.py")
    *lines, caret = excerpt(text, caught.value)
    assert set(caret.strip()) == {"^"} and reason in caught.value.reason and "ch01" not in caught.value.reason
    line, wide = lines[-1], 0
    for place, character in enumerate(line):
        if place + wide == caret.index("^"):
            assert line[place:].startswith(marked)
            break
        wide += ord(character) > 0x2E80
    else:
        assert not marked
    assert all(len(shown) <= 110 for shown in (*lines, caret))


def test_without_a_line_there_is_no_excerpt():
    assert excerpt("x = 1\n", SourceProblem("ch01.py is empty")) == []
    assert excerpt("x = 1\n", SourceProblem("beyond the end", line=9)) == []
    assert excerpt("x = 1\ny\n", SourceProblem("a line", line=2)) == ["    1 | x = 1", "    2 | y"]
