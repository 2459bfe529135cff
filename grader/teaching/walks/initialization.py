"""Measurements of lessons with random weights, before any training."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, one_hot


def scaled_normal_(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw every matrix from N(0, 1/columns); leave the vectors as they are."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            drawn = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.data = drawn / math.sqrt(parameter.size(1))


# ---- lesson 2


@torch.no_grad()
def report_embeddings(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 2: the lengths of token and position vectors, and dot products of position vectors at some distances."""
    width, tokens, starts, distances = 512, 1_000, (100, 1500), (0, 1, 2, 10, 100)
    embeddings = chapters.module("ch02_embeddings")
    torch.manual_seed(seed)
    lengths = []
    for scale in (False, True):
        table = embeddings.TokenEmbedding(tokens, width, scale=scale)
        scaled_normal_(table)
        lengths.append(table(torch.arange(tokens)[None]).norm(dim=-1).mean())
    positions = embeddings.sinusoidal_positions(max(starts) + max(distances) + 1, width)
    names = ("token vector, unscaled", "position vector", f"token vector times √{width}")
    found = (lengths[0], positions.norm(dim=-1).mean(), lengths[1])
    rows = [[name, float(length)] for name, length in zip(names, found)]
    yield result_table(f"mean length, d_model = {width}", ("", "length"), rows, ".1f")
    columns = ("distance k", *(f"rows {start} and {start} + k" for start in starts))
    rows = [[f"{k}", *(float(positions[start] @ positions[start + k]) for start in starts)] for k in distances]
    yield result_table(f"dot products of position vectors, d_model = {width}", columns, rows, ".1f")


# ---- lesson 5


@torch.no_grad()
def report_growth(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 5: the size of the numbers after many feed-forward layers, without norms and with one before each layer.

    Every layer adds its output to its input. The weights are drawn from N(0, 1/fan_in), there are no biases, and the
    input is normal noise. All ways get the same weights and the same input.
    """
    layers = chapters.module("ch05_layers")
    width, shown, other_draws, ones, dropped = 256, (1, 6, 12, 24, 48), 8, 10_000, 0.25
    norms: dict[str, Callable[[Tensor], Tensor]] = {
        "no norm": lambda x: x,
        "LayerNorm before each feed-forward": layers.LayerNorm(width),
        "RMSNorm before each feed-forward": layers.RMSNorm(width),
    }
    sizes = {name: _sizes(layers, norm, width, shown[-1], seed) for name, norm in norms.items()}
    rows = [[name, *(_three_digits(found[n - 1]) for n in shown)] for name, found in sizes.items()]
    yield result_table("root mean square of the numbers", ("after so many layers", *map(str, shown)), rows)
    last = [_sizes(layers, norms["no norm"], width, shown[-1], seed + 1 + draw)[-1] for draw in range(other_draws)]
    yield (
        f"No norm, after {shown[-1]} layers, in {other_draws} other draws of the weights: "
        f"{min(last):,.0f} to {max(last):,.0f}."
    )
    torch.manual_seed(seed)
    kept = layers.dropout(torch.ones(ones), dropped)
    zeros = int((kept == 0).sum())
    yield f"Dropout of {ones:,} ones with p = {dropped}: {zeros:,} zeros, and a mean of {kept.mean():.3f}."


def _sizes(layers: ModuleType, norm: Callable[[Tensor], Tensor], width: int, count: int, seed: int) -> list[float]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(32, width, generator=generator)
    sizes = []
    for _ in range(count):
        layer = layers.FeedForward(width)
        scaled_normal_(layer, generator)
        for linear in (layer.up, layer.down):
            linear.bias.zero_()
        x = x + layer(norm(x))
        sizes.append(x.square().mean().sqrt().item())
    return sizes


def _three_digits(size: float) -> str:
    return f"{size:#.3g}".rstrip(".") if size < 1000 else f"{size:.0f}"


# ---- lesson 6

DEPTH, DRAWS = 24, 8
WAYS = ("pre-norm", "post-norm", "no residuals", "neither")  # neither residuals nor norms


def apply_block(block: nn.Module, way: str, x: Tensor) -> Tensor:
    """Apply one block, assembled in this way from chapter 6's parts."""
    if way == "pre-norm":
        x = x + block.attn(block.ln1(x))
        return x + block.ffn(block.ln2(x))
    if way == "post-norm":
        x = block.ln1(x + block.attn(x))
        return block.ln2(x + block.ffn(x))
    if way == "no residuals":
        return block.ffn(block.ln2(block.attn(block.ln1(x))))
    return block.ffn(block.attn(x))


def measure_way(chapter: ModuleType, way: str, seed: int) -> SimpleNamespace:
    """Send a gradient of norm 1 back from the output of the last block, with one draw of weights and input.

    Every way gets the same draw. The result has the sizes of the gradients at the inputs of the blocks, first to last,
    their dot products with the output's gradient, and the mean cosine between neighbouring positions at the output.
    """
    d_model = 32
    generator = torch.Generator().manual_seed(seed)
    with torch.enable_grad():
        blocks = [chapter.PreNormBlock(d_model, 4).double() for _ in range(DEPTH)]
        for block in blocks:
            scaled_normal_(block, generator)
            for name, parameter in block.named_parameters():
                if name.endswith("bias"):
                    parameter.data.zero_()
        x, sent = (torch.randn(2, 16, d_model, generator=generator, dtype=torch.float64) for _ in range(2))
        inputs = [x.requires_grad_()]
        for block in blocks:
            inputs.append(apply_block(block, way, inputs[-1]))
        output = inputs.pop()
        arrived = torch.autograd.grad((output * sent).sum(), inputs)
    sizes = [float(gradient.norm() / sent.norm()) for gradient in arrived]
    as_sent = [float((gradient * sent).sum() / sent.square().sum()) for gradient in arrived]
    alike = float(cosine_similarity(output.detach()[:, 1:], output.detach()[:, :-1], dim=-1).mean())
    return SimpleNamespace(sizes=sizes, as_sent=as_sent, alike=alike)


def report_depth(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 6: how much gradient reaches the input of each of 24 blocks, with and without residual connections.

    Weights are drawn from N(0, 1/fan_in), biases are zero, norms do not scale or shift, the input is normal noise, and
    so is the gradient at the output. So only the path through the blocks is measured, before any training.
    """
    chapter, rows = chapters.module("ch06_blocks"), []
    found = [[measure_way(chapter, way, seed + draw) for draw in range(DRAWS)] for way in WAYS]
    for block in (24, 18, 12, 6, 1):
        rows.append([f"norm, {block}", *(_range([draw.sizes[block - 1] for draw in draws], ".2g") for draws in found)])
    for block in (12, 1):
        sent = [[draw.as_sent[block - 1] for draw in draws] for draws in found]
        rows.append([f"as sent, {block}", *(_range(values, ".2f") for values in sent)])
    rows.append(["neighbours", *(_range([draw.alike for draw in draws], ".2f") for draws in found)])
    title = f"A gradient of norm 1 at the output of {DEPTH} blocks: the gradients at their inputs"
    yield result_table(title, ("block", *WAYS), rows)
    yield (
        f"Smallest and largest of {DRAWS} draws. norm: of the gradient at the input. "
        "as sent: its dot product with the output's gradient."
    )
    yield "neighbours: cosine of neighbouring positions at the output. neither: no residuals and no norms."


def _range(values: list[float], form: str) -> str:
    low, high = (f"{value:{form}}".replace("-0.00", "0.00") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


# ---- lesson 7


@torch.no_grad()
def report_first_loss(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 7: the loss of untrained GPTs, with matrices from N(0, 0.02) and with a tied embedding from N(0, 1).

    All models have tied weights and learned positions, and get random tokens. The second part has GPTs of twelve
    layers, whose matrices are drawn with a standard deviation of 1/√columns. It measures how the residual stream grows,
    and what two mistakes with GPT-2's weights change.
    """
    models = chapters.module("ch07_models")
    layers, heads, batch, positions = 4, 4, 8, 32
    rows, sentences = [], []
    for V, D in ((1_000, 64), (5_000, 256)):
        torch.manual_seed(seed)
        model = models.GPT(models.GPTConfig(V, positions, D, heads, layers))
        tokens = torch.randint(V, (batch, positions + 1))
        ids, targets = tokens[:, :-1], tokens[:, 1:]
        own = one_hot(ids, V).bool()
        logits, loss = model(ids, targets)
        nn.init.normal_(model.token_emb.weight)
        wide, loss_wide = model(ids, targets)
        rows.append([f"{V:,}", D, math.log(V), float(loss), f"{loss_wide:.1f}"])
        sentences.append(
            f"V = {V:,}, N(0, 1): the input token's own logit is {wide[own].mean():.1f} on average, "
            f"the other logits have a standard deviation of {wide[~own].std():.1f}."
        )
        sentences.append(f"V = {V:,}, N(0, 0.02): the input token's own logit is {logits[own].mean():.2f} on average.")
    columns = ("V", "D", "ln V", "first loss", "first loss, embedding N(0, 1)")
    yield result_table(f"{layers} layers, tied weights", columns, rows, ".3f")
    yield from sentences[:2]

    V, D, deep = 1_000, 64, 12
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(V, positions, D, heads, deep, activation="gelu_tanh")).eval()
    scaled_normal_(model)
    ids = torch.randint(V, (batch, positions))
    ends: list[Tensor] = []
    model.blocks[0].register_forward_pre_hook(lambda module, inputs: ends.append(inputs[0]))
    last = model.blocks[-1].register_forward_hook(lambda module, inputs, output: ends.append(output))
    logits, _ = model(ids)
    last.remove()
    exact = models.GPT(models.GPTConfig(V, positions, D, heads, deep, activation="gelu")).eval()
    exact.load_state_dict(model.state_dict())
    off = (exact(ids)[0] - logits).abs().max()
    wrong = copy.deepcopy(model)
    for block in wrong.blocks:
        block.attn.W_out.weight.copy_(block.attn.W_out.weight.T.clone())
    changed = (wrong(ids)[0].argmax(-1) != logits.argmax(-1)).float().mean()
    yield f"{deep} layers: the standard deviation of the stream grows from {ends[0].std():.2f} to {ends[1].std():.1f}."
    yield (
        f"{deep} layers, {deep} square matrices transposed: "
        f"another likeliest token at {100 * changed:.0f} % of the positions."
    )
    shown = f"{off:.4f}; their standard deviation is {logits.std():.1f}"
    yield f"{deep} layers, exact gelu: logits change by up to {shown}."


# ---- lesson 10


@torch.no_grad()
def report_changed_past(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 10: by how much the keys of the same tokens change when a token is added at the end, or the first removed.

    A GPT of two layers has random weights, from N(0, 1/fan_in). With RoPE the keys are those before rotation. 0 means
    equal.
    """
    models, attention = chapters.module("ch07_models"), chapters.module("ch03_attention")
    V, D, heads, layers, positions = 50, 64, 4, 2, 8
    ids = torch.randint(V, (64, positions + 1), generator=torch.Generator().manual_seed(seed))

    def keys(ids: Tensor, encoding: str, causal: bool) -> list[Tensor]:
        """Return the keys of each layer, (B, T, D), before heads and rotation."""
        torch.manual_seed(seed)
        model = models.GPT(models.GPTConfig(V, positions + 1, D, heads, layers, positions=encoding)).eval()
        scaled_normal_(model)
        found: list[Tensor] = []
        for block in model.blocks:
            if not causal:  # the same weights in a layer that hides nothing
                unmasked = attention.MultiHeadAttention(D, heads).eval()
                unmasked.load_state_dict(block.attn.state_dict())
                block.attn = unmasked
            block.attn.W_k.register_forward_hook(lambda module, inputs, output: found.append(output))
        model(ids)
        return found

    added = (ids[:, :-1], ids, slice(None), slice(-1))  # the tokens before and after, the same tokens in both
    removed = (ids, ids[:, 1:], slice(1, None), slice(None))
    rows = []
    for name, encoding, causal, (before, after, old_part, new_part) in (
        ("a token is added at the end, causal mask", "learned", True, added),
        ("a token is added at the end, no causal mask", "learned", False, added),
        ("the first token is removed, learned positions", "learned", True, removed),
        ("the first token is removed, RoPE", "rope", True, removed),
    ):
        row = [name]
        for old, new in zip(keys(before, encoding, causal), keys(after, encoding, causal)):
            old, new = old[:, old_part], new[:, new_part]
            change = (new - old).square().mean().sqrt() / old.std()
            row.append("0" if change < 1e-5 else f"{change:.2f}")
        rows.append(row)
    columns = ("change", *(f"layer {n + 1}" for n in range(layers)))
    yield result_table("change of the keys, divided by their standard deviation", columns, rows)
