"""`headway marks` adds up a term: marks.csv, and marks.html for the instructor."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.exports import term_table
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.report import ReportProblem, marks_page
from grader.classroom.report.numbers import format_count
from grader.classroom.sanitize import line, list_names
from grader.classroom.term.course_file import GRADES, find_course, read_course_file
from grader.classroom.term.marks import compute_term_marks
from grader.cli.commands.graded_term import describe_unfinished, read_classes
from grader.console.output import make_console, print_error
from grader.course.status import short_path
from grader.files import problem

DONE, WRONG_USE = 0, 2


def marks(named: Path | None, out: Path | None, key: Path | None = None) -> int:
    """Write the marks of the term; the exit status is 0, or 2 if that is not possible."""
    try:
        course = read_course_file(find_course(named))
        course, classes = read_classes(course, key)
        if not classes:
            raise GradingProblem(f"no assignment has been graded yet; run `headway grade SUBMISSIONS --assignment {course.assignments[0].name}`")
        found = compute_term_marks(course, classes, describe_unfinished(course, classes))
        folder = out or course.path.parent / GRADES
        written = [term_table.write(found, folder)]
        try:
            written.append(marks_page.write(found, folder))
        except ReportProblem as trouble:
            print_error(str(trouble))
        except OSError as error:
            raise GradingProblem(problem(error, f"write {marks_page.NAME} in {folder}")) from error
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    console = make_console()
    for name in found.classes:
        missing = [person.who.name for person in found.people if name in person.missing]
        words = f"; missing: {list_names(missing)}" if missing else ""
        console.print(line(f"{name}: {len(found.people) - len(missing)} of {format_count(len(found.people), 'person', 'people')}{words}", 2000), soft_wrap=True)
    for note in found.notes:
        console.print(line(f"Note: {note}", 2000), soft_wrap=True, markup=False, highlight=False)
    console.print(f"Written: {' and '.join(short_path(path) for path in written)}.", soft_wrap=True)
    return DONE
