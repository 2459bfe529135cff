"""The numbers that the lessons work out by hand are what the reference computes: chapters 12 and 13."""

from __future__ import annotations

import math

import pytest
import torch
from grader.chapters.ch12_interpretability.circuits import CAPITAL, WORDS, capitals, ids_of
from lesson_tables import says, show_rows, shown, shows, table_in

T = torch.tensor


# ---- chapter 12


def test_the_lens_on_the_model_set_by_hand(ours):
    model = capitals(ours)
    lens = ours.logit_lens(model, ids_of("of france the capital is"))[:, 0, -1]
    france, paris = WORDS.index("france"), WORDS.index("paris")
    for row, logits in zip(table_in("ch12", "The stream, and the lens"), lens, strict=True):
        others = [logit for word, logit in enumerate(logits.tolist()) if word not in (france, paris)]
        assert shows(row[2], logits[france]) and shows(row[3], logits[paris]) and max(map(abs, others)) < 1e-4
        if "probability" in row[5]:
            word, chance = row[5].split("`")[0], shown(row[5])[0][0]
            assert logits.argmax() == WORDS.index(word) and logits.softmax(-1).max().item() == pytest.approx(chance, abs=0.005)


def test_patterns_and_their_names(ours):
    patterns = ours.attention_patterns(capitals(ours), ids_of("of france the capital is"))
    for place, pattern in ((0, patterns[1, 0, 0]), (1, patterns[0, 0, 0])):
        for row, weights in zip(table_in("ch12", "Who attends to whom", place), pattern, strict=True):
            assert shows("; ".join(cell or "0" for cell in row[1:]), *(round(weight, 6) for weight in weights.tolist())), row
    found = [(row.index("1") - 2, int(row[0])) for row in table_in("ch12", "A head that has seen this before")]
    pattern = torch.zeros(8, 8)
    for key, query in found:
        pattern[query, key] = 1.0
    assert len(found) == 4 and ours.induction_score(pattern, 4) == 1


def test_patches_and_what_they_recover(ours):
    model = capitals(ours)
    clean, corrupted = ids_of("of france the capital is"), ids_of("of italy the capital is")
    ends = [model(ids)[0][0, -1].detach() for ids in (clean, corrupted)]
    for layer, row in enumerate(table_in("ch12", "Patching")):
        found = [ours.recovery(*ends, ours.patch_residual(model, clean, corrupted, layer, place)[0, -1], CAPITAL) for place in (0, 1, 2, 3, 4, None)]
        assert shows("; ".join(row[1:]), *(round(share, 4) for share in found)), row
    for row in table_in("ch12", "Patching", 1):
        patched = shown(row[0])[0][0]
        share = ours.recovery(T([8.0]), T([2.0]), T([patched]), 0)
        assert shown(row[1])[-1][0] == pytest.approx(share) and shows(row[2], patched / 8)


# ---- chapter 13


def cube(x):
    return x**3


def result(cell):
    """The number after the last equals sign of a cell."""
    return cell.rpartition("=")[2]


def test_a_sum_over_two_paths(ours):
    paths, x = table_in("ch13", "How to derive a rule"), ours.Scalar(2)
    y_0, y_1 = x**2, 3 * x
    (y_0 * y_1).backward()
    for (_, gradient, slope, product), y, by_x in zip(paths, (y_0, y_1), (2 * x.value, 3)):
        assert shows(result(gradient), y.grad) and shows(result(slope), by_x) and shows(product, y.grad * by_x)
    assert says("ch13", "The sum is {}. Check: L = 3x³ has the slope 9x² = {}.", x.grad, 9 * 2**2)


def test_measured_slopes(ours):
    one_sided, central = table_in("ch13", "Measuring a slope")
    steps, one = (0.1, 0.5), T(1.0, dtype=torch.float64)
    assert shows(" ; ".join(one_sided[1:]), *[((1 + eps) ** 3 - 1) / eps for eps in steps])
    assert shows(" ; ".join(central[1:]), *[ours.numeric_gradient(cube, one, eps).item() for eps in steps])
    assert says("ch13", "The default eps = 1e-5 gives {}.", 3 + 1e-10) and abs(ours.numeric_gradient(cube, one).item() - 3) < 1e-9


def test_a_linear_layer(ours):
    rows = {row[0].partition(" ")[0]: T([[value for value, _ in shown(cell)] for cell in row[1:]]) for row in table_in("ch13", "A linear layer")}
    grad_x, grad_weight, grad_bias = ours.linear_backward(rows["x"], rows["W"], rows["grad_out"])
    assert torch.equal(grad_x, rows["grad_x"]) and torch.equal(grad_weight, rows["grad_W"])
    assert says("ch13", "grad_b is the sum of the rows of grad_out: {}, {}.", *grad_bias.tolist())
    entries = [[float(result(cell)) for cell in row[1:]] for row in table_in("ch13", "A linear layer", 2)]
    assert torch.equal(T(entries), torch.cat([grad_x, grad_weight, grad_bias[None]]))
    sums = [[eval(cell.partition("=")[0].replace("·", "*")) for cell in row[1:]] for row in table_in("ch13", "A linear layer", 2)]
    assert sums == entries


def test_slopes_of_gelu(ours):
    x = T([-1.0, 0.0, 1.0], dtype=torch.float64)
    below, slope = torch.special.ndtr(x), ours.gelu_backward(x, torch.ones_like(x))
    tanh = ours.gelu_backward(x, torch.ones_like(x), approximate=True)
    assert show_rows(table_in("ch13", "gelu"), torch.stack([below, slope - below, slope, tanh]))
    assert says("ch13", "At x = 1 the density is {} / {} = {}.", math.exp(-0.5), (2 * torch.pi) ** 0.5, (slope - below)[2].item())
    near = T([0.7515, 0.7525, 2**0.5, 2**0.5 - 0.01, 2**0.5 + 0.01], dtype=torch.float64)
    slopes = ours.gelu_backward(near, torch.ones_like(near))
    assert slopes[0] < 1 < slopes[1] and slopes[2] == slopes.max()
    assert says("ch13", "The greatest slope is {}, at √2.", slopes[2].item())


def test_the_formula_of_the_tanh_form(ours):
    assert says("ch13", "slope(x) = (1 + t) / 2 + x / 2 · (1 - t²) · √(2 / π) (1 + 3 · {} x²)", 0.044715)
    scale, one = (2 / torch.pi) ** 0.5, T([1.0], dtype=torch.float64)
    u, slope_of_u = scale * (one + 0.044715), scale * (one + 3 * 0.044715)
    t = u.tanh()
    steps = [u, t, slope_of_u, (1 + t) / 2, (1 - t**2) * slope_of_u / 2, ours.gelu_backward(one, one, approximate=True)]
    assert show_rows(table_in("ch13", "gelu", 1), torch.stack(steps))
    assert says("ch13", "where √(2/π) = {}:", scale)
    assert shows(table_in("ch13", "gelu", 1)[0][0], scale, 1 + 0.044715) and shows(table_in("ch13", "gelu", 1)[2][0], scale, 1 + 3 * 0.044715)


def test_every_rule_is_what_its_call_measures(ours):
    names = {"torch": torch, **vars(ours)}
    B, D, V = 3, 4, 6
    sizes = {"x": (B, D), "W": (D, D), "b": (D,), "grad_out": (B, D), "scores": (B, D), "logits": (B, V), "table": (V, D), "q": (B, D), "k": (B, D), "v": (B, D)}
    names |= {name: torch.randn(size, dtype=torch.float64) for name, size in sizes.items()} | {"D": D, "V": V, "targets": T([1, -100, 5]), "ids": T([2, 0, 2])}
    rows = table_in("ch13", "Check every rule")
    for rule, call in rows:
        by_rule, measured = (eval(cell.strip("`"), names) for cell in (rule, call))
        torch.testing.assert_close(by_rule, measured, rtol=1e-6, atol=1e-8)
    assert len(rows) == 8


def test_a_softmax(ours):
    rows = table_in("ch13", "softmax")
    weights, grad_out = (T([float(cell) for cell in row[1:]]) for row in rows[:2])
    mean = (weights * grad_out).sum()
    assert show_rows(rows[2:], torch.stack([weights * grad_out, grad_out - mean, ours.softmax_backward(weights, grad_out)]))
    assert says("ch13", "The weighted mean is the sum of the third row, {}.", mean.item())
    slopes = torch.diag(weights) - weights[:, None] * weights
    for row, line in zip(table_in("ch13", "softmax", 1), slopes, strict=True):
        assert show_rows([row[:-1]], line[None]) and shows(result(row[-1]), (line * grad_out).sum().item())
        terms = (line * grad_out).tolist()
        assert shows(row[-1].partition("=")[0].replace("- ", "+ -"), *terms)


def test_the_loss(ours):
    probs = T([0.7, 0.2, 0.1])
    first, _, third = ours.cross_entropy_backward(probs.log(), T(1)).tolist()
    assert says("ch13", "The gradient of the logits is {}, 0.2 - 1 = -0.8 and {}:", first, third)
    grad = ours.cross_entropy_backward(probs.log().repeat(3, 1), T([1, -100, 0]))
    assert show_rows(table_in("ch13", "The loss"), grad)


def test_a_layer_norm(ours):
    x, one, g = T([0.0, 3.0, 6.0], dtype=torch.float64), torch.ones(3, dtype=torch.float64), T([1.0, 0.0, 0.0], dtype=torch.float64)
    n = (x - 3) / 6**0.5
    grad_x, grad_weight, grad_bias = ours.layer_norm_backward(x, one, g, eps=0.0)
    rows = table_in("ch13", "Backward through a layer norm")
    without_mean, along_std = g - g.mean(), n * (g * n).mean()
    assert show_rows([row[:1] + row[1:] for row in rows], torch.stack([g, without_mean, along_std, without_mean - along_std, grad_x]))
    assert shows(rows[1][0], g.mean().item()) and shows(rows[2][0], (g * n).mean().item())
    by_paths = table_in("ch13", "Backward through a layer norm", 1)
    brackets = T([1.0, 0, 0], dtype=torch.float64) - 1 / 3 - n[0] * n / 3
    assert all(shows(result(row[1]), bracket) for row, bracket in zip(by_paths, brackets.tolist(), strict=True))
    assert show_rows([row[:1] + row[2:] for row in by_paths], grad_x[:, None]) and torch.allclose(brackets / 6**0.5, grad_x)
    assert says("ch13", "so n_0 n_0 = 9/6 = {} and n_0 n_2 = {}. √6 is {}:", *(n[0] * n[[0, 2]]).tolist(), 6**0.5)
    assert says("ch13", "grad_bias is {}, {}, {}, and grad_weight", *grad_bias.tolist())
    assert says("ch13", "the normalised vector n is {}, 0, {}.", n[0].item(), n[2].item())
    assert says("ch13", "grad_weight is grad_out · n = {}, 0, 0.", grad_weight[0].item())
    assert says("ch13", "grad_x would be {}, 0, 0: six times too large", (g[0] / 6**0.5).item()) and (g[0] / 6**0.5 / grad_x[0]).item() == pytest.approx(6)


def test_an_embedding(ours):
    table = ours.embedding_backward(T([2, 0, 2]), T([[1.0, 1.0], [5.0, 0.0], [10.0, 20.0]]), 3)
    assert says("ch13", "Row 0 of the table gets {}, {}. Row 2 was looked up twice and gets the sum {}, {}. Row 1 gets {}, {}.", *table[[0, 2, 1]].flatten().tolist())
    rows = table_in("ch13", "An embedding")
    assert show_rows([(row[0], result(row[2])) for row in rows], table)
    assert show_rows([row[:2] for row in rows], torch.nn.functional.one_hot(T([2, 0, 2]), 3).T)


def test_an_attention(ours):
    rows = table_in("ch13", "Attention")
    q, v, grad_out = T([[1.0, 0.0]]), T([[8.0, 0.0], [0.0, 4.0]]), T([[1.0, 0.0]])
    k = T([[math.log(3) * 2**0.5, 1.0], [0.0, 2.0]])
    grad_q, grad_k, grad_v = ours.attention_backward(q, k, v, grad_out)
    weights, grad_weights = T([0.75, 0.25]), (grad_out @ v.T)[0]
    mean = (weights * grad_weights).sum()
    scores = weights * (grad_weights - mean)
    assert show_rows(rows, torch.stack([weights, grad_weights, grad_weights - mean, scores, scores / 2**0.5]))
    assert shows(rows[2][0], mean.item()) and torch.allclose(grad_k[:, 0], scores / 2**0.5) and torch.allclose(grad_q, scores / 2**0.5 @ k)
    assert says("ch13", "grad_v is weightsᵀ grad_out: {}, 0 and {}, 0.", *grad_v[:, 0].tolist())
    gradients = [[float(result(cell)) for cell in row[1:]] for row in table_in("ch13", "Attention", 1)]
    torch.testing.assert_close(T(gradients), torch.cat([grad_q, grad_k]), rtol=0, atol=6e-7)
    assert all(abs(eval(cell.partition("=")[0].replace("·", "*")) - float(result(cell))) < 1e-6 for row in table_in("ch13", "Attention", 1) for cell in row[1:])
    assert shows(table_in("ch13", "Attention", 1)[0][1].split(" ")[2], k[0, 0].item())
    hidden = ours.attention_backward(q, k, v, grad_out, T([[True, False]]))
    assert says("ch13", "grad_q and grad_k are {}, and grad_v is 1, 0 and 0, 0.", 0) and not hidden[0].any() and not hidden[1].any()
    assert torch.equal(hidden[2], T([[1.0, 0.0], [0.0, 0.0]]))


def test_the_machine(ours):
    a, b = ours.Scalar(2), ours.Scalar(-3)
    c = a * b
    d = c + a
    e = d**2
    e.backward()
    nodes = {"a": a, "b": b, "c": c, "d": d, "e": e}
    for name, value, _, gradient in table_in("ch13", "The machine"):
        assert shows(value, nodes[name].value) and shows(gradient, nodes[name].grad), name
    assert says("ch13", "de / da = de / dd · (dd / dc · dc / da + 1) = {} · (1 · ({}) + 1) = {}", d.grad, b.value, a.grad)
    assert says("ch13", "Its slope for a is 2 a (b + 1)² = 2 · 2 · 4 = {}. Its slope for b is a² · 2 (b + 1) = 4 · (-4) = {}.", a.grad, b.grad)
    x = ours.Scalar(3)
    h = 2 * x
    z = h**2 + h
    z.backward()
    assert says("ch13", "Here z = {}, and `z.backward()` gives h the gradient 2h + 1 = {} and x the gradient {}.", z.value, h.grad, x.grad)
    z.backward()
    assert says("ch13", "After a second call they are {} and {},", h.grad, x.grad)
    y = leaf = ours.Scalar(3)
    y = y * y
    y.backward(), y.backward()
    assert says("ch13", "</summary> {} and {}. Each call adds 1 to y.grad", y.grad, leaf.grad)
