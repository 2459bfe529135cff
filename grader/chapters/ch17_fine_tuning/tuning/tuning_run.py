"""One tuning from its first step to its last: evaluations, two phases of training, the page, checkpoints, Control-C.

First one step of training on right answers, and one of training on rewards.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from grader.chapters.ch17_fine_tuning.tuning import adapters as adapter_file
from grader.chapters.ch17_fine_tuning.tuning.adapters import add_adapters, fill, values_of
from grader.chapters.ch17_fine_tuning.tuning.base import (
    Base,
    answer_log_probs,
    draw_answers,
    open_base,
    read_rows,
    shared_length,
)
from grader.chapters.ch17_fine_tuning.tuning.evaluation import (
    FEWEST_QUESTIONS,
    Evaluation,
    evaluate,
    held_out_questions,
)
from grader.chapters.ch17_fine_tuning.tuning.tasks import TASKS, Question, Task, TuneProblem, questions
from grader.chapters.ch17_fine_tuning.tuning.tuning_progress import (
    ANSWERS,
    DRAWING_SHARE,
    MINUTES_BY_BASE,
    MORE,
    REWARDS,
    TESTS,
    Progress,
    View,
    command,
    describe_minutes,
)
from grader.chapters.interruptible_run import Interrupted, restore_optimizer, saving, take_steps
from grader.chapters.run_file import Values
from grader.console.output import ProgressReporter
from grader.models import checkpoint
from grader.models.own_parts import OwnParts, closing_after_failure
from grader.models.training.live_page import Page
from grader.models.training.trainer import ClippingOptimizer, NotANumber, prepare_torch, read_state
from grader.models.training.training_run import new_folder
from grader.teaching.walks.parts import hidden_prints
from torch import Tensor, nn

BATCH_ROWS = 16
WARMUP_STEPS = 5
MAX_NORM = 1.0
CLIP, KL_WEIGHT = 0.2, 0.05
TEMPERATURE = 1.0


def make_optimizer(base: Base, adapters: dict[str, nn.Parameter]) -> ClippingOptimizer:
    parameters = list(adapters.values())
    optimizer = base.parts.AdamW(parameters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)
    return ClippingOptimizer(optimizer, parameters, base.parts.clip_gradients, MAX_NORM)


def _set_rate(optimizer: ClippingOptimizer, peak: float, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = peak * min((step + 1) / WARMUP_STEPS, 1.0)


class _Rows(nn.Module):
    """The model as accumulated_step calls it: ids (B, T) -> logits of the positions that the rows do not share."""

    def __init__(self, base: Base) -> None:
        super().__init__()
        self.base, self.model = base, base.model

    def forward(self, ids: Tensor) -> Tensor:
        return read_rows(self.base.reader, ids)[1]


def step_on_answers(base: Base, task: Task, optimizer: ClippingOptimizer, seed: int, step: int) -> float:
    """Train on a batch of right answers; return the loss from before the update."""
    asked = questions(task, base.parts, f"{seed} answers {step}", held_out=False)
    rows, targets = [], []
    for _, question in zip(range(BATCH_ROWS), asked):
        prompt = base.prompt_ids(question.prompt)
        answer = [*base.answer_ids(question.answer), base.end_id]
        rows.append(prompt + answer)
        targets.append(base.parts.answer_labels(rows[-1], [(len(prompt), len(prompt) + len(answer))]))
    length = max(map(len, rows))  # a short row is filled up behind its end, where nothing is trained
    ids = torch.tensor([row + [base.end_id] * (length - len(row)) for row in rows])[:, :-1]
    labels = torch.tensor([row + [-100] * (length - 1 - len(row)) for row in targets])
    labels = labels[:, shared_length(ids) :]
    _set_rate(optimizer, task.answers_rate, step)
    loss = float(base.parts.accumulated_step(_Rows(base), optimizer, [(ids, labels)]))
    base.model.eval()
    return _checked(loss, "loss", step)


def step_on_rewards(
    base: Base, task: Task, adapters: dict[str, nn.Parameter], start: Values, optimizer: ClippingOptimizer, seed: int,
    step: int, n_prompts: int, stopped: Callable[[int], bool] = lambda ended: False,
) -> tuple[float, float] | None:  # fmt: skip
    """Draw answers, grade them, and make better ones likelier; return the mean reward, and the mean KL from `start`.
    None, and nothing changes, if drawing was stopped.

    Where all answers to a question have the same reward, there is nothing to learn: the update leaves them out.
    """
    parts, asked = base.parts, same_length_batch(base, task, f"{seed} rewards {step}", n_prompts)
    prompts = torch.tensor([base.prompt_ids(question.prompt) for question in asked])
    generator = torch.Generator().manual_seed(random.Random(f"{seed} draws {step}").getrandbits(40))
    drawn = draw_answers(base, prompts, task.group, task.most_tokens, TEMPERATURE, generator, stopped)
    if not drawn.are_whole(task.most_tokens):
        return None
    graded = zip([one for one in asked for _ in range(task.group)], drawn.texts(base.decode), drawn.ended)
    rewards = torch.tensor([task.grade(parts, question, text, ended) for question, text, ended in graded])
    advantages = parts.group_advantages(rewards, task.group)
    with torch.no_grad(), values_of(adapters, start):
        reference = answer_log_probs(base, prompts, task.group, drawn.ids)
    kl = float(parts.kl_estimate(drawn.log_probs, reference)[drawn.mask].mean())

    useful = advantages.view(-1, task.group).ne(0).any(1)  # (P,)
    if useful.any():
        rows = useful.repeat_interleave(task.group)
        log_probs = answer_log_probs(base, prompts[useful], task.group, drawn.ids[rows])
        loss = parts.policy_loss(
            log_probs, drawn.log_probs[rows], advantages[rows], drawn.mask[rows], CLIP,
            parts.kl_estimate(log_probs, reference[rows]), KL_WEIGHT,
        )  # fmt: skip
        _checked(float(loss.detach()), "loss", step)
        _set_rate(optimizer, task.rewards_rate, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(rewards.mean()), _checked(kl, "KL", step)


def same_length_batch(base: Base, task: Task, seed: str, n_prompts: int) -> list[Question]:
    """Questions whose prompts have as many tokens as that of the first, so that their rows need no padding."""
    batch: list[Question] = []
    for question in questions(task, base.parts, seed, held_out=False):
        batch.append(question)
        if len({len(base.prompt_ids(one.prompt)) for one in (batch[0], question)}) > 1:
            batch.pop()
        if len(batch) == n_prompts:
            break
    return batch


def _checked(value: float, name: str, step: int) -> float:
    if not math.isfinite(value):
        raise NotANumber(f"the {name} of step {step + 1} is {value}")
    return value


FEWEST_TESTS = 5  # the time of the shortest tuning, in tests: three, and a small step of each phase


@dataclass
class Tuning:
    """Everything that runs."""

    folder: Path
    base: Base
    task: Task
    progress: Progress
    adapters: dict[str, nn.Parameter]
    optimizer: ClippingOptimizer
    start: Values  # the adapters' values at the beginning of the phase of rewards

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def own(self) -> OwnParts:
        return self.base.own

    def save(self) -> None:
        """Write the checkpoint; a finished tuning needs only its adapters."""
        adapters = {name: parameter.data for name, parameter in self.adapters.items()}
        going_on = not self.progress.is_finished
        start, state = (self.start, read_state(self.optimizer.optimizer)) if going_on else ({}, {})
        record = asdict(self.progress)
        adapter_file.save(self.folder, adapter_file.Saved(self.name, record, adapters, start, state))

    def require_time(self, seconds: float, advised: float) -> None:
        """Plan at least this time, or raise TuneProblem, with the advised time, if the user chose a shorter one."""
        progress = self.progress
        needed, better = ((progress.seconds["opening"] + time) / 60 for time in (seconds, MORE * advised))
        if progress.steps is not None or needed <= progress.minutes:
            return
        if not progress.may_take_longer:
            raise self.too_short(better)
        progress.minutes = math.ceil(needed)

    def too_short(self, better: float) -> TuneProblem:
        return TuneProblem(
            f"{describe_minutes(self.progress.minutes)} too short for {self.base.name} at the present speed of this "
            f"machine; give more time: `{command(self.progress, math.ceil(better))}`"
        )

    def close(self) -> None:
        self.own.close()


# ---- making it


def find_task(kind: str, name: str) -> Task:
    """TuneProblem if this kind of model cannot learn the task."""
    if name not in TASKS[kind]:
        raise TuneProblem(
            f"the stories' model has no digits, so it cannot learn {name}; use --task format, or install SmolLM2"
        )
    return TASKS[kind][name]


def begin(
    base: Base, task: str, name: str | None, seed: int, minutes: float | None, steps: int | None,
    opening_seconds: float = 0.0,
) -> Tuning:  # fmt: skip
    """A new tuning of this base, which it takes over. The time in which it was opened counts. Without minutes, it takes
    as long as usual, or longer on a slow machine. TuneProblem or CheckpointProblem if it cannot begin."""
    with closing_after_failure(base.own):
        folder = new_folder(name, f"{task}-{base.kind}")
        most, length = find_task(base.kind, task).answer_steps, minutes or MINUTES_BY_BASE[base.kind]
        progress = Progress(base.kind, base.place, task, seed, length, most, steps)
        progress.seconds["opening"], progress.may_take_longer = opening_seconds, minutes is None
        return _make(base, progress, folder)


def resume(name: str | None, report_progress: ProgressReporter, base: Base | None = None) -> Tuning:
    """The tuning of this name, or the latest, where it was interrupted; of this base, or of the one that it names.
    TuneProblem if it cannot go on."""
    saved = adapter_file.read(name)
    try:
        progress = Progress.from_data(saved.record)
    except (KeyError, TypeError, ValueError):
        raise TuneProblem(f"the record of the adapters {saved.name} is damaged; tune the model again") from None
    base = base or open_base(progress.base, report_progress)
    with closing_after_failure(base.own):
        tuning = _make(base, progress, checkpoint.CHECKPOINTS / saved.name)
        fill(tuning.adapters, saved)
        tuning.start = saved.start
        if not progress.is_finished:
            optimizer = tuning.optimizer
            if not restore_optimizer(optimizer.optimizer, optimizer.parameters, saved.optimizer):
                raise TuneProblem(
                    f"the optimizer of {tuning.name} does not fit your AdamW any more; tune the model again"
                )
        return tuning


def _make(base: Base, progress: Progress, folder: Path) -> Tuning:
    task = find_task(base.kind, progress.task)
    prepare_torch(progress.seed)
    adapters = add_adapters(base.parts, base.model)
    return Tuning(folder, base, task, progress, adapters, make_optimizer(base, adapters), {})


# ---- running it


def run(tuning: Tuning, page: Page, interrupted: Interrupted = lambda: False) -> bool:
    """Tune to the end, or until `interrupted`; return whether the end was reached. Saves on the way and at the end.

    CodeProblem if the learner's code raises an exception; the last checkpoint stays.
    """
    progress, view = tuning.progress, View(tuning.name, tuning.progress)
    with saving(tuning, view, page):
        while not progress.is_finished:
            if progress.evaluations and not _train(tuning, page, view, interrupted):
                return False
            found = _test(tuning, page, view, interrupted)
            if found is None:
                return False
            progress.add_evaluation(found)
            if progress.phase == REWARDS and not progress.is_finished:
                tuning.start = {name: parameter.detach().clone() for name, parameter in tuning.adapters.items()}
                tuning.optimizer = make_optimizer(tuning.base, tuning.adapters)
            tuning.save()
        return True


def _test(tuning: Tuning, page: Page, view: View, interrupted: Interrupted) -> Evaluation | None:
    """Ask held-out questions. The first ones of the first test show how many there can be."""
    progress, asked = tuning.progress, held_out_questions(tuning.base, tuning.task)
    if progress.phase == REWARDS and not progress.rewards:
        return progress.evaluations[-1]  # of the same model
    view.begin_test(f"test {len(progress.evaluations) + 1} of {TESTS}: answers to held-out questions", page)

    def answer(questions: Sequence[Question], before: int = 0) -> Evaluation | None:
        tokens = itertools.count(1)

        def is_late(answered: int) -> bool:
            view.note_answered(page, before + answered)
            spent = time.monotonic() - view.test_began
            if progress.questions is None:
                share = min(next(tokens) / tuning.task.most_tokens, 1.0)  # of the first answers that is written
                tuning.require_time(spent * FEWEST_TESTS, spent * FEWEST_TESTS / share)
                return False
            return progress.is_late(before + answered, spent)

        return evaluate(tuning.base, tuning.task, questions, interrupted, is_late)

    def whole_test() -> Evaluation | None:
        if progress.questions is not None:
            return answer(asked[: progress.questions])
        measured = asked[:FEWEST_QUESTIONS]
        first = answer(measured)
        if first is None:
            return None
        seconds = time.monotonic() - view.test_began
        tuning.require_time(seconds * FEWEST_TESTS, seconds * FEWEST_TESTS)
        progress.plan_tests(seconds / len(measured))
        page.moment(view)
        others = asked[len(measured) : progress.questions]
        rest = answer(others, len(measured)) if others else Evaluation([], [])
        return rest and first + rest

    with hidden_prints():
        found = whole_test()
    if found is not None:  # else it begins again later, and its time does not count
        progress.seconds["evaluation"] += time.monotonic() - view.test_began
        if not found.right:
            raise tuning.too_short(MORE * 2 * progress.seconds_spent / 60)
    return found


def _train(tuning: Tuning, page: Page, view: View, interrupted: Interrupted) -> bool:
    """Train the rest of this phase; False if it was interrupted."""
    progress, phase = tuning.progress, tuning.progress.phase
    view.doing, step = f"training on {phase}", _answers_step if phase == ANSWERS else _rewards_step

    def is_over() -> bool:
        return progress.share_done(phase) == 1 if phase == ANSWERS else not progress.prompts_that_fit(tuning.task)

    return take_steps(tuning, view, page, interrupted, partial(step, tuning), phase, is_over)


def _answers_step(tuning: Tuning) -> None:
    progress = tuning.progress
    made = step_on_answers(tuning.base, tuning.task, tuning.optimizer, progress.seed, len(progress.losses))
    progress.losses.append(made)


def _rewards_step(tuning: Tuning) -> None:
    """It is given up where drawing its answers takes much longer than expected."""
    progress, count = tuning.progress, tuning.progress.prompts_that_fit(tuning.task)
    most = math.inf if progress.may_take_longer or progress.steps else DRAWING_SHARE * progress.rewards_left
    end = time.monotonic() + most
    made = step_on_rewards(
        tuning.base, tuning.task, tuning.adapters, tuning.start, tuning.optimizer, progress.seed,
        len(progress.rewards), count, lambda ended: time.monotonic() > end,
    )  # fmt: skip
    progress.prompts += count
    if made is not None:
        progress.rewards.append(made[0])
        progress.kls.append(made[1])
