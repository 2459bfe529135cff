"""What a KV cache contains and saves: a walk, and how much faster a text is written with it (lesson 10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median
from time import perf_counter
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import SENTENCE_GPT, sentence_gpt
from grader.console.output import ProgressReporter, show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

SAMPLING = ("sample_next_token", "generate")  # greedily, so that no filter is called
CACHING = ("KVCache", "CachedSelfAttention", "CachedGPT", "generate_cached", "kv_cache_bytes")
REQUIRED_EXERCISES = (*SENTENCE_GPT, *SAMPLING, *CACHING)

PROMPT, NEW_TOKENS = "every night", 6
STEPS = 120
SHOWN = 6  # numbers of a key, from its beginning
COUNTED = (8, 16, 32, 64, 128, 256, 512, 1024)  # lengths of text at which one more token is counted
TIMED = (16, 32, 64, 128, 256)  # new tokens
PROMPT_LENGTH, WIDTH, LAYERS, RUNS = 64, 256, 2, 2  # of the model that is timed
MODELS = (  # name, layers, query heads, heads of keys and values, numbers a head
    ("GPT-2, the smallest", 12, 12, 12, 64),
    ("Llama 2, 7B", 32, 32, 32, 128),
    ("Llama 3, 8B", 32, 32, 8, 128),
    ("Llama 3, 70B", 80, 64, 8, 128),
)
TEXT_LENGTHS = (1024, 8192, 131072)


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    plain, tokenizer, _, losses = sentence_gpt(parts, seed, STEPS, report_progress, lr=5e-3)
    model = parts.CachedGPT(plain.config).eval()
    model.load_state_dict(plain.state_dict())
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    passes, keys = _watched(model, tokenizer, ids)
    by_length = _counted(parts, report_progress)
    config = parts.GPTConfig(256, PROMPT_LENGTH + max(TIMED), d_model=WIDTH, n_heads=4, n_layers=LAYERS)
    timed, same = time_both(parts.chapter("ch10"), parts.generate, config, PROMPT_LENGTH, TIMED, RUNS, report_progress)

    def bytes_of(layers: int, heads: int, d_head: int) -> list[int]:
        return [parts.kv_cache_bytes(layers, heads, d_head, tokens) for tokens in TEXT_LENGTHS]

    return SimpleNamespace(
        loss_after=losses[-1],
        layers=len(model.blocks),
        passes=passes,
        first_keys=keys[0][0, 0, :, :SHOWN].tolist(),  # of head 0 of the first layer, after the first pass
        last_keys=keys[-1][0, 0, :, :SHOWN].tolist(),
        moved=max((late[:, :, : early.size(2)] - early).abs().max().item() for early, late in zip(keys, keys[1:])),
        written=tokenizer.decode(parts.generate(model, ids, NEW_TOKENS, temperature=0)[0].tolist()),
        written_cached=tokenizer.decode(parts.generate_cached(model, ids, NEW_TOKENS, temperature=0)[0].tolist()),
        by_length=by_length,  # length; multiplications for one more token, without a cache and with one
        memory=[bytes_of(layers, heads, d_head) for _, layers, _, heads, d_head in MODELS],
        timed=timed,
        same=same,
    )


@torch.no_grad()
def _watched(model: Any, tokenizer: Any, ids: Tensor) -> tuple[list[SimpleNamespace], list[Tensor]]:
    seen: dict[int, tuple[Tensor, Tensor]] = {}  # copies of all keys and values of each layer
    caches = list(model.new_caches())
    for layer, cache in enumerate(caches):

        def append_and_copy(k: Tensor, v: Tensor, append: Any = cache.append, layer: int = layer) -> Any:
            both = append(k, v)
            seen[layer] = both[0].clone(), both[1].clone()
            return both

        cache.append = append_and_copy
    unseen, text, passes, keys = ids, ids, [], []
    for _ in range(NEW_TOKENS):
        _, work_without = multiplications(model, text)
        logits, work = multiplications(model, unseen, caches)
        chosen = logits[:, -1:].argmax(-1)
        k = seen[0][0]
        keys.append(k)
        numbers = sum(k.numel() + v.numel() for k, v in seen.values())
        one = SimpleNamespace(
            reads=[tokenizer.decode([i]) for i in unseen[0].tolist()],
            chooses=tokenizer.decode(chosen[0].tolist()),
            cached=caches[0].length,  # positions afterwards
            keys=tuple(k.shape),  # of one layer afterwards
            numbers=numbers,  # in all keys and values of all layers
            work=work,  # multiplications
            work_without=work_without,  # in a pass over the whole text so far
        )
        passes.append(one)
        unseen, text = chosen, torch.cat([text, chosen], dim=1)
    return passes, keys


def multiplications(model: Callable, *arguments: Any) -> tuple[Any, int]:
    """Return the model's result, and the number of multiplications that its matrix products ran."""
    with FlopCounterMode(display=False) as counter:
        result = model(*arguments)
    return result, counter.get_total_flops() // 2  # each is counted with its addition


@torch.no_grad()
def _counted(parts: MixedChapters, report_progress: ProgressReporter) -> list[tuple[int, int, int]]:
    torch.manual_seed(0)
    model = parts.CachedGPT(parts.GPTConfig(256, max(COUNTED), d_model=64, n_heads=4, n_layers=2)).eval()
    found = []
    with report_progress("counting operations", len(COUNTED)) as step:
        for length in COUNTED:
            ids, caches = torch.randint(256, (1, length)), model.new_caches()
            model(ids[:, :-1], caches)
            found.append((length, multiplications(model, ids)[1], multiplications(model, ids[:, -1:], caches)[1]))
            step()
    return found


def describe(n: SimpleNamespace) -> dict[str, Any]:
    words = [word for one in n.passes for word in one.reads]
    _, heads, _, d_head = n.passes[-1].keys
    reads = [", ".join(one.reads) for one in n.passes]
    passes = [[text, one.chooses, one.cached, str(one.keys), one.numbers] for text, one in zip(reads, n.passes)]
    work = [[text, one.work_without, one.work] for text, one in zip(reads, n.passes)]
    work.append(["all", *(sum(row[column] for row in work) for column in (1, 2))])
    (_, short_without, short_with), (_, long_without, long_with) = n.by_length[0], n.by_length[-1]
    memory = [[name, f"{k} of {q}", *map(size, found)] for (name, _, q, k, _), found in zip(MODELS, n.memory)]
    times = [[row.tokens, *map(format_count, row.speeds), f"{row.faster:.1f}x", f"{row.fewer:.0f}x"] for row in n.timed]
    lengths = [[length, a, b, f"{a / b:.0f}x"] for length, a, b in n.by_length]
    columns = ["new tokens", "per second, without", "with", "faster", "fewer multiplications"]
    return {
        "heads": heads,
        "d_head": d_head,
        "per_position": 2 * n.layers * heads * d_head,
        "pass_table": table(passes, ["reads", "chooses", "positions", "keys of a layer", "numbers in all"], left=2),
        "first_grid": grid(n.first_keys, words[: len(n.first_keys)]),
        "last_grid": grid(n.last_keys, words),
        "text_table": table([["generate", n.written], ["generate_cached", n.written_cached]], left=2),
        "same_text": n.written == n.written_cached,
        "work_table": table(work, ["with the cache, reads", "without", "with"], "- , ,"),
        "length_table": table(lengths, ["tokens", "without", "with", "fewer"], "- , , -", left=0),
        "growth_without": long_without / short_without,
        "growth_with": long_with / short_with,
        "memory_table": table(memory, ["model", "key heads", *(f"{tokens:,}" for tokens in TEXT_LENGTHS)]),
        "smaller": n.memory[1][0] / n.memory[2][0],
        "time_table": table(times, columns, left=0),
    }


def size(count: int) -> str:
    """Write a number of bytes in readable units: 36 MiB."""
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB".replace(".0 ", " ")


# ---- lesson 10


DEFAULT_THREADS = torch.get_num_threads()  # before a measurement sets it to 1
LONG_TEXT = 256  # texts up to this length are written several times without a cache too, longer ones once


def multiply_adds(config: Any, new: int, seen: int) -> int:
    """Count the multiply-adds of one call of a GPT with d_ff = 4 d_model: `new` positions, each with `seen` keys."""
    D = config.d_model
    maps = new * 12 * D * D  # four of D x D in attention, two of D x 4 D in the feed-forward layer
    attention = 3 * new * seen * D  # scores; the weighted sum of the values twice: also after dropout on the weights
    return config.n_layers * (maps + attention) + new * D * config.vocab_size


def count_work(config: Any, prompt: int, tokens: int) -> tuple[int, int]:
    """Count the multiply-adds of generating so many tokens: without a cache, and with one."""
    without = sum(multiply_adds(config, length, length) for length in range(prompt, prompt + tokens))
    steps = (multiply_adds(config, 1, length) for length in range(prompt + 1, prompt + tokens))
    return without, multiply_adds(config, prompt, prompt) + sum(steps)


def time_both(
    chapter: ModuleType,
    generate: Callable[..., Tensor],
    config: Any,
    prompt: int,
    tokens: tuple[int, ...],
    runs: int,
    report_progress: ProgressReporter,
) -> tuple[list[SimpleNamespace], bool]:
    """Return the cost of each number of tokens after the prompt, and whether both ways wrote the same text.

    `speeds` are tokens in a median second, `work` is the multiply-adds of all matrix products, both without a cache and
    with one; `faster` and `fewer` are their quotients.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = chapter.CachedGPT(config).eval()
        ids = torch.randint(config.vocab_size, (1, prompt))
    ways = (generate, chapter.generate_cached)
    for way in ways:
        way(model, ids, 2, temperature=0.0)  # the first calls allocate memory
    rows, same, d_head = [], True, config.d_model // config.n_heads
    with report_progress("writing with a cache and without", sum(tokens)) as step:
        for n in tokens:
            seconds, texts = [], []
            for way in ways:
                count = 1 if way is generate and n > LONG_TEXT else runs
                times = []
                for _ in range(count):
                    start = perf_counter()
                    text = way(model, ids, n, temperature=0.0)
                    times.append(perf_counter() - start)
                seconds.append(median(times))
                texts.append(text)
            same = same and torch.equal(*texts)
            size = chapter.kv_cache_bytes(config.n_layers, config.n_heads, d_head, prompt + n, bytes_per_value=4)
            row = SimpleNamespace(tokens=n, speeds=(n / seconds[0], n / seconds[1]), bytes=size)
            row.work = count_work(config, prompt, n)
            row.faster, row.fewer = seconds[0] / seconds[1], row.work[0] / row.work[1]
            rows.append(row)
            for _ in range(n):
                step()
    return rows, same


def format_count(count: float) -> str:
    """Write a count with two digits and a unit: 1.3G."""
    power = min(4, max(0, int(math.log10(max(count, 1))) // 3))
    value, unit = count / 1000**power, " kMGT"[power].strip()
    return f"{value:.0f}{unit}" if value >= 9.95 else f"{value:.1f}{unit}"


def report_cache(
    chapters: ChapterPackage, *, prompt: int = 512, tokens: tuple[int, ...] = (16, 64, 256, 1024), runs: int = 3
) -> Report:
    """Lesson 10: tokens per second with and without the KV cache, with the multiply-adds and the memory.

    A GPT with random weights continues a prompt greedily, once with `generate` and once with `generate_cached`; each
    call of the model is timed. The speed does not depend on the values of the weights.
    """
    models, sampling, caching = (chapters.module(name) for name in ("ch07_models", "ch09_sampling", "ch10_kv_cache"))
    tokens, width, layers = tuple(sorted(tokens)), 256, 2
    config = models.GPTConfig(256, prompt + max(tokens), d_model=width, n_heads=4, n_layers=layers)
    columns = ("new tokens", "tokens/s", "cached", "faster", "work", "cached", "less", "memory")
    for threads in sorted({1, DEFAULT_THREADS}):
        torch.set_num_threads(threads)
        found, same = time_both(caching, sampling.generate, config, prompt, tokens, runs, show_progress)
        rows = []
        for row in found:
            speeds, work = (map(format_count, pair) for pair in (row.speeds, row.work))
            quotients = f"{row.faster:.0f}x", f"{row.fewer:.0f}x"
            rows.append([row.tokens, *speeds, quotients[0], *work, quotients[1], f"{row.bytes / 2**20:.1f} MiB"])
        yield result_table("one thread" if threads == 1 else f"{threads} threads", columns, rows)
        if not same:
            yield "The two texts differ, but they should not: generate_cached must write what generate writes."
    blocks = format_count(12 * layers * width**2)
    yield (
        f"{layers} layers of width {width} ({blocks} weights in blocks); one row, a prompt of {prompt} tokens, float32."
    )
    yield "work: multiply-adds of all matrix products. memory: of the caches at the end."
    yield f"Median of {runs} runs; without a cache, texts of more than {LONG_TEXT} tokens are generated once."
