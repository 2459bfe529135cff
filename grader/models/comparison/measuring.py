"""Opens two checkpoints and measures both: loss on the same held-out texts, size, speed, and samples of the same
prompts and seeds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.course.status import short_path
from grader.course.syllabus import load_syllabus
from grader.files import UserProblem
from grader.models import checkpoint
from grader.models.checkpoint import MEASURED, Loaded
from grader.models.design import Design
from grader.models.own_parts import (
    SAMPLING,
    OwnParts,
    explaining_crashes,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.play.engine import Engine, Piece, Settings
from grader.models.play.opening import CACHE
from grader.models.tokenizers import ModelTokenizer
from grader.models.training import trainer
from grader.models.training.corpora import (
    STORIES,
    TextProblem,
    collate_by_length,
    count_targets,
    divide,
    encode_paragraphs,
    fingerprint_of_text,
    held_out_stories,
    read_paragraphs,
    story_windows,
)
from grader.teaching.walks.parts import hidden_prints

MOST_CHARACTERS = 24_000  # of a held-out text; more would only take longer
BATCH_ROWS = 16


@dataclass(frozen=True)
class HeldOut:
    """Texts that a training on this corpus does not read."""

    name: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """The loss of one model on the held-out text."""

    loss: float  # nats a token, the mean
    tokens: int
    characters: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def bits_per_character(self) -> float:
        """The loss in a unit that does not depend on the tokenizer."""
        return self.loss * self.tokens / self.characters / math.log(2)


def same_corpus(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two trainings read the same text. A story is held out by its text, so the seed makes no difference."""
    return one["kind"] == other["kind"] and one.get("fingerprint") == other.get("fingerprint")


def held_out_of(corpus: dict[str, Any], parts: Any) -> HeldOut:
    """The held-out texts of the corpus that a record describes. TextProblem if its file is gone or has changed."""
    if corpus["kind"] == STORIES:
        stories = held_out_stories(parts, corpus["seed"])
        return HeldOut(f"{len(stories)} held-out stories", tuple(stories))
    path = Path(corpus["path"])
    paragraphs, _ = read_paragraphs(path)
    if fingerprint_of_text(paragraphs) != corpus["fingerprint"]:
        raise TextProblem(f"{path} has changed since the training")
    chosen: list[str] = []
    for paragraph in divide(paragraphs, parts.is_validation)[1]:
        if chosen and sum(map(len, chosen)) + len(paragraph) > MOST_CHARACTERS:
            break
        chosen.append(paragraph)
    return HeldOut(f"the held-out part of {path.name}", tuple(chosen))


def score(loaded: Loaded, parts: Any, held_out: HeldOut, device: torch.device) -> Score:
    """The mean loss of the next token, measured with the learner's `perplexity`. The model reads each text as it read
    those of its training."""
    with hidden_prints():
        if loaded.record["corpus"]["kind"] == STORIES:
            windows = story_windows(parts, loaded.tokenizer, held_out.texts, loaded.design.max_len)
        else:
            windows = parts.next_token_pairs(encode_paragraphs(loaded.tokenizer, held_out.texts), loaded.design.max_len)
        collated = collate_by_length(parts, windows, -(-len(windows) // BATCH_ROWS))
        batches = [(inputs.to(device), targets.to(device)) for inputs, targets in collated]
        loss = math.log(parts.perplexity(loaded.model, batches))
    return Score(loss, count_targets(batches), sum(map(len, held_out.texts)))


EVALUATING = ("is_validation", "next_token_pairs", "collate", "cross_entropy", "perplexity")
PROMPT_WORDS = 5  # of a held-out text
PROMPTS, SEEDS = 2, (0, 1)
SAMPLE_TOKENS = 50


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
    return checkpoint.read_record(folder, MEASURED)


def _find_parts(data: Sequence[dict[str, Any]], report_progress: ProgressReporter) -> OwnParts:
    designs = [Design.from_data(each["design"]) for each in data]
    names = {name for design in designs for name in model_exercises(design)} | set(EVALUATING)
    names |= {name for each in data for name in tokenizer_exercises(each["tokenizer"]["kind"])}
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
