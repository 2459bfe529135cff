"""The checkpoint of a run: `checkpoints/NAME/reason.safetensors`, replaced as a whole.

Its tensors are the models (`start.` and those of the recipes) and, until the run is finished, the states of their
optimizers (`optimizer.start.` and so on). The record is JSON in its metadata.
"""

from __future__ import annotations

from grader.chapters.ch26_reasoning.reasoning.passing import DRAWS, MOST_QUESTIONS, SHOWN_QUESTIONS
from grader.chapters.ch26_reasoning.reasoning.rewarding import RECIPES
from grader.chapters.ch26_reasoning.reasoning.sums import MOST_TOKENS
from grader.chapters.run_file import RunFile
from grader.files import UserProblem
from grader.models.file_values import finite, list_of, number, optional, positive, string, table, whole

FILE = "reason.safetensors"
AGAIN = "run `headway reason` again, with another --name"
TEST = table(
    {
        "step": whole(0, 1_000_000_000), "right": list_of(whole(0, DRAWS), MOST_QUESTIONS), "entropy": finite(),
        "length": number(0, MOST_TOKENS), "samples": list_of(string(MOST_TOKENS), SHOWN_QUESTIONS),
    }
)  # fmt: skip
VALUES = {
    "seed": whole(0, 2**31 - 1), "minutes": positive(), "answer_steps": whole(1, 1_000_000_000),
    "reward_steps": whole(1, 1_000_000_000), "questions": optional(whole(1, MOST_QUESTIONS)),
    "losses": list_of(finite()), "checks": list_of(number(0, 1)), "start": optional(TEST),
    "outcomes": table({name: list_of(list_of(finite(), 3)) for name in RECIPES}),
    "tests": table({name: list_of(TEST, 100) for name in RECIPES}),
    "seconds": table({name: number(0, 1e12) for name in ("answers", "rewards", "tests")}),
    "parts": table({"learner": list_of(string()), "reference": list_of(string())}), "headway": string(),
}  # fmt: skip
NEEDED = [
    *(name for name in VALUES if name not in ("headway", "start", "questions")),
    *(f"{of}.{name}" for of in ("outcomes", "tests") for name in RECIPES),
]


class ReasonProblem(UserProblem):
    """The run cannot begin or go on; the message is a sentence."""

    exit_status = 1


FILES = RunFile(FILE, "headway reason", "there is no run", AGAIN, ReasonProblem, VALUES, NEEDED)
