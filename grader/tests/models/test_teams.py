"""A training in several ranks: the same losses and the same model as in one process. The ranks are simulated."""

from __future__ import annotations

import pytest
import torch
from grader.execution.simulated_group import GroupProblem, run_ranks
from grader.models.training import training_run
from grader.models.training.trainer import EXERCISES, Team, Trainer
from grader.teaching.walks.parts import hidden_prints
from own_models import parameters
from trainings import Silent, stop_after

STEPS = 5


@pytest.fixture
def alike(trainings):
    """Makes so many trainings of the same settings, with chapter 18's functions."""

    def make(size: int, **changes) -> list[Trainer]:
        return [trainings.begin(f"rank-{rank}", more_exercises=EXERCISES, **changes).trainer for rank in range(size)]

    return make


def trained_together(trainers: list[Trainer], steps: int) -> list[Trainer]:
    def one_rank(group):
        trainer = trainers[group.rank]
        trainer.team = Team(group, trainer.parts, lambda: None)
        for _ in range(steps):
            trainer.step(STEPS)

    with hidden_prints():  # ranks hide prints by turns, and the last one would not restore the first one's output
        run_ranks(one_rank, len(trainers))
    return trainers


def differences(one: Trainer, other: Trainer) -> tuple[float, float]:
    """The largest of the losses, and of the parameters."""
    a, b = parameters(one.model), parameters(other.model)
    losses = max(abs(x - y) for x, y in zip(one.history.losses, other.history.losses, strict=True))
    return losses, max(float((a[name] - b[name]).abs().max()) for name in a)


@pytest.mark.parametrize(("size", "changes"), [(2, {}), (4, {}), (3, dict(kind="translate"))], ids=["stories-2", "stories-4", "translator-3"])
def test_several_ranks_train_the_model_that_one_process_trains(alike, size, changes):
    """A batch has two parts of two or three rows: some ranks have one row of a part, or none. Rows have different numbers of targets."""
    (alone,) = alike(1, **changes)
    for _ in range(STEPS):
        alone.step(STEPS)
    together = trained_together(alike(size, **changes), STEPS)
    for rank in together:
        loss, parameter = differences(rank, alone)
        assert loss < 1e-5 and parameter < 1e-3  # AdamW divides a gradient that is almost 0 by its own size
        assert differences(rank, together[0]) == (0, 0)
        assert rank.history.norms == pytest.approx(alone.history.norms, rel=1e-4) and rank.history.tokens == alone.history.tokens
    assert alone.history.losses[-1] < alone.history.losses[0]


def test_a_rank_without_rows_gets_one_that_does_not_count(alike):
    (trainer,) = alike(1)
    batches = trainer.corpus.batch(0)
    ranks = max(len(inputs) for inputs, _ in batches) + 2
    teams = run_ranks(lambda group: Team(group, trainer.parts, lambda: None), ranks)[0]
    own = [team.own_rows(batches) for team in teams]
    assert all(int((targets != -100).sum()) > 0 for parts in own[:-2] for _, targets in parts)
    assert [[(len(inputs), int((targets != -100).sum())) for inputs, targets in parts] for parts in own[-2:]] == [[(1, 0)]] * 2
    assert sum(team.share for team in teams) == pytest.approx(1) and teams[-1].share == 0


@pytest.mark.parametrize("steps", [0, 3])
def test_a_reopened_training_goes_on_exactly(trainings, steps):
    """With the parts and the averages of the checkpoint, whatever number of processes has made it."""
    stopped = trainings.begin("stopped", more_exercises=EXERCISES)
    assert not training_run.run(stopped, Silent(), stop_after(stopped, steps))
    reopened = training_run.reopen(stopped.folder, "cpu")
    try:
        assert reopened.own.to_data() == stopped.own.to_data() and "shard_batch" in reopened.own.reference
        for trainer in (stopped.trainer, reopened.trainer):
            trainer.step(STEPS)
            trainer.step(STEPS)
        assert differences(stopped.trainer, reopened.trainer)[1] == 0
    finally:
        reopened.close()


def test_after_the_update_a_problem_costs_no_step(alike):
    """The model is updated already, so the loss of its own rows is noted, and the step is counted."""
    trainers = alike(2)

    class LeftAlone:
        """A group whose other rank has ended after the gradients were averaged."""

        rank, size = 0, 2

        def all_reduce(self, t):
            if t.dtype == torch.float64:
                raise GroupProblem("another rank has ended")
            return t

    trainer = trainers[0]
    trainer.team = Team(LeftAlone(), trainer.parts, lambda: None)
    trainer.step(STEPS)
    assert trainer.steps_done == len(trainer.history.losses) == 1
