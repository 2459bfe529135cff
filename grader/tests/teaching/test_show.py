"""The pictures of `headway show`: the numbers that are drawn on both sides, and how a terminal, an SVG and a wrong answer show them."""

from __future__ import annotations

import json
import math
from contextlib import closing
from xml.etree import ElementTree

import pytest
import torch
from grader.course.syllabus import UnknownName, load_syllabus
from grader.execution.target import Target, reference_of, resolve
from grader.teaching.show import SUBJECTS, exercises_with_pictures, find_subject
from grader.teaching.show.both_sides import make_picture
from grader.teaching.show.panels import DIFFERENCE, Bars, Chart, Grid, Pair, Picture, pair_panels
from grader.teaching.show.svg import panel_to_svg
from grader.teaching.show.terminal import render_picture
from grader.verdict.trial import Trial

EXERCISES = {exercise.name: exercise for exercise in load_syllabus().exercises}


def drawn(name: str, old: str, new: str) -> Picture:
    """With the reference in the learner's place, changed by this edit."""
    module = EXERCISES[name].module
    text = reference_of(module).text
    assert old in text
    with closing(Trial(Target("exercises", texts={module: text.replace(old, new, 1)}), call_seconds=0.5)) as trial:
        return make_picture(EXERCISES[name], trial)


def panel(picture: Picture, number: int = 0):
    return picture.pairs[number].reference


def table(picture: Picture, number: int = 0) -> torch.Tensor:
    return torch.tensor(panel(picture, number).values, dtype=torch.float64)


@pytest.fixture(scope="module")
def pictures():
    """The picture of every exercise that has one, with the reference on both sides."""
    with closing(Trial(resolve("solutions"))) as trial:
        return {name: make_picture(EXERCISES[name], trial) for name in SUBJECTS}


# ---- pictures of the reference


def test_twenty_exercises_and_more_have_a_picture_each_its_own():
    assert set(SUBJECTS) <= set(EXERCISES) and len(SUBJECTS) >= 50
    assert [found.name for found in exercises_with_pictures()] == list(SUBJECTS), "in the order of the course"
    assert len({(found.module, found.draw) for found in SUBJECTS.values()}) == len(SUBJECTS)
    for found in SUBJECTS.values():
        assert callable(found.function) and not found.about.endswith(".") and found.look.endswith(".")
    with pytest.raises(UnknownName, match="has no picture"):
        find_subject("is_validation")


def test_both_sides_get_the_same_input(pictures):
    for name, picture in pictures.items():
        assert picture.agrees and picture.verdict == "In this picture your result and the reference's agree.", name
        for pair in picture.pairs:
            same = pair.yours == pair.reference or pair.reference.given or pair.reference.near > 0.01
            assert pair.differs is None and same, name
        assert not any(pair.span(pair.reference).has_gaps for pair in picture.pairs), name
        assert Picture.from_data(json.loads(json.dumps(picture.as_data()))) == picture, name


def test_masks(pictures):
    whole, last = table(pictures["causal_mask"]), table(pictures["causal_mask"], 1)
    assert whole.tolist() == torch.ones(7, 7).tril().tolist() and last.tolist() == torch.ones(7, 7).tril()[4:].tolist()
    assert panel(pictures["causal_mask"]).columns == ["the", "cat", "that", "saw", "the", "dog", "ran"]
    assert table(pictures["padding_mask"], 1).sum(1).tolist() == [5, 2, 3]


def test_attention_maps(pictures):
    for name in ("softmax", "scaled_dot_product_attention", "MultiHeadAttention", "CausalSelfAttention"):
        for pair in pictures[name].pairs:
            rows = torch.tensor(pair.reference.values, dtype=torch.float64).sum(1)
            sums_to_1 = torch.allclose(rows, torch.ones(()).double(), atol=1e-5)
            assert sums_to_1 or pair.reference.title == "reading a context", name
    for name, number in (("scaled_dot_product_attention", 1), ("MultiHeadAttention", 0), ("CausalSelfAttention", 2)):
        assert not table(pictures[name], number).triu(1).any(), name
    even = table(pictures["CausalSelfAttention"])
    assert torch.allclose(even[7], torch.full((8,), 1 / 8).double())
    assert table(pictures["softmax"])[4, 3] == 0
    previous, induction = (table(pictures["attention_patterns"], number) for number in range(2))
    assert (previous.diagonal(-1) > 0.99).all() and (induction[4:].diagonal(1) > 0.99).all()
    for name in ("GroupedQueryAttention", "LlamaAttention"):
        assert table(pictures[name]).round(decimals=4).tolist() == [[1, 0]] * 3 + [[0, 1]] * 3


def test_reachability(pictures):
    for name in ("FusedSelfAttention", "GPT", "Llama"):
        reach = table(pictures[name])
        assert (reach.triu(1).abs() < 1e-4).all() and (reach.tril() > 1e-3).sum() == 28, name
    assert (table(pictures["SelfAttentionHead"]) > 0).all()
    own, memory = table(pictures["DecoderBlock"]), table(pictures["DecoderBlock"], 1)
    assert (own.triu(1).abs() < 1e-4).all() and (memory[:, :5] > 1e-3).all() and (memory[:, 5:] < 1e-4).all()
    source, target = table(pictures["Seq2Seq"]), table(pictures["Seq2Seq"], 1)
    assert (source > 1e-3).all() and (target.triu(1).abs() < 1e-4).all()


def test_curves_and_bars(pictures):
    """Their axes are what the labels say: positions, thresholds, steps."""
    for pair, points in panel(pictures["apply_rope"]).lines.items():
        turn = 1.0 if pair == "pair 0" else 0.1
        for position, (x, y) in enumerate(points):
            assert (x, y) == pytest.approx((math.cos(turn * position), math.sin(turn * position)), abs=1e-5)
    assert panel(pictures["alibi_bias"], 1).lines["head 2"][0] == pytest.approx((0, -7 / 64))
    assert dict(panel(pictures["dropout"]).lines["training"])[0.5] == pytest.approx(2)
    assert dict(panel(pictures["cross_entropy"]).lines["loss"])[0.5] == pytest.approx(math.log(2), abs=1e-5)
    rate = dict(panel(pictures["warmup_cosine"]).lines["floor 0.2"])
    assert (rate[0], rate[10], rate[55], rate[110]) == pytest.approx((0, 1, 0.6, 0.2))
    assert [value > 0 for value in panel(pictures["top_k_filter"], 1).values] == [True] * 3 + [False] * 5
    before, shares = panel(pictures["top_p_filter"]).values, panel(pictures["sample_next_token"], 1).values
    assert shares == pytest.approx(before, abs=0.04)


def test_tables(pictures):
    """A row or column of a table is the position, word or layer that its label names."""
    waves = table(pictures["sinusoidal_positions"])
    assert torch.allclose(waves[:, 0], torch.arange(24).double().sin(), atol=1e-5)
    assert table(pictures["collate"], 1).tolist() == [[2, 7, 5, 9], [3, 8, -2, -2], [5, 2, 6, -2]]
    filled = [[position if position <= length else 0 for position in range(1, 8)] for length in (3, 4, 5, 7)]
    assert table(pictures["KVCache"]).tolist() == filled and panel(pictures["KVCache"]).rows[-1] == "2 more: length 7"
    counts = panel(pictures["count_pairs"])
    assert counts.values[counts.rows.index("a")][counts.rows.index("t")] == 3
    assert torch.allclose(table(pictures["route"], 1).sum(1), torch.ones(()).double(), atol=1e-5)
    assert table(pictures["find_induction_heads"])[1, 1] > 0.9
    patched = table(pictures["patch_residual"])
    assert patched[0, 3] == pytest.approx(1, abs=0.01) and patched[1, 6] == pytest.approx(1, abs=0.01)
    assert table(pictures["split_heads"], 1)[:3].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]]
    assert table(pictures["PublishedTokenizer"]).sum(0).tolist() == [1] * 19
    assert table(pictures["interleave_rows"]).argmax(1).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    labels = panel(pictures["answer_labels"])
    pairs = [(labels.rows[i], labels.columns[j]) for i, j in table(pictures["answer_labels"]).nonzero().tolist()]
    assert pairs == [("model", "four"), ("four", "end"), ("model", "two"), ("two", "pairs"), ("pairs", "end")]
    assert table(pictures["pack"]).tolist() == [[1, 1, 1, 2, 2, 2, 2, 5], [3] * 8, [3, 3, 4, 4, 0, 0, 0, 0]]
    assert table(pictures["ring_all_reduce"]).tolist() == [[1, 2, 3, 4, 4, 4]] * 4
    assert table(pictures["shard_batch"]).sum(1).tolist() == [3, 3, 2, 2]
    assert table(pictures["pipeline_schedule"], 1)[2].tolist() == [0, 0, 1, -1, -1, 2, -2, -2, 3, -3, -3, 4, -4, -4, 0, 0, 0, 0]


def test_recurrent_layers(pictures):
    """Weights are causal, a form in steps or in chunks has those of the parallel form, and a value is replaced."""
    weights = table(pictures["linear_attention"])
    assert torch.allclose(weights.sum(1), torch.ones(7).double(), atol=1e-5) and not weights.triu(1).any() and (weights >= 0).all()
    assert torch.allclose(table(pictures["linear_attention_step"]), weights, atol=1e-4)
    left = table(pictures["segment_sums"])
    assert left.diagonal().tolist() == [1] * 7 and (left[3:, :3] < 0.21).all() and torch.allclose(table(pictures["decayed_attention"]), left, atol=1e-4)
    for number in range(2):
        assert torch.allclose(table(pictures["decayed_attention_chunked"], number), table(pictures["decayed_attention"], 1), atol=1e-4)
    returned = table(pictures["delta_rule"])
    assert returned[[0, 2]].round(decimals=4).abs().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert torch.allclose(table(pictures["delta_rule_chunked"]), returned, atol=1e-4)
    assert dict(panel(pictures["doubling_scan"]).lines["a = -0.8"])[4] == pytest.approx(0.64)
    assert table(pictures["short_convolution"])[6].tolist() == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3, 1])
    assert dict(panel(pictures["selective_scan"]).lines["dt = 1"])[3] == pytest.approx(math.exp(-0.5), abs=1e-5)
    reach = table(pictures["GatedDeltaNet"])
    assert (reach.triu(1).abs() < 1e-4).all() and (reach.tril() > 1e-3).sum() == 28


@pytest.mark.parametrize(
    "name, edit, verdict",
    [
        ("PublishedTokenizer", ('if unicodedata.category(character).startswith("N"):', "if False:"), "does not have the size of the reference's result."),
        ("delta_rule", ("- k_t @ state", "- 0 * k_t @ state"), "differs from the reference's in"),
        ("segment_sums", ("tril(-1)", "tril(0)"), "differs from the reference's in"),
        ("LoRALinear", ("self.scale * self.B @ self.A", "self.B @ self.A"), "in 80 of 85 numbers."),
        ("policy_loss", ("torch.minimum", "torch.maximum"), "differs from the reference's in"),
        ("ring_all_reduce", ("group.send(parts[sent], after)", "pass"), "no rank can go on: rank 0 waits in receive from 3 (call 1)"),
        ("pipeline_schedule", ("n_stages - 1 - stage", "stage"), "No stage can go on: stage 0 waits to do backward 0, stage 1"),
    ],
)  # fmt: skip
def test_a_wrong_part_is_visible(name, edit, verdict):
    assert verdict in drawn(name, *edit).verdict


# ---- in the terminal


def picture_with(*pairs: Pair) -> Picture:
    return Picture("softmax", "about", "Look.", "Yours differs.", pairs)


@pytest.mark.parametrize("width, colours", [(20, "256"), (130, None)])
def test_every_picture_fits_every_width(pictures, width, colours):
    for name, picture in pictures.items():
        shown = render_picture(picture, width, colours)
        assert all(line.cell_len <= width for line in shown) and len(shown) > 5, name
        assert any(line.spans for line in shown) == (colours is not None), name


def test_plain_characters_are_the_numbers():
    wrong = drawn("causal_mask", "diagonal=k_len - q_len", "diagonal=0")
    text = [line.plain for line in render_picture(wrong, 80, None)]
    row = next(line for line in text if line.startswith("dog") and line.count("dog") == 3)
    assert row.split("dog")[1].split() == list("##.....")
    assert row.split("dog")[2].split() == list("######.")
    assert row.split("dog")[3].split() == ["."] * 2 + ["-1"] * 4 + ["."]
    assert "# may attend   . hidden" in text
    table = Grid("t", [[0.5, -1.0]], ["r"], ["a", "b"])
    slopes = [line.plain for line in render_picture(picture_with(pair_panels(table, table)), 80, None)]
    assert "r   4 -9  r   4 -9" in slopes
    assert "the digit 9 means 1, . for 0, -0 for a small negative number" in slopes


def test_bars_have_a_common_scale_and_their_numbers():
    pair = pair_panels(Bars("t", ["a", "b"], [1.0, 2.0]), Bars("t", ["a", "b"], [4.0, 2.0]))
    text = "\n".join(line.plain for line in render_picture(picture_with(pair), 80, "truecolor"))
    row = next(line for line in text.splitlines() if line.startswith("a "))
    yours, reference, difference = row.split("a ")[1:]
    assert yours.count("#") > 3 * reference.count("#") > 0 and yours.split()[-1] == "4"
    assert difference.split()[-1] == "3"


# ---- as SVG


def svg_texts(svg: str) -> list[str | None]:
    return [mark.text for mark in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_each_kind_of_panel_is_drawn_with_its_labels():
    grid = Grid("t", [[0.5, math.nan]], ["row"], ["a", "b"], "rows", "columns", ("no", "yes"))
    assert svg_texts(panel_to_svg(grid)) == ["t (0: no, 1: yes)", "0.500", "row", "a", "b", "rows", "columns"]
    chart = panel_to_svg(Chart("t", {"one": [(0, 0), (1, 2)]}, "x name", "y name"))
    assert {"t", "one", "x name", "y name"} <= set(svg_texts(chart))
    bars = panel_to_svg(Bars("t", ["a", "b", "c"], [0.25, 0.5, -0.5], "share"), longest=0.5)
    assert svg_texts(bars) == ["t", "a", "0.25", "b", "0.5", "c", "-0.5", "share"]
    _, *rectangles = ElementTree.fromstring(bars).iter("{http://www.w3.org/2000/svg}rect")
    assert [float(bar.get("width")) for bar in rectangles] == [60, 120, 120]


# ---- the learner's side: differences from the reference, and the message if there is nothing to draw


def test_where_the_two_differ_is_marked():
    picture = drawn("causal_mask", "diagonal=k_len - q_len", "diagonal=0")
    square, wide = picture.pairs
    assert not picture.agrees and picture.verdict == "Your result differs from the reference's in 12 of 70 numbers."
    assert square.differs is None and list(square.panels) == ["yours", "reference"]
    assert list(wide.panels) == ["yours", "reference", DIFFERENCE]
    assert wide.differs.values == [[0, -1, -1, -1, -1, 0, 0], [0, 0, -1, -1, -1, -1, 0], [0, 0, 0, -1, -1, -1, -1]]
    assert wide.differs.rows == ["the", "dog", "ran"] and wide.differs.words is None
    scale = wide.span(wide.differs)
    assert (scale.low, scale.high) == (-1, 1), "both signs, whichever there are"


def test_wrong_curves_bars_and_paths_are_marked():
    curve = drawn("gelu", "torch.erf(x / math.sqrt(2))", "torch.erf(x)").pairs[0]
    apart = dict(curve.differs.lines["exact"])
    assert apart[1.0] == pytest.approx(0.5 * (math.erf(1) - math.erf(1 / math.sqrt(2))), abs=1e-4)
    assert not any(y for _, y in curve.differs.lines["approximate"])
    bar = drawn("top_p_filter", "probs.cumsum(dim=-1) - probs", "probs.cumsum(dim=-1)").pairs[1]
    lost = [name for name, value in zip(bar.differs.labels, bar.differs.values) if value < 0]
    assert lost == ["floor"], "the word that crosses"
    turned_back = ("even * cos - odd * sin, even * sin + odd * cos", "even * cos + odd * sin, odd * cos - even * sin")
    path = drawn("apply_rope", *turned_back).pairs[0]
    for (_, y), (step, difference) in zip(path.reference.lines["pair 0"], path.differs.lines["pair 0"]):
        assert difference == pytest.approx(2 * abs(y), abs=1e-4), step


def test_another_size_is_drawn_without_a_comparison():
    picture = drawn("causal_mask", "torch.ones(q_len, k_len,", "torch.ones(q_len + 1, k_len,")
    pair = picture.pairs[0]
    assert len(pair.yours.values) == 8 and pair.yours.rows[7] == "7" and pair.differs is None
    assert pair.note == "Your result is 8 x 7 and the reference's is 7 x 7, so no difference can be shown."
    assert not picture.agrees
    assert picture.verdict == "Your result does not have the size of the reference's result."


def test_missing_numbers_are_distinguished_from_numbers():
    picture = drawn("softmax", "return exps / total.masked_fill(total == 0, 1.0)", "return (exps / total).log()")
    [pair] = picture.pairs
    assert math.isinf(pair.yours.values[4][3]) and math.isnan(pair.differs.values[4][3])
    lines = [line.plain for line in render_picture(picture, 80, None)]
    assert sum("?" in line for line in lines if line.startswith("  saw hidden")) == 2  # yours and the difference


@pytest.mark.parametrize(
    "body, sentence",
    [
        ("raise NotImplementedError", "Your code is not implemented yet. This shows the reference's result."),
        ("return torch.ones(7)", "The result has shape (7,); it should be (7, 7)."),
        ("return 1 / 0", "causal_mask raised ZeroDivisionError: division by zero. (ch03_attention.py, line"),
        ("while True: pass", "The call did not end within 0.5 s."),
        ("return (", "ch03_attention.py does not import. SyntaxError: '(' was never closed."),
    ],
)
def test_errors_are_one_sentence_next_to_the_reference(body, sentence):
    picture = drawn("causal_mask", "k_len = q_len if k_len is None else k_len", body)
    assert sentence in picture.verdict and not picture.agrees
    assert [list(pair.panels) for pair in picture.pairs] == [["reference"]] * 2
    if "not implemented" not in picture.verdict:
        assert picture.verdict.startswith("Your result cannot be drawn, so this shows the reference's. ")


def test_a_picture_uses_the_reference_where_an_earlier_exercise_is_the_stub():
    text = reference_of("ch03_attention").text
    softmax = text.index("def softmax")
    begin, end = text.index("    ### BEGIN SOLUTION", softmax), text.index("    ### END SOLUTION", softmax)
    without = text[:begin] + "    raise NotImplementedError\n" + text[end:]
    with closing(Trial(Target("exercises", texts={"ch03_attention": without}))) as trial:
        picture = make_picture(EXERCISES["scaled_dot_product_attention"], trial)
    assert picture.verdict == "In this picture your result and the reference's agree."


def test_code_that_prints_or_plays_tricks_does_not_change_the_picture(capfd):
    noisy = drawn("gelu", "if approximate:", "print('noise' * 100)\n    x = x.detach()\n    if approximate:")
    assert noisy.agrees and "noise" not in capfd.readouterr().out
