"""The contents of a KV cache after each token, and what it saves: operations counted, memory at real sizes, speed measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from grader.teaching.drawing.charts import curves
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.measurements.cache import Row, format_count, run_lengths
from grader.teaching.measurements.cache import measure as time_both
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, small_gpt, tokenizer_and_batch, train
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

SAMPLING = ("sample_next_token", "generate")  # greedily, so that no filter is called
CACHING = ("KVCache", "CachedSelfAttention", "CachedGPT", "generate_cached", "kv_cache_bytes")
REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, *TRAINING, *SAMPLING, *CACHING)
NEXT_STEP = "Next: `headway measure cache` times longer texts after a longer prompt; it takes about five minutes."

PROMPT, NEW = "every night", 6
STEPS = 120
SHOWN = 6  # numbers of a key, from its beginning
COUNTED = (8, 16, 32, 64, 128, 256, 512, 1024)  # lengths of text at which one more token is counted
WRITTEN = (16, 32, 64, 128, 256)  # new tokens that are timed
BEFORE, WIDTH, LAYERS, RUNS = 64, 256, 2, 2  # the prompt and the model that are timed
MODELS = (  # name, layers, query heads, heads of keys and values, numbers a head
    ("GPT-2, the smallest", 12, 12, 12, 64),
    ("Llama 2, 7B", 32, 32, 32, 128),
    ("Llama 3, 8B", 32, 32, 8, 128),
    ("Llama 3, 70B", 80, 64, 8, 128),
)
TEXTS = (1024, 8192, 131072)  # tokens


@dataclass(frozen=True)
class Pass:
    """One call of the model with the caches."""

    reads: list[str]
    chooses: str
    cached: int  # positions in each cache afterwards
    keys: tuple[int, ...]  # the shape of one layer's keys afterwards
    numbers: int  # in all keys and values of all layers
    work: int  # multiplications
    work_without: int  # in a pass over the whole text so far


@dataclass(frozen=True)
class Numbers:
    loss_after: float
    layers: int
    passes: list[Pass]
    words: list[str]  # the words in the caches at the end
    first_keys: list[list[float]]  # the beginning of each key of head 0 of the first layer, after the first pass
    last_keys: list[list[float]]  # and at the end
    moved: float  # by how much a key that was there changed, at most
    written: str
    written_cached: str
    by_length: list[tuple[int, int, int]]  # for one more token after a text of so many: multiplications without a cache and with one
    memory: list[tuple[str, int, int, list[int]]]  # a model, its query heads, its key heads, the bytes of each text
    timed: list[Row]
    same: bool  # both ways wrote the same text while they were timed


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train a small GPT, record its caches while it generates, count operations, and time both ways."""
    tokenizer, batch = tokenizer_and_batch(parts)
    plain = small_gpt(parts, tokenizer.vocab_size, seed)
    losses = train(parts, plain, batch, STEPS, report_progress, lr=5e-3, what="training a small GPT")
    model = parts.CachedGPT(plain.config).eval()
    model.load_state_dict(plain.state_dict())
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    passes, first, last, moved = _watched(model, tokenizer, ids)
    by_length = _counted(parts, report_progress)
    config = parts.GPTConfig(256, BEFORE + max(WRITTEN), d_model=WIDTH, n_heads=4, n_layers=LAYERS)
    with report_progress("writing with a cache and without", sum(length + sum(WRITTEN) for length in run_lengths(WRITTEN, RUNS))) as step:
        timed, same = time_both(parts.chapter("ch10"), parts.generate, config, BEFORE, WRITTEN, RUNS, lambda count: [step() for _ in range(count)])
    return Numbers(
        loss_after=losses[-1],
        layers=len(model.blocks),
        passes=passes,
        words=[word for one in passes for word in one.reads],
        first_keys=first,
        last_keys=last,
        moved=moved,
        written=tokenizer.decode(parts.generate(model, ids, NEW, temperature=0)[0].tolist()),
        written_cached=tokenizer.decode(parts.generate_cached(model, ids, NEW, temperature=0)[0].tolist()),
        by_length=by_length,
        memory=[(name, heads, kept, [parts.kv_cache_bytes(layers, kept, d_head, tokens) for tokens in TEXTS]) for name, layers, heads, kept, d_head in MODELS],
        timed=timed,
        same=same,
    )


@torch.no_grad()
def _watched(model: Any, tokenizer: Any, ids: Tensor) -> tuple[list[Pass], list[list[float]], list[list[float]], float]:
    """Generate greedily, and record after each pass what every layer's cache returned, with the first layer's keys at the start and end."""
    seen: dict[int, tuple[Tensor, Tensor]] = {}
    for layer, cache in enumerate(by_layer := model.new_caches()):
        cache.append = _noting(cache.append, layer, seen)
    unseen, text, passes, kept = ids, ids, [], []
    for _ in range(NEW):
        _, work_without = multiplications(model, text)
        logits, work = multiplications(model, unseen, by_layer)
        chosen = logits[:, -1:].argmax(-1)
        kept.append(seen[0][0])
        numbers = sum(k.numel() + v.numel() for k, v in seen.values())
        words = [tokenizer.decode([i]) for i in unseen[0].tolist()]
        passes.append(Pass(words, tokenizer.decode(chosen[0].tolist()), by_layer[0].length, tuple(seen[0][0].shape), numbers, work, work_without))
        unseen, text = chosen, torch.cat([text, chosen], dim=1)
    moved = max((late[:, :, : early.size(2)] - early).abs().max().item() for early, late in zip(kept, kept[1:]))
    return passes, kept[0][0, 0, :, :SHOWN].tolist(), kept[-1][0, 0, :, :SHOWN].tolist(), moved


def _noting(append: Callable, layer: int, seen: dict[int, tuple[Tensor, Tensor]]) -> Callable:
    """Wrap the cache's append so that it also copies all keys and values into `seen`."""

    def noting(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        both = append(k, v)
        seen[layer] = both[0].clone(), both[1].clone()
        return both

    return noting


def multiplications(model: Callable, *arguments: Any) -> tuple[Any, int]:
    """Return the model's result, and the number of multiplications that its matrix products ran."""
    with FlopCounterMode(display=False) as counter:
        result = model(*arguments)
    return result, counter.get_total_flops() // 2  # each is counted with its addition


@torch.no_grad()
def _counted(parts: Parts, report_progress: ProgressReporter) -> list[tuple[int, int, int]]:
    """Count the cost of one more token after a text of each length: by a pass over the whole text, and over the newest word alone."""
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


def print_walk(page: WalkPage, n: Numbers) -> None:
    last = n.passes[-1]
    page.step("The cache after each token", shape(last.keys))
    page.say(
        f"A GPT of {n.layers} layers has learned twenty short sentences (its loss is {n.loss_after:.2f} now). It continues {PROMPT!r}. "
        "The first pass reads the whole prompt; each later pass reads only the word that was chosen last. After each pass:"
    )
    page.table(
        [[", ".join(one.reads), one.chooses, one.cached, shape(one.keys), one.numbers] for one in n.passes],
        ["reads", "chooses", "positions", "keys of a layer", "numbers in all"],
        left=2,
    )
    H, _, d_head = last.keys[1:]
    per = 2 * n.layers * H * d_head
    page.say(
        f"Each position needs the same memory: a key and a value of {d_head} numbers in each of {H} heads of {n.layers} layers, "
        f"2 · {n.layers} · {H} · {d_head} = {per}."
    )

    page.step("Cached keys do not change")
    page.say(f"The first {SHOWN} numbers of each key in head 0 of the first layer, after the first pass:")
    page.grid(n.first_keys, n.words[: len(n.first_keys)])
    page.say("And after the last:")
    page.grid(n.last_keys, n.words)
    if n.moved == 0:
        page.say("No earlier number has changed. No word depends on later words, so its key and its value are final once they are computed.")
    else:
        page.say(f"The earlier numbers have changed by {n.moved:.1g} at most. That should be rounding, because no word depends on later words.")
    page.say("Queries are not cached: the query of a word is needed only in the pass that reads it.")

    page.step("The same text")
    page.table([["generate", n.written], ["generate_cached", n.written_cached]], left=2)
    same = n.written == n.written_cached
    page.say(
        "Both are the same, word for word: a cache saves repeated computation and does not change the result."
        if same
        else "They differ, but they should not: generate_cached must write the same text as generate."
    )

    page.step("Operations, counted")
    page.say("The multiplications of all matrix products in each of those passes, counted while they ran:")
    rows = [[", ".join(one.reads), f"{one.work_without:,}", f"{one.work:,}"] for one in n.passes]
    without, with_cache = sum(one.work_without for one in n.passes), sum(one.work for one in n.passes)
    page.table([*rows, ["all", f"{without:,}", f"{with_cache:,}"]], ["with the cache, reads", "without", "with"])
    page.say("This text is short. The cost of the newest token of longer texts, in a GPT of two layers of width 64:")
    page.table([[length, f"{a:,}", f"{b:,}", f"{a / b:.0f}x"] for length, a, b in n.by_length], ["tokens", "without", "with", "fewer"], left=0)
    (short_text, a, b), (long_text, c, d) = n.by_length[0], n.by_length[-1]
    page.say(
        f"At {long_text} tokens the newest one costs {c / a:.0f} times as much as at {short_text} without a cache, and {d / b:.1f} times as much with one. "
        "It still grows with a cache, because the newest query is compared with every key before it."
    )

    page.step("Memory, at real sizes")
    page.say("The time saved costs memory. The size of the cache for one text at two bytes per number, from kv_cache_bytes:")
    page.table(
        [[name, f"{kept} of {heads}", *map(size, found)] for name, heads, kept, found in n.memory],
        ["model", "key heads", *(f"{tokens:,}" for tokens in TEXTS)],
    )
    (two, _, all_heads, full), (three, _, few_heads, fewer) = n.memory[1], n.memory[2]
    page.say(
        f"The numbers above the columns are tokens. {two} and {three} have as many layers and as many queries; "
        f"with {few_heads} key heads instead of {all_heads} the cache is {full[0] / fewer[0]:.0f} times smaller. This is the purpose of grouped queries."
    )

    page.step("Speed, measured on this machine")
    page.say(f"{LAYERS} layers of width {WIDTH} continue {BEFORE} tokens, on one core. The times differ from run to run, the counts do not:")
    page.table(
        [
            [row.tokens, *(format_count(row.tokens / s) for s in (row.seconds, row.seconds_cached)), f"{row.faster:.1f}x", f"{row.work / row.work_cached:.0f}x"]
            for row in n.timed
        ],
        ["new tokens", "a second, without", "with", "faster", "fewer multiplications"],
        left=0,
    )
    longest = n.timed[-1]
    page.say(
        f"For {longest.tokens} tokens the count predicts a factor of {longest.work / longest.work_cached:.0f}, the measured factor is {longest.faster:.1f}. "
        "A pass over one token still reads every weight from memory, for one use only, and still has the fixed costs of a pass."
    )
    if not n.same:
        page.say("During the timing the two ways wrote different texts, but they should not.")


def size(count: int) -> str:
    """Write a number of bytes in readable units: 36 MiB."""
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB".replace(".0 ", " ")


def draw(n: Numbers) -> str:
    """The counted cost of one more token, and the measured gain in time."""
    costs = {
        "without a cache": [(length, a) for length, a, _ in n.by_length],
        "with a cache": [(length, b) for length, _, b in n.by_length],
    }
    gains = {
        "fewer multiplications": [(row.tokens, row.work / row.work_cached) for row in n.timed],
        "faster, measured": [(row.tokens, row.faster) for row in n.timed],
    }
    return stack_pictures(
        [
            curves(costs, "Multiplications for the newest token", x_name="tokens in the text, with the newest", y_name="multiplications", log=True, dots=True),
            curves(gains, "A whole text: the gain", x_name="new tokens", y_name="times", log=True, dots=True),
        ],
        "What a KV cache saves",
    )
