"""The numbers that lesson 22 works out by hand are what the reference computes."""

from __future__ import annotations

import math

import torch
from grader.chapters.ch22_recurrent import pictures
from grader.course.syllabus import EXERCISES
from lesson_tables import says, shown, shows, table_in, tables_of
from torch.utils.flop_counter import FlopCounterMode


def numbers(text):
    return [number for number, _ in shown(text)]


def table(heading, place=0):
    return table_in("ch22", heading, place)


def header(heading, place=0):
    return [table for table in tables_of(EXERCISES / "ch22_recurrent.md") if table.heading == heading][place].rows[0]


def tensor(*rows):
    """A batch of one text and one head: (1, 1, ...), in float64."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


def pairs(*vectors):
    return torch.tensor(vectors, dtype=torch.float64)[None, None]


def multiplications(call, *arguments):
    with FlopCounterMode(display=False) as counter:
        call(*arguments)
    return counter.get_total_flops() // 2


def test_the_cost_of_each_form(ours):
    T, d, C = 1024, 64, 64
    assert says("ch22", "with T = {} positions, d = d_v = {} and C = {}:", T, d, C)
    q, k, v = torch.zeros(3, 1, 1, T, d)
    parallel = multiplications(ours.decayed_attention, q, k, v, torch.zeros(1, 1, T))
    chunks = multiplications(ours.decayed_attention_chunked, q, k, v, torch.zeros(1, 1, T), C)
    assert (parallel, chunks) == (2 * T**2 * d, 2 * T * C * d + 2 * T * d**2)
    found = {"parallel": (parallel, 1), "step by step": (2 * T * d**2, T), "in chunks": (chunks, T // C)}
    for form, _, here, _, steps in table("Three forms of one layer"):
        assert shows(here, found[form][0]) and shows(steps, found[form][1])
    assert says("ch22", "A KV cache keeps {} numbers for {} such pairs. The matrix always has {}.", 1000 * 128, 1000, 64 * 64)


def test_without_a_softmax(ours):
    for x in (0.0, 1.0, -1.0):
        assert says("ch22", f"φ({x:g}) = {{}}", float(torch.nn.functional.elu(torch.tensor(x)) + 1))
    positions, sums = table("Without a softmax"), table("Without a softmax", 1)
    keys, values = ([numbers(row[column]) for row in positions] for column in (1, 4))
    k, v, q = pairs(*keys), pairs(*values), pairs(*[(1.0, 0.0)] * 3)
    state = None
    for t, (position, after) in enumerate(zip(positions, sums)):
        phi_key, phi_query = torch.nn.functional.elu(k[0, 0, t]) + 1, torch.tensor([2.0, 1.0]).double()
        assert shows(position[2], *phi_key.tolist()) and shows(position[3], float(phi_key @ phi_query))
        output, state = ours.linear_attention_step(q[:, :, t], k[:, :, t], v[:, :, t], state)
        assert shows(after[1], *state[0].flatten().tolist()) and shows(after[2], *state[1].flatten().tolist())
    whole = ours.linear_attention(q, k, v)[0, 0, -1].item()
    assert says("ch22", "(4 · 10 + 5 · 20 + 6 · 30) / (4 + 5 + 6) = {}.", whole)
    assert says("ch22", "(2 · 110 + 1 · 100) / (2 · 5 + 1 · 5) = 320 / 15 = {}.", output.item())


FACTORS = torch.tensor([[[0.9, 0.5, 1.0, 0.25]]], dtype=torch.float64)


def test_a_state_that_fades(ours):
    assert says("ch22", "Four positions have the factors {}, {}, {} and {}.", *FACTORS.flatten().tolist())
    for row, left in zip(table("A state that fades"), ours.segment_sums(FACTORS.log())[0, 0].exp().tolist()):
        assert shows(" ; ".join(row[1:]), *left)
    ones, eights = tensor([1.0], [1.0], [1.0], [1.0]), 8 * tensor([1.0], [1.0], [1.0], [1.0])
    whole = ours.decayed_attention(ones, ones, eights, FACTORS.log()).flatten().tolist()
    states, S = [], 0.0
    for factor in FACTORS.flatten().tolist():
        S = factor * S + 8
        states.append(S)
    for row, found in zip(table("A state that fades", 1), (whole, states), strict=True):
        assert shows(" ; ".join(row[1:]), *found)


def test_a_difference_of_two_sums(ours):
    before, after = (torch.tensor(value) for value in (-10000.0, -10000.1))
    assert says("ch22", "In float32, the two sums are {} and {}, and their difference is {}:", -10000.0, -10000.1, (after - before).item())
    log_decay = torch.full((3,), -0.1)
    assert ours.segment_sums(log_decay)[2, 1] == log_decay[2]


def test_in_chunks(ours):
    ones, eights = tensor([1.0], [1.0]), 8 * tensor([1.0], [1.0])
    first = ours.decayed_attention_chunked(ones, ones, eights, FACTORS[..., :2].log(), 2)[1]
    assert says("ch22", "After the first chunk S is {}.", first.item())
    later = FACTORS[..., 2:].log()
    inside = ours.decayed_attention(ones, ones, eights, later).flatten()
    output, state = ours.decayed_attention_chunked(ones, ones, eights, later, 2, first)
    old, own, whole = table("In chunks")
    for cells, found in ((old, output.flatten() - inside), (own, inside), (whole, output.flatten())):
        assert all(math.isclose(numbers(cell)[-1], value) for cell, value in zip(cells[1:], found.tolist()))
    assert says("ch22", "The new state is 3 + 0.25 · 8 + 8 = {}:", state.item())


def test_replace_and_do_not_only_add(ours):
    rows = table("Replace, and do not only add")
    keys, values = pairs(*(numbers(row[0]) for row in rows)), pairs(*(numbers(row[1]) for row in rows))
    for t, row in enumerate(rows, 1):
        k, v, one = keys[:, :, :t], values[:, :, :t], torch.ones(1, 1, t).double()
        states = [ours.decayed_attention_chunked(k, k, v, 0 * one, 2)[1], *(ours.delta_rule(k, k, v, beta * one)[1] for beta in (1.0, 0.5))]
        for cell, state in zip(row[2:], states):
            assert shows(cell, *state.flatten().tolist())
    one = torch.ones(1, 1, 1).double()
    before = ours.delta_rule(keys, keys, values, torch.ones(1, 1, 3).double())[1]
    new = pairs((0.6, 0.8))
    after = ours.delta_rule(new, new, pairs((1.0,)), one, state=before)[1]
    assert says("ch22", "The state (5, 4) returns 0.6 · 5 + 0.8 · 4 = {} for it, so {} is missing.", (new @ before).item(), 1 - (new @ before).item())
    assert says("ch22", "(5, 4) - 5.2 · (0.6, 0.8) = ({}, {}).", *after.flatten().tolist())
    for key, was, now in table("Replace, and do not only add", 1):
        asked = pairs(numbers(key))
        assert shows(was, (asked @ before).item()) and shows(now, (asked @ after).item())


def test_all_corrections_of_a_chunk_at_once(ours):
    k, v, one = pairs((1.0, 0.0), (0.6, 0.8)), pairs((3.0,), (4.0,)), torch.ones(1, 1, 2).double()
    rows = table("All corrections of a chunk at once")
    system = torch.tensor([numbers(" ; ".join(row[1:3])) for row in rows], dtype=torch.float64)
    right = torch.tensor([numbers(row[3]) for row in rows], dtype=torch.float64)
    assert system.tril(-1)[1, 0] == (k[0, 0, 0] @ k[0, 0, 1]) and right.tolist() == v[0, 0].tolist()
    u = torch.linalg.solve(system, right).flatten()
    _, state = ours.delta_rule_chunked(k, k, v, one, 2)
    assert torch.allclose(u @ k[0, 0], state.flatten())
    assert says("ch22", "Its solution is ({}, {}), and the state is 3 · (1, 0) + 2.2 · (0.6, 0.8) = ({}, {}).", *u.tolist(), *state.flatten().tolist())
    assert says("ch22", "0.6 · 4.32 + 0.8 · 1.76 = {}.", (k[0, 0, 1] @ state[0, 0]).item())


def test_a_recurrence_in_few_rounds(ours):
    rows = {name: torch.tensor(numbers(" ; ".join(cells))) for name, *cells in table("A recurrence in few rounds")}
    a, b = rows["a"], rows["b"]
    assert ours.doubling_scan(a, b).tolist() == rows["b after the shift 2"].tolist()
    first_b = torch.cat([b[:1], a[1:] * b[:-1] + b[1:]])
    first_a = torch.cat([a[:1], a[1:] * a[:-1]])
    assert first_b.tolist() == rows["b after the shift 1"].tolist() and first_a.tolist() == rows["a after the shift 1"].tolist()
    assert says("ch22", "4,096 positions need {} rounds.", math.log2(4096))


def test_the_last_few_inputs(ours):
    x = torch.tensor(numbers(" ; ".join(header("The last few inputs")[1:])))[None, :, None]
    weight = torch.tensor([[1.0, 2.0, 3.0]])
    output, state = ours.short_convolution(x, weight)
    [row] = table("The last few inputs")
    assert shows(" ; ".join(row[1:]), *output.flatten().tolist())
    assert says("ch22", "keep the last two inputs, {} and {}:", *state.flatten().tolist())
    again, _ = ours.short_convolution(torch.tensor([[[50.0]]]), weight, state)
    assert says("ch22", "with the next input 50, the output is 30 + 80 + 150 = {}.", again.item())


def test_a_step_that_depends_on_the_text(ours):
    rows = table("A step that depends on the text")
    dt = torch.tensor([numbers(row[0])[0] for row in rows], dtype=torch.float64).view(1, -1, 1)
    A, one = torch.tensor([[-math.log(2)]], dtype=torch.float64), torch.ones_like(dt)
    assert says("ch22", "A = {}, so exp(dt · A) is 0.5 for dt = 1.", A.item())
    y, _ = ours.selective_scan(4 * one, dt, A, one, one, torch.zeros(1, dtype=torch.float64))
    for row, step, h in zip(rows, dt.flatten().tolist(), y.flatten().tolist()):
        assert shows(row[1], math.exp(step * A.item())) and shows(row[2], step * 4) and shows(row[3], h)


def test_how_fast_a_layer_forgets(ours):
    for A, softplus, factor, half in table("How fast does a layer forget?"):
        rate = numbers(A)[0] * numbers(softplus)[0]
        assert shows(factor, math.exp(-rate)) and shows(half, math.log(2) / rate)
    torch.manual_seed(0)
    layer = ours.GatedDeltaNet(400, 200)
    drawn = layer.A_log.exp(), torch.nn.functional.softplus(layer.dt_bias)
    assert says("ch22", "A is between 1 and 16, and the softplus between 0.001 and 0.1, apart from what the text adds:")
    for values, (low, high) in zip(drawn, ((1, 16), (0.001, 0.1))):
        assert low * 0.999 <= values.min() < 1.5 * low and 0.8 * high < values.max() <= high * 1.001


def test_how_large_a_state_is(ours):
    before, S = ours.GatedDeltaNet(512, 8).new_state(1)
    assert says("ch22", "has 8 · 64 · 64 = {} numbers in its S, and 3 · 1,536 = {} for the convolution.", S.numel(), before.numel())
    position = ours.kv_cache_bytes(1, 8, 64, 1, bytes_per_value=1)
    assert says("ch22", "A KV cache has 2 · 512 = {} numbers for each position.", position)
    assert says("ch22", "as the cache of {} positions, half of d_head, and together they are as large as that of {}.", S.numel() / position, (S.numel() + before.numel()) / position)
    state, cached, tokens = 32 * 128 * 128, 2 * 2 * 256, 262144
    assert says("ch22", "with a state of 32 · 128 · 128 = {} numbers.", state) and says("ch22", "with 2 · 2 · 256 = {} numbers for each position.", cached)
    one = {"KV cache": 2 * cached * tokens, "states": 2 * state, "KV cache, if all layers were attention": 2 * cached * tokens}
    for name, layers, each, together in table("How large is a state?"):
        total = numbers(layers)[0] * one[name]
        assert shows(each, one[name] / 2**20) and shows(together, total / 2**30 if "GiB" in together else total / 2**20)


def test_the_bytes_of_the_three_models(ours):
    width, heads, layers = 64, 2, 4
    state = 4 * sum(each.numel() for each in ours.GatedDeltaNet(width, heads).new_state(1))
    lengths = [numbers(head)[0] for head in header("Try it")[1:]]
    caches = [ours.kv_cache_bytes(1, heads, width // heads, int(length), bytes_per_value=4) for length in lengths]
    with_attention = {"attention": layers, "recurrent": 0, "hybrid": 1}
    for name, *cells in table("Try it"):
        for cell, cache in zip(cells, caches, strict=True):
            assert shows(cell, with_attention[name] * cache + (layers - with_attention[name]) * state)


def test_the_pictures_show_what_their_texts_say(ours):
    log_decay = torch.tensor([math.log(pictures.FACTORS.get(word, pictures.OTHER_FACTOR)) for word in pictures.TEXT])
    left = ours.segment_sums(log_decay).exp()
    stop = pictures.TEXT.index(".")
    assert says("ch22", "At the first full stop, {} is left of frog and {} of the first word; at the last one, {} is left", left[stop, stop - 1].item(), left[stop, 0].item(), left[-1, 0].item())
    assert says("ch22", "for the key of crane, ({}, {}).", *pictures.CRANE)
    assert pictures.CRANE[0] * pictures.FROG[0] + pictures.CRANE[1] * pictures.FROG[1] == 0


def test_predictions(ours):
    k, one = pairs((2.0, 0.0)), torch.ones(1, 1, 1).double()
    state = pairs((1.5,), (0.0,))  # returns 3 for the key
    after = ours.delta_rule(k, k, pairs((5.0,)), one, state=state)
    assert says("ch22", "3 + 2 · 2 · (5 - 3) = {}.", after[0].item())
    again = ours.delta_rule(k, k, pairs((5.0,)), one, state=after[1])
    assert says("ch22", "5 - 11 = -6 is missing, and it returns 11 - 24 = {}:", again[0].item())
    q, k, v = torch.randn(3, 1, 1, 5, 4, generator=torch.Generator().manual_seed(0)).unbind(0)
    log_decay = -torch.rand(1, 1, 5, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(ours.decayed_attention_chunked(q, k, v, log_decay, 99)[0], ours.decayed_attention(q, k, v, log_decay), atol=1e-5)
