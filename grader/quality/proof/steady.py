"""steady: runs the reference at a hundred seeds. A test that fails once is flaky or unfair.

Each run is all suites with the examples of one seed, in process.
"""

from __future__ import annotations

from collections import Counter

from grader.course.syllabus import load_syllabus
from grader.quality.devcheck.subjects import Subject, solution_of
from grader.quality.devcheck.trying import TryJob
from grader.quality.proof.running import parsed, parser, results_of, seconds_since, shortfall


def run(arguments: list[str]) -> int:
    options = parsed(parser("steady", __doc__, seeds=100), arguments)
    references = {each.name: Subject("reference", "reference", solution_of(each)) for each in options.exercises}
    jobs = [TryJob(name, False, seed, (subject,)) for seed in options.seeds for name, subject in references.items()]
    runs, tests = len(options.seeds), 0
    failures: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for job, (tried,) in results_of(jobs, options):
        tests += len(tried.outcomes)
        failures.update(list(tried.failed_tests))
        words = shortfall(tried, load_syllabus().exercise(job.exercise).points)
        for name in tried.failed_tests or ([job.exercise] if words else []):
            examples.setdefault(name, f"--exercise {job.exercise} --seed {job.seed}: {words}")
    for name, example in examples.items():
        print(f"✗ {name} failed in {failures[name]} of {runs} runs; python -m pytest --target solutions {example}")
    print(
        f"steady: the reference at seeds {options.seeds[0]} to {options.seeds[-1]}: {runs} runs, {tests} tests run, "
        f"{failures.total()} failed ({len(examples)} different one{'s' * (len(examples) != 1)}; "
        f"{seconds_since(options)})."
    )
    return int(bool(examples or not tests))
