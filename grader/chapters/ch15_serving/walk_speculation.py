"""Speculative decoding: a walk, and the measured speed of batches and of guesses (lesson 15)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.corpora import SENTENCES
from grader.chapters.small_models import SENTENCE_GPT, count_passes, names_of, sentence_gpt
from grader.console.output import ProgressReporter, show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import BLANK, Block, line, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

SAMPLING = ("sample_next_token", "generate")  # greedily, so that no filter is called
SPECULATING = ("count_parameters", "residual_distribution", "accept_drafts", "generate_speculative")
REQUIRED_EXERCISES = (*SENTENCE_GPT, *SAMPLING, *SPECULATING)

PROMPT = "the"
STEPS, DRAFT_STEPS = 120, 16
ROUNDS, DRAFTED = 3, 4  # rounds that are shown, and the tokens of each
WORDS = 6  # shown of a distribution
NEW_TOKENS, DRAFT_LENGTHS = 8, (1, 2, 3, 4, 6)
DRAWS = 400


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    model, tokenizer, _, losses = sentence_gpt(parts, seed, STEPS, report_progress, lr=5e-3)
    small = {"d_model": 16, "n_layers": 1}
    draft, _, _, draft_losses = sentence_gpt(parts, seed + 1, DRAFT_STEPS, report_progress, lr=2e-2, **small)
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    rounds, shapes = _rounds(parts, model, draft, tokenizer, ids, seed)
    target, other = _probabilities(model, ids)[-1], _probabilities(draft, ids)[-1]
    shown = torch.maximum(target, other).topk(WORDS).indices.tolist()
    kept, residual = torch.minimum(target, other), parts.residual_distribution(target, other)
    shares = torch.zeros_like(target)
    generator = torch.Generator().manual_seed(seed)
    with report_progress("writing short texts", DRAWS) as step:
        for _ in range(DRAWS):
            text = parts.generate_speculative(model, draft, ids, 2, 1, generator=generator)
            shares[text[0, ids.size(1)]] += 1 / DRAWS
            step()
    prompts = first_words(tokenizer)
    plain = [parts.generate(model, prompt, NEW_TOKENS, temperature=0) for prompt in prompts]
    passes: dict[int, int] = {}
    different, counted = 0, count_passes(model)
    for n in DRAFT_LENGTHS:
        texts = [parts.generate_speculative(model, draft, one, NEW_TOKENS, n, temperature=0) for one in prompts]
        passes[n] = len(counted) - sum(passes.values())
        different += sum(not torch.equal(one, expected) for one, expected in zip(texts, plain))
    distributions = {"draft": other, "model": target, "kept": kept, "residual": residual}
    return SimpleNamespace(
        losses=(losses[-1], draft_losses[-1]),
        sizes=(parts.count_parameters(model), parts.count_parameters(draft)),
        shapes=shapes,  # of the two tables of probabilities
        rounds=rounds,
        words=[tokenizer.decode([token]) for token in shown],  # the likeliest after the prompt, for either model
        after_prompt={name: values[shown].tolist() for name, values in distributions.items()},
        refused=1 - kept.sum().item(),
        shares=shares[shown].tolist(),  # how often each word came first, of DRAWS texts
        different=different,  # texts
        passes=passes,  # of the model for all texts, by the length of a round
    )


def first_words(tokenizer: Any) -> list[Tensor]:
    """Return the first two words of each sentence, as prompts."""
    return [torch.tensor([tokenizer.encode(" ".join(sentence.split()[:2]))]) for sentence in SENTENCES]


def _rounds(
    parts: MixedChapters, model: nn.Module, draft: nn.Module, tokenizer: Any, ids: Tensor, seed: int
) -> tuple[list[SimpleNamespace], tuple[tuple[int, ...], ...]]:
    """Play the first rounds of a text; return them, and the shapes of the probabilities."""
    generator, rounds = torch.Generator().manual_seed(seed), []
    shapes: tuple = ()
    for _ in range(ROUNDS):
        text, rows = ids, []
        for _ in range(DRAFTED):
            rows.append(_probabilities(draft, text)[-1])
            text = torch.cat([text, torch.multinomial(rows[-1], 1, generator=generator)[None]], dim=1)
        target, other = _probabilities(model, text)[-DRAFTED - 1 :], torch.stack(rows)
        drafted = text[0].tolist()[ids.size(1) :]
        written = parts.accept_drafts(target, other, drafted, generator)
        kept = len(written) - 1  # the last one is a replacement, or the model's own token
        guesses = []  # a word, its probability for the draft and for the model, what happened
        for i, token in enumerate(drafted):
            fate = "kept" if i < kept else "refused" if i == kept else "not considered"
            guesses.append((tokenizer.decode([token]), other[i, token].item(), target[i, token].item(), fate))
        words = [tokenizer.decode([token]) for token in written]
        before = tokenizer.decode(ids[0].tolist())
        rounds.append(SimpleNamespace(before=before, guesses=guesses, written=words, kept=kept))
        shapes = (tuple(target.shape), tuple(other.shape))
        ids = torch.cat([ids, torch.tensor([written])], dim=1)
    return rounds, shapes


@torch.no_grad()
def _probabilities(model: nn.Module, ids: Tensor) -> Tensor:
    return model(ids)[0][0].softmax(-1)


def describe(n: SimpleNamespace) -> dict[str, Any]:
    models = [[name, f"{size:,}", loss] for name, size, loss in zip(("model", "draft"), n.sizes, n.losses)]
    rounds: Block = []
    for number, one in enumerate(n.rounds):
        guesses = [[word, mine, its, min(1.0, its / mine), fate] for word, mine, its, fate in one.guesses]
        rounds += (BLANK if number else []) + line(one.before)
        rounds += table(guesses, ["drafted", "draft", "model", "chance to stay", ""], ".3f")
        if one.kept == DRAFTED:
            rounds.append(f"All {DRAFTED} words stay, and the model's last row adds `{one.written[-1]}`.")
        else:
            word = one.guesses[one.kept][0]
            rounds.append(f"{one.kept} of {DRAFTED} words stay; `{word}` is replaced by `{one.written[-1]}`.")
    kept, residual, tokens = n.after_prompt["kept"], n.after_prompt["residual"], NEW_TOKENS * len(SENTENCES)
    together = [keep + n.refused * rest for keep, rest in zip(kept, residual)]
    best = [str(size) for size, count in n.passes.items() if count == min(n.passes.values())]
    columns = ["", "draft", "model", "drafted and kept", "residual"]
    sums = ["", "kept + refused · residual", f"share of {DRAWS} texts"]
    passes = [[size, count, tokens / count] for size, count in n.passes.items()]
    return {
        "model_table": table(models, ["", "parameters", "loss"], ".2f"),
        "round_tables": rounds,
        "residual_table": table(zip(n.words, *n.after_prompt.values()), columns, ".3f"),
        "share_table": table(zip(n.words, together, n.shares), sums, ".3f"),
        "prompts": len(SENTENCES),
        "tokens": tokens,
        "pass_table": table(passes, ["words a round", "passes", "words a pass"], ".2f", left=0),
        "texts": len(SENTENCES) * len(DRAFT_LENGTHS),
        "best_sizes": " and of ".join(best),
    }


# ---- lesson 15


def report_serving(
    chapters: ChapterPackage, seed: int, *, width: int = 256, layers: int = 4, steps: int = 60, runs: int = 3
) -> Report:
    """Lesson 15: tokens per second of texts that are written one by one, in a batch, and with guesses of a small model.

    A GPT and a smaller draft learn the course's twenty sentences. Then the GPT continues two words of each, greedily.
    Passes and words are counted; they do not depend on the machine. The times are medians of several runs, on one core.
    """
    yield (
        f"Training a model and a draft. Then {len(SENTENCES)} texts are written {runs + 1} times in each way. "
        "In all this takes about a minute."
    )
    serving, sampling, models = (chapters.module(name) for name in ("ch15_serving", "ch09_sampling", "ch07_models"))
    parts = names_of(models, chapters.module("ch01_tokenizer"), chapters.module("ch08_training"))
    sizes = {"max_len": 32, "d_model": width, "n_heads": 4, "n_layers": layers}
    plain, tokenizer, *_ = sentence_gpt(parts, seed, steps, show_progress, lr=1e-3, **sizes)
    model = serving.PaddedGPT(plain.config).eval()
    model.load_state_dict(plain.state_dict())
    sizes = {"max_len": 32, "d_model": 16, "n_layers": 1}
    draft, *_ = sentence_gpt(parts, seed + 1, steps * 2 // 3, show_progress, lr=2e-2, **sizes)
    prompts, new_tokens = first_words(tokenizer), 10
    tokens, lists = new_tokens * len(prompts), [prompt[0].tolist() for prompt in prompts]

    rows, first = [], 0.0
    for size in (1, 4, 10, 20):

        def write_batches(size: int = size) -> list[Any]:
            groups = [lists[start : start + size] for start in range(0, len(lists), size)]
            return [serving.generate_batch(model, group, new_tokens) for group in groups]

        seconds, [passes], _ = timed(write_batches, runs, model)
        first = first or seconds
        rows.append([size, passes, f"{tokens / seconds:.0f}", f"{first / seconds:.1f}x"])
    columns = ("texts in a batch", "passes", "tokens a second", "faster")
    yield result_table(f"{len(prompts)} texts of {new_tokens} new tokens", columns, rows)

    def write_plainly() -> list[Tensor]:
        return [sampling.generate(model, prompt, new_tokens, temperature=0) for prompt in prompts]

    unaided, [passes], texts = timed(write_plainly, runs, model)
    rows = [["none", passes, "-", f"{tokens / passes:.2f}", f"{tokens / unaided:.0f}", "1.0x"]]
    for n in (1, 2, 4, 8):

        def write_guessing(n: int = n) -> list[Tensor]:
            return [serving.generate_speculative(model, draft, one, new_tokens, n, temperature=0) for one in prompts]

        seconds, [passes, drafted], found = timed(write_guessing, runs, model, draft)
        if any(not torch.equal(one, other) for one, other in zip(found, texts)):
            raise AssertionError("generate_speculative wrote another text than generate")
        kept = f"{(tokens - passes) / drafted:.0%}"  # each pass writes one token besides the guesses that it keeps
        speeds = f"{tokens / passes:.2f}", f"{tokens / seconds:.0f}", f"{unaided / seconds:.1f}x"
        rows.append([n, passes, kept, *speeds])
    header = ["guesses a round", "passes", "kept", "tokens a pass", "tokens a second", "faster"]
    yield result_table("One text at a time", header, rows)


def timed(call: Callable[[], Any], runs: int, *models: nn.Module) -> tuple[float, list[int], Any]:
    """Return the median seconds of a call, the passes of each model in one run, and the call's result."""
    counted, seconds = [count_passes(model) for model in models], []
    with torch.no_grad():
        result = call()
        passes = list(map(len, counted))
        for _ in range(runs):
            start = perf_counter()
            call()
            seconds.append(perf_counter() - start)
    return median(seconds), passes, result
