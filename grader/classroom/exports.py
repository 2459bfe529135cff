"""The files of one run: grades.csv, feedback/SLUG.md and gradescope/SLUG.json; and marks.csv of a term.

Equal classes give equal files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.classroom import sanitize
from grader.classroom.class_report import ReportContext, ReportProblem, write_report
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import GradedClass, Person, format_points
from grader.classroom.term.course import PersonMarks, TermMarks
from grader.classroom.term.roster import FIELDS
from grader.course.syllabus import Exercise
from grader.files import make_private, problem, write_whole
from grader.runner.run_page import WIDTH, Page, print_result
from grader.verdict.results import ExerciseResult, Failure, replaced_sentences

UNTESTED = "No test of this exercise was run."
NOT_RUN = "Some tests of this exercise were not run, because earlier ones took too long or could not continue."


def write_all(graded: GradedClass, folder: Path) -> list[Path]:
    """Write every export of one class into `folder`. GradingProblem if one cannot be written."""
    exports = (write_grades, write_gradescope, write_feedback)
    return [path for export in exports for path in export(graded, folder)]


def write_files(graded: GradedClass, out: Path, context: ReportContext) -> tuple[list[Path], list[str]]:
    """Write everything but the gradebook. The files, and a sentence if the report could not be written."""
    written = write_all(graded, out)
    try:
        return [*written, write_report(graded, out, context)], []
    except ReportProblem as problem:
        return written, [str(problem)]


def write_file(path: Path, content: str | bytes) -> Path:
    """Write the file, which only its owner can read, and return its path. GradingProblem if that is not possible."""
    try:
        write_whole(path, content, private=True)
    except OSError as error:
        raise GradingProblem(problem(error, f"write {sanitize.line(str(path))}")) from error
    return path


def write_per_person(folder: Path, suffix: str, contents: dict[str, str], mark: str) -> list[Path]:
    """Write a file for each name, and remove those of other names. All of them start with `mark`; other files stay."""
    paths = [write_file(folder / f"{name}{suffix}", content) for name, content in contents.items()]
    make_private(folder)
    for path in set(folder.glob(f"*{suffix}")) - set(paths):
        if path.is_file() and path.read_bytes().startswith(mark.encode("utf-8")):
            path.unlink()
    return paths


# ---- sentences


def problem_sentence(person: Person) -> str:
    """The sentence that says why nothing could be graded, or ""."""
    if person.missing or not person.problem:
        return make_sentence(person.problem)
    return make_sentence(f"this submission could not be graded: {person.problem}")


def make_sentence(words: str) -> str:
    shown = sanitize.line(words)
    first = shown.partition(" ")[0].rstrip(",.:;!?")
    is_word = first.replace("'", "").replace("-", "").isalpha()  # and not the name of a file or a function
    start = shown[:1].upper() if is_word else shown[:1]
    return start + shown[1:] + ("" if shown.endswith((".", "!", "?")) or not shown else ".")


def correction_sentences(person: Person) -> dict[str, str]:
    """What the instructor changed: a sentence for each exercise."""
    sentences = {}
    for exercise, one in person.given.items():
        points = f"{format_points(one.points)} {'point' if one.points == 1 else 'points'}"
        given = f"The instructor gave {points} for {exercise} instead of {format_points(one.of_verdict)}"
        sentences[exercise] = f'{given} on {one.date}, because: "{one.because}".'
    return sentences


def format_result(result: ExerciseResult, is_hidden: bool = False) -> str:
    """The output of `headway check`: the first failure in full, the others by name, and the command for a hint.

    A learner's kit has no hint for a hidden exercise.
    """
    lines, page = _page()
    print_result(page, sanitize.result(result), last="" if is_hidden else None)
    return "\n".join(lines[2:])  # without the blank line and the title


def format_failure(failure: Failure) -> str:
    lines, page = _page()
    page.failure(sanitize.failure(failure))
    return "\n".join(lines)


def _page() -> tuple[list[str], Page]:
    lines: list[str] = []
    return lines, Page(lambda text, **markup: lines.append(text.rstrip()), WIDTH)


# ---- tables
#
# grades.csv has a row per person, also for missing people of the roster, and a column per exercise. marks.csv has a row
# per person with all ids of the roster, the term's total, and the points of each assignment.


GRADES_NAME, MARKS_NAME = "grades.csv", "marks.csv"
GRADES_COLUMNS = ("name", "total", "of", "late", "problem", "notes")  # and then the exercises

# A spreadsheet runs a cell that starts like this as a formula; the wide forms are typed on East Asian keyboards. If the
# system's list separator is a semicolon (in much of Europe), a spreadsheet splits lines there, also inside quotes, so
# that cells can start in the middle of a text.
_FORMULA = re.compile('(^|[;|])[ "]*(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])')
_QUOTED = re.compile('[,;|\t"\r\n]')


def write_grades(graded: GradedClass, folder: Path) -> list[Path]:
    """Write grades.csv: a row for each person, in the order of their names."""
    people = [*graded.people, *graded.missing]
    if graded.missing:
        people.sort(key=lambda one: (one.name.casefold(), one.name, one.slug))
    rows = [
        [*GRADES_COLUMNS, *(exercise.name for exercise in graded.exercises)],
        *(_grades_row(one, graded) for one in people),
    ]
    return [write_file(folder / GRADES_NAME, format_table(rows))]


def _grades_row(person: Person, graded: GradedClass) -> list[str]:
    broken = [f"{module}.py does not import" for module in person.broken]
    notes = "; ".join([*person.notes, *person.zeros, *correction_sentences(person).values(), *broken])
    words = [spreadsheet_text(text) for text in (person.late, "missing" if person.missing else person.problem)]
    earned = [format_points(person.marks[exercise.name].earned) for exercise in graded.exercises]
    total = [format_points(person.total.earned), format_points(person.total.points)]
    return [spreadsheet_text(person.name), *total, *words, spreadsheet_text(notes, sanitize.MAX_TEXT_LENGTH), *earned]


def write_marks(marks: TermMarks, folder: Path) -> Path:
    header = [*FIELDS, "percent"]
    for name in marks.classes:
        header += [name, f"{name} of", f"{name} remark"]
    return write_file(folder / MARKS_NAME, format_table([header, *map(_marks_row, marks.people)]))


def _marks_row(person: PersonMarks) -> list[str]:
    row = [spreadsheet_text(getattr(person.who, field)) for field in FIELDS]
    row.append("" if person.percent is None else format_points(person.percent))
    for mark in person.marks.values():
        earned = "" if mark.is_waiting else format_points(mark.earned)
        row += [earned, format_points(mark.points), spreadsheet_text(mark.remark)]
    return row


def format_table(rows: list[list[str]]) -> str:
    """The rows as CSV that Excel opens correctly."""
    # With a byte order mark: without it, Excel reads UTF-8 as the system's old code page and garbles every name with an
    # accent. LibreOffice, pandas and the importers of Moodle and Canvas ignore the mark; with Python's csv module use
    # encoding="utf-8-sig".
    return "\ufeff" + "".join(",".join(map(_quote_cell, row)) + "\r\n" for row in rows)


def spreadsheet_text(words: str, length: int = sanitize.MAX_LINE_LENGTH) -> str:
    """Text that no spreadsheet runs as a formula: an apostrophe in front marks it as text."""
    return _FORMULA.sub(r"\g<0>'", sanitize.line(words, length))


def _quote_cell(cell: str) -> str:
    """The cell in the file: in quotes if it contains a character that a spreadsheet may treat as a separator."""
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell


# ---- feedback/SLUG.md: for each learner, the output of the tests, with the points under the instructor's rules


FEEDBACK_FOLDER = "feedback"
FEEDBACK_START = "# Feedback for "


def write_feedback(graded: GradedClass, folder: Path) -> list[Path]:
    pages = {person.slug: feedback_page(person, graded) for person in graded.people}
    return write_per_person(folder / FEEDBACK_FOLDER, ".md", pages, FEEDBACK_START)


def feedback_page(person: Person, graded: GradedClass) -> str:
    """The page as Markdown. Output of the learner's code is in fenced blocks, which it cannot close."""
    return "\n\n".join([*_head(person), *(() if person.problem else _feedback_results(person, graded))]) + "\n"


def _head(person: Person) -> Iterator[str]:
    yield f"{FEEDBACK_START}{_escape_markdown(person.name)}"
    yield f"**{format_points(person.total.earned)} of {format_points(person.total.points)} points.**"
    for words in filter(None, (person.late, problem_sentence(person))):
        yield _escape_markdown(make_sentence(words))
    if person.notes:
        yield "\n".join(f"- {_escape_markdown(make_sentence(note))}" for note in person.notes)
    if person.given:
        changes = [f"- {_escape_markdown(sentence)}" for sentence in correction_sentences(person).values()]
        yield "\n".join(["## Changed by your instructor", "", *changes])


def _feedback_results(person: Person, graded: GradedClass) -> Iterator[str]:
    results = {result.exercise.name: result for result in person.results}
    passed, todo, incomplete = [], [], []
    for exercise in graded.exercises:
        result = results.get(exercise.name)
        if exercise.module in person.broken:
            continue
        if result is None or (not result.failures and not result.forbidden and result.outcome == "todo"):
            todo.append(_exercise_points(person, exercise) + (_todo_reasons(result) if result else ""))
        elif result.outcome == "passed" and not result.forbidden and not result.missing_weight:
            replaced = f": {_escape_markdown(' '.join(replaced_sentences(result.replaced)))}" if result.replaced else ""
            passed.append(_exercise_points(person, exercise) + replaced)
        else:
            incomplete.append(result)
    for module, failure in person.broken.items():
        lost = ", ".join(_exercise_points(person, one) for one in graded.exercises if one.module == module)
        yield f"## {module}.py does not import\n\n{_fence(format_failure(failure))}"
        yield f"So the tests of these exercises could not run: {lost}."
    for result in incomplete:
        yield from _incomplete(person, result, graded)
    for title, lines in (("Passed", passed), ("Still to do", todo)):
        if lines:
            yield "\n".join([f"## {title}", "", *(f"- {line}" for line in lines)])
    if graded.own_tests:
        yield "`headway try-test NAME` tries your tests in the same way."
    elif own := [result for result in incomplete if result.exercise.name not in graded.hidden]:
        code = "your code" if own == incomplete else "your code in the other exercises"
        same = f"`python -m pytest` tests {code} with the same examples"
        yield f"{same}, apart from those for which a seed is named above."


def _incomplete(person: Person, result: ExerciseResult, graded: GradedClass) -> Iterator[str]:
    is_hidden = result.exercise.name in graded.hidden
    yield f"## {_exercise_points(person, result.exercise)}"
    if result.failures or result.forbidden:
        yield _fence(format_result(result, is_hidden or graded.own_tests))
    seeds = sorted({test.seed for test in result.failures if test.seed})
    if is_hidden:
        yield "Only your instructor has the tests of this exercise, so `python -m pytest` does not run them."
    elif seeds:
        commands = [f"`python -m pytest --exercise {result.exercise.name} --seed {seed}`" for seed in seeds]
        yield f"Examples that failed here are not those of every run; {' and '.join(commands)} draws them again."
    if result.missing_weight:
        yield NOT_RUN


def _todo_reasons(result: ExerciseResult) -> str:
    """Why tests could not run: the exercise, or one that it uses, is not implemented."""
    reasons = dict.fromkeys(test.message for test in result.tests if test.outcome == "todo" and test.message)
    return f": {_escape_markdown('; '.join(reasons))}" if reasons else ""


def _exercise_points(person: Person, exercise: Exercise) -> str:
    mark = person.marks[exercise.name]
    return f"`{exercise.name}` {format_points(mark.earned)} of {format_points(mark.points)}"


def _fence(words: str) -> str:
    """A block without Markdown or HTML inside; its fence is longer than any run of backticks in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{fence}text\n{words}\n{fence}"


def _escape_markdown(words: str) -> str:
    """Text for running Markdown, escaped so that it is displayed literally."""
    shown = sanitize.line(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#|~$!])", r"\\\1", shown)


# ---- gradescope/SLUG.json: a results.json per person, as Gradescope's autograders write it
#
# The format is described in https://gradescope-autograders.readthedocs.io/en/latest/specs/. There is an entry for each
# exercise. Three details matter:
# - There is always a top-level score. It overrides the sum of the entries, so it includes deductions for lateness.
# - There is no top-level visibility, and every entry is visible: a single hidden one would hide the student's total.
# - Every format is "text": by default, the top-level output is rendered as HTML.


GRADESCOPE_FOLDER = "gradescope"
GRADESCOPE_START = '{"extra_data": {"headway"'
Entry = dict[str, Any]


def write_gradescope(graded: GradedClass, folder: Path) -> list[Path]:
    texts = {
        person.slug: json.dumps(gradescope_results(person, graded), sort_keys=True) + "\n" for person in graded.people
    }
    return write_per_person(folder / GRADESCOPE_FOLDER, ".json", texts, GRADESCOPE_START)


def gradescope_results(person: Person, graded: GradedClass) -> Entry:
    """One person's results.json as data. Students do not see extra_data, which programs can use."""
    known = {result.exercise.name: result.diagnosis for result in person.results}
    diagnoses = {name: diagnosis.as_json() for name, diagnosis in known.items() if diagnosis}
    return {
        "score": float(person.total.earned),
        "output": _output(person),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "stdout_visibility": "hidden",
        "tests": list(_entries(person, graded)),
        "extra_data": {"headway": {"diagnoses": diagnoses, "name": sanitize.line(person.name)}},
    }


def _output(person: Person) -> str:
    points = f"{format_points(person.total.earned)} of {format_points(person.total.points)} points."
    corrections = correction_sentences(person).values()
    lines = [points, person.late, problem_sentence(person), *person.notes, *corrections]
    broken = [f"{module}.py does not import.\n{format_failure(words)}" for module, words in person.broken.items()]
    return "\n\n".join([*(make_sentence(line) for line in lines if line), *broken])


def _entries(person: Person, graded: GradedClass) -> Iterator[Entry]:
    """Numbered by chapter and exercise."""
    results = {result.exercise.name: result for result in person.results}
    places: Counter[str] = Counter()
    for exercise in graded.exercises:
        places[exercise.chapter] += 1
        mark = person.marks[exercise.name]
        has_no_hint = graded.own_tests or exercise.name in graded.hidden
        output = _explain(person, exercise, results.get(exercise.name), has_no_hint)
        yield {
            "name": exercise.name,
            "number": f"{int(exercise.chapter.removeprefix('ch'))}.{places[exercise.chapter]}",
            "score": float(mark.earned),
            "max_score": float(mark.points),
            "status": "passed" if mark.earned >= mark.points else "failed",
            "output": sanitize.text(output),
            "tags": [exercise.chapter, exercise.name],
            "visibility": "visible",
        }


def _explain(person: Person, exercise: Exercise, result: ExerciseResult | None, is_hidden: bool) -> str:
    if exercise.name in person.given:
        return correction_sentences(person)[exercise.name]
    if person.problem:
        return problem_sentence(person)
    if exercise.module in person.broken:
        return f"{UNTESTED} {exercise.module}.py does not import."
    if result is None or not result.tests:
        return UNTESTED
    rest = [NOT_RUN] if result.missing_weight else []
    if result.failures or result.forbidden:
        return "\n\n".join([format_result(result, is_hidden), *rest])
    reasons = dict.fromkeys(test.message for test in result.tests if test.outcome == "todo" and test.message)
    done = ["All tests passed."] if result.outcome == "passed" else map(make_sentence, reasons)
    return " ".join([*done, *replaced_sentences(result.replaced), *rest])
