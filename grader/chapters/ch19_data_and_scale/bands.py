"""Pairs of texts whose similarity is known: how many of them do bands find?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from grader.chapters.stories.corpus import story
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

UNION_SHINGLES = 40  # of a pair together
SIGNATURE_NUMBERS = 64
BANDS = (4, 8, 16, 32)
SIMILARITIES = tuple(i / 10 for i in range(1, 10))
NEAR_DUPLICATE_SHARE = 0.3  # two stories that share so much are near-duplicates in the second table


def make_pair(name: str, similarity: float) -> tuple[set[str], set[str]]:
    """Two sets with this Jaccard similarity, and together UNION shingles that no other pair has."""
    words = [f"{name} {i}" for i in range(UNION_SHINGLES)]
    shared = round(similarity * UNION_SHINGLES)
    middle = shared + (UNION_SHINGLES - shared) // 2
    return set(words[:middle]), {*words[:shared], *words[middle:]}


def share_expected(similarity: float, bands: int) -> float:
    return 1 - (1 - similarity ** (SIGNATURE_NUMBERS // bands)) ** bands


def shares_found(chapter: Any, similarity: float, pairs: int, seed: int) -> list[float]:
    """The share of new pairs of this similarity that are candidates, for each number of bands."""
    seeds = range(SIGNATURE_NUMBERS * seed, SIGNATURE_NUMBERS * (seed + 1))
    both = [make_pair(f"{similarity} {number}", similarity) for number in range(pairs)]
    signatures = [[chapter.minhash(one, seeds) for one in pair] for pair in both]
    return [sum(bool(chapter.candidate_pairs(pair, bands)) for pair in signatures) / pairs for bands in BANDS]


def report_data_bands(
    chapters: ChapterPackage, seed: int, *, pairs: int = 200, stories: int = 400
) -> Iterator[Table | str]:
    """Lesson 19: the share of similar pairs that bands find, beside 1 - (1 - s^r)^b, and what that means for stories.

    A signature has 64 numbers. Each pair is made so that its Jaccard similarity s is exactly as the row says. For the
    stories, the exact similarity of all pairs is computed too.
    """
    chapter = chapters.module("ch19_data_and_scale")
    rows = []
    with show_progress("finding pairs", len(SIMILARITIES)) as step:
        for similarity in SIMILARITIES:
            found = shares_found(chapter, similarity, pairs, seed)
            expected = [share_expected(similarity, bands) for bands in BANDS]
            rows.append([f"{similarity:.1f}", *(f"{a:.0%} / {b:.0%}" for a, b in zip(found, expected))])
            step()
    columns = [f"{bands} bands of {SIGNATURE_NUMBERS // bands}" for bands in BANDS]
    yield result_table(f"Found of {pairs} pairs / expected", ("similarity", *columns), rows)
    yield _of_stories(chapter, [chapter.shingles(story(seed, i), 3) for i in range(stories)], seed)


def _of_stories(chapter: Any, sets: Sequence[set[str]], seed: int) -> Table:
    every = list(combinations(range(len(sets)), 2))
    alike = {(i, j) for i, j in every if chapter.jaccard(sets[i], sets[j]) >= NEAR_DUPLICATE_SHARE}
    signatures = [chapter.minhash(one, range(SIGNATURE_NUMBERS * seed, SIGNATURE_NUMBERS * (seed + 1))) for one in sets]
    rows = []
    for bands in BANDS:
        candidates = set(chapter.candidate_pairs(signatures, bands))
        compared = f"{len(candidates) / len(every):.2%}"
        rows.append([f"{bands}", f"{len(candidates):,}", compared, f"{len(candidates & alike)} of {len(alike)}"])
    columns = ("bands", "candidates", "of all pairs", f"found, similarity {NEAR_DUPLICATE_SHARE:g} and more")
    return result_table(f"{len(sets)} stories, {len(every):,} pairs", columns, rows)
