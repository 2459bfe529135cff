"""What a head is worth: the loss with zeros in its place, and with its mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from grader.chapters.ch23_features.small_model import mean_loss, train_stories
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table


def report_features_ablation(chapters: ChapterPackage, seed: int, *, steps: int = 300) -> Iterator[Table | str]:
    """Lesson 23: the held-out loss of a small GPT of stories without each of its heads, by both kinds of ablation.

    With "zero", the head's features are 0; with "mean", they are their mean over all positions of the texts. These are
    the held-out texts of the commonest length: padding must not count in a mean.
    """
    with show_progress("training", steps) as step:
        small = train_stories(chapters, seed, steps, step)
    [(length, _)] = Counter(len(text.ids) for text in small.held_out).most_common(1)
    texts = [text for text in small.held_out if len(text.ids) == length]
    whole = mean_loss(small, texts)
    yield f"The loss of the whole model on {len(texts)} texts of {length} tokens is {whole:.3f}."
    rows = []
    for layer, block in enumerate(small.model.blocks):  # type: ignore[arg-type]
        for head in range(block.attn.n_heads):
            losses = []
            for kind in ("zero", "mean"):
                with small.parts.ablate_head(small.model, layer, head, kind):
                    losses.append(mean_loss(small, texts) - whole)
            rows.append([f"layer {layer}, head {head}", *(f"{loss:.3f}" for loss in losses)])
    yield result_table("How much higher the loss is without a head", ("", "zero", "mean"), rows)
