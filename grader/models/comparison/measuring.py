"""Opens two checkpoints and measures both: loss on the same held-out texts, size, speed, and samples of the same
prompts and seeds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.course.status import short_path
from grader.course.syllabus import load_syllabus
from grader.files import UserProblem
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem, Loaded
from grader.models.comparison.scoring import HeldOut, Score, held_out_of, same_corpus, score
from grader.models.design import Design, DesignProblem
from grader.models.own_parts import (
    SAMPLING,
    OwnParts,
    explaining_crashes,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.play.engine import Engine, Piece
from grader.models.play.opening import CACHE
from grader.models.play.settings import Settings
from grader.models.tokenizers import ModelTokenizer
from grader.models.training import trainer
from grader.models.training.own_text import TextProblem
from grader.teaching.walks.progress_line import ProgressReporter

EVALUATING = ("is_validation", "next_token_pairs", "collate", "cross_entropy", "perplexity")
PROMPT_WORDS = 5  # of a held-out text
PROMPTS, SEEDS = 2, (0, 1)
SAMPLE_TOKENS = 50
RECORDED = {"corpus": dict, "history": dict, "parameters": int}  # what a record needs


class ComparisonProblem(UserProblem):
    """These two cannot be compared; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Sample:
    """What both models made of the same prompt with the same seed."""

    prompt: str
    seed: int
    texts: tuple[str, str]


@dataclass
class Measured:
    """One of the two models."""

    name: str
    loaded: Loaded
    parameters: int
    bytes: int
    active: int  # parameters that one token uses
    has_cache: bool
    score: Score
    unknown: int  # different words of the held-out text that its tokenizer does not have
    written: int = 0  # tokens
    seconds: float = 0.0  # of writing them

    @property
    def design(self) -> Design:
        return self.loaded.design

    @property
    def history(self) -> dict[str, Any]:
        return self.loaded.record["history"]


@dataclass
class Comparison:
    one: Measured
    other: Measured
    held_out: HeldOut
    same_tokenizer: bool  # in the sense of `_cut_alike`
    samples: list[Sample]
    sentences: list[str]  # whose parts ran

    @property
    def both(self) -> tuple[Measured, Measured]:
        return self.one, self.other


def check_pair(folders: Sequence[Path]) -> None:
    """CheckpointProblem or ComparisonProblem, before any part is tested."""
    data = [_read(folder) for folder in folders]
    if folders[0].resolve() == folders[1].resolve():
        raise ComparisonProblem(f"both names are the checkpoint {folders[0].name}; name two different ones")
    translator = next((f.name for f, each in zip(folders, data) if each["design"].get("kind") == "translate"), None)
    if translator:
        raise ComparisonProblem(f"{translator} is a translator; only models that continue texts can be compared")
    if not same_corpus(*(each["record"]["corpus"] for each in data)):
        raise ComparisonProblem(
            f"{folders[0].name} and {folders[1].name} were trained on different texts, so their losses "
            "cannot be compared"
        )


def compare(
    folders: Sequence[Path], prompts: Sequence[str], device: str, report_progress: ProgressReporter
) -> Comparison:
    """Measure both. CheckpointProblem, ComparisonProblem, PlayProblem, CodeProblem or NotInHandout with a sentence if
    that is not possible."""
    check_pair(folders)
    own = _find_parts([_read(folder) for folder in folders], report_progress)
    try:
        with (
            explaining_crashes(own.parts),
            report_progress("measuring both models", 3) as advance,
        ):
            torch.set_num_threads(trainer.default_threads())
            return _compare(folders, prompts, device, own, advance)
    finally:
        own.close()


def _compare(
    folders: Sequence[Path], prompts: Sequence[str], device: str, own: OwnParts, advance: Callable[[], None]
) -> Comparison:
    parts, here = own.parts, torch.device(device)
    both = [checkpoint.load(folder, parts) for folder in folders]
    engines = [Engine(loaded, parts, device=device) for loaded in both]
    advance()
    try:
        held_out = held_out_of(both[0].record["corpus"], parts)
    except TextProblem as problem:
        raise ComparisonProblem(f"there is no held-out text to measure on: {problem}") from None
    one, other = (
        _measure(name, engine, loaded, held_out, parts, here)
        for name, engine, loaded in zip(_names(folders), engines, both)
    )
    advance()
    samples = _take_samples(engines, (one, other), prompts, held_out)
    same_tokenizer = _cut_alike(both[0].tokenizer, both[1].tokenizer)
    return Comparison(one, other, held_out, same_tokenizer, samples, own.sentences())


def _cut_alike(one: ModelTokenizer, other: ModelTokenizer) -> bool:
    """Whether both cut every text into the same tokens. Only the case in which words are printed may differ."""
    if one.kind == other.kind == "words":
        return set(one.to_data()["vocab"]) == set(other.to_data()["vocab"])
    return one.fingerprint == other.fingerprint


def _read(folder: Path) -> dict[str, Any]:
    data = checkpoint.read_record(folder)
    if not all(isinstance(data["record"].get(name), kind) for name, kind in RECORDED.items()):
        raise CheckpointProblem(
            f"{folder.name} has no record of its training, so it cannot be compared; train it again"
        )
    return data


def _find_parts(data: Sequence[dict[str, Any]], report_progress: ProgressReporter) -> OwnParts:
    try:
        designs = [Design.from_data(each["design"]) for each in data]
    except DesignProblem as problem:
        raise CheckpointProblem(f"a checkpoint is damaged: {problem}") from None
    names = {name for design in designs for name in model_exercises(design)} | set(EVALUATING)
    names |= {name for each in data for name in tokenizer_exercises(each["tokenizer"].get("kind", ""))}
    here = {exercise.name for exercise in load_syllabus().exercises}  # a handout may leave chapters out
    return find_own_parts({*names, *SAMPLING, *here.intersection(CACHE)}, report_progress)


def _names(folders: Sequence[Path]) -> list[str]:
    """The names of the two checkpoints; their paths if they have one name."""
    names = [folder.name for folder in folders]
    return names if names[0] != names[1] else [short_path(folder) for folder in folders]


def _measure(
    name: str, engine: Engine, loaded: Loaded, held_out: HeldOut, parts: Any, device: torch.device
) -> Measured:
    parameters = list(loaded.model.parameters())
    count = sum(parameter.numel() for parameter in parameters)
    idle = sum(p.numel() for name, p in loaded.model.named_parameters() if name.startswith("further_heads."))
    if loaded.design.kind == "moe":
        experts = sum(parameter.numel() for name, parameter in loaded.model.named_parameters() if ".experts." in name)
        idle = experts * (loaded.design.n_experts - loaded.design.top_k) // loaded.design.n_experts
    scored = score(loaded, parts, held_out, device)
    if not math.isfinite(scored.loss):
        raise ComparisonProblem(
            f"the loss of {loaded.name} is not a number, so its training has failed; train it "
            "again with a smaller learning rate"
        )
    size = sum(p.numel() * p.element_size() for p in parameters)
    unknown = len(loaded.tokenizer.unknown_words(" ".join(held_out.texts)))
    return Measured(name, loaded, count, size, count - idle, engine.cached is not None, scored, unknown)


def _take_samples(
    engines: Sequence[Engine], measured: Sequence[Measured], prompts: Sequence[str], held_out: HeldOut
) -> list[Sample]:
    chosen = prompts or [" ".join(text.split()[:PROMPT_WORDS]) for text in held_out.texts[:PROMPTS]]
    for engine in engines:  # a model's first text is slower than the next ones
        _continuation(engine, chosen[0], 0, 3)
    return [Sample(prompt, seed, _in_turns(engines, measured, prompt, seed)) for prompt in chosen for seed in SEEDS]


def _in_turns(engines: Sequence[Engine], measured: Sequence[Measured], prompt: str, seed: int) -> tuple[str, str]:
    """What each writes. The models take turns, so that other work on the machine slows both down alike."""
    texts = []
    for engine, made in zip(engines, measured):
        began = time.perf_counter()
        text, count = _continuation(engine, prompt, seed, SAMPLE_TOKENS)
        made.seconds += time.perf_counter() - began
        made.written += count
        texts.append(text)
    return texts[0], texts[1]


def _continuation(engine: Engine, prompt: str, seed: int, length: int) -> tuple[str, int]:
    settings = Settings(seed=seed, length=length)
    ids = engine.read(prompt, length).ids
    written = [piece.id for piece in engine.write(ids, settings) if isinstance(piece, Piece)]
    return engine.text([*ids, *written]).strip(), len(written) + 1
