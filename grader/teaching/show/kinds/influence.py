"""Which outputs depend on which inputs: one input is changed at a time, and each output shows how far it moves. This needs no attention weights."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import WORDS, fix_weights, make_grid, measure_change, measure_influence, random_tensor
from grader.teaching.show.panels import Grid, Panel
from grader.verdict.comparing import shaped
from torch import Tensor

D = 16
TARGET = ("<s>", "le", "chat", "court")
MAP = dict(row_name="output at", column_name="changed at")


def self_attention_head(side: Implementation) -> list[Panel]:
    head = fix_weights(side.SelfAttentionHead(D, 8), 1, scale=1.6)
    return [_word_grid("one head, no mask", measure_influence(head, random_tensor(2, 7, D)))]


def fused_self_attention(side: Implementation) -> list[Panel]:
    layer = fix_weights(side.FusedSelfAttention(D, 2, 12), 1, scale=1.6)
    return [_word_grid("the fused layer", measure_influence(layer, random_tensor(2, 7, D)))]


def encoder_block(side: Implementation) -> list[Panel]:
    """The last two words are padding: no other output may depend on them."""
    block = fix_weights(side.EncoderBlock(D, 2), 1, scale=1.3)
    mask = (torch.arange(7) < 5).expand(8, 1, 1, 7).contiguous()
    return [_word_grid("the last two are masked", measure_influence(lambda x: block(x, mask), random_tensor(2, 7, D)))]


def decoder_block(side: Implementation) -> list[Panel]:
    """Each output may depend on its own words so far, and on all unmasked words of the memory."""
    block = fix_weights(side.DecoderBlock(D, 2), 1, scale=1.3)
    x, memory = random_tensor(2, 4, D), random_tensor(3, 7, D)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    mask = (torch.arange(7) < 5).view(1, 1, 1, 7)
    own = measure_influence(lambda rows: block(rows, memory.repeat(5, 1, 1), causal, mask), x)
    read = measure_influence(lambda rows: block(x.repeat(8, 1, 1), rows, causal, mask), memory, TARGET)
    return [
        make_grid("its own words", own, TARGET, TARGET, **MAP),
        make_grid("the memory, its last two masked", read, TARGET, WORDS, row_name="output at", column_name="memory changed at"),
    ]


def gpt(side: Implementation) -> list[Panel]:
    model = fix_weights(side.GPT(side.GPTConfig(vocab_size=12, max_len=16, d_model=D, n_heads=2, n_layers=2)), 1)
    ids = torch.tensor([1, 2, 3, 4, 1, 5, 6])
    return [_word_grid("the logits of a GPT of two layers", measure_change(_first_result(model(_exchange_words(ids, 12))), 7, 7, "the result"))]


def seq2seq(side: Implementation) -> list[Panel]:
    config = side.Seq2SeqConfig(src_vocab_size=12, tgt_vocab_size=12, max_len=16, d_model=D, n_heads=2)
    model = fix_weights(side.Seq2Seq(config), 1)
    src, tgt = torch.tensor([1, 2, 3, 4, 1, 5, 6]), torch.tensor([1, 2, 3, 4])
    by_source = measure_change(_first_result(model(_exchange_words(src, 12), tgt.repeat(8, 1))), 7, 4, "the result")
    by_target = measure_change(_first_result(model(src.repeat(5, 1), _exchange_words(tgt, 12))), 4, 4, "the result")
    return [
        make_grid("by the words of the source", by_source, TARGET, WORDS, row_name="logits at", column_name="source changed at"),
        make_grid("by the words of the target", by_target, TARGET, TARGET, row_name="logits at", column_name="target changed at"),
    ]


def cached_self_attention(side: Implementation) -> list[Panel]:
    """Three words go into the cache, then two, then two: the outputs with the cache, feature by feature."""
    layer = fix_weights(side.CachedSelfAttention(D, 2, positions="rope"), 1, scale=1.6)
    x, cache = random_tensor(2, 1, 7, D), side.KVCache()
    parts = [shaped(layer(part, cache), tuple(part.shape), "the result") for part in (x[:, :3], x[:, 3:5], x[:, 5:])]
    whole = shaped(layer(x), (1, 7, D), "the result")
    far = (torch.cat(parts, dim=1) - whole)[0].abs()
    return [
        make_grid("the outputs, word by word from the cache", torch.cat(parts, dim=1)[0], WORDS, range(D), row_name="word", column_name="feature"),
        make_grid("how far they are from one pass without a cache", far, WORDS, range(D), row_name="word", column_name="feature"),
    ]


def _word_grid(title: str, values: Tensor) -> Grid:
    return make_grid(title, values, WORDS, WORDS, **MAP)


def _exchange_words(ids: Tensor, vocab_size: int) -> Tensor:
    """Return the ids, and below them one copy for each position with that id exchanged."""
    rows = ids.repeat(len(ids) + 1, 1)
    for position in range(len(ids)):
        rows[position + 1, position] = (rows[position + 1, position] + 4) % (vocab_size - 1) + 1
    return rows


def _first_result(answer: object) -> object:
    return answer[0] if isinstance(answer, tuple) and answer else answer
