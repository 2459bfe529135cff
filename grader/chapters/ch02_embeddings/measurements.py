"""How long the vectors of tokens and positions are, before any training."""

from __future__ import annotations

import torch
from grader.chapters.small_models import scaled_normal_
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table


@torch.no_grad()
def report_embeddings(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 2: the lengths of token and position vectors, and dot products of position vectors at some distances."""
    width, tokens, starts, distances = 512, 1_000, (100, 1500), (0, 1, 2, 10, 100)
    embeddings = chapters.module("ch02_embeddings")
    torch.manual_seed(seed)
    lengths = []
    for scale in (False, True):
        table = embeddings.TokenEmbedding(tokens, width, scale=scale)
        scaled_normal_(table)
        lengths.append(table(torch.arange(tokens)[None]).norm(dim=-1).mean())
    positions = embeddings.sinusoidal_positions(max(starts) + max(distances) + 1, width)
    names = ("token vector, unscaled", "position vector", f"token vector times √{width}")
    found = (lengths[0], positions.norm(dim=-1).mean(), lengths[1])
    rows = [[name, float(length)] for name, length in zip(names, found)]
    yield result_table(f"mean length, d_model = {width}", ("", "length"), rows, ".1f")
    columns = ("distance k", *(f"rows {start} and {start} + k" for start in starts))
    rows = [[f"{k}", *(float(positions[start] @ positions[start + k]) for start in starts)] for k in distances]
    yield result_table(f"dot products of position vectors, d_model = {width}", columns, rows, ".1f")
