"""Pairs with similar code: copies that somebody changed are found, and people who worked alone are not."""

import textwrap

import pytest
from grader.classroom.similarity.comparison import compare
from grader.classroom.similarity.page import MAX_SHOWN_EXERCISES, mark_both, render
from grader.classroom.similarity.pieces import all_pieces, chapter_pieces
from grader.course.stubs import reference_stub
from grader.course.syllabus import SOLUTIONS, load_syllabus
from seeded_copies import (
    CHANGES,
    a_submission,
    change_comments,
    change_statements,
    honest_courses,
    rename_variables,
    reorder_functions,
)

COURSES = honest_courses()
EVERYTHING = load_syllabus().exercises
CHAPTER = "ch03_attention"
# Chapters in which so little is left, after the course is taken away, that a copy cannot be told from the usual solution.
SHORT = {("terse", "ch00_first_model"), ("loops", "ch06_blocks"), ("terse", "ch06_blocks"), ("typed", "ch06_blocks")}


def compared(*submissions, exercises=EVERYTHING, groups=None):
    return compare(submissions, exercises, groups or {})


def named(comparison):
    return [comparison.names(pair) for pair in comparison.pairs]


def of_chapter(module, **more):
    """The honest courses in one chapter, and more people."""
    return [a_submission(style, {module: course[module]}) for style, course in COURSES.items()] + [a_submission(name, {module: text}) for name, text in more.items()]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_of_a_chapter_comes_first(change):
    found = compared(*of_chapter(CHAPTER, copy=CHANGES[change](COURSES["typed"][CHAPTER])))
    assert named(found) == [("typed", "copy")] and found.pairs[0].percent >= 70


@pytest.mark.thorough
@pytest.mark.parametrize("change", ["changed statements", "all of these"])
def test_a_changed_copy_of_any_chapter_comes_first_if_it_is_long_enough(change):
    missed = set()
    for style, course in COURSES.items():
        for module, text in course.items():
            found = compared(*of_chapter(module, copy=CHANGES[change](text)))
            if named(found)[:1] == [(style, "copy")] and found.pairs[0].percent >= 65:
                continue
            assert (style, "copy") not in named(found), "it is listed, and is not the first"
            missed.add((style, module))
    assert missed <= SHORT


@pytest.mark.thorough
@pytest.mark.parametrize("change", ["changed statements", "all of these"])
def test_a_changed_copy_of_a_whole_course_is_the_only_pair(change):
    for style, course in COURSES.items():
        copy = {module: CHANGES[change](text) for module, text in course.items()}
        found = compared(*(a_submission(name, text) for name, text in COURSES.items()), a_submission("copy", copy))
        assert named(found) == [(style, "copy")] and found.pairs[0].percent >= 85


def test_a_copied_part_of_the_work_is_found():
    """Three copied chapters in the work of somebody who wrote the others alone."""
    mixed = COURSES["loops"] | {module: CHANGES["all of these"](COURSES["typed"][module]) for module in ("ch03_attention", "ch08_training", "ch09_sampling")}
    found = compared(a_submission("typed", COURSES["typed"]), a_submission("mixed", mixed), a_submission("terse", COURSES["terse"]))
    assert named(found) == [("typed", "mixed")]
    alone = {"gelu_backward"}  # both courses have this formula
    alike = {one.module for one in found.pairs[0].alike if one.name not in alone}
    assert found.pairs[0].percent < 40 and alike == {"ch03_attention", "ch08_training", "ch09_sampling"}


def test_each_change_alone_changes_no_piece():
    text = COURSES["typed"][CHAPTER]
    pieces = chapter_pieces(text)
    for change in (reorder_functions, change_comments, rename_variables):
        assert chapter_pieces(change(text)) == pieces
    assert change_statements("def f(x):\n    x += 1\n    y = x\n    a = 2\n") == "def f(x):\n    x = x + 1\n    a = 2\n    y = x"
    long = "def softmax(x):\n    x {}\n    return x * x\n"
    assert chapter_pieces(long.format("+= 1")) == chapter_pieces(long.format("= x + 1")) != chapter_pieces(long.format("= 1 + x"))
    assert rename_variables("def f(x):\n    y = x\n    return y") == "def f(v0):\n    v1 = v0\n    return v1"


def test_a_definition_below_an_if_or_a_try_has_the_same_pieces():
    text = COURSES["typed"][CHAPTER]
    first = text.index("import math")
    for outer, after in (("if True:", ""), ("try:", "except ImportError:\n    raise\n")):
        inside = f"{text[:first]}{outer}\n{textwrap.indent(text[first:], '    ')}{after}"
        assert chapter_pieces(inside) == chapter_pieces(text)


def test_how_variables_are_used_makes_a_difference():
    code = "def softmax(a, b):\n    c = a @ b\n    return torch.exp({})\n"
    assert chapter_pieces(code.format("c - c.max()")) != chapter_pieces(code.format("a - c.max()"))


def test_what_the_course_explains_makes_nobody_similar():
    reference = {path.stem: path.read_text(encoding="utf-8") for path in SOLUTIONS.glob("ch0*.py")}
    found = compared(a_submission("A", reference), a_submission("B", {module: rename_variables(text) for module, text in reference.items()}))
    assert found.pairs == [] and found.identical == []
    assert all_pieces(reference[CHAPTER]) >= chapter_pieces(reference[CHAPTER])["softmax"]


def test_identical_files_are_named_as_such():
    course = {CHAPTER: COURSES["terse"][CHAPTER]}
    found = compared(a_submission("A", course), a_submission("B", course), a_submission("C", {CHAPTER: COURSES["loops"][CHAPTER]}))
    assert found.identical == [["A", "B"]] and [pair.identical for pair in found.pairs] == [True] and found.pairs[0].percent == 100


def test_unchanged_stubs_are_not_named():
    stub = {CHAPTER: reference_stub(CHAPTER)}
    found = compared(a_submission("A", stub), a_submission("B", stub))
    assert found.identical == [] and found.pairs == [] and found.compared == 2


def test_members_of_a_group_are_no_pair():
    text, other = COURSES["typed"][CHAPTER], COURSES["loops"][CHAPTER]
    together = [a_submission("A", {CHAPTER: text}, group="g"), a_submission("B", {CHAPTER: text}, group="g")]
    assert compared(*together, a_submission("C", {CHAPTER: other})).pairs == []
    assert compared(*together).identical == []
    by_roster = [a_submission("A", {CHAPTER: text}), a_submission("B", {CHAPTER: rename_variables(text)})]
    assert compared(*by_roster, groups={"A": "1", "B": "1"}).pairs == []
    assert named(compared(*by_roster, groups={"A": "1", "B": "2"})) == [("A", "B")]
    assert named(compared(*together, a_submission("C", {CHAPTER: rename_variables(text)}))) == [("A", "C"), ("B", "C")]


@pytest.mark.parametrize("many", [18, 30])
def test_a_way_that_many_share_makes_nobody_similar(many):
    """So many people, of 20 or 32, wrote chapter 3 in the same way, and only two of them chapter 9."""
    usual, rare = COURSES["loops"], COURSES["typed"]
    people = [a_submission(f"P{number}", {CHAPTER: usual[CHAPTER]} | ({"ch09_sampling": rare["ch09_sampling"]} if number in (3, 7) else {})) for number in range(many)]
    others = [a_submission(style, {CHAPTER: course[CHAPTER]}) for style, course in COURSES.items() if course is not usual]
    assert named(compared(*people, *others)) == [("P3", "P7")]


def test_a_large_ring_does_not_hide_itself(size=5):
    """So many people share one solution, each with other names and comments; the others are honest courses."""
    course = COURSES["typed"]
    chapters = ("ch03_attention", "ch09_sampling")
    ring = [a_submission(f"R{number}", {m: CHANGES["all of these" if number % 2 else "renamed variables"](course[m]) for m in chapters}) for number in range(size)]
    others = [a_submission(f"O{number}", {m: COURSES[style][m] for m in chapters}) for number, style in enumerate(("loops", "terse"))]
    found = compared(*others, *ring)
    assert {name for names in named(found) for name in names} == {one.name for one in ring} and len(found.pairs) == size * (size - 1) // 2


def test_a_class_with_one_solution_is_shown_as_a_group(size=12):
    """All of them have the same code, each with another comment; what counts in pairs is too little for a pair."""
    text = COURSES["typed"][CHAPTER]
    people = [a_submission(f"P{number:02}", {CHAPTER: f"{text}\n# {number}\n"}) for number in range(size)]
    found = compared(*people)
    assert found.pairs == [] and found.identical == [] and found.summary == "no pair to look at, 1 group with the same code"
    [group] = found.groups
    assert found.members(group) == [one.name for one in people]
    assert {one.name for one in group.exercises} >= {"softmax", "scaled_dot_product_attention"} and 0 < group.counted_percent < 40
    page = render(found, "Week 3")
    assert "No pair to look at, 1 group with the same code." in page and "12 of the 12 people have this code." in page
    assert f"it counts {group.counted_percent} % of what rare code counts, because" in page and page.count("<figure>") == len(group.exercises) <= MAX_SHOWN_EXERCISES
    alone = compared(*people, *(a_submission(style, {CHAPTER: COURSES[style][CHAPTER]}) for style in ("loops", "terse")))
    assert [alone.members(one) for one in alone.groups] == [[one.name for one in people]]


def test_groups_have_what_all_of_their_people_share():
    """Three people share two chapters, and a fourth shares one of them; two people are a pair, and honest people no group."""
    course, other = COURSES["typed"], "ch09_sampling"
    both = [a_submission(f"P{number}", {module: f"{course[module]}\n# {number}\n" for module in (CHAPTER, other)}) for number in range(3)]
    one = a_submission("P3", {CHAPTER: course[CHAPTER], other: COURSES["loops"][other]})
    found = compared(*both, one)
    assert [(found.members(group), {part.module for part in group.exercises}) for group in found.groups] == [
        (["P0", "P1", "P2", "P3"], {CHAPTER}), (["P0", "P1", "P2"], {CHAPTER, other}),
    ]  # fmt: skip
    assert compared(*both[:2]).groups == [] and named(compared(*both[:2])) == [("P0", "P1")]
    assert compared(*(a_submission(style, code) for style, code in COURSES.items())).groups == []
    together = [a_submission(f"P{number}", one.sources, group="g") for number in range(3)]
    assert compared(*together).groups == []


def test_bad_code_costs_only_its_own_author():
    text = COURSES["typed"][CHAPTER]
    long = "def softmax(x, dim=-1):\n" + "".join(f"    x = x + {number} * x ** {number}\n" for number in range(3000))
    bad = {"syntax": "def f(:\n", "null": "\0", "long": long, "empty": "", "halves": "def f():\n    return '\ud800'\n"}
    found = compared(*(a_submission(name, {CHAPTER: code}) for name, code in bad.items()), *of_chapter(CHAPTER, copy=rename_variables(text)))
    assert named(found) == [("typed", "copy")]
    notes = "\n".join(found.notes)
    assert "syntax: ch03_attention.py, line 1: this is not valid Python (invalid syntax), so the file is not compared" in notes
    assert "null: ch03_attention.py" in notes and "long: softmax of ch03_attention.py is too long to compare" in notes


def test_marked_lines_are_the_common_ones():
    code = "def softmax(x, dim=-1):\n    '''Mine.'''\n    # note\n    y = torch.stack([x, x * 3]).roll(7, dims=0)[1].add(5)\n\n    return {}\n"
    ends = "y.flip(0).tril().cumsum(1).neg().asin() + 1.5", "[y[i][-i] for i in range(3, 9) if i % 2 and y.any()]"
    texts = tuple(code.format(end) for end in ends)
    common = chapter_pieces(texts[0])["softmax"] & chapter_pieces(texts[1])["softmax"]
    first, second = mark_both(texts, "softmax", common)
    assert [line.number for line in first] == [1, 3, 4, 6] == [line.number for line in second]
    assert first[1].text == "    # note" and not first[1].is_alike and first[2].is_alike and not second[3].is_alike
