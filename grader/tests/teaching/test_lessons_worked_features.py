"""The numbers that lesson 23 works out by hand are what the reference computes."""

from __future__ import annotations

import math

import torch
from grader.course.syllabus import EXERCISES
from lesson_tables import says, shown, shows, table_in, tables_of
from torch import nn

ROW, WEIGHT = torch.tensor([2.0, -1.0]), torch.ones(2)


def numbers(text):
    return [number for number, _ in shown(text)]


def table(heading):
    return table_in("ch23", heading)


def columns(heading):
    """The cells of a table by its columns, without the first one."""
    [found] = [table for table in tables_of(EXERCISES / "ch23_features.md") if table.heading == heading]
    return [list(column) for column in zip(*found.rows)][1:]


class Adds(nn.Module):
    """Returns the same vector at each position."""

    def __init__(self, vector):
        super().__init__()
        self.vector = nn.Parameter(torch.tensor(vector))

    def forward(self, x):
        return self.vector.expand(*x.shape[:-1], -1)


def test_a_logit_is_a_sum(ours):
    """The model of the table: one block with two heads of one feature each, whose parts add the vectors of the table."""
    rows = {row[0]: row for row in table("A logit is a sum")}
    together, *parts = rows.pop("together"), *rows.values()
    vectors = {row[0]: torch.tensor(numbers(row[1])) for row in parts}
    stream = sum(vectors.values())
    assert shows(together[1], *stream.tolist())
    model = ours.Llama(3, 2, 1, 1, 1, 4)
    block = model.blocks[0]
    block.attn.n_heads = 2
    block.attn.forward = lambda x, cache=None: block.attn.W_out(torch.ones_like(x))
    block.ffn = Adds(vectors["ffn 0"].tolist())
    with torch.no_grad():
        model.ln_f.eps = 0.0
        block.attn.W_out.weight.copy_(torch.stack([vectors["head 0.0"], vectors["head 0.1"]], dim=1))
        model.token_emb.weight[1] = vectors["embedding"]
        model.lm_head.weight = nn.Parameter(torch.stack([ROW, -ROW, ROW]))
    added = ours.logit_attribution(model, torch.tensor([[1]]), 0)
    for name, _, product, logit in parts:
        assert shows(product, (vectors[name] @ ROW).item()) and shows(logit, added[name]), name
    assert shows(together[2], (stream @ ROW).item()) and shows(together[3], sum(added.values()))
    size = math.sqrt(12.5)
    assert says("ch23", "√(25 / 2) = {}, so the norm multiplies by 1 / {} = {}", size, size, 1 / size)
    assert says("ch23", "the root mean square √2 and the logit {}", -2 / math.sqrt(2))


def test_switching_off_a_head():
    features = torch.tensor([numbers(row[1]) for row in table("Switching off a head")])
    for row in table("Switching off a head"):
        assert shows(row[2], 0.0, 0.0) and shows(row[3], *features.mean(dim=0).tolist())


def test_one_slope_for_all_places():
    for metric, clean, slope, estimate, real in table("One slope for all places"):
        [s] = numbers(clean)
        value, rate = (lambda x: 3 * x, 3) if metric.startswith("3") else (lambda x: x * x, 2)
        assert shows(slope, rate) and shows(estimate, rate * (s - 1)) and shows(real, value(s) - value(1))


def test_how_sure_should_a_probe_be(ours):
    states, labels = torch.tensor([[-1.0], [1.0]], dtype=torch.float64), torch.tensor([0, 1])
    for l2, weight, chance in columns("How sure should a probe be?"):
        found, bias = ours.fit_probe(states, labels, float(l2))
        assert shows(weight, found.item()) and shows(chance, torch.sigmoid(found).item()) and abs(bias) < 1e-6


def test_held_out_and_beside_a_control(ours):
    for width, *cells in table("Held out, and beside a control"):
        states, labels = torch.randn(100, int(width), generator=torch.Generator().manual_seed(0)), torch.arange(100) % 2 == 0
        states[labels, 0] += 2
        weight, bias = ours.fit_probe(states, labels)
        own = ((states @ weight + bias > 0) == labels).double().mean().item()
        scores = ours.probe_score(states, labels, 5, torch.Generator().manual_seed(0))
        assert shows(" ; ".join(cells), own, *scores), width


def test_a_direction_and_what_is_left_without_it(ours):
    positive, negative = torch.tensor([[4.0, 1.0], [2.0, 3.0]]), torch.tensor([[0.0, 0.0], [0.0, -4.0]])
    direction = ours.mean_direction(positive, negative)
    assert says("ch23", "the direction is ({}, {}).", *direction.tolist())
    left = ours.remove_direction(torch.tensor([[3.0, 4.0], [4.0, -3.0]]), direction)
    assert torch.allclose(left, torch.tensor([[0.0, 0.0], [4.0, -3.0]]), atol=1e-5)
    assert says("ch23", "Steering with strength 10 adds ({}, {}) to every state.", *(10 * direction).tolist())


def test_a_dictionary(ours):
    directions = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    for state, products, k, features, reconstruction in table("A dictionary"):
        dictionary = ours.SparseAutoencoder(2, 3, int(k))
        with torch.no_grad():
            dictionary.W_dec.copy_(directions)
            dictionary.W_enc.copy_(directions.T)
            x = torch.tensor(numbers(state))
            found, active = dictionary(x)
        assert shows(products, *(x @ directions.T).tolist())
        assert shows(features, *active.tolist()) and shows(reconstruction, *found.tolist())
    dictionary.W_dec.grad = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    dictionary.project_gradient()
    assert says("ch23", "and ({}, {}) stays.", *dictionary.W_dec.grad[2].tolist())


def test_how_much_is_explained(ours):
    states = torch.tensor([[1.0, 5.0], [3.0, 5.0], [5.0, 5.0]])
    worse = {"the states themselves": states, "(3, 5), the mean": states.mean(dim=0).expand(3, 2)}
    worse |= {"(2, 5), (3, 5), (4, 5)": torch.tensor([[2.0, 5.0], [3.0, 5.0], [4.0, 5.0]]), "(0, 0)": torch.zeros(3, 2)}
    for name, errors, explained in table("How much is explained?"):
        assert shows(errors, (states - worse[name]).square().sum().item())
        assert shows(explained, ours.explained_variance(states, worse[name]))


def test_reading_a_feature(ours):
    features = torch.tensor([[0.0, 0.0, 1.5, 0.0, 0.0, 4.0], [0.0, 0.0, 3.0, 0.0, 0.0, 0.0]])
    words = ["the cat sat on the mat".split(), "a dog sat on the rug".split()]
    vocab = sorted({word for text in words for word in text})
    ids = torch.tensor([[vocab.index(word) for word in text] for text in words])
    found = ours.top_contexts(features, ids, 5, 2, 1)
    assert [(value, [vocab[token] for token in tokens], place) for value, tokens, place in found] == [
        (4.0, ["on", "the", "mat"], 2),
        (3.0, ["a", "dog", "sat", "on"], 2),
    ]
