"""course: measures what the lessons call fast. Today that is the KV cache: writing a text with it, compared with writing the same text without it.

It gives the table of lesson 10, on one thread; `headway measure cache` computes the whole table, with work and memory.
"""

from __future__ import annotations

import argparse

from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.quality.benchmarks.figures import format_seconds, machine, print_figure, table
from grader.teaching.measurements import cache


def measure(tokens: tuple[int, ...], runs: int) -> int:
    print(f"course: {machine()}\nmedians of {runs}, on one thread; the longest text is written once without the cache\n", flush=True)
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch10"), whole=True), "measured")
    chapter, sampling, models = (package.module(name) for name in ("ch10_kv_cache", "ch09_sampling", "ch07_models"))
    config = models.GPTConfig(cache.VOCABULARY, cache.PROMPT + max(tokens), d_model=cache.WIDTH, n_heads=cache.HEADS, n_layers=cache.LAYERS)
    with cache.use_threads(1):
        rows, same = cache.measure(chapter, sampling.generate, config, cache.PROMPT, tokens, runs)
    if not same:
        print("course: the text with the cache differs from the text without it, so their times cannot be compared")
        return 1
    cells = [
        [f"{row.tokens:,}", format_seconds(row.seconds), format_seconds(row.seconds_cached), f"{row.faster:.0f}", f"{row.work / row.work_cached:.0f}"]
        for row in rows
    ]
    print(table(["new tokens", "without cache", "with cache", "times", "by multiply-adds"], cells, words=0) + "\n")
    times, lengths = (_listed([f"{number:,.0f}" for number in numbers]) for numbers in ([row.faster for row in rows], tokens))
    print_figure(f"With the KV cache, writing {lengths} new tokens after a prompt of {cache.PROMPT} is {times} times as fast as without.")
    return 0


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks course", description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=list(cache.TOKENS), metavar="N", help="lengths of text (16 64 256 1024)")
    parser.add_argument("--runs", type=int, default=cache.RUNS, metavar="N", help="how often each is measured (3)")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    options = parsed(arguments)
    return measure(tuple(sorted(max(1, number) for number in options.tokens)), max(1, options.runs))
