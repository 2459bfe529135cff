"""leaks: tries the code in everything that `headway tutor` can say about an exercise, as a solution of it.

The tutor's replies are what the kit's commands print, and the lessons. For each exercise this collects the hints, the
sentences of all known mistakes, what the tests say about the stub, the reference and each known mistake, and the
lesson. `candidates.py` cuts the code out of each text, and out of all together, and each is tried as the body of each
function of the exercise; the other functions of a class are the reference's. It may earn at most what the docstring,
the TODO steps and the lesson give in the same way, or else 10 % of the points, as trivial code may. The lesson alone
may earn half of the points: it has the formula, and every learner reads it.

Without `--exercise` it then sends the requests of grader/tests/tutor/leak_requests.toml, which try to get more out of a
real server. It cannot prevent that a model knows the answer by itself.

Left out is the line of their own code that a failure quotes. The values of the first failing example are the ones
that are tried, not those of the smallest.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from grader.course.known_mistakes import misconceptions
from grader.course.source import definition
from grader.course.stubs import reference_stub
from grader.course.syllabus import ROOT, Exercise, load_syllabus
from grader.teaching.show import SUBJECTS
from grader.tests.quality.benchmarks.figures import table
from grader.tests.quality.devcheck.subjects import Subject, mistakes, solution_of
from grader.tests.quality.devcheck.trying import TryJob
from grader.tests.quality.proof.candidates import Block, blocks, bodies, pieces
from grader.tests.quality.proof.running import parsed, parser, results_of, seconds_since
from grader.tutor.tools import lesson

MINUTES = 180

JOB_SUBJECTS = 100
ALLOWED_SHARE = 0.1  # of the points, as for trivial code
LESSON_SHARE = 0.5  # the lesson has the formula, and every learner reads it beside the stub
REQUESTS = "grader/tests/tutor/test_leak_requests.py"
STUB, LESSON = "stub", "lesson"  # kinds of text

Texts = dict[str, list[str]]  # the kind of text → the texts in their order


@dataclass(frozen=True)
class Candidate:
    block: Block
    body: str
    kind: str  # of the text that it comes from; STUB: what every learner sees


@dataclass
class Leaks:
    """What was tried for one exercise."""

    texts: int
    candidates: list[Candidate]
    earned: dict[str, float] = field(default_factory=dict)  # the candidate's number → points

    def best(self, kinds: Collection[str], block: Block | None = None) -> float:
        """The most points that a candidate from these kinds of text earns, for the block or for any."""
        return max(
            (self.earned[str(number)] for number, each in enumerate(self.candidates)
             if block in (None, each.block) and each.kind in kinds),
            default=0.0,
        )  # fmt: skip

    def beyond(self, points: float) -> Iterator[tuple[Candidate, float]]:
        """The candidates that earn more than they may."""
        for number, each in enumerate(self.candidates):
            most = max(self.best([STUB, LESSON], each.block), ALLOWED_SHARE * points)
            if each.kind == LESSON:
                most = max(self.best([STUB], each.block), LESSON_SHARE * points)
            if each.kind != STUB and self.earned[str(number)] > most:
                yield each, self.earned[str(number)]


# ---- what is said


def texts_of(exercise: Exercise, failures: list[str]) -> Texts:
    """All texts about the exercise, each once; of failures that differ only in numbers, the first."""
    known = misconceptions(exercise.module, exercise.name)
    picture = SUBJECTS.get(exercise.name)
    texts = {
        "hints": list(exercise.hints),
        "syllabus": [exercise.promise, exercise.why, exercise.unlocks],
        "diagnoses": [text for mistake in known for text in (mistake.says, mistake.hint)],
        "failures": list({re.sub(r"[\d.]+", "0", text): text for text in reversed(failures)}.values())[::-1],
        "picture": [picture.about, picture.look] if picture else [],
        LESSON: [lesson(exercise.name), lesson(exercise.module)],
    }
    return {kind: list(dict.fromkeys(found)) for kind, found in texts.items()}


def stub_text(exercise: Exercise) -> str:
    """The prose of a stub that every learner has: its docstrings and TODO steps."""
    text = definition(reference_stub(exercise.module), exercise.name).text
    documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    prose = [ast.get_docstring(node) or "" for node in documented]
    return "\n\n".join([*prose, *re.findall(r"^ *# (.*)$", text, re.MULTILINE)])


def candidates_of(exercise: Exercise, texts: Texts) -> list[Candidate]:
    """Everything to try, each body once: first what the stub itself gives."""
    found: dict[tuple[Block, str], str] = {}
    plain = pieces(stub_text(exercise))
    by_kind = {kind: [pieces(text) for text in of_kind] for kind, of_kind in texts.items()}
    joined = [piece for of_kind in by_kind.values() for found_pieces in of_kind for piece in found_pieces]
    for block in blocks(solution_of(exercise), reference_stub(exercise.module), exercise.name):
        values = ", ".join(f"{{{name}}}" for name in sorted(block.arguments - {"self"}))
        nothing = ["raise NotImplementedError", "pass", f'raise ValueError(f"{values} cannot work")']
        nothing += [f"return {name}" for name in sorted(block.arguments)]
        for body in [*nothing, *bodies(plain, block, exercise.name)]:
            found.setdefault((block, body), STUB)
        for kind, of_kind in by_kind.items():
            whole = [piece for found_pieces in of_kind for piece in found_pieces]
            for some in [*of_kind, whole]:
                for body in bodies(some, block, exercise.name):
                    found.setdefault((block, body), kind)
        for body in bodies(joined, block, exercise.name):
            found.setdefault((block, body), "all together")
    return [Candidate(block, body, kind) for (block, body), kind in found.items()]


# ---- what it earns


def run(arguments: list[str]) -> int:
    options = parsed(parser("leaks", __doc__), arguments)
    said = _failures(options)
    found = {}
    for exercise in options.exercises:
        texts = texts_of(exercise, said[exercise.name])
        found[exercise.name] = Leaks(sum(map(len, texts.values())), candidates_of(exercise, texts))
    _try(found, options)
    rows, status = [], 0
    for chapter in load_syllabus().chapters:
        of_chapter = {each: found[each.name] for each in options.exercises if each.chapter == chapter.id}
        for exercise, tried in of_chapter.items():
            for candidate, earned in tried.beyond(exercise.points):
                status = 1
                where = f"as the body of {candidate.block.function}, from {candidate.kind}"
                print(f"✗ {exercise.name}: {earned:g} of {exercise.points} points {where}:\n{candidate.body}")
        if of_chapter:
            rows.append([f"**{chapter.id} {chapter.title}**", *_numbers(of_chapter)])
            rows += [[f"`{each.name}`", *_numbers({each: tried})] for each, tried in of_chapter.items()]
    heads = ["exercise", "texts", "candidates", "stub earns", "lesson earns", "other replies earn", "too much"]
    print(table(heads, rows, words=1))
    count = sum(len(each.candidates) for each in found.values())
    print(f"leaks: {count} candidates for {len(found)} exercises ({seconds_since(options)})", flush=True)
    if not options.exercise:  # the requests are not about one exercise
        environment = os.environ | {"HEADWAY_EVERY_REQUEST": "1"}
        status |= subprocess.call([sys.executable, "-m", "pytest", "-q", REQUESTS], cwd=ROOT, env=environment) != 0
    return status


def _failures(options: argparse.Namespace) -> dict[str, list[str]]:
    """What the tests say about the stub, the reference and each known mistake of each exercise."""
    jobs = []
    for exercise in options.exercises:
        states = [Subject("stub", "stub", reference_stub(exercise.module)), *mistakes(exercise)]
        jobs += _jobs(exercise, states)
    results = {(job.exercise, job.subjects[0].name): tried for job, tried in results_of(jobs, options)}
    said: dict[str, list[str]] = {exercise.name: [] for exercise in options.exercises}
    for job in jobs:
        said[job.exercise] += [text for tried in results[job.exercise, job.subjects[0].name] for text in tried.shown]
    return said


def _try(found: dict[str, Leaks], options: argparse.Namespace) -> None:
    jobs = []
    for exercise in options.exercises:
        solution = solution_of(exercise)
        subjects = [
            Subject("candidate", str(number), each.block.filled(solution, each.body))
            for number, each in enumerate(found[exercise.name].candidates)
        ]
        jobs += _jobs(exercise, subjects)
    for job, results in results_of(jobs, options):
        found[job.exercise].earned |= {tried.name: tried.earned for tried in results}


def _jobs(exercise: Exercise, subjects: list[Subject]) -> list[TryJob]:
    starts = range(0, len(subjects), JOB_SUBJECTS)
    return [TryJob(exercise.name, False, 0, tuple(subjects[at : at + JOB_SUBJECTS]), quick=True) for at in starts]


def _numbers(leaks: dict[Exercise, Leaks]) -> list[str]:
    """Numbers of texts and candidates; the largest shares of the points that they earn; how many earn too much."""
    tried = leaks.items()
    others = {candidate.kind for each in leaks.values() for candidate in each.candidates} - {STUB, LESSON}
    kinds = ([STUB], [LESSON], others)
    shares = [max(100 * each.best(some) / exercise.points for exercise, each in tried) for some in kinds]
    beyond = sum(len(list(each.beyond(exercise.points))) for exercise, each in tried)
    texts, candidates = sum(each.texts for each in leaks.values()), sum(len(each.candidates) for each in leaks.values())
    return [str(texts), str(candidates), *(f"{share:.0f} %" for share in shares), str(beyond)]
