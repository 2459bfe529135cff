"""Chapter 18, fourth part: a pipeline of stages."""

from __future__ import annotations

import torch
from calls import as_list
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import example, given, settings
from pytest_check import check
from simulated_groups import check_sent, factors, run_on_ranks
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)


def plain(schedule):
    """A schedule as lists of tuples, whichever of the two the learner used."""
    return [[tuple(step) for step in as_list(steps)] for steps in as_list(schedule)]


def expected_schedule(n_stages, n_micro, kind):
    stages = []
    for stage in range(n_stages):
        waiting, done = (n_micro if kind == "gpipe" else min(n_stages - 1 - stage, n_micro)), 0
        steps = [("forward", m) for m in range(waiting)]
        while done < n_micro:
            if waiting < n_micro:
                steps.append(("forward", waiting))
                waiting += 1
            steps.append(("backward", done))
            done += 1
        stages.append(steps)
    return stages


def times(schedule):
    """When each step ends, if every step takes one unit of time and begins when what it needs is there."""
    done, places, clocks, last = {}, [0] * len(schedule), [0] * len(schedule), len(schedule) - 1
    while any(place < len(steps) for place, steps in zip(places, schedule)):
        moved = False
        for stage, steps in enumerate(schedule):
            if places[stage] == len(steps):
                continue
            kind, m = steps[places[stage]]
            before = ("forward", stage - 1, m) if kind == "forward" else ("backward", stage + 1, m)
            own = [("forward", stage, m)] if kind == "backward" else []
            needed = own + ([before] if (kind == "forward" and stage > 0) or (kind == "backward" and stage < last) else [])
            if all(step in done for step in needed):
                clocks[stage] = max([clocks[stage], *(done[step] for step in needed)]) + 1
                done[kind, stage, m] = clocks[stage]
                places[stage], moved = places[stage] + 1, True
        if not moved:
            return None
    return max(clocks)


def most_kept(steps):
    """How many micro-batches a stage keeps at most."""
    kept = most = 0
    for kind, _ in steps:
        kept += 1 if kind == "forward" else -1
        most = max(most, kept)
    return most


stage_counts = distinct("stages", "micro", stages=(2, 4), micro=(3, 7))

# ---- pipeline_schedule


@exercise("pipeline_schedule", weight=3)
@few
@example(n=at(stages=4, micro=6))
@given(n=stage_counts)
def test_one_forward_and_one_backward_in_turn(learner, n):
    """With "1f1b", the default, stage s begins with n_stages - 1 - s forward passes; then forward and backward passes take turns, and the remaining backward passes come last."""
    got, default = plain(learner.pipeline_schedule(n.stages, n.micro, "1f1b")), plain(learner.pipeline_schedule(n.stages, n.micro))
    expected = expected_schedule(n.stages, n.micro, "1f1b")
    same(len(got), n.stages, "the number of stages in the schedule")
    for stage in range(n.stages):
        with check:
            same(got[stage], expected[stage], f"what stage {stage} of {n.stages} does with {n.micro} micro-batches")
    with check:
        same(default, expected, "the schedule with the default kind")


@exercise("pipeline_schedule", weight=2)
@few
@given(n=stage_counts)
def test_gpipe_does_all_forward_passes_first(learner, n):
    """With "gpipe", every stage does all forward passes, and then all backward passes, both from micro-batch 0 on."""
    got = plain(learner.pipeline_schedule(n.stages, n.micro, kind="gpipe"))
    steps = [("forward", m) for m in range(n.micro)] + [("backward", m) for m in range(n.micro)]
    same(got, [steps] * n.stages, f"the schedule of {n.stages} stages with {n.micro} micro-batches")


@exercise("pipeline_schedule", weight=2)
@few
@example(n=at(stages=4, micro=7))
@given(n=stage_counts)
def test_no_stage_waits_longer_or_keeps_more_than_it_must(learner, n):
    """With steps of equal length, both kinds take 2 (n_micro + n_stages - 1) units of time, and with "1f1b" stage s keeps at most n_stages - s micro-batches."""
    got = {kind: plain(learner.pipeline_schedule(n.stages, n.micro, kind)) for kind in ("gpipe", "1f1b")}
    for kind, schedule in got.items():
        found = times(schedule)
        holds(found is not None, f"with {kind}, a stage waits for ever: a step comes before what it needs")
        same(found, 2 * (n.micro + n.stages - 1), f"the units of time that {n.stages} stages and {n.micro} micro-batches take with {kind}")
    for stage, steps in enumerate(got["1f1b"]):
        most = most_kept(steps)
        holds(most <= n.stages - stage, f"stage {stage} of {n.stages} keeps {most} micro-batches; it needs {n.stages - stage}")


@exercise("pipeline_schedule")
def test_few_micro_batches_and_one_stage(learner):
    """With fewer micro-batches than stages, no stage begins with more than there are; one stage takes turns from the beginning; without micro-batches nothing is done."""
    few_, one, none = (plain(learner.pipeline_schedule(*arguments)) for arguments in ((4, 2), (1, 3), (2, 0)))
    same(few_, expected_schedule(4, 2, "1f1b"), "the schedule of 4 stages with 2 micro-batches")
    same(one, [[(kind, m) for m in range(3) for kind in ("forward", "backward")]], "the schedule of one stage")
    same(none, [[], []], "the schedule without micro-batches")


@exercise("pipeline_schedule")
def test_an_unknown_kind_of_schedule_is_refused(learner):
    """A kind other than gpipe and 1f1b raises a ValueError that names it."""
    fine = plain(learner.pipeline_schedule(2, 2, "gpipe"))
    for kind in ("f1b1", "GPipe"):
        refuses(lambda kind=kind: learner.pipeline_schedule(2, 2, kind), naming={"kind": kind}, because="there are only gpipe and 1f1b")
    same(fine, expected_schedule(2, 2, "gpipe"), "the schedule of 2 stages with 2 micro-batches")


# ---- run_stage


def pipeline(run_stage, weights, schedule, inputs, targets):
    """Ranks: losses, gradients and what was kept; stage s is tanh(x @ weights[s].T), a view, and only rank 0 has real inputs."""
    import weakref

    from grader.execution.simulated_group import Ranks
    from torch import nn

    def one_rank(group):
        outputs, alive = [], [0]

        class Stage(nn.Module):
            def __init__(self, weight):
                super().__init__()
                self.weight = nn.Parameter(weight.clone())

            def forward(self, x):
                y = torch.tanh(self.weight @ x.T).T
                outputs.append(weakref.ref(y))
                alive.append(sum(reference() is not None for reference in outputs))
                return y

        stage = Stage(weights[group.rank])
        own = [x.clone() if group.rank == 0 else torch.full_like(x, float("nan")) for x in inputs]
        losses = run_stage(stage, schedule[group.rank], group, own, lambda output, m: (output - targets[m]).square().sum())
        left = sum(reference() is not None for reference in outputs)
        return {
            "losses": list(losses), "attached": [loss.requires_grad for loss in losses], "gradient": stage.weight.grad,
            "most": max(alive), "left": left, "inputs": own if group.rank == 0 else [], "touched": any(x.requires_grad for x in own),
        }  # fmt: skip

    return Ranks(one_rank, len(weights))


def run_pipeline(side, kind, n, weights, inputs, targets, change=None):
    """What `pipeline` gives, once the ranks have ended."""
    schedule = expected_schedule(n.stages, n.micro, kind)
    return run_on_ranks(side.bring(pipeline)(side.run_stage, weights, schedule, inputs, targets), n.stages, change)


def check_messages(run, kind, n, weights, inputs, targets):
    """Each stage sends the activations and the gradients of the whole model, in the order of its schedule."""
    _, _, activations, slopes = whole_model(weights, inputs, targets)
    expected = []
    for stage, steps in enumerate(expected_schedule(n.stages, n.micro, kind)):
        # to the next stage, if there is one, and to the one before
        to = {"forward": [each[stage : stage + 1] for each in activations], "backward": [each[stage - 1 : stage] if stage else [] for each in slopes]}
        expected.append([t for what, m in steps for t in to[what][m]])
    check_sent(run, expected)


def whole_model(weights, inputs, targets):
    """Losses and gradients on one machine; for each micro-batch the activations that a stage gives to the next, and their gradients."""
    leaves, losses, activations = [w.clone().requires_grad_() for w in weights], [], []
    for x, target in zip(inputs, targets):
        activations.append([])
        for w in leaves:
            x = torch.tanh(x @ w.T)
            x.retain_grad()
            activations[-1].append(x)
        losses.append((x - target).square().sum())
    sum(losses).backward()
    sent = [[x.detach() for x in stages[:-1]] for stages in activations]
    return [loss.detach() for loss in losses], [w.grad for w in leaves], sent, [[x.grad for x in stages[:-1]] for stages in activations]


def pipeline_problem(n, seed):
    """Weights, and micro-batches of different numbers of rows."""
    sizes(stages=n.stages, micro=n.micro, D=5)
    weights = [tensor(seed + stage, 5, 5) / 2 for stage in range(n.stages)]
    inputs = [tensor(seed + 20 + m, 1 + m % 3, 5) for m in range(n.micro)]
    return weights, inputs, [tensor(seed + 40 + m, 1 + m % 3, 5) for m in range(n.micro)]


@exercise("run_stage", weight=4)
@few
@given(n=distinct("stages", "micro", stages=(1, 4), micro=(3, 5)), seed=seeds)
def test_the_stages_together_are_the_whole_model(learner, n, seed):
    """Each stage's gradients are those of the whole model on all micro-batches, added up, with both schedules and with any number of stages."""
    problem = pipeline_problem(n, seed)
    losses, slopes, *_ = whole_model(*problem)
    for kind in ("gpipe", "1f1b"):
        got = run_pipeline(learner, kind, n, *problem)
        with check:
            close(got.results[-1]["losses"], losses, f"the losses on the last rank with {kind}", tol=1e-4)
        for rank, found in enumerate(got.results):
            with check:
                close(found["gradient"], slopes[rank], f"the gradient of stage {rank} of {n.stages} with {kind}", tol=1e-4)
        with check:
            check_messages(got, kind, n, *problem)


@exercise("run_stage", weight=2)
@few
@given(n=distinct("stages", "micro", stages=(2, 3), micro=(3, 5)), seed=seeds)
def test_the_last_rank_returns_the_losses(learner, n, seed):
    """The last rank returns the loss of every micro-batch in their order, detached; the other ranks return an empty list. float64 is computed in float64."""
    problem = [[t.double() for t in part] for part in pipeline_problem(n, seed)]
    losses, slopes, *_ = whole_model(*problem)
    got = run_pipeline(learner, "1f1b", n, *problem)
    close(got.results[-1]["losses"], losses, "the losses on the last rank, in float64", tol=1e-10)
    close([found["gradient"] for found in got.results], slopes, "the gradients of the stages, in float64", tol=1e-10)
    same(got.results[-1]["attached"], [False] * n.micro, "whether the losses need gradients")
    for rank in range(n.stages - 1):
        same(got.results[rank]["losses"], [], f"what rank {rank} of {n.stages} returns")
    check_messages(got, "1f1b", n, *problem)


@exercise("run_stage", weight=2)
@few
@given(n=distinct("stages", "micro", stages=(3, 4), micro=(5, 7)), seed=seeds)
def test_nothing_is_kept_after_a_backward_pass(learner, n, seed):
    """With "1f1b", stage s never keeps the outputs of more than n_stages - s micro-batches, and none at the end."""
    problem = pipeline_problem(n, seed)
    losses, slopes, *_ = whole_model(*problem)
    got = run_pipeline(learner, "1f1b", n, *problem)
    close(got.results[-1]["losses"], losses, "the losses on the last rank", tol=1e-4)
    for rank, found in enumerate(got.results):
        close(found["gradient"], slopes[rank], f"the gradient of stage {rank}", tol=1e-4)
        # one more may be in a variable of the function until the next step
        holds(found["most"] <= n.stages - rank + 1, f"stage {rank} of {n.stages} keeps the outputs of {found['most']} micro-batches; {n.stages - rank} are needed")
        holds(found["left"] == 0, f"stage {rank} keeps the outputs of {found['left']} micro-batches at the end")
    check_messages(got, "1f1b", n, *problem)


@exercise("run_stage", weight=2)
@few
@given(n=distinct("stages", "micro", stages=(2, 3), micro=(3, 5)), seed=seeds)
def test_only_neighbours_exchange_activations_and_gradients(learner, reference, n, seed):
    """For each micro-batch an activation goes to the next stage and its gradient comes back, and nothing else is sent; what changes on its way changes losses and gradients; the inputs do not change, and do not need gradients afterwards."""
    problem = pipeline_problem(n, seed)
    losses, slopes, *_ = whole_model(*problem)
    got = run_pipeline(learner, "1f1b", n, *problem)
    close(got.results[-1]["losses"], losses, "the losses on the last rank", tol=1e-4)
    one_way = sum(4 * x.numel() for x in problem[1])
    for rank, found in enumerate(got.results):
        close(found["gradient"], slopes[rank], f"the gradient of stage {rank}", tol=1e-4)
        ends = (rank > 0) + (rank < n.stages - 1)
        same(sorted(got.calls[rank]), ["receive"] * (ends * n.micro) + ["send"] * (ends * n.micro), f"the calls of rank {rank} of {n.stages}, sorted")
        same(got.bytes[rank], ends * one_way, f"the bytes that rank {rank} sends")
    close(got.results[0]["inputs"], problem[1], "the inputs of rank 0 afterwards")
    holds(not got.results[0]["touched"], "run_stage has made its argument `inputs` need gradients on rank 0")
    check_messages(got, "1f1b", n, *problem)
    changed, right = (run_pipeline(side, "1f1b", n, *problem, factors(seed)) for side in (learner, reference))
    close(changed.results[-1]["losses"], right.results[-1]["losses"], "the losses on the last rank, if what the ranks send changes on its way,", tol=1e-4)
    for rank, (found, expected) in enumerate(zip(changed.results, right.results)):
        close(found["gradient"], expected["gradient"], f"the gradient of stage {rank}, if what the ranks send changes on its way,", tol=1e-4)
