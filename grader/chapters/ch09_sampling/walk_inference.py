"""A text on its way through a small GPT that has just learned the twenty sentences; how often sampling draws a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import SENTENCE_GPT, sentence_gpt
from grader.console.output import ProgressReporter
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import bars, causal, grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

SAMPLING = ("apply_temperature", "top_k_filter", "top_p_filter", "min_p_filter", "sample_next_token", "generate")
REQUIRED_EXERCISES = (*SENTENCE_GPT, *SAMPLING)

TEXT = "our bird sat on the"  # none of the sentences
STEPS = 120
SHOWN = 6  # numbers of a vector, from its beginning
BEST = 5  # candidates


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    model, tokenizer, _, losses = sentence_gpt(parts, seed, STEPS, report_progress, lr=5e-3)
    ids = torch.tensor([tokenizer.encode(TEXT)])
    with torch.no_grad():
        seen, logits = _followed(model, ids), model(ids)[0]
        last = logits[0, -1]
        best = last.topk(BEST).indices
        filters = {
            "temperature 1": last,
            "temperature 0.5": parts.apply_temperature(last, 0.5),
            "temperature 2": parts.apply_temperature(last, 2.0),
            "top k = 2": parts.top_k_filter(last, 2),
            "top p = 0.9": parts.top_p_filter(last, 0.9),
            "min p = 0.1": parts.min_p_filter(last, 0.1),
        }
        probabilities = {name: parts.softmax(scores, dim=-1)[best].tolist() for name, scores in filters.items()}
    generator = torch.Generator().manual_seed(seed)
    drawn = [int(parts.sample_next_token(logits[:, -1], generator=generator)) for _ in range(8)]
    greedy = int(parts.sample_next_token(logits[:, -1], temperature=0))
    shapes = {name: tuple(value.shape) for name, value in seen.items() if isinstance(value, Tensor)}
    H, D = model.config.n_heads, model.config.d_model
    shapes |= {"ids": tuple(ids.shape), "q": (1, H, ids.size(1), D // H), "logits": tuple(logits.shape)}
    added = {"attention": seen["attn"], "the feed-forward": seen["ffn"]}
    return SimpleNamespace(
        vocab_size=tokenizer.vocab_size,
        loss_before=losses[0],
        loss_after=losses[-1],
        ids=ids[0].tolist(),
        shapes=shapes,
        token_rows=seen["tokens"][0, :, :SHOWN].tolist(),
        placed_rows=seen["placed"][0, :, :SHOWN].tolist(),
        norm={  # of the last position's vector: mean and standard deviation
            name: (x.mean().item(), x.std(correction=0).item())
            for name, x in (("before", seen["placed"][0, -1]), ("after", seen["ln1"][0, -1]))
        },
        weights=seen["weights"][0].tolist(),  # of the first layer: head, query, key
        added={name: x[0, -1].norm().item() for name, x in added.items()},
        lengths=[state[0, -1].norm().item() for state in (seen["placed"], *seen["blocks"])],
        candidates=[tokenizer.decode([i]) for i in best.tolist()],
        logits=last[best].tolist(),
        probabilities=probabilities,
        drawn=[tokenizer.decode([i]) for i in drawn],
        greedy=tokenizer.decode([greedy]),
        written=tokenizer.decode(parts.generate(model, ids, 1, temperature=0)[0].tolist()),
    )


def _followed(model: nn.Module, ids: Tensor) -> dict[str, Any]:
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


def describe(n: SimpleNamespace) -> dict[str, Any]:
    words, columns = TEXT.split(), [f"{i}" for i in range(SHOWN)]
    first = n.probabilities["temperature 1"]
    norms = [[name, 0.0 if abs(mean) < 0.005 else mean, deviation] for name, (mean, deviation) in n.norm.items()]
    lengths = {"the embedding" if i == 0 else f"block {i - 1}": length for i, length in enumerate(n.lengths)}
    filters = [[name, *row] for name, row in n.probabilities.items()][1:]
    return {
        "blocks": len(n.lengths) - 1,
        "T": len(words),
        "D": n.shapes["placed"][-1],
        "H": n.shapes["q"][1],
        "id_table": table([["word", *words], ["id", *n.ids]]),
        "token_grid": grid(n.token_rows, words, columns),
        "placed_grid": grid(n.placed_rows, words, columns),
        "norm_table": table(norms, ["", "mean", "standard deviation"], ".2f"),
        "weights_grid": grid(causal(n.weights[0]), words, words),
        "added_bars": bars((f"by {name}", norm) for name, norm in n.added.items()),
        "length_bars": bars((f"after {name}", length) for name, length in lengths.items()),
        "logit_table": table(zip(n.candidates, n.logits), form=".2f"),
        "probability_bars": bars([*zip(n.candidates, first), ("all others", 1 - sum(first))], most=1.0),
        "filter_table": table(filters, ["", *n.candidates], ".2f"),
        "drawn_words": ", ".join(n.drawn),
    }


# ---- lesson 9


def report_draws(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 9: how often each of five words is drawn in a thousand draws, at several temperatures."""
    words, draws = {"mat": 0.40, "rug": 0.30, "sofa": 0.15, "roof": 0.10, "moon": 0.05}, 1_000
    sample = chapters.module("ch09_sampling").sample_next_token
    logits = torch.tensor(list(words.values())).log().expand(draws, -1)
    rows = []
    for temperature in (0, 0.5, 1, 2):
        drawn = sample(logits, temperature=temperature, generator=torch.Generator().manual_seed(seed))
        rows.append([f"{temperature}", *drawn.bincount(minlength=len(words)).tolist()])
    yield result_table(f"{draws:,} draws", ("temperature", *words), rows)
