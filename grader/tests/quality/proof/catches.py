"""catches: counts at how many of 200 seeds the tests catch each known mistake: it must be all of them.

Every run draws the common examples; a submission of a class gets some more that depend on its content. A mistake that
seed 0 catches is caught by the common examples, and so at every seed; two more seeds confirm it. The others are tried
at every seed. If a mistake is missed at some seed, it needs a pinned example (`@example`) that shows it, or another
test.
"""

from __future__ import annotations

from collections import defaultdict

from grader.tests.quality.devcheck.subjects import Subject, mistakes
from grader.tests.quality.devcheck.trying import TryJob
from grader.tests.quality.proof.running import parsed, parser, results_of, seconds_since

MINUTES = 20

COMPARED_SEEDS = (0, 1, 2**40 + 1)
SHOWN_SEEDS = 5  # of those that miss a mistake


def run(arguments: list[str]) -> int:
    options = parser("catches", __doc__, seeds=200)
    options.add_argument("--mistake", action="append", metavar="ID", help="only this known mistake; may be repeated")
    chosen = parsed(options, arguments)
    everything: dict[tuple[str, str], Subject] = {}
    for exercise in chosen.exercises:
        known = [each for each in mistakes(exercise) if not chosen.mistake or each.name in chosen.mistake]
        everything |= {(exercise.name, each.name): each for each in known}

    def missed_at(names: list[tuple[str, str]], seeds: tuple[int, ...] | range) -> dict[tuple[str, str], list[int]]:
        """The seeds at which each of these mistakes is not caught; mistakes that are always caught are left out."""
        of_exercise = defaultdict(list)
        for exercise, mistake in names:
            of_exercise[exercise].append(everything[exercise, mistake])
        jobs = [
            TryJob(name, False, seed, tuple(found), until_failure=True)
            for seed in seeds for name, found in of_exercise.items()
        ]  # fmt: skip
        missed = defaultdict(list)
        for job, results in results_of(jobs, chosen):
            for tried in results:
                if not tried.failed_tests:
                    missed[job.exercise, tried.name].append(job.seed)
        return missed

    uncertain = list(missed_at(list(everything), COMPARED_SEEDS))
    missed = missed_at(uncertain, chosen.seeds)
    count = len(chosen.seeds)
    for (exercise, mistake), seeds in missed.items():
        some = ", ".join(map(str, sorted(seeds)[:SHOWN_SEEDS])) + (", …" if len(seeds) > SHOWN_SEEDS else "")
        print(f"✗ {exercise}: {mistake} is caught at {count - len(seeds)} of {count} seeds; not at {some}")
    least = 1 - max(map(len, missed.values()), default=0) / count
    print(
        f"catches: {len(everything)} known mistakes: {len(everything) - len(uncertain)} are caught in the same way "
        f"at every seed; of the other {len(uncertain)}, tried at seeds {chosen.seeds[0]} to {chosen.seeds[-1]}, "
        f"{len(missed)} are missed at some seed. The smallest catch rate is {100 * least:.4g} % "
        f"({seconds_since(chosen)})."
    )
    return int(bool(missed) or not everything)
