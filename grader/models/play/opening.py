"""Opens a model for play: finds the checkpoint or the folder of GPT-2, tests whose parts run in it, and loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from grader.console.output import ProgressReporter
from grader.course.syllabus import load_syllabus
from grader.models.checkpoint import CheckpointProblem, find_checkpoint, load, read_record
from grader.models.design import Design
from grader.models.gpt2 import VOCAB, load_folder
from grader.models.own_parts import (
    SAMPLING,
    OwnParts,
    describe_problem,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.play.engine import Engine, PlayProblem
from grader.teaching.walks.parts import NotInHandout

CACHE = ("KVCache", "CachedSelfAttention", "CachedGPT")
LOOKING = ("min_p_filter", "residual_stream", "logit_lens", "attention_patterns", "classify_head")
GPT2 = Design(activation="gelu_tanh")  # in what matters for its exercises


class Opener:
    """Opens models; those parts that are tested once are not tested again."""

    def __init__(self, with_cache: bool, device: str, report_progress: ProgressReporter) -> None:
        self.with_cache, self.device, self.report_progress = with_cache, device, report_progress
        self.own: list[OwnParts] = []

    def open_checkpoint(self, name: str | None) -> Engine:
        """The model of this checkpoint, or of the newest. CheckpointProblem with a sentence if that is not possible."""
        folder = find_checkpoint(name)
        data = read_record(folder)
        own = self._find_parts(Design.from_data(data["design"]), tokenizer_exercises(data["tokenizer"]["kind"]))
        return self._engine(own, lambda: load(folder, own.parts))

    def open_gpt2(self, folder: Path) -> Engine:
        """GPT-2's own weights in the learner's GPT."""
        if not folder.is_dir():
            load_folder(folder, None)  # says so, before any part is tested
        own = self._find_parts(GPT2, ("split_for_bpe", "load_gpt2"))
        return self._engine(own, lambda: load_folder(folder, own.parts))

    def open_other(self, name: str) -> Engine:
        """For /compare: a checkpoint, or a folder with GPT-2. PlayProblem with a sentence if that is not possible."""
        try:
            folder = Path(name).expanduser()
            return self.open_gpt2(folder) if (folder / VOCAB).is_file() else self.open_checkpoint(name)
        except (CheckpointProblem, NotInHandout) as problem:
            raise PlayProblem(str(problem)) from problem

    def close(self) -> None:
        for own in self.own:
            own.close()

    def _find_parts(self, design: Design, tokenizer: Iterable[str]) -> OwnParts:
        optional = (*LOOKING, *([*CACHE] if self.with_cache else [])) if design.is_plain_gpt else ("min_p_filter",)
        here = {exercise.name for exercise in load_syllabus().exercises}  # a handout may leave chapters out
        sampling = ("translate",) if design.kind == "translate" else SAMPLING
        needed = {*model_exercises(design), *tokenizer, *sampling, *here.intersection(optional)}
        own = find_own_parts(needed, self.report_progress)
        self.own.append(own)
        return own

    def _engine(self, own: OwnParts, load_model: Callable) -> Engine:
        try:
            return Engine(load_model(), own.parts, self.with_cache, self.device)
        except (CheckpointProblem, KeyboardInterrupt):
            raise
        except Exception as problem:
            raise CheckpointProblem(f"the model cannot be loaded: {describe_problem(problem, own.parts)}") from problem
