"""The numbers that the lessons work out by hand are what the reference computes: chapters 7 to 11."""

from __future__ import annotations

import math

import pytest
import torch
from lesson_tables import says, show_rows, shown, shows, table_in
from torch import Tensor, nn

T = torch.tensor
COMING = T([0.40, 0.30, 0.15, 0.10, 0.05])  # chapter 9's five words


def sizes(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# ---- chapter 7


def test_parameters_of_the_models(ours):
    with torch.device("meta"):
        small = ours.GPT(ours.GPTConfig(10, 8, 6, 2, 2))
        large = ours.GPT(ours.GPTConfig(50257, 1024, 768, 12, 12, activation="gelu_tanh"))
    parts = [small.token_emb, small.pos_emb, *small.blocks, small.ln_f]
    assert [shown(row[2])[-1][0] for row in table_in("ch07", "From ids to logits")[1:-1]] == [sizes(part) for part in parts]
    assert says("ch07", "The sum is {}.", ours.count_parameters(small))
    block = large.blocks[0]
    attention, ffn = block.attn, block.ffn
    counted = [large.token_emb, large.pos_emb, block.ln1, attention, block.ln2, ffn.up, ffn.down, block, large.blocks, large.ln_f]
    said = [shown(row[2])[-1][0] for row in table_in("ch07", "Counting GPT-2")]
    assert said == [*map(sizes, counted), 0, ours.count_parameters(large)]
    assert says("ch07", "Without weight tying there are {}.", sizes(large) + sizes(large.token_emb))


def test_the_loss_of_three_positions():
    rows = table_in("ch07", "The loss of three positions")
    logits = T([[value for value, _ in shown(row[0])] for row in rows])
    targets = T([int(row[1]) for row in rows])
    kept = [logits[place].log_softmax(-1)[targets[place]].item() for place in range(2)]
    assert [shows(row[2], value) for row, value in zip(rows, kept)] == [True, True]
    loss = nn.functional.cross_entropy(logits, targets)
    assert says("ch07", "/ 2 = **{}**. If you divide by all three positions, you get {}.", loss, -sum(kept) / 3)
    assert says("ch07", "Not below ln(e + V - 1) - 1 = {},", math.log(math.e + 999) - 1)


# ---- chapter 8


def test_windows_and_batches(ours):
    pairs = ours.next_token_pairs([6, 1, 4, 3, 6, 2, 0, 5], 3)
    for row, (inputs, targets) in zip(table_in("ch08", "Text becomes inputs and targets"), pairs, strict=True):
        assert ([value for value, _ in shown(row[0])], [value for value, _ in shown(row[1])]) == (inputs, targets)


def test_the_loss_of_one_position(ours):
    rows = table_in("ch08", "The loss of one position")
    logits = T([2.0, 1.0, 0.0, -1.0], requires_grad=True)
    ours.cross_entropy(logits[None, None], T([[1]])).backward()
    values = torch.stack([logits, logits.exp(), logits.softmax(-1), -logits.log_softmax(-1), logits.grad], 1).detach()
    assert show_rows(rows, values)
    equal, wrong = ours.cross_entropy(torch.zeros(1, 1, 4), T([[1]])), ours.cross_entropy(T([[[10.0, -10, 0, 0]]]), T([[1]]))
    assert says("ch08", "has the loss log 4 = {}. With the logits (10, -10, 0, 0) the model is almost certain and wrong, and the loss is {}.", equal, wrong)


def test_gradients_are_clipped_together(ours):
    one, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    one.grad, other.grad = T([3.0, 0.0]), T([4.0])
    assert says("ch08", "(3, 0, 4), and its length (its norm) is {}.", ours.clip_gradients([one, other], 1.0))
    assert says("ch08", "This gives ({}, {}) and ({}),", *one.grad.tolist(), *other.grad.tolist())


def test_the_schedule(ours):
    [rates] = table_in("ch08", "The learning rate at eight steps")
    steps = (0, 50, 100, 325, 550, 775, 1000, 1200)
    assert shows("; ".join(rates[1:]), *(ours.warmup_cosine(step, 100, 1000, 0.003, 0.0003) for step in steps))


def test_two_steps_of_adamw(ours):
    p = nn.Parameter(T([2.0], dtype=torch.float64))
    optimizer = ours.AdamW([p], lr=0.1, weight_decay=0.1)
    rows = table_in("ch08", "Two steps of AdamW")
    m = v = 0.0
    for step, g in ((1, 0.4), (2, -0.2)):
        shrunk, m, v = p.item() * 0.99, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        first, second = m / (1 - 0.9**step), v / (1 - 0.999**step)
        p.grad = T([g], dtype=torch.float64)
        optimizer.step()
        for row, value in zip(rows, (shrunk, m, v, first, second, 0.1 * first / second**0.5, p.item()), strict=True):
            said, decimals = shown(row[step])[-1]
            assert value == pytest.approx(said, abs=0.505 * 10.0**-decimals), row


def test_decay_in_the_gradient_and_beside_it(ours):
    adamw = ours.AdamW
    for row, size in zip(table_in("ch08", "Why weight decay is separate"), (0.01, 10.0, 0.0), strict=True):
        ends = []
        for optimizer_class, decay in ((adamw, 0.0), (torch.optim.Adam, 0.1), (adamw, 0.1)):
            p = nn.Parameter(T([2.0], dtype=torch.float64))
            optimizer = optimizer_class([p], lr=0.01, weight_decay=decay)
            for step in range(100):
                p.grad = T([size if step % 2 == 0 else -size], dtype=torch.float64)
                optimizer.step()
            ends.append(p.item())
        assert shows("; ".join(cell.partition("=")[0] for cell in row[1:]), *ends), row


def test_perplexity_of_two_batches():
    rows = table_in("ch08", "Perplexity")
    assert shows(rows[0][1], math.exp((9 * 0.5 + 3 * 3.0) / 12)) and shows(rows[1][1], math.exp(1.75))
    assert shows(rows[2][1], (math.exp(0.5) + math.exp(3)) / 2)


def test_the_split_of_texts(ours):
    is_validation = ours.is_validation
    for text, said in (("the cat sat on the mat", 0.6046), ("the cat sat on the mat.", 0.9728)):
        assert is_validation(text, said + 0.00005) and not is_validation(text, said - 0.00005)
    assert says("ch08", "*the cat sat on the mat* gives {}, and with a full stop at its end {}.", 0.6046, 0.9728)
    assert says("ch08", "*sentence 0* to *sentence 9999*, {} are below 0.1.", sum(is_validation(f"sentence {n}", 0.1) for n in range(10_000)))


# ---- chapter 9


def left(logits: Tensor) -> list[str]:
    return [word for word, logit in zip(("mat", "rug", "sofa", "roof", "moon"), logits.tolist()) if logit > -math.inf]


def test_temperatures(ours):
    chance, logit = table_in("ch09", "A worked example")
    assert shows("; ".join(chance[1:]), *COMING) and shows("; ".join(logit[1:]), *COMING.log())
    for row in table_in("ch09", "Temperature"):
        assert shows("; ".join(row[1:]), *ours.apply_temperature(COMING.log(), float(row[0])).softmax(-1))
    assert says("ch09", "with a probability of 1 - 0.98^50 = {} %.", 100 * (1 - 0.98**50))


def test_top_k_with_ties(ours):
    logits = T([3.0, 2.0, 2.0, 1.0, 2.0])
    for row in table_in("ch09", "Top k, and ties"):
        stay = ours.top_k_filter(logits, int(row[0]))
        stay = stay[stay > -math.inf].tolist()
        assert len(stay) == int(row[2]) and (row[1] == "all" or shows(row[1], *stay))
    assert says("ch09", "get {} each, and `mat` gets {}.", 1 / 3.7, 0.4 / 3.7)


def test_the_nucleus(ours):
    _, upto, before = table_in("ch09", "The nucleus, by hand")
    assert shows("; ".join(upto[1:]), *COMING.cumsum(0)) and shows("; ".join(before[1:]), *(COMING.cumsum(0) - COMING))
    for p, words, total, chances in table_in("ch09", "The nucleus, by hand", 1):
        stay = ours.top_p_filter(COMING.log(), float(p))
        assert words == "all" or words.split(", ") == left(stay)
        assert shows(total, COMING[stay > -math.inf].sum())
        assert chances == "as before" or shows(chances, *stay.softmax(-1)[stay > -math.inf])


def test_min_p(ours):
    for chances, greatest, limit, count, new in table_in("ch09", "Min p: a share of the likeliest"):
        probs = T([value for value, _ in shown(chances)])
        stay = ours.min_p_filter(probs.log(), 0.25)
        assert shows(greatest, probs.max()) and shows(limit, 0.25 * probs.max()) and int(count) == int((stay > -math.inf).sum())
        assert new == "as before" or shows(new, *stay.softmax(-1)[stay > -math.inf])


def test_the_temperature_changes_the_nucleus(ours):
    for temperature, sums, words in table_in("ch09", "In this order: temperature, k, p"):
        logits = ours.apply_temperature(COMING.log(), float(temperature))
        assert words.split(", ") == left(ours.top_p_filter(logits, 0.75))
        assert shows(sums, *logits.softmax(-1).cumsum(0)[: len(shown(sums))])
    assert left(ours.top_p_filter(ours.top_k_filter(COMING.log(), 3), 0.8)) == ["mat", "rug"]
    twice = COMING.softmax(-1).tolist()
    assert says("ch09", "but with only {}; the others get {}, {}, {} and {}.", *twice)


# ---- chapter 10


def test_what_a_cache_saves():
    for row in table_in("ch10", "What is saved, and what is not"):
        n = int(row[0].replace(",", ""))
        lengths = range(5, 5 + n)
        assert shows("; ".join(row[1:]), sum(lengths), 5 + n - 1, sum(length**2 for length in lengths), 25 + sum(range(6, 5 + n)))


def test_masks_and_biases_of_a_chunk(ours):
    said = [[cell == "yes" for cell in row[1:]] for row in table_in("ch10", "A chunk of two after three")]
    assert said == ours.causal_mask(2, 5).tolist()
    bias = ours.alibi_bias(4, 2, 5)[0]
    assert says("ch10", "its rows are ({}, {}, {}, {}, {}) and ({}, {}, {}, {}, {}).", *bias.flatten().tolist())


def test_the_memory_of_a_cache(ours):
    size = ours.kv_cache_bytes
    assert says("ch10", "2 · 32 · 32 · 128 · 2 = {} bytes", size(32, 32, 128, 1)) and says("ch10", "2,048 times that, {} bytes", size(32, 32, 128, 2048))
    assert says("ch10", "with 4,096 tokens each takes {} GiB", size(32, 32, 128, 4096, batch=16) / 2**30)
    units = {"GiB": 2**30, "MiB": 2**20}
    for heads, _, memory in table_in("ch10", "Grouped queries"):
        amount, unit = memory.partition(",")[0].split()
        assert size(32, int(heads), 128, 2048) == int(amount) * units[unit]


# ---- chapter 11


ROUTER = T([[2.0, 1.0, 0.0, -1.0], [1.0, 0.0, 2.0, 0.5]])  # the logits of tokens A and B


def test_two_tokens_and_four_experts(ours):
    rows = table_in("ch11", "Two tokens, four experts")
    powers, probs = ROUTER.exp(), ROUTER.softmax(-1)
    for token in range(2):
        assert shows("; ".join(rows[2 * token][1:]), *powers[token], powers[token].sum())
        assert shows("; ".join(rows[2 * token + 1][1:]).replace("*", ""), *probs[token], 1.0)
    weights, experts = ours.route(ROUTER, 2)
    assert experts.tolist() == [[0, 1], [2, 0]] and weights[0].tolist() == pytest.approx(weights[1].tolist())
    output = weights[0, 0] * T([4.0, 0.0]) + weights[0, 1] * T([0.0, 2.0])
    assert says("ch11", "{} · (4, 0) + {} · (0, 2) = ({}, {})", *weights[0].tolist(), *output.tolist())


def test_how_balanced_the_experts_are(ours):
    probs = ROUTER.softmax(-1)
    _, experts = ours.route(ROUTER, 2)
    f, P = T([0.5, 0.25, 0.25, 0.0]), probs.mean(0)
    loss = ours.load_balancing_loss(probs, experts)
    shares, means, products = table_in("ch11", "How balanced was that?")
    assert shows("; ".join(shares[1:]), *f, 1.0) and shows("; ".join(means[1:]), *P, 1.0) and shows("; ".join(products[1:]), *(f * P), (f * P).sum())
    assert says("ch11", "4 · 0.3370 = **{}**.", loss)
    moved = torch.stack([ROUTER[0].roll(place) for place in range(4)])
    same, certain = ROUTER[:1].expand(4, 4), T([[1.0, 0.0, 0.0, 0.0]])
    cases = [(moved, 1), (moved, 2), (ROUTER, 2), (same, 2), (same, 1)]
    losses = [ours.load_balancing_loss(logits.softmax(-1), ours.route(logits, k)[1]) for logits, k in cases]
    losses.append(ours.load_balancing_loss(certain, T([[0]])))
    for row, value in zip(table_in("ch11", "How balanced was that?", 1), losses, strict=True):
        assert shows(row[3], value), row
    three, chosen = T([[0.51, 0.49], [0.51, 0.49], [0.0, 1.0]]), T([[0], [0], [1]])
    assert says("ch11", "P = 0.34, 0.66 give a loss of {}.", ours.load_balancing_loss(three, chosen))


def test_which_way_the_balance_loss_pulls(ours):
    logits = ROUTER.clone().requires_grad_()
    probs = logits.softmax(-1)
    probs.retain_grad()
    ours.load_balancing_loss(probs, ours.route(logits, 2)[1]).backward()
    of_probs, of_a, of_b = table_in("ch11", "Which way the loss pulls")
    assert shows("; ".join(cell.rpartition("=")[2] for cell in of_probs[1:]), *probs.grad[0])
    assert shows("; ".join(of_a[1:]), *logits.grad[0]) and shows("; ".join(of_b[1:]), *logits.grad[1])
    f, P = T([0.5, 0.25, 0.25, 0.0]), ROUTER.softmax(-1).mean(0)
    for row, value in zip(table_in("ch11", "Which way the loss pulls", 1), (4 * (f * f).sum(), T(1.0), 4 * (P * P).sum()), strict=True):
        assert shows(row[1], value), row
    near = T([[0.1, 0.0, 0.0, 0.0]]).softmax(-1)
    loss = ours.load_balancing_loss(near, T([[0]]))
    assert says("ch11", "nearly even probabilities: {}. The correct loss is {} there", 4 * near.square().sum(), loss)


def test_parameters_of_experts(ours):
    with torch.device("meta"):
        gpt = ours.GPT(ours.GPTConfig(50257, 1024, 768, 12, 12))
        mixed = ours.GPT(ours.GPTConfig(50257, 1024, 768, 12, 12))
        for block in mixed.blocks:
            block.ffn = ours.MoELayer(768, None, 8, 2)
    expert, layer = gpt.blocks[0].ffn, mixed.blocks[0].ffn
    dense, stored, active = sizes(gpt), sizes(mixed), ours.active_parameters(mixed)
    router = sizes(layer.router)
    said = [[shown(cell)[-1][0] for cell in row[1:] if shown(cell)] for row in table_in("ch11", "What is stored, and what is used")]
    assert said == [
        [sizes(expert), sizes(layer.experts), 8],
        [sizes(expert), ours.active_parameters(layer) - router, 2],
        [router],
        [dense, stored, round(stored / dense, 2)],
        [dense, active, round(active / dense, 2)],
    ]
