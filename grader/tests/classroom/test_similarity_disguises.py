"""A copy stays similar however it is disguised, and what is common in a class is never passed over in silence."""

import pytest
from disguises import DISGUISES, PARTLY_SEEN
from grader.classroom.similarity.comparison import compare
from grader.classroom.similarity.page import render
from grader.classroom.similarity.pieces import chapter_pieces, explained_pieces
from grader.course.syllabus import load_syllabus
from seeded_copies import a_submission, honest_courses, rename_variables

COURSES = honest_courses()
EVERYTHING = load_syllabus().exercises
CHAPTERS = ("ch03_attention", "ch08_training", "ch09_sampling")
COPIED = ["ch03_attention", "ch08_training", "ch09_sampling", "ch20_modern_block"]


def compared(*submissions, discount=100):
    return compare(submissions, EVERYTHING, {}, discount)


def pairs(comparison):
    return {comparison.names(pair): pair.percent for pair in comparison.pairs}


def with_copy(style, chapters, change):
    """The honest courses in these chapters, and a disguised copy of one of them."""
    honest = [a_submission(name, {module: course[module] for module in chapters}) for name, course in COURSES.items()]
    return compared(*honest, a_submission("copy", {module: change(COURSES[style][module]) for module in chapters}))


@pytest.mark.parametrize("style", COURSES)
@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguised_copy_is_the_only_pair(disguise, style):
    found = pairs(with_copy(style, CHAPTERS, DISGUISES[disguise]))
    assert found.keys() == {(style, "copy")} and found[style, "copy"] >= 90


@pytest.mark.parametrize("disguise", DISGUISES | PARTLY_SEEN)
def test_a_disguise_is_valid_python_and_changes_the_text(disguise):
    for course in COURSES.values():
        for module in COPIED:
            changed = (DISGUISES | PARTLY_SEEN)[disguise](course[module])
            compile(changed, module, "exec")
            assert changed != course[module]


@pytest.mark.parametrize("style", COURSES)
@pytest.mark.parametrize("disguise", PARTLY_SEEN)
def test_a_copy_with_other_operations_is_still_listed(disguise, style):
    found = pairs(with_copy(style, CHAPTERS, PARTLY_SEEN[disguise]))
    assert found.keys() == {(style, "copy")} and found[style, "copy"] >= 40


@pytest.mark.thorough
@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguised_copy_of_a_whole_course_is_the_only_pair(disguise):
    for style, course in COURSES.items():
        found = pairs(with_copy(style, [*course], DISGUISES[disguise]))
        assert found.keys() == {(style, "copy")} and found[style, "copy"] >= 90


@pytest.mark.parametrize("discount", [0, 100])
def test_courses_that_were_written_apart_are_no_pair(discount):
    found = compared(*(a_submission(style, course) for style, course in COURSES.items()), discount=discount)
    assert found.pairs == [] and found.groups == [] and found.common == [] and found.short == []


@pytest.mark.parametrize(
    "first, second",
    [
        ("if x.any(): return {0}\n    return 2", "if not x.any():\n        return 2\n    else:\n        return {0}"),
        ("y = {0}\n    return y + y", "if not 0:\n        y: object = {0}\n    return y + y\n    print(y)"),
        ("y = {0}\n    return y + y", "z = k = {0}\n    return k + k"),
        ("y = {0}\n    return y + y", "def inner(x):\n        return {0}\n    y = inner(x)\n    return y + y"),
        ("y = {0}\n    return y + y", "return (y := {0}) + y"),
        ("y = {0}\n    y = y.flip(0)\n    return y.add(y)", "a = {0}\n    b = a.flip(0)\n    return b.add(b)"),
        ("return [a * {0} for a in x]", "found = []\n    for a in x:\n        found.append(a * {0})\n    return found"),
        ("return {{a: {0} for a in x if a}}", "found = {{}}\n    for a in x:\n        if a:\n            found[a] = {0}\n    return found"),
    ],
)  # fmt: skip
def test_two_ways_to_write_the_same_have_the_same_pieces(first, second):
    value = "torch.stack([x, x * 3]).roll(7, dims=0)[1].asin()"
    one, other = (chapter_pieces(f"def softmax(x):\n    {code.format(value)}\n")["softmax"] for code in (first, second))
    shared = 2 * len(one & other) / (len(one) + len(other))
    assert shared == 1 or ("not x.any" in second and shared > 0.8)


def test_what_has_an_effect_is_no_dead_code():
    text = "def softmax(x):\n    {}\n    return torch.stack([x, x * 3]).roll(7, dims=0)[1]\n"
    plain, pure, effect, hidden = (chapter_pieces(text.format(line))["softmax"] for line in ("pass", "y = len(x.shape[2:]) + 1", "x.grad.add_(x, alpha=2)", "_ = x.grad.add_(x, alpha=2)"))
    assert plain == pure and effect == hidden > plain


def test_a_class_whose_code_counts_as_common_is_named_and_can_be_compared_anyway():
    """Eighteen people share chapter 3, each with another disguise, so that no two of them have equal code."""
    changes = list(DISGUISES.values())[:-2]
    text = COURSES["typed"]["ch03_attention"]
    people = [a_submission(f"P{number:02}", {"ch03_attention": f"{changes[number % len(changes)](text)}\n# {number}\n"}) for number in range(18)]
    found = compared(*people)
    assert found.pairs == [] and found.common == [one.name for one in people] and found.short == []
    assert "18 people cannot be in a pair, because so many people have the same code" in render(found, "Week 3")
    found = compared(*people, discount=0)
    assert found.common == [] and found.found == 18 * 17 // 2 and min(pairs(found).values()) >= 85


def test_somebody_whose_code_the_course_explains_is_named():
    short = {"ch03_attention": "import torch\n\ndef padding_mask(ids, pad_id):\n    return (ids != pad_id)[:, None, None, :]\n"}
    found = compared(a_submission("A", short), a_submission("B", short), a_submission("C", COURSES["typed"]), discount=0)
    assert found.pairs == [] and found.common == [] and found.short == ["A", "B"]
    assert chapter_pieces(short["ch03_attention"])["padding_mask"] <= explained_pieces()


def test_an_exercise_that_is_computed_is_named_as_not_compared():
    text = "def make(scale):\n    return lambda x, dim=-1: x.mul(scale).softmax(dim)\nsoftmax = make(1)\n"
    assert compared(a_submission("A", {"ch03_attention": text})).notes == ["A: softmax of ch03_attention.py is the result of a computation, so it is not compared"]


def test_hostile_code_costs_only_its_own_author():
    chain = "def softmax(x):\n    a0 = x\n" + "".join(f"    a{n + 1} = f(a{n}, 1)\n" for n in range(3000)) + "    return a3000\n"
    calls = "".join(f"def f{n}(x):\n    return f{n + 1}(x) + 1\n" for n in range(2000)) + "def softmax(x):\n    return f0(x)\n"
    copies = "A = 1 + 1\n" + "".join(f"{'A' * (n + 2)} = {'A' * (n + 1)} + {'A' * (n + 1)}\n" for n in range(200)) + f"def softmax(x):\n    return {'A' * 201} + x\n"
    cycle = "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\nclass A(B):\n    pass\nclass B(A):\n    pass\ndef softmax(x):\n    return f(x) + A(x)\n"
    odd = "softmax = softmax\nsoftmax = lambda: softmax()\nclass softmax(softmax): pass\ndef softmax(*a, b=1, **c):\n    a = b = c = (lambda *d: d)(*a, **c)\n    (yield)\n    return [*a][(b := 2)]\n"
    bad = {"chain": chain, "calls": calls, "copies": copies, "cycle": cycle, "odd": odd, "open": "(" * 3000, "huge": f"x = [{'1, ' * 60000}]\n"}
    text = COURSES["typed"]["ch03_attention"]
    found = compared(a_submission("A", {"ch03_attention": text}), a_submission("B", {"ch03_attention": rename_variables(text)}), *(a_submission(name, {"ch03_attention": code}) for name, code in bad.items()))
    assert pairs(found) == {("A", "B"): 100}
    notes = {note.partition(":")[0]: note for note in found.notes}
    assert notes.keys() == {"chain", "calls", "open", "huge"} and len(found.notes) == 4
    assert "nested too deeply" in notes["chain"] + notes["calls"] or "inside each other" in notes["chain"] + notes["calls"]
