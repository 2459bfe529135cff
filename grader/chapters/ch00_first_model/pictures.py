"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

from grader.chapters.ch00_first_model.show import TEXT, TOKENS
from grader.teaching.drawing import heatmap


def ch00_first_model(chapter: ModuleType) -> str:
    counts = chapter.count_bigrams(TEXT, len(TOKENS))
    title = "How probable each next token is"
    table = chapter.bigram_probabilities(counts, 0.0)
    return heatmap(table, TOKENS, TOKENS, title, row_name="this token", column_name="next token")
