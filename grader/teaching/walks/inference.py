"""Ten steps from a text to its next word, with the shape at each step.

The model is a small GPT that has just learned the twenty sentences of grader/teaching/corpora.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from grader.teaching.drawing.charts import heatmap
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, small_gpt, tokenizer_and_batch, train
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import Tensor, nn

REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, *TRAINING, "apply_temperature", "top_k_filter", "top_p_filter", "min_p_filter", "sample_next_token", "generate")
NEXT_STEP = "Next: `headway walk qkv` shows every number of the attention of one layer."

TEXT = "our bird sat on the"  # none of the sentences
STEPS = 120
SHOWN = 6  # numbers of a vector, from its beginning
BEST = 5  # candidates


@dataclass(frozen=True)
class Numbers:
    words: list[str]
    vocab_size: int
    loss_before: float
    loss_after: float
    ids: list[int]
    shapes: dict[str, tuple[int, ...]]
    token_rows: list[list[float]]  # of each word, the first numbers of its vector
    placed_rows: list[list[float]]  # the same with the positions added
    mean_before: float  # of the last position's vector, before the first norm and after it
    std_before: float
    mean_after: float
    std_after: float
    weights: list[list[list[float]]]  # of the first layer: head, query, key
    added_by_attention: float  # norms of what is added to the last position's vector
    added_by_feed_forward: float
    lengths: list[float]  # of the last position's vector: after the embedding, after each block
    logits: list[tuple[str, float]]  # the best
    probabilities: list[tuple[str, float]]
    rest: float  # of the probability, on all other words
    otherwise: dict[str, list[float]]  # of the same words, at other temperatures and after filters
    drawn: list[str]  # next words drawn at random, at temperature 1
    greedy: str
    written: str  # the text, as generate goes on with it


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train the model, and follow one text through it."""
    tokenizer, batch = tokenizer_and_batch(parts)
    model = small_gpt(parts, tokenizer.vocab_size, seed)
    losses = train(parts, model, batch, STEPS, report_progress, lr=5e-3, what="training a small GPT")
    ids = torch.tensor([tokenizer.encode(TEXT)])
    with torch.no_grad():
        seen, logits = _followed(model, ids), model(ids)[0]
        last = logits[0, -1]
        probabilities = parts.softmax(last, dim=-1)
        best = last.topk(BEST).indices
        words = [tokenizer.decode([i]) for i in best.tolist()]
        ways = {
            "temperature 0.5": parts.apply_temperature(last, 0.5),
            "temperature 2": parts.apply_temperature(last, 2.0),
            "top k = 2": parts.top_k_filter(last, 2),
            "top p = 0.9": parts.top_p_filter(last, 0.9),
            "min p = 0.1": parts.min_p_filter(last, 0.1),
        }
        otherwise = {name: parts.softmax(scores, dim=-1)[best].tolist() for name, scores in ways.items()}
    generator = torch.Generator().manual_seed(seed)
    drawn = [tokenizer.decode([int(parts.sample_next_token(logits[:, -1], generator=generator))]) for _ in range(8)]
    greedy = tokenizer.decode([int(parts.sample_next_token(logits[:, -1], temperature=0))])
    written = parts.generate(model, ids, 1, temperature=0)
    before, after = seen["placed"][0, -1], seen["ln1"][0, -1]
    d_head = model.config.d_model // model.config.n_heads
    shapes = {name: tuple(value.shape) for name, value in seen.items() if isinstance(value, Tensor)}
    shapes |= {"ids": tuple(ids.shape), "q": (1, model.config.n_heads, ids.size(1), d_head), "logits": tuple(logits.shape)}
    return Numbers(
        words=TEXT.split(),
        vocab_size=tokenizer.vocab_size,
        loss_before=losses[0],
        loss_after=losses[-1],
        ids=ids[0].tolist(),
        shapes=shapes,
        token_rows=seen["tokens"][0, :, :SHOWN].tolist(),
        placed_rows=seen["placed"][0, :, :SHOWN].tolist(),
        mean_before=before.mean().item(),
        std_before=before.std(correction=0).item(),
        mean_after=after.mean().item(),
        std_after=after.std(correction=0).item(),
        weights=seen["weights"][0].tolist(),
        added_by_attention=seen["attn"][0, -1].norm().item(),
        added_by_feed_forward=seen["ffn"][0, -1].norm().item(),
        lengths=[seen["placed"][0, -1].norm().item(), *(state[0, -1].norm().item() for state in seen["blocks"])],
        logits=list(zip(words, last[best].tolist())),
        probabilities=list(zip(words, probabilities[best].tolist())),
        rest=1 - probabilities[best].sum().item(),
        otherwise=otherwise,
        drawn=drawn,
        greedy=greedy,
        written=tokenizer.decode(written[0].tolist()),
    )


def _followed(model: nn.Module, ids: Tensor) -> dict[str, Any]:
    """Call the parts of the model one after the other and return what each gives."""
    first = model.blocks[0]
    seen: dict[str, Any] = {"tokens": model.token_emb(ids)}
    seen["placed"] = model.pos_emb(seen["tokens"])
    seen["ln1"] = first.ln1(seen["placed"])
    seen["attn"], seen["weights"] = first.attn(seen["ln1"], return_weights=True)
    normed = first.ln2(seen["placed"] + seen["attn"])
    seen["up"], seen["ffn"] = first.ffn.up(normed), first.ffn(normed)
    seen["blocks"] = [model.blocks[0](seen["placed"])]
    for block in model.blocks[1:]:
        seen["blocks"].append(block(seen["blocks"][-1]))
    seen["ln_f"] = model.ln_f(seen["blocks"][-1])
    return seen


def print_walk(page: WalkPage, n: Numbers) -> None:
    """The ten steps."""
    T, D = len(n.words), n.shapes["placed"][-1]
    H = n.shapes["q"][1]
    numbers = [f"{i}" for i in range(SHOWN)]
    page.say(
        f"A GPT of {len(n.lengths) - 1} blocks has just been trained on twenty short sentences for {STEPS} steps; its loss fell from "
        f"{n.loss_before:.2f} to {n.loss_after:.2f}. Now it continues a text that was not in its training data."
    )

    page.step("The text")
    page.line(f'"{" ".join(n.words)}"')
    page.say(f"{T} words. A model cannot read them; it computes with numbers.")

    page.step("Words become ids", shape(n.shapes['ids']))
    page.table([["word", *n.words], ["id", *n.ids]])
    page.say(f"An id is the index of a word in the vocabulary of {n.vocab_size} words. The shape {shape(n.shapes['ids'])} is one sequence of {T} positions: (B, T).")

    page.step("Ids become vectors", shape(n.shapes['tokens']))
    page.say(f"Each id selects its row of the table token_emb.weight, {D} learned numbers. The first {SHOWN} of each:")
    page.grid(n.token_rows, n.words, numbers)
    page.say("The same word has the same row at every position, so these vectors contain no information about the order of the words yet.")

    page.step("Positions are added", shape(n.shapes['placed']))
    page.grid(n.placed_rows, n.words, numbers)
    page.say("The row of pos_emb.weight for each position is added, so the same word has different vectors at different positions.")

    page.step("The first norm", shape(n.shapes['ln1']))
    page.say("A block reads a normalised copy of the stream. The vector of the last position:")
    page.table(
        [["before", f"{abs(n.mean_before) if round(n.mean_before, 2) == 0 else n.mean_before:.2f}", f"{n.std_before:.2f}"],
         ["after", f"{abs(n.mean_after) if round(n.mean_after, 2) == 0 else n.mean_after:.2f}", f"{n.std_after:.2f}"]],
        ["", "mean", "standard deviation"],
    )  # fmt: skip

    page.step("Attention: which words attend to which", shape(n.shapes['weights']))
    page.say(f"Queries, keys and values are cut into {H} heads, each {shape(n.shapes['q'])}. Comparing a query with every key gives weights; those of head 0:")
    page.grid([[w if k <= q else float("nan") for k, w in enumerate(row)] for q, row in enumerate(n.weights[0])], n.words, n.words)
    page.say("Each row is the position of the query, and sums to 1. The dots are later positions, which the causal mask hides.")

    page.step("Feed-forward: each position separately", shape(n.shapes['up']))
    page.say(
        f"The feed-forward widens {D} numbers to {n.shapes['up'][-1]}, applies the activation function, and narrows them to {D} again. "
        "The norms of the vectors that the first block adds to the last position's vector:"
    )
    page.bars([("by attention", n.added_by_attention), ("by the feed-forward", n.added_by_feed_forward)])

    page.step("Through every block, and the last norm", shape(n.shapes['ln_f']))
    page.say("Each block adds something to the residual stream. The norm of the last position's vector:")
    page.bars([("after the embedding", n.lengths[0]), *((f"after block {i}", length) for i, length in enumerate(n.lengths[1:]))])

    page.step("Vectors become logits", shape(n.shapes['logits']))
    page.say(f"One logit for each of the {n.vocab_size} words, at each position. For the next word only the last position matters; the best {BEST}:")
    page.table([[word, f"{logit:.2f}"] for word, logit in n.logits])

    page.step("Logits become a word", shape((1,)))
    page.say("The softmax turns the logits into probabilities:")
    page.bars([*n.probabilities, ("all others", n.rest)], most=1.0)
    page.say("The same five words at other temperatures, and after filters that remove unlikely words:")
    page.table([[name, *(f"{p:.2f}" for p in row)] for name, row in n.otherwise.items()], ["", *(word for word, _ in n.probabilities)])
    page.say(f"Eight samples at temperature 1: {', '.join(n.drawn)}. The likeliest word is {n.greedy!r}, and generate writes:")
    page.line(f'"{n.written}"', style="bold")


def draw(n: Numbers) -> str:
    """The attention weights of head 0 in the first layer."""
    rows = [[w if k <= q else float("nan") for k, w in enumerate(row)] for q, row in enumerate(n.weights[0])]
    return heatmap(rows, n.words, n.words, "Attention weights of head 0 in the first layer", row_name="this position", column_name="attends to")
