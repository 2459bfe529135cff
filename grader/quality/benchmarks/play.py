"""play: tokens a second of `headway play`, with the KV cache and without it, at several lengths.

The model is untrained, which makes no difference to the time; RoPE lets it write beyond its table. Both write the same text with the same
seed, which is checked. They take turns, so that other work on the machine slows both down alike. With `--clock processor`, the times are
processor time, which depends less on other work.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
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
from grader.models.training.trainer import default_threads
from grader.quality.benchmarks.figures import format_seconds, machine, median_or_nan, print_figure, table
from grader.teaching.walks.parts import Parts

LENGTHS = (16, 64, 256, 512)
PROMPT = "Once upon a time there was a girl"
VOCABULARY = 1000  # stories that the tokenizer is made of
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
Clock = Callable[[], float]


def measure(size: str, lengths: tuple[int, ...], runs: int, threads: int, clock: Clock) -> int:
    design = preset(size, positions="rope")
    parts = Parts((*WORDS, *model_exercises(design), *SAMPLING, *CACHE), ())
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    tokenizer = WordModelTokenizer.of_texts(parts, (story(0, number) for number in range(VOCABULARY)))
    loaded = Loaded(build_model(parts, design, tokenizer.vocab_size).eval(), tokenizer, design, {}, Path(size))
    engines = [Engine(loaded, parts, with_cache=with_cache) for with_cache in (True, False)]
    count = sum(parameter.numel() for parameter in loaded.model.parameters())
    print(f"play: {machine()}\n{size}: {count:,} parameters, float32, {threads} threads, {'processor' if clock is time.process_time else 'wall'} time", flush=True)
    print(f"medians of {runs} texts; the prompt has {len(engines[0].read(PROMPT, 1).ids)} tokens\n", flush=True)
    rows, faster = [], []
    for engine in engines:
        _write(engine, 8)
    for length in lengths:
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(runs):
            texts = []
            for took, engine in zip(seconds, engines):
                began = clock()
                texts.append(_write(engine, length))
                took.append(clock() - began)
            if texts[0] != texts[1]:
                print("play: the text with the cache differs from the text without it, so their times cannot be compared")
                return 1
        cached, plain = map(median_or_nan, seconds)
        faster.append(plain / cached)
        rows.append([f"{length:,}", format_seconds(plain), format_seconds(cached), f"{length / plain:,.0f}", f"{length / cached:,.0f}", f"{plain / cached:.1f}"])
    print(table(["new tokens", "without cache", "with cache", "tokens a second without", "with", "ratio"], rows, words=0) + "\n")
    sizes, rates, times = _listed([row[0] for row in rows]), _listed([row[4] for row in rows]), _listed([f"{each:.1f}" for each in faster])
    second = "second of processor time" if clock is time.process_time else "second"
    print_figure(f"`headway play` with the {size} model writes {sizes} tokens at {rates} a {second} with the KV cache, {times} times as fast as without.")
    parts.close()
    return 0


def _write(engine: Engine, length: int) -> list[int]:
    engine.tokenizer.end_id = None  # an untrained model may end its text at once
    ids = engine.read(PROMPT, length).ids
    return [piece.id for piece in engine.write(ids, Settings(length=length)) if isinstance(piece, Piece)]


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks play", description=__doc__.partition("\n")[0])
    parser.add_argument("--preset", choices=tuple(PRESETS), default="tiny", help="the size of the model (tiny)")
    parser.add_argument("--tokens", type=int, nargs="+", default=list(LENGTHS), metavar="N", help=f"lengths of text ({' '.join(map(str, LENGTHS))})")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="how often each is written (3)")
    parser.add_argument("--threads", type=int, default=default_threads(), metavar="N", help="threads of torch (as many as processors, or OMP_NUM_THREADS)")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="wall time, or processor time, for a busy machine (wall)")
    options = parser.parse_args(arguments)
    before = torch.get_num_threads()
    try:
        lengths = tuple(sorted(max(1, number) for number in options.tokens))
        return measure(options.preset, lengths, max(1, options.runs), max(1, options.threads), CLOCKS[options.clock])
    finally:
        torch.set_num_threads(before)
