"""Chapter 7, fourth part: masks in a translator: no position attends to padding or to a later position of the target."""

import torch
from grader.execution.proxy import gradients, load
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, shaped
from hypothesis import given, settings
from small_models import (
    check_logits_differ,
    compare_logits,
    padded_right,
    seq2seq_pair,
    seq2seq_sizes,
    source_and_target,
)
from strategies import seeds, tensor

few = settings(max_examples=2)  # a mistake here shows in every example


def anywhere(ids, seed, pad_id=0):
    """The same ids with pads on the left, inside, and on both sides, and where real tokens are."""
    real = torch.ones_like(ids, dtype=torch.bool)
    for row, places in enumerate([(0,), (1, 3), (0, -1), (0, 1, -2)][: len(ids)]):
        real[(row + seed) % len(ids), list(places)] = False
    return ids.masked_fill(~real, pad_id), real


def changed(before, after, axis=1):
    """By how much each entry along `axis` changed, at most."""
    difference = shaped(after, tuple(before.shape)) - before
    return [float(d.abs().max()) for d in difference.unbind(axis)]


# ---- padding


@exercise("Seq2Seq", weight=5)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_padding_on_the_right_changes_no_real_logit(learner, reference, n, seed):
    """A sentence gets the same logits alone as in a batch where it is padded, in the source, in the target, or in both."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    (padded_src, real_src), (padded_tgt, real_tgt) = padded_right(src, seed), padded_right(tgt, seed + 1)
    got = mine(padded_src, tgt), mine(src, padded_tgt), mine(padded_src, padded_tgt)
    cases = "the source is padded", "the target is padded", "both are padded"
    pairs = []
    for row in range(n.B):
        one, other = src[row : row + 1, real_src[row]], tgt[row : row + 1, real_tgt[row]]
        alone = mine(one, tgt[row : row + 1]), mine(src[row : row + 1], other), mine(one, other)
        pairs += [(row, *found) for found in zip(got, alone, (n.T, other.size(1), other.size(1)), cases)]
    for row, logits, expected, length, where in pairs:
        check_logits_differ(logits, n.B, n.T, n.W)
        shaped(expected, (1, length, n.W), "the tensor of logits")
        compare_logits(logits[row, :length], expected[0], f"row {row} of the logits where {where}, compared with the logits of that sentence alone,")


@exercise("Seq2Seq", weight=4)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_padding_anywhere_is_never_attended_to(learner, reference, n, seed):
    """Wherever the padding is, the vector of its id does not change a real token's logits."""
    mine, _, values = seq2seq_pair(learner, reference, n, seed)
    (src, _), (tgt, real) = anywhere(source_and_target(n, seed)[0], seed), anywhere(source_and_target(n, seed)[1], seed + 1)
    before = check_logits_differ(mine(src, tgt), n.B, n.T, n.W)
    others = {}
    for name in ("src_emb.weight", "tgt_emb.weight"):
        others[name] = values[name].clone()
        others[name][0] = tensor(seed + 2, n.H * n.d_head)
    load(mine, others)
    after = mine(src, tgt)
    compare_logits(after, before, "the tensor of logits, after the embedding of the pad id was changed,", real)


@exercise("Seq2Seq", weight=2)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_any_id_may_be_the_padding(learner, reference, n, seed):
    """Padding is where the id is config.pad_id; with another pad_id, 0 is a word like any other."""
    pad_id = 1 + seed % 12
    mine, model, values = seq2seq_pair(learner, reference, n, seed, pad_id=pad_id)
    src, tgt = source_and_target(n, seed, pad_id)
    src[:, 1:3], tgt[:, 1:3] = 0, 0
    (src, _), (tgt, real) = anywhere(src, seed, pad_id), anywhere(tgt, seed + 1, pad_id)
    before, after = mine(src, tgt), {}
    for row in (pad_id, 0):
        others = {name: values[name].clone() for name in ("src_emb.weight", "tgt_emb.weight")}
        for number, table in enumerate(others.values()):
            table[row] = tensor(seed + number, n.H * n.d_head)
        load(mine, others)
        after[row] = mine(src, tgt)
    check_logits_differ(before, n.B, n.T, n.W)
    compare_logits(after[pad_id], before, f"the tensor of logits, after the embedding of pad_id = {pad_id} was changed,", real)
    by = changed(before, after[0], axis=0)
    holds(min(by) > 1e-5, f"with pad_id = {pad_id}, 0 is a word, and another embedding of it should change the logits")
    compare_logits(before, model(src, tgt), f"the tensor of logits with pad_id = {pad_id}, where 0 is a word,", real)


@exercise("Seq2Seq", weight=6)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_every_real_position_of_the_memory_counts(learner, reference, n, seed):
    """The logits at each target position depend on every real position of the memory, and on none where the source is padding."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    src, real = anywhere(src, seed)
    memory, position = tensor(seed, n.B, n.S, n.H * n.d_head), seed % n.T
    cotangent = torch.zeros(n.B, n.T, n.W)
    cotangent[:, position] = tensor(seed + 1, n.B, n.W)
    got = gradients(mine.decode, tgt, memory, src, cotangent=cotangent)
    check_logits_differ(got.output, n.B, n.T, n.W)
    gradient = got.inputs[1]
    holds(gradient is not None, "the logits do not depend on the memory")
    by = gradient.abs().amax(-1)
    holds(float(by[~real].max()) == 0, "the logits depend on a position of the memory where the source is padding")
    holds(float(by[real].min()) > 0, f"the logits at target position {position} should depend on every real position of the memory")


# ---- which positions affect which


@exercise("Seq2Seq", weight=2)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_the_decoder_never_looks_ahead(learner, n, reference, seed):
    """Another token at position t of the target changes the logits from t on, and none before, in padded rows too."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    t = 1 + seed % (n.T - 3)
    tgt[0, -1] = 0
    other = tgt.clone()
    other[:, t] = 1 + other[:, t] % (n.W - 1)
    before, after = mine(src, tgt), mine(src, other)
    by = changed(before, after)
    holds(max(by[:t]) < 1e-5, f"another token at position {t} of the target changed the logits at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:-1]) > 1e-5, f"another token at position {t} of the target should change the output there and at every later position")


@exercise("Seq2Seq", weight=4)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_the_encoder_sees_the_whole_source(learner, n, reference, seed):
    """Another last token of the source changes the memory at every position, and the logits of every target position."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    other = src.clone()
    other[:, -1] = 1 + other[:, -1] % (n.V - 1)
    memories, logits = (mine.encode(src), mine.encode(other)), (mine(src, tgt), mine(other, tgt))
    by = changed(*memories)
    holds(min(by) > 1e-5, f"another last token of the source should change the memory at every position; at position {by.index(min(by))} it does not")
    by = changed(*logits)
    holds(min(by) > 1e-5, f"another last token of the source should change the logits at every position of the target; at position {by.index(min(by))} it does not")


@exercise("Seq2Seq")
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_order_matters_in_source_and_target(learner, reference, n, seed):
    """The same tokens in another order give other logits: positions are added in the encoder and in the decoder."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    src[:, :2], tgt[:, :3] = torch.tensor([1, 2]), torch.tensor([1, 2, 3])
    one, other = src.clone(), tgt.clone()
    one[:, :2], other[:, :2] = torch.tensor([2, 1]), torch.tensor([2, 1])
    plain, turned_src, turned_tgt = mine(src, tgt), mine(one, tgt), mine(src, other)
    holds(min(changed(plain, turned_src)) > 1e-5, "two tokens of the source were swapped, but the logits are the same: the encoder does not use positions")
    holds(changed(plain, turned_tgt)[2] > 1e-5, "two earlier tokens of the target were swapped, but the logits are the same: the decoder does not use positions")
