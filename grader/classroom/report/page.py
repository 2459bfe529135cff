"""Writes report.html, a single page that contains its style and script and fetches nothing.

Equal classes give equal bytes. The page's content security policy allows only this style and this script, and no request: whatever a learner's
text contains, it stays text.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from pathlib import Path
from typing import Any

from grader.classroom import sanitize
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.report import tally
from grader.classroom.report.numbers import format_count, format_number
from grader.classroom.report.people import failure_rows, make_person_section, test_title
from grader.course.syllabus import UnknownName, load_syllabus
from grader.files import write_whole

HERE = Path(__file__).parent
NAME = "report.html"
PRODUCTS = {"kit": "Headway", "torch": "torch", "python": "Python"}
LONGEST = 4000  # characters of one piece of text
SHOWN_AT_ONCE = 12  # mistakes and exercises; the others are collapsed below them


class ReportProblem(RuntimeError):
    """The report cannot be written; the message says what to do."""


def write(graded: GradedClass, folder: Path) -> Path:
    """Write report.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    path = Path(folder) / NAME
    write_whole(path, render(graded))
    return path


def render(graded: GradedClass) -> str:
    template = _environment().get_template("page.html")
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src {_csp_hash(style)}; script-src {_csp_hash(script)}; base-uri 'none'; form-action 'none'"
    return template.render(style=style, script=script, policy=policy, **_template_values(graded))


def _template_values(graded: GradedClass) -> dict[str, Any]:
    everyone = list(enumerate(graded.people, start=1))
    done = [(place, person) for place, person in everyone if not person.problem]
    people = [person for _, person in done]
    exercises = [exercise.name for exercise in graded.exercises]
    tallies = tally.tally_exercises(graded, people)
    return {
        "graded": graded,
        "many": len(people),
        "spread": tally.measure_distribution(people),
        "tallies": [one for one in tallies if one.started],
        "untouched": [one.exercise.name for one in tallies if not one.started],
        "chapters": tally.tally_chapters(graded, people),
        "mistakes": tally.tally_misconceptions(done),
        "started": {one.exercise.name: one.started for one in tallies},
        "tests": tally.tally_unexplained(done),
        "refused": [(place, person) for place, person in everyone if person.problem],
        "broken": tally.list_broken_chapters(done),
        "shortcuts": _shortcuts(done),
        "late": sum(bool(person.late) for person in people),
        "shown": [make_person_section(place, person, exercises) for place, person in everyone],
        "versions": ", ".join(f"{PRODUCTS.get(name, name)} {version}" for name, version in sorted(graded.versions.items())),
        "at_once": SHOWN_AT_ONCE,
    }


def _shortcuts(done: list[tally.NumberedPerson]) -> list[tuple[tally.NumberedPerson, str, list[str]]]:
    """The people who called a forbidden function, with the exercise and how."""
    return [((place, person), result.exercise.name, result.forbidden) for place, person in done for result in person.results if result.forbidden]


def _environment():
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ReportProblem("the class report needs Jinja, which is not installed: pip install -c constraints.txt -e '.[reports]'") from None
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, finalize=_finalize, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    environment.filters |= {"number": format_number, "chapter": _chapter, "breakable": _breakable, "percent": _percent, "date": _date}
    environment.globals |= {"count": format_count, "failure_rows": failure_rows, "test_title": test_title}
    return environment


def _finalize(value: Any) -> Any:
    """Sanitize every text before the template escapes it; values that are already markup come from the page itself."""
    return value if hasattr(value, "__html__") or not isinstance(value, str) else sanitize.text(value, LONGEST)


def _chapter(name: str) -> str:
    """ch03 as "3 Attention", with a no-break space."""
    try:
        chapter = load_syllabus().chapter(name)
    except UnknownName:
        return name
    return f"{chapter.number}\u00a0{chapter.title}"


def _breakable(name: str) -> Any:
    """A name in code that may be broken into lines after each underscore."""
    from markupsafe import Markup, escape

    return Markup(escape(sanitize.line(name)).replace("_", Markup("_<wbr>")))


def _percent(part: Any, whole: Any = 1) -> str:
    return f"{100 * float(part) / float(whole):.0f}" if whole else "0"


def _date(iso: str) -> str:
    """2026-11-20T18:04:00+01:00 as "2026-11-20 at 18:04, UTC+01:00"; other texts unchanged."""
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d at %H:%M, %Z").rstrip(", ")
    except ValueError:
        return iso


def _resource(name: str) -> Any:
    from markupsafe import Markup

    return Markup((HERE / name).read_text(encoding="utf-8"))


def _csp_hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
