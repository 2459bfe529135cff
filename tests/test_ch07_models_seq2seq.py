"""Chapter 7, third part: a translator made of encoder and decoder: its numbers, dropout, names, sizes and dtypes. Masks are in test_ch07_models_seq2seq_masks.py."""

from types import SimpleNamespace

import torch
from devices_and_dtypes import load_meta_device, on_meta
from grader.execution.proxy import gradients, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from hypothesis import example, given, settings
from mode_orders import compare_in_every_order, results_in_every_order
from pytest_check import check
from small_models import (
    check_logits_differ,
    compare_logits,
    equal_vocabularies,
    ids_without_padding,
    padded_right,
    seq2seq_pair,
    seq2seq_sizes,
    smallest_sizes,
    source_and_target,
)
from strategies import seeds, tensor

few = settings(max_examples=2)  # a mistake here shows in every example


TOO_LONG = "{T} tokens do not fit into max_len = {max_len}"


# ---- the numbers


def logits_of_views(model, src, tgt):
    """The logits of the same ids as views, whose axes were exchanged in memory."""
    return model(src.t().contiguous().t(), tgt.t().contiguous().t())


@exercise("Seq2Seq", weight=4)
@few
@example(n=equal_vocabularies, seed=0)  # two tables, also where they have the same size
@given(n=seq2seq_sizes, seed=seeds)
def test_a_translator_scores_the_next_token(learner, reference, n, seed):
    """The logits are those of the formula: scaled embeddings, positions, encoder blocks, decoder blocks, head."""
    mine, model, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    plain, view = mine(src, tgt), learner.bring(logits_of_views)(mine, src, tgt)
    compare_logits(plain, model(src, tgt), "the tensor of logits")
    compare_logits(view, model(src, tgt), "the tensor of logits where source and target are views, such as transposed tensors,")


@exercise("Seq2Seq", weight=2)
@few
@example(n=smallest_sizes, seed=1)  # two encoder blocks
@given(n=seq2seq_sizes, seed=seeds)
def test_encode_gives_the_memory(learner, reference, n, seed):
    """encode(src) is what the last encoder block gives, (B, S, D): embeddings times sqrt(D), plus positions, through all blocks, and no further norm."""
    mine, model, _ = seq2seq_pair(learner, reference, n, seed)
    src, _ = source_and_target(n, seed)
    padded, real = padded_right(src, seed)
    got = mine.encode(src), mine.encode(padded)
    compare_logits(got[0], model.encode(src), "the memory")
    compare_logits(got[1], model.encode(padded), "the memory of a padded source", real)


@exercise("Seq2Seq", weight=3)
@few
@example(n=smallest_sizes, seed=0)  # two decoder blocks
@given(n=seq2seq_sizes, seed=seeds)
def test_decode_reads_the_memory_it_is_given(learner, reference, n, seed):
    """decode(tgt, memory, src) attends to any given memory; src only shows where its padding is."""
    mine, model, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    padded, real = padded_right(tgt, seed)
    memory = tensor(seed, n.B, n.S, n.H * n.d_head)
    got = mine.decode(tgt, memory, src), mine.decode(padded, memory, src)
    compare_logits(got[0], model.decode(tgt, memory, src), "the logits with a memory of random numbers")
    compare_logits(got[1], model.decode(padded, memory, src), "the logits of a padded target with a memory of random numbers", real)


@exercise("Seq2Seq")
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_forward_is_encode_then_decode(learner, reference, n, seed):
    """model(src, tgt) is decode(tgt, encode(src), src)."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    (src, _), (tgt, real) = padded_right(source_and_target(n, seed)[0], seed), padded_right(source_and_target(n, seed)[1], seed + 1)
    whole, steps = mine(src, tgt), mine.decode(tgt, mine.encode(src), src)
    check_logits_differ(steps, n.B, n.T, n.W)
    compare_logits(whole, steps, "the tensor of logits that model(src, tgt) gives", real)


@exercise("Seq2Seq")
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_sources_and_targets_of_any_length(learner, reference, n, seed):
    """A source or a target of max_len tokens works, and so does one of a single token."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    long, short = ids_without_padding(seed, n.B, n.L, n.V), ids_without_padding(seed + 1, n.B, 1, n.W)
    other_way = ids_without_padding(seed, n.B, 1, n.V), ids_without_padding(seed + 1, n.B, n.L, n.W)
    got = mine(long, short), mine(*other_way)
    check_logits_differ(got[0], n.B, 1, n.W)
    check_logits_differ(got[1], n.B, n.L, n.W)


@exercise("Seq2Seq", weight=2)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_gradients_of_the_translator(learner, reference, n, seed):
    """Every parameter of encoder, decoder, embeddings and head gets the gradient that the formula gives it."""
    mine, model, _ = seq2seq_pair(learner, reference, n, seed)
    mine, model = mine.double(), model.double()  # in float32 the rounding of many layers is as large as the smallest gradients
    (src, _), (tgt, real) = padded_right(source_and_target(n, seed)[0], seed), padded_right(source_and_target(n, seed)[1], seed + 1)
    cotangent = tensor(seed, n.B, n.T, n.W).double() * real[..., None]
    got, expected = gradients(mine, src, tgt, cotangent=cotangent), gradients(model, src, tgt, cotangent=cotangent)
    for name, gradient in expected.parameters.items():
        if not name.endswith("W_k.bias"):  # softmax ignores it: its gradient is rounding and nothing else
            with check:
                holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: it will never learn")
                close(got.parameters[name], gradient, f"the gradient of {name}", tol=5e-4)


# ---- dropout, names, sizes, dtypes, devices


@exercise("Seq2Seq", weight=2)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_dropout_reaches_the_blocks_and_nothing_else(learner, reference, n, seed):
    """In training every block drops with probability config.dropout, and nothing is dropped in the embeddings; in eval mode nothing is dropped."""
    mine, model, _ = seq2seq_pair(learner, reference, n, seed, dropout=1.0)  # with probability 1 nothing is random
    src, tgt = source_and_target(n, seed)
    everything_dropped, memory = mine(src, tgt), mine.encode(src)
    mine.eval()
    quiet = mine(src, tgt)
    compare_logits(memory, model.encode(src), "the memory in training with dropout=1.0")
    compare_logits(everything_dropped, model(src, tgt), "the logits in training with dropout=1.0")
    compare_logits(quiet, model.eval()(src, tgt), "the logits in eval mode")


def kept_max_len(model):
    return model.config.max_len


@exercise("Seq2Seq", weight=2)
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_the_names_of_the_parts(learner, reference, n, seed):
    """The parameters and the state dict have the names of the parts; positions are neither a parameter nor saved; config is an attribute."""
    for blocks in ((2, 1), (1, 3)):
        mine, _, values = seq2seq_pair(learner, reference, n, seed, n_encoder_blocks=blocks[0], n_decoder_blocks=blocks[1])
        src, tgt = source_and_target(n, seed)
        got, names, saved = mine(src, tgt), sorted(parameters(mine)), sorted(state(mine))
        check_logits_differ(got, n.B, n.T, n.W)
        same(names, sorted(values), "the list of parameters")
        same(saved, sorted(values), "the list of names in the state dict")
        same([len(mine.encoder_blocks), len(mine.decoder_blocks), learner.bring(kept_max_len)(mine)], [*blocks, n.L], "the numbers of blocks, and config.max_len")


@exercise("Seq2Seq")
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_a_sentence_longer_than_max_len_raises_an_error(learner, reference, n, seed):
    """A source or a target with more than max_len tokens raises a ValueError that names max_len."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    check_logits_differ(mine(src, tgt), n.B, n.T, n.W)
    because = f"{n.L + 1} tokens do not fit into max_len = {n.L}"
    refuses(lambda: mine(ids_without_padding(seed, n.B, n.L + 1, n.V), tgt), naming={"max_len": n.L}, because=f"as a source, {because}", example=TOO_LONG)
    refuses(lambda: mine(src, ids_without_padding(seed, n.B, n.L + 1, n.W)), naming={"max_len": n.L}, because=f"as a target, {because}", example=TOO_LONG)


@exercise("Seq2Seq")
@few
@given(n=seq2seq_sizes, seed=seeds)
def test_the_model_keeps_its_dtype(learner, reference, n, seed):
    """In float64 the memory and the logits are float64, in bfloat16 they are bfloat16."""
    mine, _, _ = seq2seq_pair(learner, reference, n, seed)
    (src, _), (tgt, real) = padded_right(source_and_target(n, seed)[0], seed), padded_right(source_and_target(n, seed)[1], seed + 1)
    single = mine(src, tgt)
    mine.double()
    memory, double = mine.encode(src), mine(src, tgt)
    half = mine.bfloat16()(src, tgt)
    check_logits_differ(single, n.B, n.T, n.W)
    shaped(memory, (n.B, n.S, n.H * n.d_head), "the memory in float64", dtype=torch.float64)
    compare_logits(double, single.double(), "the tensor of logits in float64", real)
    holds(not torch.equal(double, double.float().double()), "the tensor of logits in float64 has only the digits of float32: a step rounds it")
    compare_logits(half, single.bfloat16(), "the tensor of logits in bfloat16", real, tol=0.3)


@exercise("Seq2Seq")
def test_the_masks_follow_the_model_to_another_device(learner, reference):
    """If the ids are on another device than the CPU, the masks are on that device too."""
    load_meta_device()
    n = SimpleNamespace(B=2, S=5, T=4, H=3, d_head=2, F=7, V=11, W=9, L=8)
    sizes(**vars(n))
    mine, _, _ = seq2seq_pair(learner, reference, n, 1)
    src, tgt = source_and_target(n, 1)
    check_logits_differ(mine(src, tgt), n.B, n.T, n.W)
    logits = learner.bring(on_meta)(mine, src, tgt)
    if logits is not None:
        close(logits, torch.empty(n.B, n.T, n.W, device="meta"), "the tensor of logits on the device `meta`")


@exercise("Seq2Seq", weight=2)
@settings(max_examples=1)
@given(n=seq2seq_sizes, seed=seeds)
def test_training_and_translating_may_follow_one_another(learner, reference, n, seed):
    """Without gradient the logits are the same; afterwards you can train the model, and then use it again with new parameters and longer text."""
    mine, model, values = seq2seq_pair(learner, reference, n, seed)
    src, tgt = source_and_target(n, seed)
    padded, _ = padded_right(src, seed)
    rounds = [(values, [padded, tgt]), ({name: value.flip(0) for name, value in values.items()}, [padded, ids_without_padding(seed + 2, n.B, n.T + 1, n.W)])]
    found = results_in_every_order(learner, mine, rounds)
    compare_in_every_order(found, model, rounds, ["the source", "the target"], "the tensor of logits", tol=1e-4)
