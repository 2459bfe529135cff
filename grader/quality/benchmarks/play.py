"""play: tokens a second of `headway play`, with the KV cache and without it, at several lengths.

The model is untrained, which makes no difference to the time; RoPE lets it write beyond its table. Both write the same text
with the same seed, which is checked. They take turns, so that other work on the machine slows both down alike.
"""

from __future__ import annotations

from pathlib import Path

import torch
from grader.models.checkpoint import Loaded
from grader.models.design import PRESETS, build_model, preset
from grader.models.own_parts import SAMPLING, WORDS, model_exercises
from grader.models.play.engine import Engine, Piece
from grader.models.play.opening import CACHE
from grader.models.play.settings import Settings
from grader.models.stories.corpus import story
from grader.models.tokenizers import WordModelTokenizer
from grader.quality.benchmarks.figures import (
    CLOCKS,
    format_seconds,
    machine,
    median_or_nan,
    model_options,
    print_figure,
    table,
)  # fmt: skip
from grader.teaching.walks.parts import Parts

LENGTHS = (16, 64, 256, 512)
PROMPT = "Once upon a time there was a girl"
VOCABULARY_STORIES = 1000


def measure(size: str, lengths: list[int], runs: int, clock_name: str) -> int:
    design, clock = preset(size, positions="rope"), CLOCKS[clock_name]
    parts = Parts((*WORDS, *model_exercises(design), *SAMPLING, *CACHE), ())
    torch.manual_seed(0)
    tokenizer = WordModelTokenizer.of_texts(parts, (story(0, number) for number in range(VOCABULARY_STORIES)))
    loaded = Loaded(build_model(parts, design, tokenizer.vocab_size).eval(), tokenizer, design, {}, Path(size))
    engines = [Engine(loaded, parts, with_cache=with_cache) for with_cache in (True, False)]
    count = sum(parameter.numel() for parameter in loaded.model.parameters())
    print(f"play: {machine()}\n{size}: {count:,} parameters, float32; medians of {runs} texts, {clock_name} time\n", flush=True)
    rows = []
    for engine in engines:
        _write(engine, 8)  # first uses are slower
    for length in lengths:
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(runs):
            texts = []
            for took, engine in zip(seconds, engines):
                began = clock()
                texts.append(_write(engine, length))
                took.append(clock() - began)
            if texts[0] != texts[1]:
                print("play: the text with the cache differs from the one without it, so their times cannot be compared")
                return 1
        cached, plain = map(median_or_nan, seconds)
        times = [format_seconds(plain), format_seconds(cached)]
        rows.append([f"{length:,}", *times, f"{length / plain:,.0f}", f"{length / cached:,.0f}", f"{plain / cached:.1f}"])
    heads = ["new tokens", "without cache", "with cache", "tokens a second without", "with", "times as fast"]
    print(table(heads, rows, words=0) + "\n")
    lengths_, rates, ratios = (", ".join(row[column] for row in rows) for column in (0, 4, 5))
    print_figure(
        f"`headway play` with the {size} model writes {lengths_} tokens at {rates} a second with the KV cache, "
        f"{ratios} times as fast as without ({clock_name} time)."
    )
    parts.close()
    return 0


def _write(engine: Engine, length: int) -> list[int]:
    engine.tokenizer.end_id = None  # an untrained model may end its text at once
    ids = engine.read(PROMPT, length).ids
    return [piece.id for piece in engine.write(ids, Settings(length=length)) if isinstance(piece, Piece)]


def run(arguments: list[str]) -> int:
    parser = model_options("play", __doc__ or "", tuple(PRESETS))
    parser.add_argument("--tokens", type=int, nargs="+", default=list(LENGTHS), metavar="N", help="lengths of text")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="how often each is written (3)")
    options, before = parser.parse_args(arguments), torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        return measure(options.preset, sorted(options.tokens), max(1, options.runs), options.clock)
    finally:
        torch.set_num_threads(before)
