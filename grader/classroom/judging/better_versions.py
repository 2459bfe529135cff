"""Chooses the version with most points of a chapter that a submission has several times (`--copies better`).

Each version is judged, and a note says which one counts. A chapter is judged with the reference's earlier chapters, so
the versions of one chapter do not influence another. Of versions with equal points, the newest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from grader.classroom.intake.submissions import ChapterVersion, Submission, hash_content
from grader.classroom.judging.scoring import NOTHING, compute_marks, format_points
from grader.classroom.sanitize import shorten
from grader.course.syllabus import Exercise
from grader.verdict.summary import Verdict

# The points of a content, by its digest, in one chapter; None if it has no verdict.
FindPoints = Callable[[str, str], Decimal | None]


def find_points_in(
    find_verdict: Callable[[str], Verdict | str],
    exercises: Sequence[Exercise],
    points_of: Callable[[Exercise], Decimal | float],
) -> FindPoints:
    """A function that adds up the points of a content in a chapter."""

    def find_points(digest: str, module: str) -> Decimal | None:
        verdict = find_verdict(digest)
        if not isinstance(verdict, Verdict):
            return None
        own = [exercise for exercise in exercises if exercise.module == module]
        marks = compute_marks(verdict.results, own, points_of)
        return sum((mark.earned for mark in marks.values()), NOTHING)

    return find_points


def list_variants(submission: Submission) -> list[Submission]:
    """The contents to judge besides the submission's own: first the second version of each chapter, and so on."""
    by_module = _versions_by_module(submission)
    most = max(map(len, by_module.values()), default=0)
    variants = []
    for place in range(1, most):
        versions = {module: found[place] for module, found in by_module.items() if place < len(found)}
        variants.append(_with_versions(submission, versions))
    return variants


def choose_versions(submission: Submission, find_points: FindPoints) -> Submission:
    """The submission with the best version of each chapter. It stays as it is while a version has no verdict."""
    by_module = _versions_by_module(submission)
    if not by_module or submission.problem:
        return submission
    digests = [submission.digest, *(variant.digest for variant in list_variants(submission))]
    chosen, notes = {}, []
    for module, found in by_module.items():
        points = [find_points(digest, module) for digest in digests[: len(found)]]
        known = [one for one in points if one is not None]
        if len(known) < len(found):
            return submission
        best = known.index(max(known))
        chosen[module] = found[best]
        notes += [*found[best].notes, _describe(module, found, known, best)]
    return replace(_with_versions(submission, chosen), notes=(*submission.notes, *notes))


def _versions_by_module(submission: Submission) -> dict[str, list[ChapterVersion]]:
    """The versions of each chapter that has several, the newest first."""
    found: dict[str, list[ChapterVersion]] = {}
    for version in submission.versions:
        found.setdefault(version.module, []).append(version)
    return found


def _with_versions(submission: Submission, versions: dict[str, ChapterVersion]) -> Submission:
    sources = submission.sources | {module: version.text for module, version in versions.items()}
    return replace(submission, sources=sources, digest=hash_content(sources, submission.broken, submission.problem))


def _describe(module: str, found: Sequence[ChapterVersion], points: Sequence[Decimal], best: int) -> str:
    named = [f"{shorten(one.file)} ({format_points(own)})" for one, own in zip(found, points, strict=True)]
    others = " and ".join(named[:best] + named[best + 1 :])
    why = "it has more points" if points.count(points[best]) == 1 else "of those with most points it is the newest"
    counts = f"{shorten(found[best].file)} counts ({format_points(points[best])} points), because {why}"
    return f"there are several versions of {module}.py, and each was judged; {counts}; not {others}"
