"""Chapter 7's Seq2Seq against torch's own encoder and decoder: shared weights, padding masks, real positions."""

from __future__ import annotations

import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn

B, S, T, D, H, F, V, W, MAX_LEN, PAD = 3, 9, 7, 12, 4, 19, 17, 23, 13, 5


@pytest.fixture(scope="module")
def ch07():
    chapter = load_syllabus().chapter("ch07_models")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(5)


def model_of(ch07, blocks: tuple[int, int] = (2, 3), **others) -> nn.Module:
    sizes = dict(src_vocab_size=V, tgt_vocab_size=W, max_len=MAX_LEN, d_model=D, n_heads=H, d_ff=F, pad_id=PAD)
    model = ch07.Seq2Seq(ch07.Seq2SeqConfig(**sizes | dict(n_encoder_blocks=blocks[0], n_decoder_blocks=blocks[1]) | others)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
    return model


def copy_attention(theirs: nn.MultiheadAttention, ours: nn.Module) -> None:
    """nn.MultiheadAttention stores q, k and v in one matrix."""
    for kind in ("weight", "bias"):
        joined = torch.cat([getattr(part, kind) for part in (ours.W_q, ours.W_k, ours.W_v)])
        getattr(theirs, f"in_proj_{kind}").copy_(joined)
        getattr(theirs.out_proj, kind).copy_(getattr(ours.W_out, kind))


def copy_layer(theirs: nn.Module, ours: nn.Module, norms: tuple[str, ...]) -> None:
    pairs = [(theirs.linear1, ours.ffn.up), (theirs.linear2, ours.ffn.down)]
    pairs += [(getattr(theirs, norm), getattr(ours, norm.replace("norm", "ln"))) for norm in norms]
    for target, source in pairs:
        target.weight.copy_(source.weight)
        target.bias.copy_(source.bias)


@torch.no_grad()
def torchs(model: nn.Module) -> nn.Transformer:
    """nn.Transformer with the same numbers: post-norm, relu; its two final norms, which ours does not have, are removed."""
    heights = len(model.encoder_blocks), len(model.decoder_blocks)
    theirs = nn.Transformer(D, H, *heights, F, dropout=0.0, activation="relu", batch_first=True, norm_first=False).double()
    theirs.encoder.norm = theirs.decoder.norm = None
    for layer, block in zip(theirs.encoder.layers, model.encoder_blocks):
        copy_attention(layer.self_attn, block.attn)
        copy_layer(layer, block, ("norm1", "norm2"))
    for layer, block in zip(theirs.decoder.layers, model.decoder_blocks):
        copy_attention(layer.self_attn, block.self_attn)
        copy_attention(layer.multihead_attn, block.cross_attn)
        copy_layer(layer, block, ("norm1", "norm2", "norm3"))
    return theirs


def embedded(table: Tensor, ids: Tensor) -> Tensor:
    """As in the paper, number by number: sqrt(D) times the row, plus sines and cosines."""
    waves = torch.empty(ids.size(1), D, dtype=torch.float64)
    for p in range(ids.size(1)):
        for i in range(D):
            angle = p / 10000 ** (i // 2 * 2 / D)
            waves[p, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return table[ids] * math.sqrt(D) + waves


def batch(vocab: int, length: int, left: bool = False) -> Tensor:
    """Rows of different lengths, one of them full; with `left` one row begins with padding."""
    ids = torch.randint(vocab - 1, (B, length))
    ids += ids >= PAD
    for row in range(1, B):
        ids[row, length - row :] = PAD
    if left:
        ids[0, :2] = PAD
    return ids


def logits_of_torch(model: nn.Module, theirs: nn.Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """Torch's masks are True where a key is *blocked*."""
    output = theirs(
        embedded(model.src_emb.weight, src),
        embedded(model.tgt_emb.weight, tgt),
        tgt_mask=torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1),
        src_key_padding_mask=src == PAD,
        tgt_key_padding_mask=tgt == PAD,
        memory_key_padding_mask=src == PAD,
    )
    return model.lm_head(output)


def same(got: Tensor, expected: Tensor, tol: float = 1e-6) -> None:  # our table of waves is in float32, the rest in float64
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol)


@pytest.mark.parametrize("blocks", [(1, 1), (2, 3), (4, 1), (6, 6)], ids=str)
def test_logits_are_torchs(ch07, blocks):
    model = model_of(ch07, blocks)
    theirs = torchs(model)
    src, tgt = batch(V, S), batch(W, T)
    real = tgt != PAD
    same(model(src, tgt)[real], logits_of_torch(model, theirs, src, tgt)[real])


def test_padding_in_front_of_the_source(ch07):
    """Torch's own target must not begin with padding: a row that may attend to nothing is NaN there, and zeros here."""
    model = model_of(ch07)
    src, tgt = batch(V, S, left=True), batch(W, T)
    real = tgt != PAD
    same(model(src, tgt)[real], logits_of_torch(model, torchs(model), src, tgt)[real])


def test_padding_in_front_of_the_target(ch07):
    model = model_of(ch07)
    src, tgt = batch(V, S), batch(W, T, left=True)
    logits = model(src, tgt)
    assert logits.isfinite().all()
    theirs = logits_of_torch(model, torchs(model), src, tgt)
    real = (tgt != PAD) & theirs.isfinite().all(-1)
    same(logits[real], theirs[real])
    assert real[1:].any(-1).all()


def test_the_memory_is_torchs_encoder(ch07):
    model = model_of(ch07)
    src = batch(V, S)
    expected = torchs(model).encoder(embedded(model.src_emb.weight, src), src_key_padding_mask=src == PAD)
    real = src != PAD
    same(model.encode(src)[real], expected[real])


def test_decode_is_torchs_decoder_on_any_memory(ch07):
    model = model_of(ch07)
    src, tgt = batch(V, S), batch(W, T)
    memory = torch.randn(B, S, D, dtype=torch.float64)
    output = torchs(model).decoder(
        embedded(model.tgt_emb.weight, tgt),
        memory,
        tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=tgt == PAD,
        memory_key_padding_mask=src == PAD,
    )
    real = tgt != PAD
    same(model.decode(tgt, memory, src)[real], model.lm_head(output)[real])


def test_gradients_are_torchs(ch07):
    model = model_of(ch07)
    theirs = torchs(model)
    src, tgt = batch(V, S), batch(W, T)
    cotangent = torch.randn(B, T, W, dtype=torch.float64) * (tgt != PAD)[..., None]
    tables = model.src_emb.weight, model.tgt_emb.weight
    ours = torch.autograd.grad(model(src, tgt), tables, cotangent, retain_graph=True)
    expected = torch.autograd.grad(logits_of_torch(model, theirs, src, tgt), tables, cotangent, retain_graph=True)
    for mine, torchs_own in zip(ours, expected):
        same(mine, torchs_own)
    model(src, tgt).backward(cotangent)
    logits_of_torch(model, theirs, src, tgt).backward(cotangent)
    for layer, block in zip(theirs.encoder.layers, model.encoder_blocks):
        same(block.ffn.up.weight.grad, layer.linear1.weight.grad)
        same(torch.cat([m.weight.grad for m in (block.attn.W_q, block.attn.W_k, block.attn.W_v)]), layer.self_attn.in_proj_weight.grad)
    for layer, block in zip(theirs.decoder.layers, model.decoder_blocks):
        same(block.ln3.weight.grad, layer.norm3.weight.grad)
        same(block.cross_attn.W_out.weight.grad, layer.multihead_attn.out_proj.weight.grad)


def test_it_learns_to_reverse_sentences(ch07):
    """No decoder solves this task without the memory, its order and the mask: writing the source backwards, in sentences of several lengths."""
    sos, eos, words = 1, 2, 6
    config = ch07.Seq2SeqConfig(src_vocab_size=words + 3, tgt_vocab_size=words + 3, max_len=8, d_model=32, n_heads=4, n_encoder_blocks=1, n_decoder_blocks=1)
    model = ch07.Seq2Seq(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rows = 40
    lengths = torch.randint(2, 6, (rows,))
    src, tgt = torch.zeros(rows, 5, dtype=torch.long), torch.zeros(rows, 7, dtype=torch.long)
    for row, length in enumerate(lengths.tolist()):
        sentence = torch.randint(3, words + 3, (length,))
        src[row, :length] = sentence
        tgt[row, : length + 2] = torch.cat([torch.tensor([sos]), sentence.flip(0), torch.tensor([eos])])
    targets = tgt[:, 1:].masked_fill(tgt[:, 1:] == 0, -100)
    for _ in range(120):
        loss = nn.functional.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), targets.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    real = targets != -100
    assert (model(src, tgt[:, :-1]).argmax(-1) == targets)[real].float().mean() > 0.99
