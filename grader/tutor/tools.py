"""The tools of the tutor. Each returns a text: what a command of the kit prints, a part of it, or a part of a lesson.

A name that does not exist, and a command that cannot run, raise a UserProblem.
"""

from __future__ import annotations

import contextlib
import re
import textwrap

from grader.course.names import match_name, unknown_name
from grader.course.syllabus import EXERCISES
from grader.files import UserProblem
from grader.tutor.commands import Printed, run_command

LABELS = (  # of the rows of a failure
    "promised", "sizes", "called", "problem", "it was at", "at", "got", "expected", "differs", "that is", "printed",
)  # fmt: skip
ROW = re.compile(rf"^  ({'|'.join(LABELS)}) +(\S.*(?:\n {{12}}.*)*)", re.MULTILINE)
DIAGNOSIS = re.compile(r"^── (?!points )[^\n]*─\n(.*?)(?=^[A-Z]+  test_|^── |^  \w)", re.MULTILINE | re.DOTALL)
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
        names |= dict.fromkeys((stem[:4], str(int(stem[2:4])), f"ch{int(stem[2:4])}", title), stem)
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
    rows = _rows(printed)
    if "called" not in rows:
        return f"There is no failing call to look at.\n\n{printed.text}"
    shown = {label: rows[label] for label in ("sizes", "called", "problem", "got", "at", "it was at") if label in rows}
    lines = [f"{label}:\n{textwrap.indent(text, '    ')}" for label, text in shown.items()]
    if again := re.search(r"headway repro \w+", printed.text):
        lines.append(f"The learner makes this call again with `{again[0]}`; `{again[0]} --pdb` stops in the debugger.")
    return "\n".join(lines)


def questions(name: str) -> str:
    """Questions to ask the learner about their own attempt, one at a time and in this order."""
    printed = _last_check(name)
    rows = _rows(printed)
    if printed.passed:
        asked = [
            "In your own words: what does this code do, and why is it right?",
            "Which line was the hardest, and what did you believe before you had it?",
            "What would the tests say if you left that line out?",
        ]
    elif "promised" in rows:
        asked = _questions_about_failure(rows, DIAGNOSIS.search(printed.text))
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


def _questions_about_failure(rows: dict[str, str], diagnosis: re.Match | None) -> list[str]:
    def block(*labels: str) -> str:
        return "".join(f"\n    {label}:\n{textwrap.indent(rows[label], ' ' * 8)}" for label in labels if label in rows)

    said = textwrap.indent(diagnosis[1].strip(), "    ") if diagnosis else ""
    return [
        f"What did you expect this call to give, and why?{block('promised', 'sizes', 'called')}",
        f"What happened instead? Say it in your own words.{block('problem', 'got', 'printed')}",
        "Where do the two part? Follow the example through your code by hand, a line at a time, and stop at the first "
        f"value that you did not expect.{block('expected', 'differs', 'that is')}",
        f"Which line decides it, and what would you change there?{block('at', 'it was at')}"
        + (f"\n    The check has noticed this:\n{textwrap.indent(said, '    ')}" if said else ""),
    ]


def _rows(printed: Printed) -> dict[str, str]:
    """The labelled rows of the first failure on a page of `headway check`."""
    rows: dict[str, str] = {}
    for match in ROW.finditer(printed.text):
        rows.setdefault(match[1], textwrap.dedent(" " * 12 + match[2]))
    return rows


TOOLS = (status, next_exercise, check, hint, lesson, picture, smaller_example, questions)
