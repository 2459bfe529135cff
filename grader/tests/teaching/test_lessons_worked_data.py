"""The numbers that lesson 19 works out by hand are what the reference computes."""

from __future__ import annotations

import math

import torch
from grader.chapters.ch19_data_and_scale.scaling.plan import SEEDS_A_SIZE, TRIED_SIZES
from grader.course.syllabus import EXERCISES
from lesson_tables import says, shown, shows, table_in


def numbers(text):
    return [number for number, _ in shown(text)]


def test_how_alike_are_two_texts(ours):
    found = []
    for text, cell in table_in("ch19", "How alike are two texts?"):
        found.append(ours.shingles(text, 2))
        assert found[-1] == set(cell.split(", "))
    likeness = len(found[0] & found[1]) / len(found[0] | found[1])
    assert says("ch19", "They share 3 shingles, and together they have 7. Their **Jaccard similarity** is 3 / 7 = {}.", likeness)
    longer = [ours.shingles(text, 3) for text, _ in table_in("ch19", "How alike are two texts?")]
    assert len(found[0] - found[1]) == 2 and len(longer[0] - longer[1]) == 2


def test_a_signature(ours):
    for shingle, *hashes in table_in("ch19", "A signature"):
        assert shows(" ; ".join(hashes), *(value / 2**64 for value in ours.minhash({shingle}, range(6)))), shingle
    rows = table_in("ch19", "A signature", 1)
    signatures = [ours.minhash(ours.shingles(row[0], 2), range(64)) for row in rows]
    for row, signature in zip(rows, signatures):
        assert shows(" ; ".join(row[1:]), *(value / 2**64 for value in signature[:6])), row[0]
    agree = [a == b for a, b in zip(*signatures)]
    assert sum(agree[:6]) == 4 and says("ch19", "and with 64 seeds {} do, {}.", sum(agree), sum(agree) / 64)
    assert says("ch19", "An estimate from 64 columns has a standard deviation of {}", math.sqrt(3 / 7 * 4 / 7 / 64))
    far = sum(math.comb(64, k) * (3 / 7) ** k * (4 / 7) ** (64 - k) for k in range(65) if abs(k / 64 - 3 / 7) > 0.1)
    assert says("ch19", "more than 0.1 too high or too low in {} % of all cases.", 100 * far)


def test_which_pairs_are_compared():
    for row in table_in("ch19", "Which pairs are compared?"):
        likeness = numbers(row[0])[0]
        assert shows(" ; ".join(row[1:]), *(1 - (1 - likeness ** (64 // bands)) ** bands for bands in (8, 16, 32))), row


def test_which_one_stays(ours):
    texts = [row[1] for row in table_in("ch19", "Which one stays?")]
    assert ours.deduplicate(texts, 0.5, 1, range(64), 64) == [0, 2]
    sets = [ours.shingles(text, 1) for text in texts]
    shared = [len(sets[i] & sets[j]) / len(sets[i] | sets[j]) for i, j in ((0, 1), (1, 2), (0, 2))]
    assert shared == [6 / 10, 6 / 10, 4 / 12]


def test_bits_per_byte(ours):
    for row in table_in("ch19", "Bits per byte"):
        tokens, loss = numbers(row[1])[0], numbers(row[2])[0]
        bits = ours.bits_per_byte(tokens * loss, 100)
        assert shows(" ; ".join(row[3:]), tokens * loss, 100 * bits, bits), row


def test_what_does_a_token_cost(ours):
    config = ours.GPTConfig(1000, 128, 64, 4, 4)
    exact, estimate = ours.training_flops(config, 1, 128)
    rows = [numbers(row[1]) for row in table_in("ch19", "What does a token cost?")]
    linear, wide, attention, block, blocks, head, forward, everything = (row[-1] for row in rows)
    assert block == linear + wide + attention and blocks == 4 * block and forward == blocks + head and everything == 3 * forward == exact
    parameters = sum(p.numel() for p in ours.GPT(config).parameters())
    assert says("ch19", "This GPT has N = {} parameters, so it gives {}: {} % less", parameters, estimate, 100 * (1 - estimate / exact))
    assert says("ch19", "In the example above, a token costs {} times as much.", ours.training_flops(config, 256, 256)[0] / 256 / exact)


def test_a_law_through_three_points(ours):
    rows = table_in("ch19", "A law through three points")
    x, y = ([numbers(row[column])[0] for row in rows] for column in (0, 2))
    a, b, c = ours.fit_power_law(x, y)
    assert all(shows(row[1], value**-c) for row, value in zip(rows, x))
    assert math.isclose(a, 1) and math.isclose(b, 4) and says("ch19", "With x = 64 the law predicts 1 + 4 / 8 = {}, and", a + b * 64**-c)


def test_the_best_size_at_a_budget(ours):
    runs = [(float(row[0]), *(int(cell.replace(",", "")) for cell in row[1:3]), float(row[3])) for row in table_in("ch19", "The best size at a budget")]
    assert all(math.isclose(budget, 6 * parameters * tokens) for budget, parameters, tokens, _ in runs)
    (a, b), predict = ours.compute_optimal(runs)
    assert math.isclose(a, 0.5) and math.isclose(b, 0.5)
    assert says("ch19", "For {}e16, four times more, the lines", 4 * 9.6e15 / 1e16)
    sizes = [[value / 1e6 for value in predict(budget)] for budget in (2.4e15, 9.6e15, 3.84e16)]
    assert says("ch19", "2,000,000 · 2^(1/6) = {} million parameters. The second budget has the same parabola one doubling later, {} million.", sizes[0][0], sizes[1][0])
    assert says("ch19", "Tokens follow in the same way, with {} million and {} million, and the exponent 0.5.", sizes[0][1], sizes[1][1])
    assert says("ch19", "the lines predict {} million parameters and {} million tokens.", *sizes[2])


A, ALPHA, B, BETA, LIMIT = 482.01, 0.3478, 2085.43, 0.3658, 1.8172  # of the law of Besiroglu and others
SMOLLM2, READ = 134_515_008, 2e12  # parameters of SmolLM2-135M, and tokens that it has read


def loss_of(parameters, tokens):
    return LIMIT + A / parameters**ALPHA + B / tokens**BETA


def test_overtraining():
    assert says("ch19", "loss = {} + {} / N^{} + {} / D^{}", LIMIT, A, ALPHA, B, BETA)
    assert says("ch19", "with a = {} / ({} + {}) = {}.", BETA, ALPHA, BETA, BETA / (ALPHA + BETA))

    # at the best size, moving FLOPs from N to D changes nothing: ALPHA · A / N^ALPHA = BETA · B / D^BETA
    same_size = SMOLLM2, (BETA * B / (ALPHA * A) * SMOLLM2**ALPHA) ** (1 / BETA)
    left = loss_of(SMOLLM2, READ) - LIMIT
    same_loss = (A / (left * BETA / (ALPHA + BETA))) ** (1 / ALPHA), (B / (left * ALPHA / (ALPHA + BETA))) ** (1 / BETA)
    for parameters, tokens in (same_size, same_loss):  # no other size is better with these FLOPs
        budget = 6 * parameters * tokens
        assert all(loss_of(parameters, tokens) < loss_of(size, budget / 6 / size) for size in (0.99 * parameters, 1.01 * parameters))
    for row, (parameters, tokens) in zip(table_in("ch19", "Overtraining"), (same_size, same_loss, (SMOLLM2, READ)), strict=True):
        assert shows(" ; ".join(row[1:4]), parameters / 1e6, tokens / 1e9, tokens / parameters), row
        assert row[4:6] == tuple(f"{flops:.1e}".replace("e+0", "e").replace("e+", "e") for flops in (6 * parameters * tokens, 2 * parameters)), row
        assert shows(row[6], loss_of(parameters, tokens)), row
    long, short = 6 * SMOLLM2 * READ, 6 * same_loss[0] * same_loss[1]
    assert says("ch19", "cost {} times as much as that of the larger model with the same loss.", long / short)
    assert says("ch19", "costs {} times less.", same_loss[0] / SMOLLM2)
    assert says("ch19", "After {} trillion tokens the overtrained model is the cheaper one", (long - short) / 2 / (same_loss[0] - SMOLLM2) / 1e12)
    best = {budget: (ALPHA * A / (BETA * B) * (budget / 6) ** BETA) ** (1 / (ALPHA + BETA)) for budget in (1e19, 1e20, 1e21, 1e23)}
    assert says("ch19", "has read {} to {} tokens per parameter.", *(budget / 6 / best[budget] ** 2 for budget in (1e19, 1e23)))
    assert says("ch19", "lie at {} · 10⁸, {} · 10⁸ and {} · 10⁹ parameters", best[1e19] / 1e8, best[1e20] / 1e8, best[1e21] / 1e9)
    assert "the best size grows like C^0.51<" in (EXERCISES / "pictures/ch19_data_and_scale.svg").read_text(encoding="utf-8")


def test_what_other_parts_of_the_lesson_say_about_its_labs():
    copies = {row[0]: row for row in table_in("ch19", "Lab copies: what do copies of a text do to a model?")}
    assert says("ch19", "lab copies, {} tokens in a row of a text that it has read 16 times, and {} of a text", numbers(copies["16"][2])[0], numbers(copies["16"][4])[0])
    trained = table_in("ch19", "Lab law: how should the model and its data grow?")
    assert says("ch19", "`headway scale` trains {} small GPTs", len(trained) * SEEDS_A_SIZE) and len(trained) == 3 * len(TRIED_SIZES)


class OneMore(torch.nn.Module):
    """The next token is the last one plus one."""

    def forward(self, ids):
        return torch.nn.functional.one_hot((ids + 1) % 8, 8).float()


def test_what_does_a_model_repeat(ours):
    for text, choices, repeated in table_in("ch19", "What does a model repeat?"):
        ids = [int(token) for token in text.split()]
        assert [int(token) for token in choices.split()] == [token + 1 for token in ids[1:-1]]
        assert ours.memorised(OneMore(), [ids], 2) == [int(repeated)]


def test_predictions():
    assert says("ch19", "In about 58, give or take 2. In all 64 with the probability 0.9⁶⁴ = {} %.", 100 * 0.9**64)
