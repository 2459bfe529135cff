"""Opens a model for play: finds the checkpoint or the folder of GPT-2, tests whose parts run in it, and loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from grader.course.syllabus import load_syllabus
from grader.models.checkpoint import CheckpointProblem, Loaded, find_checkpoint, load, read_record
from grader.models.design import Design, DesignProblem
from grader.models.gpt2 import load_folder
from grader.models.own_parts import (
    SAMPLING,
    OwnParts,
    closing_after_failure,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.play.engine import Engine
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter

CACHE = ("KVCache", "CachedSelfAttention", "CachedGPT")
LOOKING = ("min_p_filter", "residual_stream", "logit_lens", "attention_patterns", "classify_head")
GPT2 = Design(activation="gelu_tanh")  # in what matters for its exercises

Opened = tuple[Engine, OwnParts]


def open_checkpoint(name: str | None, with_cache: bool, report_progress: ProgressReporter) -> Opened:
    """The model of this checkpoint, or of the newest. CheckpointProblem with a sentence if that is not possible."""
    folder = find_checkpoint(name)
    data = read_record(folder)
    try:
        design = Design.from_data(data["design"])
    except DesignProblem as problem:
        raise CheckpointProblem(f"{folder.name} is damaged: {problem}") from None
    tokenizer = tokenizer_exercises(data["tokenizer"].get("kind", ""))
    return _open(design, tokenizer, with_cache, report_progress, lambda parts: load(folder, parts))


def open_gpt2(folder: Path, with_cache: bool, report_progress: ProgressReporter) -> Opened:
    """GPT-2's own weights in the learner's GPT."""
    if not folder.is_dir():
        load_folder(folder, None)  # says so, before any part is tested
    needed = ("split_for_bpe", "load_gpt2")
    return _open(GPT2, needed, with_cache, report_progress, lambda parts: load_folder(folder, parts))


def _open(
    design: Design,
    more_exercises: Iterable[str],
    with_cache: bool,
    report_progress: ProgressReporter,
    load_model: Callable[[Parts], Loaded],
) -> Opened:
    is_plain_gpt = design.kind == "gpt" and design.norm == "pre"
    optional = (*LOOKING, *(CACHE if with_cache else ())) if is_plain_gpt else ("min_p_filter",)
    here = {exercise.name for exercise in load_syllabus().exercises}  # a handout may leave chapters out
    sampling = ("translate",) if design.kind == "translate" else SAMPLING
    needed = {*model_exercises(design), *more_exercises, *sampling, *here.intersection(optional)}
    own = find_own_parts(needed, report_progress)
    with closing_after_failure(own):
        return Engine(load_model(own.parts), own.parts, with_cache), own
