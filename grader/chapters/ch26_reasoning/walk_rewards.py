"""Rewards: a walk through three questions and a policy that is a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import BLANK, Block, curves, grid, line, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor

REQUIRED_EXERCISES = (
    "leave_one_out_advantages",
    "informative_groups",
    "kl_loss",
    "asymmetric_policy_loss",
    "entropy",
    "majority_vote",
    "expected_vote",
)
QUESTIONS = ("easy", "misleading", "too hard")
# of the answers to each question; the first one is right
POLICY = ((0.4, 0.15, 0.15, 0.15, 0.15), (0.2, 0.5, 0.1, 0.1, 0.1), (1e-5, 0.4, 0.3, 0.2, 0.1 - 1e-5))
GROUP, STEPS, RATE, KL_WEIGHT = 8, 200, 0.2, 0.5
VOTES = (1, 3, 9, 33)


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    start = torch.tensor(POLICY, dtype=torch.float64).log()
    answers, rewards = draw(start, torch.Generator().manual_seed(seed))
    runs = {}
    with report_progress("training", 2 * STEPS) as step:
        for name, weight in (("without KL", 0.0), ("with KL", KL_WEIGHT)):
            runs[name] = train(parts, start, weight, torch.Generator().manual_seed(seed), step)
    return SimpleNamespace(
        shape=tuple(start.shape),
        before=start.softmax(-1)[:, 0].tolist(),
        votes=votes(parts, start),
        voted=[parts.majority_vote(row) for row in answers.tolist()],
        group=answers.tolist(),
        rewards=rewards.tolist(),
        others=parts.leave_one_out_advantages(rewards.flatten(), GROUP).view_as(rewards).tolist(),
        kept=int(parts.informative_groups(rewards.flatten(), GROUP).view_as(rewards)[:, 0].sum()),
        rights={name: run.rights for name, run in runs.items()},  # of the second question, step by step
        after={name: run.policy.softmax(-1)[:, 0].tolist() for name, run in runs.items()},
        entropies={name: run.entropies for name, run in runs.items()},
        third_drawn=sum(run.third_drawn for run in runs.values()),
        later=votes(parts, runs["without KL"].policy),
    )


def draw(logits: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw a group of answers to each question; return them and their rewards, each (questions, GROUP)."""
    answers = torch.multinomial(logits.detach().softmax(-1), GROUP, replacement=True, generator=generator)
    return answers, (answers == 0).double()


def train(
    parts: MixedChapters, start: Tensor, kl_weight: float, generator: torch.Generator, step: Any
) -> SimpleNamespace:
    logits = start.clone().requires_grad_()
    places = torch.ones(len(start), 1, dtype=torch.bool)
    rights, entropies, third_drawn = [], [], 0
    for number in range(STEPS):
        answers, rewards = draw(logits, generator)
        third_drawn += int(rewards[2].sum())
        advantages = parts.leave_one_out_advantages(rewards.flatten(), GROUP)
        mask = parts.informative_groups(rewards.flatten(), GROUP)[:, None]  # (B, 1): each answer is one token
        log_probs = logits.log_softmax(-1).gather(1, answers).view(-1, 1)
        reference = start.log_softmax(-1).gather(1, answers).view(-1, 1)
        # each question counts as a whole, as if it were trained alone
        loss = parts.asymmetric_policy_loss(
            log_probs, log_probs.detach(), advantages, mask, average="fixed", length=1.0 / len(start)
        )
        if kl_weight:
            loss = loss + kl_weight * len(start) * parts.kl_loss(log_probs, reference, torch.ones_like(mask))
        [gradient] = torch.autograd.grad(loss, logits)
        with torch.no_grad():
            logits -= RATE * gradient
            rights.append(logits.softmax(-1)[1, 0].item())
            if number in (0, STEPS - 1):
                entropies.append(parts.entropy(logits[:, None], places).item())
        step()
    return SimpleNamespace(policy=logits.detach(), rights=rights, entropies=entropies, third_drawn=third_drawn)


def votes(parts: MixedChapters, logits: Tensor) -> list[list[float]]:
    """For each question, the probability that a vote of 1, 3, 9 and 33 answers is right."""
    return [[parts.expected_vote(row, n) for n in VOTES] for row in logits.softmax(-1).tolist()]


def describe(n: SimpleNamespace) -> dict[str, Any]:
    columns = ["", *(f"n = {count}" for count in VOTES)]
    group: Block = []
    for number, name in enumerate(QUESTIONS):
        rewards = n.rewards[number]
        mean = sum(rewards) / GROUP
        answers = " ".join(f"{answer:5}" for answer in n.group[number])
        rows = [
            ("answer", answers),
            ("reward", " ".join(f"{reward:5.0f}" for reward in rewards)),
            ("reward - mean of the group", " ".join(f"{reward - mean:5.2f}" for reward in rewards)),
            ("reward - mean of the others", " ".join(f"{value:5.2f}" for value in n.others[number])),
        ]
        group += (BLANK if number else []) + line(f"{name}: the vote of these {GROUP} is answer {n.voted[number]}")
        for what, values in rows:
            group += line(f"{what:28}{values}")
    results = [[name, *n.after[name], 1 - (1 - n.after[name][1]) ** GROUP, *n.entropies[name]] for name in n.after]
    heads = ["", *QUESTIONS, f"pass@{GROUP}", "entropy at first", "at last"]
    return {
        "answers": len(POLICY[0]),
        "policy_grid": grid(POLICY, QUESTIONS, [f"answer {i}" for i in range(len(POLICY[0]))]),
        "vote_table": table([[name, *row] for name, row in zip(QUESTIONS, n.votes)], columns, ".3f"),
        "group_table": group,
        "factor": (GROUP - 1) / GROUP,
        "learning_curves": curves(n.rights),
        "result_table": table(results, heads, ".3f"),
        "hopeless": n.third_drawn == 0,
        "drawn": 2 * STEPS * GROUP,
        "later_table": table([[name, *row] for name, row in zip(QUESTIONS, n.later)], columns, ".3f"),
        "turned": n.later[1][-1] > 0.5 > n.votes[1][-1],
    }
