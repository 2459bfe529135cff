"""The learner's side of `headway show`: differences from the reference, and the message if there is nothing to draw."""

import math

import pytest
from grader.execution.target import Target, reference_of
from grader.teaching.show.both_sides import make_picture
from grader.teaching.show.panels import DIFFERENCE
from grader.teaching.show.terminal import render_picture
from panel_pictures import drawn, exercise


def test_where_the_two_differ_is_marked():
    picture = drawn("causal_mask", ("diagonal=k_len - q_len", "diagonal=0"))
    square, wide = picture.pairs
    assert not picture.agrees and picture.verdict == "Your result differs from the reference's in 12 of 70 numbers."
    assert square.differs is None and list(square.panels) == ["yours", "reference"]
    assert list(wide.panels) == ["yours", "reference", DIFFERENCE]
    assert wide.differs.values == [[0, -1, -1, -1, -1, 0, 0], [0, 0, -1, -1, -1, -1, 0], [0, 0, 0, -1, -1, -1, -1]]
    assert wide.differs.rows == ["the", "dog", "ran"] and wide.differs.words is None
    scale = wide.span(wide.differs)
    assert (scale.low, scale.high) == (-1, 1), "both signs, whichever there are"


def test_wrong_curves_bars_and_paths_are_marked():
    curve = drawn("gelu", ("torch.erf(x / math.sqrt(2))", "torch.erf(x)")).pairs[0]
    apart = dict(curve.differs.lines["exact"])
    assert apart[1.0] == pytest.approx(0.5 * (math.erf(1) - math.erf(1 / math.sqrt(2))), abs=1e-4)
    assert not any(y for _, y in curve.differs.lines["approximate"])
    bar = drawn("top_p_filter", ("probs.cumsum(dim=-1) - probs", "probs.cumsum(dim=-1)")).pairs[1]
    lost = [name for name, value in zip(bar.differs.labels, bar.differs.values) if value < 0]
    assert lost == ["floor"], "the word that crosses"
    turned_back = ("even * cos - odd * sin, even * sin + odd * cos", "even * cos + odd * sin, odd * cos - even * sin")
    path = drawn("apply_rope", turned_back).pairs[0]
    for (_, y), (step, difference) in zip(path.reference.lines["pair 0"], path.differs.lines["pair 0"]):
        assert difference == pytest.approx(2 * abs(y), abs=1e-4), step


def test_another_size_is_drawn_without_a_comparison():
    picture = drawn("causal_mask", ("torch.ones(q_len, k_len,", "torch.ones(q_len + 1, k_len,"))
    pair = picture.pairs[0]
    assert len(pair.yours.values) == 8 and pair.yours.rows[7] == "7" and pair.differs is None
    assert pair.note == "Your result is 8 x 7 and the reference's is 7 x 7, so no difference can be shown."
    assert not picture.agrees
    assert picture.verdict == "Your result does not have the size of the reference's result."


def test_missing_numbers_are_distinguished_from_numbers():
    picture = drawn("softmax", ("return exps / total.masked_fill(total == 0, 1.0)", "return (exps / total).log()"))
    [pair] = picture.pairs
    assert math.isinf(pair.yours.values[4][3]) and math.isnan(pair.differs.values[4][3])
    lines = [line.plain for line in render_picture(picture, 80, None)]
    assert sum("?" in line for line in lines if line.startswith("  saw hidden")) == 2  # yours and the difference


@pytest.mark.parametrize(
    "body, sentence",
    [
        ("raise NotImplementedError", "Your code is not implemented yet. This shows the reference's result."),
        ("return None", "causal_mask returned None. Is a `return` missing?"),
        ("return torch.ones(7)", "The result has shape (7,); it should be (7, 7)."),
        ("return 1 / 0", "causal_mask raised ZeroDivisionError: division by zero. (ch03_attention.py, line"),
        ("while True: pass", "The call did not end within 5 s."),
        ("exit(3)", "causal_mask raised SystemExit: it ended the program (3)"),
        ("return (", "ch03_attention.py does not import. SyntaxError: '(' was never closed."),
    ],
)
def test_errors_are_one_sentence_next_to_the_reference(body, sentence):
    picture = drawn("causal_mask", ("k_len = q_len if k_len is None else k_len", body))
    assert sentence in picture.verdict and not picture.agrees
    assert [list(pair.panels) for pair in picture.pairs] == [["reference"]] * 2
    if "not implemented" not in picture.verdict:
        assert picture.verdict.startswith("Your result cannot be drawn, so this shows the reference's. ")


def test_a_picture_that_needs_another_exercise_names_it():
    text = reference_of("ch03_attention").text
    softmax = text.index("def softmax")
    begin, end = text.index("    ### BEGIN SOLUTION", softmax), text.index("    ### END SOLUTION", softmax)
    without = text[:begin] + "    raise NotImplementedError\n" + text[end:]
    target = Target("exercises", texts={"ch03_attention": without})
    picture = make_picture(exercise("scaled_dot_product_attention"), target)
    assert picture.verdict == (
        "Your result cannot be drawn yet, because softmax in ch03_attention.py is not implemented yet. "
        "This shows the reference's result."
    )


def test_code_that_prints_or_plays_tricks_does_not_change_the_picture(capfd):
    noisy = drawn("gelu", ("if approximate:", "print('noise' * 100)\n    x = x.detach()\n    if approximate:"))
    assert noisy.agrees and "noise" not in capfd.readouterr().out
