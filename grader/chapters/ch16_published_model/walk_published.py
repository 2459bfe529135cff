"""From the file of a published model to its answer: `headway walk published`."""

from __future__ import annotations

import textwrap
from collections import Counter
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.ch16_published_model.published.gguf import GgufFile
from grader.chapters.ch16_published_model.published.opening import Published, build, find_source, installed_file
from grader.chapters.ch16_published_model.published.source import PublishedProblem
from grader.console.output import ProgressReporter
from grader.models.own_parts import OwnParts
from grader.teaching.terminal_drawing import Block, grid, table
from grader.teaching.walks.parts import MixedChapters
from rich.text import Text
from torch import Tensor

REQUIRED_EXERCISES = (
    "split_for_bpe", "TokenEmbedding", "softmax", "causal_mask", "scaled_dot_product_attention", "split_heads",
    "merge_heads", "rope_angles", "apply_rope", "RMSNorm", "SwiGLU", "sample_next_token",
    "KVCache", "dequantize_q8_0", "dequantize_q4_1", "byte_names", "PublishedTokenizer", "interleave_rows",
    "LlamaAttention", "LlamaBlock", "Llama", "chat_ids", "stream_answer",
)  # fmt: skip

TENSOR = "blk.0.attn_q.weight"  # whose first block is taken apart
QUESTION = "What is the capital of France?"
MESSAGES = [{"role": "user", "content": QUESTION}]
MAX_NEW_TOKENS = 24
BEST = 5


def require() -> None:
    """Raise PublishedProblem, with a sentence, if the weights are not installed."""
    installed_file()


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    """Read the file, build the model, and let it answer. Nothing is random here."""
    file, source = GgufFile(installed_file()), find_source(None)
    layout, blocks = file.blocks(TENSOR)
    if layout.name != "Q4_1":
        raise PublishedProblem(f"{file.name} stores {TENSOR} as {layout.name}; this walk takes apart a block of Q4_1")
    with report_progress("reading the weights", 1) as step:
        published = build(source, OwnParts(parts))
        step()
    model, tokenizer, sizes = published.model, published.tokenizer, source.sizes
    ids = list(parts.chat_ids(tokenizer, MESSAGES))
    d_head = sizes.d_model // sizes.n_heads
    with torch.no_grad():
        logits = model(torch.tensor([ids]))  # (1, T, V)
    pieces, with_halves = [], []
    with report_progress("answering", 2 * MAX_NEW_TOKENS) as step:
        for piece in parts.stream_answer(model, tokenizer, MESSAGES, MAX_NEW_TOKENS):
            pieces.append(piece)
            step()
        _undo_interleaving(parts, published)
        for piece in parts.stream_answer(model, tokenizer, MESSAGES, MAX_NEW_TOKENS):
            with_halves.append(piece)
            step()
    return SimpleNamespace(
        name=source.name,
        sizes=sizes,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        stored=_count_stored(file),
        raw=blocks[0].tolist(),
        weights=parts.dequantize_q4_1(blocks[:1])[0].tolist(),
        vocabulary=len(source.tokens),
        merges=len(source.merges),
        space=parts.byte_names()[32],
        question=[(source.tokens[i], i) for i in tokenizer.encode(QUESTION)],
        prompt=[(tokenizer.decode([i]), i) for i in ids],
        d_head=d_head,
        order=[int(i) for i in parts.interleave_rows(torch.arange(float(d_head)), 1)],
        shape=tuple(logits.shape),
        best=_likeliest(tokenizer, logits[0, -1]),
        with_halves="".join(with_halves),
        pieces=pieces,
        cached=len(ids) * 2 * sizes.n_layers * sizes.n_kv_heads * d_head * 4,
    )


@torch.no_grad()
def _undo_interleaving(parts: MixedChapters, published: Published) -> None:
    """Put the rows of queries and keys into the order that a model for halves has."""
    for block in published.model.blocks:
        for linear, n_heads in (
            (block.attn.W_q, published.sizes.n_heads),
            (block.attn.W_k, published.sizes.n_kv_heads),
        ):
            places = parts.interleave_rows(torch.arange(float(len(linear.weight))), n_heads)
            linear.weight.copy_(linear.weight[places.argsort()])


def _count_stored(file: GgufFile) -> list[tuple[str, int, int, int]]:
    """For each layout of the file: its name, and how many tensors, numbers and bytes are stored in it."""
    tensors, numbers, stored = Counter[str](), Counter[str](), Counter[str]()
    for name in file.shapes:
        layout, blocks = file.blocks(name)
        tensors[layout.name] += 1
        numbers[layout.name] += len(blocks) * layout.weights
        stored[layout.name] += blocks.numel()
    return [(name, tensors[name], numbers[name], stored[name]) for name in sorted(tensors)]


def _likeliest(tokenizer: Any, logits: Tensor) -> list[tuple[str, float, float]]:
    """The likeliest tokens, each with its logit and its probability."""
    chances, places = torch.softmax(logits, -1).topk(BEST)
    return [(tokenizer.decode([i]), logits[i].item(), chance) for chance, i in zip(chances.tolist(), places.tolist())]


def describe(n: SimpleNamespace) -> dict[str, Any]:
    raw, places = n.raw, range(0, 32, 8)
    [scale, minimum] = torch.tensor(raw[:4], dtype=torch.uint8).view(torch.float16).tolist()
    packed = [[f"{byte:02x}" for byte in raw[start : start + 8]] for start in (4, 12)]
    numbers = [byte % 16 for byte in raw[4:]] + [byte // 16 for byte in raw[4:]]
    stored = [
        [name, tensors, f"{count:,}", f"{size:,}", f"{8 * size / count:.1f}"] for name, tensors, count, size in n.stored
    ]
    likely = [[repr(token), logit, f"{chance:.1%}"] for token, logit, chance in n.best]
    prompt = [f"{i:>5} {_visible(token)}" for token, i in n.prompt]
    pieces = [[place, repr(piece)] for place, piece in enumerate(n.pieces, start=1)]
    return {
        "stored_table": table(stored, ["stored as", "tensors", "numbers", "bytes", "bits each"]),
        "scale": scale,
        "minimum": minimum,
        "scale_bytes": f"{raw[0]} and {raw[1]}",
        "minimum_bytes": f"{raw[2]} and {raw[3]}",
        "packed_table": table([[f"bytes {start} to {start + 7}", *row] for start, row in zip((4, 12), packed)]),
        "number_table": table([[f"{i} to {i + 7}", *numbers[i : i + 8]] for i in places]),
        "weight_grid": grid([n.weights[i : i + 8] for i in places], [f"{i} to {i + 7}" for i in places]),
        "first": numbers[0],
        "first_weight": n.weights[0],
        "plus_minimum": f"{minimum:+.5f}".replace("+", "+ ").replace("-", "- "),
        "question_table": table([[token, i] for token, i in n.question], ["written in the file", "id"]),
        "length": len(n.prompt),
        "prompt_table": _columns(prompt, 3),
        "order_text": ", ".join(map(str, n.order[:8])),
        "half": n.d_head // 2,
        "pair": f"{n.order[0]} and {n.order[1]}",
        "wrong_block": _quoted(n.with_halves),
        "likely_table": table(likely, ["token", "logit", "probability"], ".2f"),
        "piece_table": _columns([f"{place:>2} {piece}" for place, piece in pieces], 4),
        "answer_block": _quoted("".join(n.pieces)),
        "cached_megabytes": n.cached / 1e6,
    }


def _visible(token: str) -> str:
    return repr(token)[1:-1]


def _quoted(text: str) -> Block:
    """A text of the model in lines that fit."""
    return [Text(part) for part in textwrap.wrap(repr(text), 76)]


def _columns(cells: list[str], count: int) -> Block:
    """The cells from top to bottom, in so many columns."""
    height = -(-len(cells) // count)
    rows = [[*cells[row::height], *[""] * count][:count] for row in range(height)]
    return table(rows, left=count)
