"""Attention layers, blocks and whole models against torch's own layers, and Hugging Face's GPT-2 and Llama."""

from __future__ import annotations

import pytest
import torch
from agreement import (
    agree,
    attention_pairs,
    copied,
    embedded,
    encoder_layer_pairs,
    linear_pairs,
    normal,
    padding,
    randomised,
    same,
    sharpened,
    some,
    torchs_seq2seq,
)
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

B, H, T, S, D_HEAD, D_FF, V, W, PAD = 3, 4, 6, 7, 8, 13, 19, 23, 5
D = H * D_HEAD
attend = F.scaled_dot_product_attention


def causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, D_HEAD)).transpose(1, 2)


def merged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


# ---- attention layers


def masks(kind: str, queries: int) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Our mask, and torch's options with the same meaning: they are True where a key is *blocked*."""
    real, each, one = padding(B, S), some(B, H, queries, S), some(queries, S)
    each[..., 3] = one[:, 3] = True  # a real key for every query: without one torch's layer gives NaN, and ours zeros
    return {
        "no mask": (None, {}),
        "padding": (real[:, None, None, :], {"key_padding_mask": ~real}),
        "one mask for all": (one, {"attn_mask": ~one}),
        "one mask a head": (each, {"attn_mask": ~each.flatten(0, 1)}),
        "both": (one & real[:, None, None, :], {"attn_mask": ~one, "key_padding_mask": ~real}),
    }[kind]


@pytest.mark.parametrize(
    "kind, bias, cross",
    [("no mask", False, True), ("padding", True, False), ("one mask for all", False, False), ("one mask a head", True, True), ("both", True, True)],
)
def test_multi_head_attention_is_torchs(ours, kind, bias, cross):
    mine = randomised(ours.MultiHeadAttention(D, H, bias=bias))
    theirs = nn.MultiheadAttention(D, H, bias=bias, batch_first=True).double()
    pairs = copied(attention_pairs(mine, theirs))
    x, context = normal(B, T if cross else S, D), normal(B, S, D)
    source = context if cross else x
    mask, options = masks(kind, x.size(1))
    got, weights = mine(x, context=context if cross else None, mask=mask, return_weights=True)
    expected, torchs_weights = theirs(x, source, source, average_attn_weights=False, **options)
    same(weights, torchs_weights)
    agree(got, expected, x, *([context] if cross else []), pairs=pairs)


def test_one_head_is_torchs(ours):
    head, x = randomised(ours.SelfAttentionHead(D, D_HEAD)), normal(B, T, D)
    q, k, v = F.linear(x, head.qkv.weight).split(D_HEAD, dim=-1)
    agree(head(x), attend(q, k, v), x, head.qkv.weight)


@pytest.mark.parametrize("bias", [False, True])
def test_fused_attention_is_torchs_and_converts_both_ways(ours, bias):
    fused, x = randomised(ours.FusedSelfAttention(D, H, max_len=9, bias=bias)), normal(B, T, D)
    q, k, v = (heads(part) for part in fused.c_attn(x).split(D, dim=-1))
    agree(fused(x), fused.c_proj(merged(attend(q, k, v, is_causal=True))), x, *fused.parameters())
    split = ours.split_qkv(fused)
    theirs = nn.MultiheadAttention(D, H, bias=bias, batch_first=True).double()
    copied(attention_pairs(split, theirs))
    same(theirs.in_proj_weight, fused.c_attn.weight)  # nn.MultiheadAttention's in_proj has the same layout
    same(ours.fuse_qkv(split, max_len=T)(x), theirs(x, x, x, attn_mask=~causal(T))[0])


def in_llamas_order(weight: Tensor) -> Tensor:
    """Rows of W_q or W_k for Llama: in each head the first members of all pairs come first, then the second ones."""
    rows = weight.unflatten(0, (-1, D_HEAD))
    return torch.cat([rows[:, 0::2], rows[:, 1::2]], dim=1).flatten(0, 1)


def llamas_output(mine: nn.Module, x: Tensor, kv_heads: int) -> Tensor:
    """Hugging Face's Llama attention with our parameters."""
    config = LlamaConfig(
        hidden_size=D, num_attention_heads=H, num_key_value_heads=kv_heads, attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, attn_implementation="sdpa",
    )  # fmt: skip
    theirs = LlamaAttention(config, layer_idx=0).double().eval()
    values = {
        "q_proj.weight": in_llamas_order(mine.W_q.weight), "q_proj.bias": in_llamas_order(mine.W_q.bias),
        "k_proj.weight": in_llamas_order(mine.W_k.weight), "k_proj.bias": in_llamas_order(mine.W_k.bias),
        "v_proj.weight": mine.W_v.weight, "v_proj.bias": mine.W_v.bias,
        "o_proj.weight": mine.W_out.weight, "o_proj.bias": mine.W_out.bias,
    }  # fmt: skip
    places = LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=torch.float64), torch.arange(x.size(1))[None])
    return torch.func.functional_call(theirs, values, (x,), {"position_embeddings": places, "attention_mask": None})[0]


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("positions", ["none", "rope", "alibi"])
def test_attention_with_positions_and_groups_is_the_published_one(ours, positions, kv_heads):
    """torch's attention with shared keys; with rope Llama's, with alibi BLOOM's tensor as its additive mask."""
    mine, x = randomised(ours.GroupedQueryAttention(D, H, kv_heads, positions)), normal(B, T, D)
    if positions == "rope":
        expected = llamas_output(mine, x, kv_heads)
    else:
        options = {"is_causal": True}
        if positions == "alibi":
            bias = build_alibi_tensor(torch.ones(B, T, dtype=torch.long), H, torch.float64).reshape(B, H, 1, T)
            options = {"attn_mask": bias.masked_fill(~causal(T), -torch.inf)}
        q, k, v = heads(mine.W_q(x)), heads(mine.W_k(x)), heads(mine.W_v(x))
        assert k.shape == v.shape == (B, kv_heads, T, D_HEAD)
        expected = mine.W_out(merged(attend(q, k, v, enable_gqa=True, **options)))
    tol = 1e-9 if positions == "none" else 1e-5  # the others round angles and slopes to float32 in another order
    agree(mine(x), expected, x, *mine.parameters(), tol=tol)
    if kv_heads == H:
        plain = ours.CausalSelfAttention(D, H, positions).double()
        plain.load_state_dict(mine.state_dict())
        agree(plain(x), expected, x, tol=tol)


# ---- blocks


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("kind, norm_first", [("PreNormBlock", True), ("PostNormBlock", False)])
def test_causal_blocks_are_torchs_encoder_layer_under_a_causal_mask(ours, kind, norm_first, activation):
    mine, x = randomised(getattr(ours, kind)(D, H, D_FF, activation=activation)), normal(B, T, D)
    options = dict(dropout=0.0, activation=activation, batch_first=True)
    theirs = nn.TransformerEncoderLayer(D, H, D_FF, norm_first=norm_first, **options).double()
    pairs = copied(encoder_layer_pairs(mine, theirs))
    agree(mine(x), theirs(x, src_mask=~causal(T)), x, pairs=pairs)
    with torch.no_grad():  # torch may take its fused path here
        same(mine.eval()(x), theirs.eval()(x, src_mask=~causal(T), is_causal=True))


# ---- Hugging Face's GPT-2, with random weights: nothing is downloaded


SIZES = {
    "narrow": dict(vocab_size=23, n_positions=9, n_embd=12, n_head=3, n_layer=2),
    "one head": dict(vocab_size=31, n_positions=17, n_embd=10, n_head=1, n_layer=1),
    "another feed-forward width": dict(vocab_size=29, n_positions=11, n_embd=8, n_head=4, n_layer=3, n_inner=19),
}


def gpt2(size: str, tied: bool) -> nn.Module:
    return sharpened(GPT2LMHeadModel(GPT2Config(**SIZES[size], tie_word_embeddings=tied, attn_implementation="eager"))).double()


def our_gpt(ours, config: GPT2Config, tied: bool) -> nn.Module:
    sizes = dict(vocab_size=config.vocab_size, max_len=config.n_positions, d_model=config.n_embd, n_heads=config.n_head)
    sizes |= dict(n_layers=config.n_layer, d_ff=config.n_inner, activation="gelu_tanh", tie_weights=tied)
    return randomised(ours.GPT(ours.GPTConfig(**sizes))).eval()


def shifted(labels: Tensor) -> Tensor:
    """Hugging Face moves labels by one itself; our targets are moved already, and nothing follows the last token."""
    return F.pad(labels[:, 1:], (0, 1), value=-100)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("size", SIZES)
def test_logits_loss_and_gradients_are_gpt2s(ours, size, tied):
    tol = 1e-10
    theirs = gpt2(size, tied)
    mine = our_gpt(ours, theirs.config, tied)
    ours.load_gpt2(mine, theirs.state_dict())
    ids = torch.randint(theirs.config.vocab_size, (3, theirs.config.n_positions))
    labels = ids.clone()
    labels[0, -3:] = labels[1, 2] = -100
    expected, (logits, loss) = theirs(ids, labels=labels), mine(ids, shifted(labels))
    same(loss.float(), expected.loss, 1e-6)  # theirs is computed in float32, whatever the model
    same(mine(ids[:, :4])[0], expected.logits[:, :4], tol)
    body = theirs.transformer
    pairs = [([mine.token_emb.weight], body.wte.weight), ([mine.pos_emb.weight], body.wpe.weight)]
    for block, h in zip(mine.blocks, body.h):
        pairs += linear_pairs(block.ln1, h.ln_1) + linear_pairs(block.ln2, h.ln_2)
        maps = (block.attn.W_q, block.attn.W_k, block.attn.W_v)
        pairs += [([part.bias for part in maps], h.attn.c_attn.bias), ([block.ffn.up.bias], h.mlp.c_fc.bias)]
    agree(logits, expected.logits, pairs=pairs, tol=tol)


# ---- Seq2Seq


def seq2seq(ours, blocks: tuple[int, int]) -> tuple[nn.Module, object]:
    sizes = dict(src_vocab_size=V, tgt_vocab_size=W, max_len=13, d_model=12, n_heads=H, d_ff=D_FF, pad_id=PAD)
    config = ours.Seq2SeqConfig(**sizes, n_encoder_blocks=blocks[0], n_decoder_blocks=blocks[1])
    return randomised(ours.Seq2Seq(config)), config


def batch(vocab: int, length: int, left: bool = False) -> Tensor:
    """Rows of different lengths, one of them full; with `left` one row begins with padding."""
    ids = torch.randint(vocab - 1, (B, length))
    ids += ids >= PAD
    for row in range(1, B):
        ids[row, length - row :] = PAD
    if left:
        ids[0, :2] = PAD
    return ids


def decoded(model: nn.Module, theirs: nn.Transformer, memory: Tensor, src: Tensor, tgt: Tensor) -> Tensor:
    output = theirs.decoder(
        embedded(model.tgt_emb.weight, tgt), memory, tgt_mask=~causal(tgt.size(1)), tgt_key_padding_mask=tgt == PAD,
        memory_key_padding_mask=src == PAD,
    )  # fmt: skip
    return model.lm_head(output)


@pytest.mark.parametrize("blocks, padded", [((1, 1), "right"), ((2, 3), "source left"), ((4, 1), "target left")], ids=str)
def test_seq2seq_is_torchs_transformer(ours, blocks, padded):
    """Where torch's own result is a number: a row that may attend to nothing is NaN there, and zeros here."""
    model, config = seq2seq(ours, blocks)
    theirs, pairs = torchs_seq2seq(model, config)
    src, tgt = batch(V, S, padded == "source left"), batch(W, T, padded == "target left")
    memory = theirs.encoder(embedded(model.src_emb.weight, src), src_key_padding_mask=src == PAD)
    real = src != PAD
    same(model.encode(src)[real], memory[real], 1e-6)
    expected, logits = decoded(model, theirs, memory, src, tgt), model(src, tgt)
    assert logits.isfinite().all()
    real = (tgt != PAD) & expected.isfinite().all(-1)
    assert real.any(-1)[1:].all()
    if padded == "target left":
        same(logits[real], expected[real], 1e-6)
    else:
        agree(logits[real], expected[real], model.src_emb.weight, model.tgt_emb.weight, pairs=pairs, tol=1e-6)
    other = torch.randn(B, S, 12, dtype=torch.float64)
    same(model.decode(tgt, other, src)[real], decoded(model, theirs, other, src, tgt)[real], 1e-6)
