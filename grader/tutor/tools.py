"""The tools of the tutor. Each returns a text: what a command of the kit prints, a part of it, or a part of a lesson.

Commands run as child processes, with fixed arguments and one at a time. A name that does not exist, and a command that
cannot run, raise a UserProblem.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass

from grader.course.syllabus import EXERCISES, ROOT, match_name, unknown_name
from grader.files import UserProblem
from grader.verdict.results import DATA_MARK, Failure, Verdict

COMMANDS = {
    "status": ("status",),
    "next": ("next",),
    "check": ("check", "--worker", "--data"),
    "hint": ("hint",),
    "show": ("show", "--yours", "--worker"),
}
START = (sys.executable, "-P", "-m", "grader.cli")
UNUSABLE = 2  # the exit status of a command that could not do what it was asked for

_one_at_a_time = threading.Lock()  # two commands at once could lose a line of progress.txt


class CommandFailed(UserProblem):
    """A command did not do what it was asked for; the message is its sentence."""


@dataclass(frozen=True)
class Printed:
    text: str
    passed: bool
    verdict: Verdict | None = None  # of `check`, if the tests ran


def run_command(name: str, *names: str) -> Printed:
    """What a command of the kit prints; CommandFailed, with its sentence, if it prints only that."""
    if any("\0" in each for each in names):  # no process can get such an argument
        raise CommandFailed("the name contains a null byte; `headway list` lists the names")
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "COLUMNS": "80", "NO_COLOR": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with _one_at_a_time:
        done = subprocess.run(
            [*START, *COMMANDS[name], "--", *names],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    page, _, data = done.stdout.partition(DATA_MARK)
    text, mark = page.strip("\n"), "headway: "  # other lines of the errors may be a traceback, with code
    problem = "\n".join(line.removeprefix(mark) for line in done.stderr.splitlines() if line.startswith(mark))
    if done.returncode and (done.returncode == UNUSABLE or not text):
        raise CommandFailed(problem or text or f"`headway {name}` has ended; `headway doctor` may find the reason")
    verdict = Verdict.from_data(json.loads(data)) if data else None
    return Printed("\n\n".join(filter(None, [text, problem])), done.returncode == 0, verdict)


ANSWER = re.compile(r"^</summary>\n.*?\n</details>\n?|</summary>.*?</details>", re.MULTILINE | re.DOTALL)
PARAGRAPH = re.compile(r"^\*\*`(\w+)`\*\*.*?(?=^\*\*`\w+`\*\*|^#|\Z)", re.MULTILINE | re.DOTALL)


_last_checks: dict[str, tuple[object, Printed]] = {}  # by name: the state of the learner's files, and what was printed


def status() -> str:
    """Where the learner is: points by chapter, and the next exercise."""
    return run_command("status").text


def next_exercise() -> str:
    """The exercise to do next, with its file and line."""
    return run_command("next").text


def check(name: str) -> str:
    """Test the learner's code of an exercise or a chapter, and return the verdict: the diagnosis with its question,
    what was promised, the call, what the code returned, what was expected. Points are recorded."""
    return _check_now(name).text


def hint(name: str) -> str:
    """The next hint of an exercise, which is recorded as asked for. Call it only when the learner asks for a hint."""
    return run_command("hint", name).text


def lesson(name: str) -> str:
    """What the lesson says about an exercise; or the whole lesson of a chapter ("ch03"), without the answers to its
    questions."""
    lessons = {path.stem: path.read_text(encoding="utf-8") for path in sorted(EXERCISES.glob("ch*.md"))}
    chapters = {stem: text for stem, text in lessons.items() if PARAGRAPH.search(text)}
    found = {match[1]: (stem, match[0]) for stem, text in chapters.items() for match in PARAGRAPH.finditer(text)}
    names = {exercise: exercise for exercise in found} | {stem: stem for stem in lessons}
    for stem, text in chapters.items():
        title = text.partition("\n")[0].rpartition(": ")[2]
        number = str(int(stem[2:4]))
        names |= dict.fromkeys((stem[:4], number, f"ch{number}", f"chapter {number}", title), stem)
    meant = names.get(match_name(name, names) or "")
    if meant is None:
        raise UserProblem(unknown_name("exercise or chapter", name, names))
    if meant not in found:
        return ANSWER.sub("</summary></details>\n", lessons[meant])
    stem, paragraph = found[meant]
    shapes = [line for line in chapters[stem].splitlines() if line.startswith("|") and re.search(rf"`{meant}\b", line)]
    parts = [f"From exercises/{stem}.md:", ANSWER.sub("", paragraph).strip(), "\n".join(shapes)]
    return "\n\n".join(filter(None, parts))


def picture(name: str) -> str:
    """A drawing of what the learner's code computes, without the reference's."""
    return run_command("show", name).text


def smaller_example(name: str) -> str:
    """The smallest failing example that the kit found: its sizes, the call, what the learner's code did there, and the
    command that makes the call again."""
    printed = _last_check(name)
    failed = _first_failure(printed)
    if failed is None or not failed.failure.called:
        return f"There is no failing call to look at.\n\n{printed.text}"
    lines = failed.rows("sizes", "called", "problem", "got", "at", "it was at")  # not what was expected
    if again := failed.script:
        lines.append(f"The learner makes this call again with `{again}`; `{again} --pdb` stops in the debugger.")
    return "\n".join(lines)


def questions(name: str) -> str:
    """Questions to ask the learner about their own attempt, one at a time and in this order."""
    printed = _last_check(name)
    failed = _first_failure(printed)
    if printed.passed:
        asked = [
            "In your own words: what does this code do, and why is it right?",
            "Which line was the hardest, and what did you believe before you had it?",
            "What would the tests say if you left that line out?",
        ]
    elif failed is not None:
        asked = _questions_about_failure(failed)
    else:
        asked = [
            f"This is what the check says. What does it tell you?\n{textwrap.indent(printed.text, '    ')}",
            "What goes in and what comes out, with which shapes? Try it on paper for the smallest sizes that you can.",
            "Which line do you write or change first, and what do you expect the check to say after it?",
        ]
    return "\n".join(f"{number}. {question}" for number, question in enumerate(asked, start=1))


def _check_now(name: str) -> Printed:
    state = _saved_state()
    printed = run_command("check", name)
    _last_checks[name] = state, printed
    return printed


def _last_check(name: str) -> Printed:
    """What the last check of this name printed, if no chapter was saved since; else what a check prints now."""
    state, printed = _last_checks.get(name, (None, None))
    return printed if printed and state == _saved_state() else _check_now(name)


def _saved_state() -> list[tuple[str, int, int]]:
    """When each chapter was saved, and its size; the files are not opened."""
    found = []
    for path in sorted(EXERCISES.glob("ch*.py")):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            found.append((path.name, status.st_mtime_ns, status.st_size))
    return found


@dataclass(frozen=True)
class _Failed:
    """The failing test that a page shows first."""

    failure: Failure
    noticed: str  # forbidden functions, and the diagnosis with its question
    script: str  # the command that makes the call again

    def rows(self, *labels: str) -> list[str]:
        """These rows of the failure, each below its label."""
        texts = {row.label: row.text for row in self.failure.rows()}
        return [f"{label}:\n{textwrap.indent(texts[label], '    ')}" for label in labels if label in texts]


def _first_failure(printed: Printed) -> _Failed | None:
    for result in printed.verdict.results if printed.verdict else ():
        for test in result.failures:
            if test.details is not None:
                mistakes = result.diagnosis.mistakes if result.diagnosis else []
                noticed = [*result.forbidden, *(f"{mistake.says}\n{mistake.hint}" for mistake in mistakes)]
                return _Failed(test.details, "\n".join(noticed), result.script)
    return None


def _questions_about_failure(failed: _Failed) -> list[str]:
    def block(*labels: str) -> str:
        return "".join("\n" + textwrap.indent(row, "    ") for row in failed.rows(*labels))

    said = f"\n    The check has noticed this:\n{textwrap.indent(failed.noticed, ' ' * 8)}" if failed.noticed else ""
    return [
        f"What did you expect this call to give, and why?{block('promised', 'sizes', 'called')}",
        f"What happened instead? Say it in your own words.{block('problem', 'got', 'printed', 'untested')}",
        "Where do the two part? Follow the example through your code by hand, a line at a time, and stop at the first "
        f"value that you did not expect.{block('expected', 'differs', 'that is')}",
        f"Which line decides it, and what would you change there?{block('at', 'it was at')}{said}",
    ]


TOOLS = (status, next_exercise, check, hint, lesson, picture, smaller_example, questions)
