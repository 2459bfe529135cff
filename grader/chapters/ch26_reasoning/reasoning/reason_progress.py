"""What has happened in a run so far, how its time is divided, and what a terminal shows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.chapters import interruptible_run
from grader.chapters.ch26_reasoning.reasoning.passing import DRAWS, FEWEST_QUESTIONS, MOST_QUESTIONS, Evaluation
from grader.chapters.ch26_reasoning.reasoning.rewarding import RECIPES, Outcome
from grader.models.training.live_page import recent_mean
from grader.version import __version__

MINUTES = 8.0
ANSWER_STEPS = 1500  # at most: they end as soon as ENOUGH new answers are right, so that rewards have a beginning
CHECK_STEPS, ENOUGH = 100, 0.2  # a check after so many steps
REWARD_STEPS = 300  # of each recipe in MINUTES; twice as many in twice the time
ANSWERS_SHARE = 0.3  # of the time, at most
TESTS_SHARE = 0.2  # of the time, at most, if each has more than the fewest questions
TEST_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the training on rewards, after which both models are tested
TESTS = 1 + len(RECIPES) * len(TEST_SHARES)
ANSWERS, REWARDS = "answers", "rewards"
UNSPENT = dict.fromkeys((ANSWERS, REWARDS, "tests"), 0.0)


def _for_each() -> dict[str, Any]:
    return {name: [] for name in RECIPES}


@dataclass
class Progress:
    """What has happened so far: the part of a checkpoint that is not tensors."""

    seed: int
    minutes: float
    answer_steps: int  # at most
    reward_steps: int  # of each recipe, at most
    questions: int | None = None  # of each test; None until the speed is measured
    losses: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)  # the share of right answers to new sums
    outcomes: dict[str, list[Outcome]] = field(default_factory=_for_each)  # of each recipe's steps
    start: Evaluation | None = None  # before rewards
    tests: dict[str, list[Evaluation]] = field(default_factory=_for_each)  # on the way and at the end
    seconds: dict[str, float] = field(default_factory=lambda: dict(UNSPENT))
    parts: dict[str, list[str]] = field(default_factory=dict)  # whose code ran
    headway: str = __version__

    @property
    def phase(self) -> str:
        return ANSWERS if self.start is None else REWARDS

    @property
    def reward_steps_done(self) -> int:
        return len(self.outcomes["plain"])

    @property
    def tests_done(self) -> int:
        """After how many of TEST_SHARES both models were tested."""
        return len(self.tests["plain"])

    @property
    def is_finished(self) -> bool:
        return self.tests_done == len(TEST_SHARES)

    @property
    def seconds_left(self) -> float:
        return max(60 * self.minutes - sum(self.seconds.values()), 0.0)

    def plan_tests(self, seconds_a_question: float) -> None:
        """Decide how many questions each test has."""
        fitting = int(60 * self.minutes * TESTS_SHARE / TESTS / max(seconds_a_question, 1e-9))
        self.questions = min(max(fitting, FEWEST_QUESTIONS), MOST_QUESTIONS)

    def share_done(self) -> float:
        """Of this phase; 1 also if half of the next step would be too late."""
        if self.phase == ANSWERS:
            if self.checks and self.checks[-1] >= ENOUGH:
                return 1.0
            return self._share(len(self.losses), self.answer_steps, ANSWERS_SHARE * 60 * self.minutes)
        made = 1 + len(RECIPES) * self.tests_done
        tests = self.seconds["tests"] / made * (TESTS - made)
        time_for = self.seconds_left - tests + self.seconds[REWARDS]
        return self._share(self.reward_steps_done, self.reward_steps, time_for)

    def _share(self, done: int, most: int, seconds: float) -> float:
        if not done:
            return 0.0
        spent = self.seconds[self.phase]
        return min(max(done / most, (spent + spent / done / 2) / max(seconds, 1e-9)), 1.0)

    @property
    def test_is_due(self) -> bool:
        if self.phase == ANSWERS:
            return self.share_done() == 1
        return self.share_done() >= TEST_SHARES[self.tests_done]

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Progress:
        """ValueError if its lists do not fit together."""
        start = data["start"] and Evaluation(**data["start"])
        tests = {name: [Evaluation(**one) for one in data["tests"][name]] for name in RECIPES}
        outcomes = {name: [Outcome(*one) for one in data["outcomes"][name]] for name in RECIPES}
        made = [start, *(one for of in tests.values() for one in of)] if start else []
        if any(len(set(map(len, of.values()))) > 1 for of in (tests, outcomes)) or (outcomes["plain"] and not start):
            raise ValueError("recipes with different lists")
        if any(len(one.right) != data["questions"] for one in made) or len(tests["plain"]) > len(TEST_SHARES):
            raise ValueError("another number of tests or questions")
        if not all(0 <= right <= DRAWS for one in made for right in one.right):
            raise ValueError("an impossible number of right answers")
        read = {"start": start, "tests": tests, "outcomes": outcomes, "seconds": UNSPENT | data["seconds"]}
        return cls(**data | read)


class View(interruptible_run.View):
    @property
    def share(self) -> float:
        progress: Progress = self.progress
        if self.answered is None:
            return progress.share_done()
        return self.answered / (progress.questions or MOST_QUESTIONS)

    def curves(self) -> dict[str, list[float]]:
        return {"loss            ": self.progress.losses} | {
            f"right, {name:<9}": [one.reward for one in made] for name, made in self.progress.outcomes.items()
        }

    def facts(self) -> list[str]:
        progress: Progress = self.progress
        if self.answered is not None:
            facts = [self.question]
        elif progress.phase == ANSWERS:
            facts = [f"step {len(progress.losses):,} of {progress.answer_steps:,}"]
            facts += [f"loss {mean:.3f}" for mean in [recent_mean(progress.losses)] if mean is not None]
            facts += [f"{100 * share:.0f} % of the new sums right" for share in progress.checks[-1:]]
        else:
            facts = [f"step {progress.reward_steps_done:,} of {progress.reward_steps:,}"]
            for name, made in progress.outcomes.items():
                mean = recent_mean([one.reward for one in made])
                facts += [] if mean is None else [f"{name}: {100 * mean:.0f} % right"]
        return [*facts, f"at most {self.time_left} left"]
