"""The pictures of `headway show`: the numbers that are drawn on both sides, and how a terminal shows them."""

import json
import math
from xml.etree import ElementTree

import pytest
import torch
from grader.course.syllabus import UnknownName
from grader.execution.target import resolve
from grader.teaching.show.both_sides import make_picture
from grader.teaching.show.catalog import SUBJECTS, exercises_with_pictures, find_subject
from grader.teaching.show.panels import Bars, Chart, Grid, Pair, Picture, Span, pair_panels
from grader.teaching.show.svg import panel_to_svg
from grader.teaching.show.terminal import render_picture, touched_cells
from panel_pictures import EXERCISES, drawn, exercise, panel, table


@pytest.fixture(scope="module")
def pictures():
    """The picture of every exercise that has one, with the reference on both sides."""
    solutions = resolve("solutions")
    return {name: make_picture(exercise(name), solutions) for name in SUBJECTS}


# ---- pictures of the reference


def test_twenty_exercises_and_more_have_a_picture_each_its_own():
    assert set(SUBJECTS) <= set(EXERCISES) and len(SUBJECTS) >= 50
    assert [found.name for found in exercises_with_pictures()] == list(SUBJECTS), "in the order of the course"
    assert len({found.draw for found in SUBJECTS.values()}) == len(SUBJECTS)
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


def test_a_picture_passes_through_json(pictures):
    for name, picture in pictures.items():
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
    assert table(pictures["GroupedQueryAttention"]).round(decimals=4).tolist() == [[1, 0]] * 3 + [[0, 1]] * 3


def test_reachability(pictures):
    for name in ("FusedSelfAttention", "GPT"):
        reach = table(pictures[name])
        assert (reach.triu(1).abs() < 1e-4).all() and (reach.tril() > 1e-3).sum() == 28, name
    assert (table(pictures["SelfAttentionHead"]) > 0).all()
    encoder = table(pictures["EncoderBlock"])
    assert (encoder[:, :5] > 1e-3).all() and (encoder[:5, 5:] < 1e-4).all() and encoder[5, 5] > 0.1
    own, memory = table(pictures["DecoderBlock"]), table(pictures["DecoderBlock"], 1)
    assert (own.triu(1).abs() < 1e-4).all() and (memory[:, :5] > 1e-3).all() and (memory[:, 5:] < 1e-4).all()
    source, target = table(pictures["Seq2Seq"]), table(pictures["Seq2Seq"], 1)
    assert (table(pictures["MultiHeadAttention"], 2) > 1e-4).all()
    assert (source > 1e-3).all() and (target.triu(1).abs() < 1e-4).all()
    assert (table(pictures["CachedSelfAttention"], 1) < 1e-4).all()


def test_positions(pictures):
    waves = table(pictures["sinusoidal_positions"])
    assert torch.allclose(waves[:, 0], torch.arange(24).double().sin(), atol=1e-5)
    assert torch.allclose(waves[:, 1], torch.arange(24).double().cos(), atol=1e-5)
    later = table(pictures["SinusoidalPositions"], 1)
    assert torch.allclose(later[:7], table(pictures["SinusoidalPositions"])[5:], atol=1e-5)
    whole, from_four = table(pictures["LearnedPositions"]), table(pictures["LearnedPositions"], 2)
    assert torch.allclose(from_four, whole[4:11], atol=1e-6)
    for pair, points in panel(pictures["apply_rope"]).lines.items():
        turn = 1.0 if pair == "pair 0" else 0.1
        for position, (x, y) in enumerate(points):
            assert (x, y) == pytest.approx((math.cos(turn * position), math.sin(turn * position)), abs=1e-5)
    scores = [y for _, y in panel(pictures["apply_rope"], 1).lines["score"]]
    assert scores[0] == pytest.approx(8 / math.sqrt(8)) and max(scores) == scores[0]
    assert panel(pictures["rope_angles"]).lines["pair 0"][24] == (24, 24)
    assert panel(pictures["alibi_slopes"]).values == [2.0**-i for i in range(1, 9)]
    assert table(pictures["alibi_bias"])[4].tolist() == pytest.approx([-0.25 * (7 - key) for key in range(8)])
    assert panel(pictures["alibi_bias"], 1).lines["head 2"][0] == pytest.approx((0, -7 / 64))


def test_layers_and_depth(pictures):
    exact = dict(panel(pictures["gelu"]).lines["exact"])
    assert exact[0.0] == 0 and exact[4.0] == pytest.approx(4, abs=1e-3)
    assert min(exact.values()) == pytest.approx(-0.17, abs=0.01)
    survivors, zeros = panel(pictures["dropout"]).lines["training"], panel(pictures["dropout"], 1).lines["training"]
    assert dict(survivors)[0.5] == pytest.approx(2) and dict(zeros)[0.3] == pytest.approx(0.3, abs=0.05)
    normed = table(pictures["LayerNorm"], 1)
    assert torch.allclose(normed.mean(1), torch.zeros(7).double(), atol=1e-5)
    assert torch.allclose(normed.std(1, unbiased=False), torch.ones(()).double(), atol=1e-3)
    assert torch.allclose(table(pictures["RMSNorm"], 1).square().mean(1), torch.ones(()).double(), atol=1e-3)
    weighted = table(pictures["LayerNorm"], 2)
    assert torch.allclose(weighted, normed * torch.linspace(0, 2, 10).double(), atol=1e-5)
    bends = dict(panel(pictures["FeedForward"]).lines["relu"])
    assert bends[-4.0] == pytest.approx(0.25 + 0.8 * 2.5) and bends[4.0] == pytest.approx(0.25 + 0.5 * 6 - 1.2 * 3)
    pre, post = ([y for _, y in panel(pictures[name]).lines["size"]] for name in ("PreNormBlock", "PostNormBlock"))
    assert pre[-1] > 1.5 * pre[0] and post[1:] == pytest.approx([1] * 8, abs=1e-3)
    lengths = table(pictures["residual_stream"])
    assert lengths.shape == (5, 7) and (lengths[4] > lengths[0]).all()


def test_training_and_sampling(pictures):
    assert dict(panel(pictures["cross_entropy"]).lines["loss"])[0.5] == pytest.approx(math.log(2), abs=1e-5)
    rate = dict(panel(pictures["warmup_cosine"]).lines["floor 0.2"])
    assert (rate[0], rate[10], rate[55], rate[110]) == pytest.approx((0, 1, 0.6, 0.2))
    start, first = panel(pictures["AdamW"]).lines["no decay"][:2]
    assert start == (-4, 2) and first == pytest.approx((-3.8, 1.8), abs=1e-4)
    assert table(pictures["collate"], 1).tolist() == [[2, 7, 5, 9], [3, 8, -2, -2], [5, 2, 6, -2]]
    all_count, _, none_counts = panel(pictures["cross_entropy"], 1).values
    assert all_count > 1 and none_counts == 0
    before = panel(pictures["top_p_filter"]).values
    assert sum(before) == pytest.approx(1) and panel(pictures["top_p_filter"]).labels[:2] == ["mat", "sofa"]
    assert [value > 0 for value in panel(pictures["top_k_filter"], 1).values] == [True] * 3 + [False] * 5
    assert [value > 0 for value in panel(pictures["top_k_filter"], 2).values] == [True] * 5 + [False] * 3
    assert [value > 0 for value in panel(pictures["top_p_filter"], 1).values] == [False, True, True] + [False] * 5
    cold, hot = (max(panel(pictures["apply_temperature"], number).values) for number in (1, 2))
    assert hot < max(before) < cold
    shares = panel(pictures["sample_next_token"], 1).values
    assert shares == pytest.approx(before, abs=0.04) and sum(panel(pictures["sample_next_token"], 2).values[4:]) == 0


def test_cache_experts_and_circuits(pictures):
    filled = [[position if position <= length else 0 for position in range(1, 8)] for length in (3, 4, 5, 7)]
    assert table(pictures["KVCache"]).tolist() == filled
    assert panel(pictures["KVCache"]).rows[-1] == "2 more: length 7"
    memory = panel(pictures["kv_cache_bytes"]).lines
    assert memory["32 kv heads"][2] == (2048, 1.0) and memory["8 kv heads"][2] == (2048, 0.25)
    for number, count in ((1, 1), (2, 2)):
        weights = table(pictures["route"], number)
        assert ((weights > 0).sum(1) == count).all()
        assert torch.allclose(weights.sum(1), torch.ones(()).double(), atol=1e-5)
    seen = table(pictures["MoELayer"])
    assert torch.allclose(seen.sum(1), torch.ones(()).double(), atol=1e-4)
    assert sum(panel(pictures["MoELayer"], 1).values) == 14
    loss = panel(pictures["load_balancing_loss"]).lines["top 1"]
    assert loss[0][1] == pytest.approx(1, abs=0.1) and loss[-1][1] > 4.5
    assert table(pictures["find_induction_heads"])[1, 1] > 0.9
    lens = table(pictures["logit_lens"])
    assert (lens[2, 4:] > 0.8).all() and (lens[1] < 0.5).all()
    patched = table(pictures["patch_residual"])
    assert patched[0, 3] == pytest.approx(1, abs=0.01) and patched[1, 6] == pytest.approx(1, abs=0.01)
    assert patched.abs().sum() == pytest.approx(2, abs=0.02)


def test_words(pictures):
    counts, letters = panel(pictures["count_pairs"]), panel(pictures["count_pairs"]).rows
    assert counts.values[letters.index("a")][letters.index("t")] == 3
    assert sum(map(sum, counts.values)) == len("the cat sat on the mat") - 1
    plain_vectors, scaled = table(pictures["TokenEmbedding"]), table(pictures["TokenEmbedding"], 1)
    assert torch.allclose(plain_vectors[0], plain_vectors[4]) and torch.allclose(scaled, 3 * plain_vectors)
    features = table(pictures["split_heads"], 1)
    assert features[:3].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]]
    assert table(pictures["merge_heads"], 1).flatten().tolist() == list(range(24))
    bands = table(pictures["fuse_qkv"])
    assert [round(float(part.mean())) for part in bands.chunk(3)] == [0, 3, 6]


# ---- in the terminal


def picture_with(*pairs: Pair) -> Picture:
    return Picture("softmax", "about", "Look.", "Yours differs.", pairs)


def test_lines_go_through_their_points_and_break_where_there_is_none():
    x, y = Span(0, 4), Span(0, 2)
    assert set(touched_cells([(0, 0), (4, 2)], x, y, 5, 3)) >= {(0, 2), (2, 1), (4, 0)}
    assert set(touched_cells([(0, 0), (1, math.nan), (2, 0)], x, y, 5, 3)) == {(0, 2), (2, 2)}


@pytest.mark.parametrize("width, colours", [(20, "256"), (80, "truecolor"), (40, None), (130, None)])
def test_every_picture_fits_every_width(pictures, width, colours):
    for name, picture in pictures.items():
        shown = render_picture(picture, width, colours)
        assert all(line.cell_len <= width for line in shown) and len(shown) > 5, name
        assert any(line.spans for line in shown) == (colours is not None), name


def test_plain_characters_are_the_numbers():
    wrong = drawn("causal_mask", ("diagonal=k_len - q_len", "diagonal=0"))
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


def test_gaps_in_curves_and_missing_bars_are_named():
    charts = (Chart("t", {"a": [(0, 0), (1, y)]}, "x", "y") for y in (1, math.nan))
    curve = pair_panels(*charts)
    assert any(line.plain.endswith("a gap: no number") for line in render_picture(picture_with(curve), 80, "truecolor"))
    bar = pair_panels(Bars("t", ["a"], [1.0]), Bars("t", ["a"], [math.nan]))
    assert "a  no number" in "\n".join(line.plain for line in render_picture(picture_with(bar), 80, "truecolor"))


def test_too_wide_a_table_is_thinned_and_says_so():
    wide = Grid("t", [[float(i) for i in range(60)]], ["r"], [str(i) for i in range(60)])
    text = [line.plain for line in render_picture(picture_with(Pair(wide)), 40, "256")]
    assert "one column of 5 is shown" in text


def test_bars_have_a_common_scale_and_their_numbers():
    pair = pair_panels(Bars("t", ["a", "b"], [1.0, 2.0]), Bars("t", ["a", "b"], [4.0, 2.0]))
    text = "\n".join(line.plain for line in render_picture(picture_with(pair), 80, "truecolor"))
    row = next(line for line in text.splitlines() if line.startswith("a "))
    yours, reference, difference = row.split("a ")[1:]
    assert yours.count("#") > 3 * reference.count("#") > 0 and yours.split()[-1] == "4"
    assert difference.split()[-1] == "3"


def test_a_number_has_its_colour_and_a_missing_one_its_own():
    table = Grid("t", [[0.0, 0.5, math.nan]], ["r"], ["a", "b", "c"])
    line = next(line for line in render_picture(picture_with(Pair(table)), 80, "256") if line.plain.startswith("r"))
    assert line.plain == "r  . 9 ?" and len({str(span.style) for span in line.spans}) == 3


# ---- as SVG


def svg_texts(svg: str) -> list[str | None]:
    return [mark.text for mark in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_each_kind_of_panel_is_drawn_with_its_labels():
    grid = Grid("t", [[0.5, math.nan]], ["row"], ["a", "b"], "rows", "columns", ("no", "yes"))
    assert svg_texts(panel_to_svg(grid)) == ["t (0: no, 1: yes)", "0.500", "row", "a", "b", "rows", "columns"]
    chart = panel_to_svg(Chart("t", {"one": [(0, 0), (1, 2), (2, math.inf)]}, "x name", "y name"))
    assert {"t", "one", "x name", "y name"} <= set(svg_texts(chart))
    [line, _] = ElementTree.fromstring(chart).iter("{http://www.w3.org/2000/svg}polyline")
    assert line.get("points").count(",") == 2
    bars = panel_to_svg(Bars("t", ["a", "b", "c", "d"], [0.25, 0.5, math.nan, -0.5], "share"), longest=0.5)
    assert svg_texts(bars) == ["t", "a", "0.25", "b", "0.5", "c", "no number", "d", "-0.5", "share"]
    _, *rectangles = ElementTree.fromstring(bars).iter("{http://www.w3.org/2000/svg}rect")
    assert [float(bar.get("width")) for bar in rectangles] == [60, 120, 0, 120]
