"""Which parts of a model are the learner's own code, and where that code raised an exception."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from grader.chapters.small_models import ATTENDING
from grader.console.output import ProgressReporter
from grader.course.syllabus import load_syllabus
from grader.execution.errors import Where, message_of, printable
from grader.files import UserProblem
from grader.models.design import Design
from grader.teaching.walks.parts import (
    MAX_LISTED_NAMES,
    ExerciseStatus,
    MixedChapters,
    NotInHandout,
    find_status,
    list_names,
)

WORDS = ("build_vocab", "WordTokenizer")
BPE = ("count_pairs", "merge_pair", "train_bpe", "BPETokenizer")
BLOCK = ("dropout", "LayerNorm", "FeedForward")
TRAINING = (
    "next_token_pairs", "collate", "cross_entropy", "clip_gradients", "accumulated_step", "warmup_cosine", "AdamW",
    "is_validation",
    "perplexity", "judge_fit", "count_parameters",
)  # fmt: skip
SAMPLING = ("apply_temperature", "top_k_filter", "top_p_filter", "sample_next_token", "generate")


def tokenizer_exercises(kind: str) -> tuple[str, ...]:
    return {"words": WORDS, "bpe": BPE}.get(kind, ())


def model_exercises(design: Design) -> tuple[str, ...]:
    """The exercises whose code a model of this design runs."""
    positions = {
        "learned": ("LearnedPositions",),
        "sinusoidal": ("sinusoidal_positions", "SinusoidalPositions"),
        "rope": ("rope_angles", "apply_rope"),
        "alibi": ("alibi_slopes", "alibi_bias"),
    }[design.positions]
    common = ("TokenEmbedding", *positions, *ATTENDING, *BLOCK)
    if design.kind == "translate":
        return (*common, "padding_mask", "MultiHeadAttention", "EncoderBlock", "DecoderBlock", "Seq2Seq")
    if design.kind == "moe":
        return (*common, "CausalSelfAttention", "gelu", "route", "load_balancing_loss", "MoELayer", "MoEBlock")
    bent = () if design.activation == "relu" else ("gelu",)
    modern = {
        "plain": (),
        "qk_norm": ("RMSNorm", "QKNormAttention"),
        "latent": ("RMSNorm", "rope_angles", "apply_rope", "LatentAttention"),
        "sink": ("attention_with_sink",),
        "gated": ("gated_attention",),
    }[design.attention]
    cap = () if design.soft_cap is None else ("soft_cap",)
    norms = ("PreNormBlock", "PostNormBlock") if design.norm == "post" else ("PreNormBlock",)
    return (*common, "CausalSelfAttention", *bent, *norms, *modern, *cap, "GPT")


@dataclass
class OwnParts:
    """The mixed chapters, and what to say about them."""

    parts: MixedChapters
    status: ExerciseStatus = field(default_factory=ExerciseStatus)

    @property
    def learner(self) -> list[str]:
        """The exercises that run with the learner's code, in the order of the course."""
        return _in_course_order(self.parts.from_learner)

    @property
    def reference(self) -> list[str]:
        return _in_course_order(self.parts.from_reference)

    def sentences(self) -> list[str]:
        """Whose code runs: one sentence or two, and one for each chapter that cannot be used."""
        said = self.status.sentences_about(self.learner, self.reference)
        return said + [
            f"{why.removesuffix('.')}. So its parts are the reference's." for why in self.parts.broken.values()
        ]

    def to_data(self) -> dict[str, list[str]]:
        return {"learner": self.learner, "reference": self.reference}

    def close(self) -> None:
        self.parts.close()


def find_own_parts(exercises: Iterable[str], report_progress: ProgressReporter) -> OwnParts:
    """Test what the learner has written of these exercises, and mix it with the reference. NotInHandout if the handout
    lacks one of them."""
    names = _in_course_order(exercises)
    missing = sorted(set(exercises) - set(names))
    if missing:
        raise NotInHandout(
            f"this needs {list_names(missing, MAX_LISTED_NAMES)}, which "
            f"{'are' if len(missing) > 1 else 'is'} not in this handout"
        )
    status = find_status(names, report_progress)
    return OwnParts(MixedChapters(names, status.passed), status)


def find_crash(problem: BaseException, parts: MixedChapters) -> str | None:
    """What the learner's code raised and at which of their lines, without a period; None if the exception passed
    through no line of theirs."""
    texts = parts.learner_texts
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename in texts]
    if not frames:
        return None
    last = frames[-1]
    line = last.lineno or 0
    code = "".join(texts[last.filename].splitlines()[line - 1 : line]).strip()[:160]
    where = Where(last.filename.replace("\\", "/").rpartition("/")[2], line, code)
    name = parts.find_raising_exercise(problem)
    return f"your {name or last.name} raised {_what_was_raised(problem).removesuffix('.')} ({where})"


def _what_was_raised(problem: BaseException) -> str:
    what = printable(message_of(problem), 300).strip().split("\n")[0]
    return type(problem).__name__ + (f": {what}" if what else "")


def _in_course_order(names: Iterable[str]) -> list[str]:
    wanted = set(names)
    return [exercise.name for exercise in load_syllabus().exercises if exercise.name in wanted]


def describe_problem(problem: BaseException, parts: MixedChapters) -> str:
    """One sentence for an exception while a model runs, without its period: the learner's line if it is theirs."""
    return find_crash(problem, parts) or _what_was_raised(problem)


class CodeProblem(UserProblem):
    """The learner's code, or the machine's memory, ended the work; the message is a sentence."""

    exit_status = 1


@contextlib.contextmanager
def explaining_crashes(parts: MixedChapters, *sentences: type[Exception]) -> Iterator[None]:
    """Turn an exception of the learner's code into a CodeProblem. A UserProblem has a message for the user already and
    passes; so do the types `sentences`.

    Without any code of the learner's, an exception is a mistake of the kit and passes too.
    """
    try:
        yield
    except (Exception, SystemExit) as problem:
        if isinstance(problem, (UserProblem, *sentences)):
            raise
        if is_out_of_memory(problem):
            raise CodeProblem("there is not enough memory for this model; choose a smaller one") from None
        if crash := find_crash(problem, parts):
            raise CodeProblem(crash) from problem
        if isinstance(problem, ImportError):
            raise CodeProblem(
                f"a package that this needs is missing or does not work: {problem}; `headway doctor` "
                "checks the installation"
            ) from problem
        if parts.from_learner:
            raise CodeProblem(
                f"your code passes its tests, but does not work here: {describe_problem(problem, parts)}"
            ) from problem
        raise


@contextlib.contextmanager
def closing_after_failure(own: OwnParts) -> Iterator[None]:
    """Explain crashes; after any exception, close the parts."""
    try:
        with explaining_crashes(own.parts):
            yield
    except BaseException:
        own.close()
        raise


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an allocation failed: Python's, torch's on the CPU, or on a GPU."""
    return isinstance(problem, MemoryError) or (
        isinstance(problem, RuntimeError)
        and ("out of memory" in str(problem) or "can't allocate memory" in str(problem))
    )
