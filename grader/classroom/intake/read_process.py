"""The process that reads a class's submissions for reader.py: `python -m grader.classroom.intake.read_process`.

It reads a job from standard input and writes its steps to standard output, one JSON object per line. The operating system limits its memory and
processor time where it can; reader.py limits the wall time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grader.classroom.intake.options import ReadOptions
from grader.classroom.intake.problems import GradingProblem, describe_error
from grader.classroom.intake.submissions import ReadProgress, Submission, iterate_submissions


def main() -> None:
    job = json.loads(sys.stdin.readline())
    write_message = _take_stdout()
    limit_memory(job["memory"])
    report = _make_step_reporter(write_message, job["seconds"], job["chapter_seconds"])
    options = ReadOptions(**job["options"] | {"modules": frozenset(job["options"]["modules"])})
    progress = ReadProgress(frozenset(job["done"]), job["refused"], report, options)
    try:
        for key, submissions in iterate_submissions(Path(job["path"]), lambda sentence: write_message({"note": sentence}), progress):
            write_message({"read": key, "submissions": [as_data(submission) for submission in submissions]})
    except GradingProblem as trouble:
        write_message({"refused": str(trouble)})
    except Exception as error:
        write_message({"refused": f"{Path(job['path']).name} cannot be read: {describe_error(error)}"})
    write_message({"end": True})


def as_data(submission: Submission) -> dict[str, Any]:
    when = submission.submitted
    return asdict(submission) | {"submitted": when.isoformat() if when else None}


def limit_memory(most: int) -> None:
    """Limit the address space. macOS and Windows have no such limit that works."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def limit_seconds(more: int) -> None:
    """Allow this many more seconds of processor time, then SIGXCPU ends the process. Has no effect on systems without such a limit."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        until = int(time.process_time()) + more + 1
        resource.setrlimit(resource.RLIMIT_CPU, (until if hard == resource.RLIM_INFINITY else min(until, hard), hard))


def _take_stdout() -> Callable[[dict[str, Any]], None]:
    """A function that writes a line to standard output; anything else written to standard output goes to standard error from here on."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def write_message(message: dict[str, Any]) -> None:
        out.write(json.dumps(message).encode() + b"\n")
        out.flush()

    return write_message


def _make_step_reporter(write_message: Callable[[dict[str, Any]], None], seconds: int, chapter_seconds: int) -> Callable[[str, str], None]:
    def report(key: str, chapter: str) -> None:
        write_message({"at": [key, chapter]})
        limit_seconds(chapter_seconds if chapter else seconds)

    return report


if __name__ == "__main__":
    main()
