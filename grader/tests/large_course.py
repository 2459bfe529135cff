"""A course of 400 people in three assignments: its submissions as three platforms give them, and the marks that its rules lead to, computed here again.

Many people share a few contents, as the grader then judges few of them. Each content earns all or nothing in every exercise, except one mistake.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from grade_command import ENDLESS, MODULE, mistake
from pytest_runs import solution

PEOPLE = 400
WORTH = {"softmax": Decimal(10), "causal_mask": Decimal(7), "split_heads": Decimal(7)}
ASKED = {"week1": ("causal_mask",), "week2": ("softmax", "causal_mask"), "week3": ("softmax", "split_heads")}
WEIGHTS = {"week1": 25, "week2": 25, "week3": 50}
DUE = {"week1": datetime(2026, 10, 1, 20, tzinfo=UTC), "week2": datetime(2026, 10, 8, 20, tzinfo=UTC), "week3": datetime(2026, 10, 15, 20, tzinfo=UTC)}
MISTAKEN = ("causal_mask", "wrong")  # what this content earns is read from the table of one person
LOSES = {"right": (), "again": (), "stub": ("softmax",), "wrong": (), "slow": ("causal_mask",), "little": ("softmax", "split_heads")}  # all points of these
COURSE = """\
title = "A term of many"
roster = "roster.csv"
[late]
grace = "15m"
per_day = 20
most = 50
[assignments.week1]
title = "Masks"
exercises = ["causal_mask"]
weight = 25
due = 2026-10-01T20:00:00+00:00
groups = true
[assignments.week2]
title = "Scores"
exercises = ["softmax", "causal_mask"]
weight = 25
due = 2026-10-08T20:00:00+00:00
[assignments.week3]
title = "Heads"
exercises = ["softmax", "split_heads"]
weight = 50
due = 2026-10-15T20:00:00+00:00
last = 1
[[drops]]
assignments = ["week1", "week2"]
best = 1
"""


@dataclass(frozen=True)
class Learner:
    number: int

    @property
    def name(self) -> str:
        return f"Learner {self.number:03}"

    @property
    def login(self) -> str:
        return f"l{self.number:03}"

    @property
    def email(self) -> str:
        return f"{self.login}@example.edu"

    @property
    def ids(self) -> dict[str, str]:
        return {"number": f"0{self.number:03}", "canvas_id": f"{9000 + self.number}", "moodle_id": f"{5000 + self.number}"}

    @property
    def group(self) -> int:
        return self.number // 4


LEARNERS = tuple(map(Learner, range(PEOPLE)))


@dataclass
class Term:
    """Who handed in what and when, and the instructor's corrections; `expected` applies the course's rules."""

    handed_in: dict[str, dict[int, tuple[str, datetime | None]]] = field(default_factory=dict)  # by week and number; None: the time is unknown
    extensions: dict[str, dict[int, datetime]] = field(default_factory=dict)
    given: dict[tuple[str, int, str], Decimal] = field(default_factory=dict)  # by week, number and exercise

    def expected(self, week: str, number: int, of_mistake: Decimal) -> Decimal:
        """The points of one person in one assignment."""
        content, when = self.handed_in[week].get(number, ("", None))
        total = Decimal(0)
        for exercise in ASKED[week]:
            own = Decimal(0)
            if content and exercise not in LOSES[content]:
                own = of_mistake if (exercise, content) == MISTAKEN else WORTH[exercise]
            total += self.given.get((week, number, exercise), own)
        return (total * self.factor(week, number, when)).quantize(Decimal("0.01"), ROUND_HALF_UP)

    def factor(self, week: str, number: int, when: datetime | None) -> Decimal:
        due = self.extensions.get(week, {}).get(number, DUE[week])
        if when is None or when <= due + timedelta(minutes=15):
            return Decimal(1)
        days = -(-(when - due) // timedelta(days=1))
        if week == "week3" and days > 1:
            return Decimal(0)
        return 1 - min(Decimal(20) * days, Decimal(50)) / 100


def percent(points: Mapping[str, Decimal]) -> Decimal:
    """The term's total: the better one of week1 and week2, and week3."""
    shares = {week: points[week] / sum(WORTH[exercise] for exercise in exercises) for week, exercises in ASKED.items()}
    return (25 * max(shares["week1"], shares["week2"]) + 50 * shares["week3"]) / 75 * 100


def make_term(folder: Path) -> Term:
    """Write the people's table and three sets of submissions: a table with groups, a table with names, and files as Canvas names them."""
    right = solution("ch03")
    contents = {
        "right": right,
        "again": right + "\n# The same exercises in another file.\n",
        "stub": right.replace("def softmax", "def not_softmax"),
        "wrong": mistake("causal_mask"),
        "slow": right + ENDLESS.format("causal_mask"),
        "little": right.replace("def softmax", "def not_softmax").replace("def split_heads", "def not_split_heads"),
    }
    for name, text in contents.items():
        (folder / "files" / name).mkdir(parents=True)
        (folder / "files" / name / f"{MODULE}.py").write_text(text, encoding="utf-8")
    header = ("name", "email", "login", "number", "canvas_id", "moodle_id", "section", "group")
    rows = [(one.name, one.email, one.login, *one.ids.values(), f"S{one.number % 3}", f"G{one.group}") for one in LEARNERS]
    write_rows(folder / "people.csv", [header, *rows])
    term = Term()
    for week in ASKED:
        term.handed_in[week] = dict(_hand_in(week))
        term.extensions[week] = {number: DUE[week] + timedelta(days=3) for number in range(5, PEOPLE, 37)}
    term.extensions["week3"] = {}
    extended = [f'"{_typed(number, place)}" = {until.isoformat()}' for week in ("week1",) for place, (number, until) in enumerate(term.extensions[week].items())]
    more = [f'"{LEARNERS[number].name}" = {until.isoformat()}' for number, until in term.extensions["week2"].items()]
    (folder / "rules.toml").write_text("\n".join([COURSE, "[extensions.week1]", *extended, "[extensions.week2]", *more, ""]), encoding="utf-8")
    groups = {LEARNERS[number].group: entry for number, entry in term.handed_in["week1"].items()}
    _write_class(folder / "week1.csv", [(f"G{group}", *entry) for group, entry in groups.items()])
    _write_class(folder / "week2.csv", [(LEARNERS[number].name, *entry) for number, entry in term.handed_in["week2"].items()])
    (folder / "week3").mkdir()
    for number, (content, when) in term.handed_in["week3"].items():
        late = "LATE_" if when and when > DUE["week3"] else ""
        file = f"{number:03}learner_{late}{LEARNERS[number].ids['canvas_id']}_{70000 + number}_{MODULE}.py"
        (folder / "week3" / file).write_text(contents[content], encoding="utf-8")
    return term


def _hand_in(week: str) -> Iterable[tuple[int, tuple[str, datetime | None]]]:
    """Of each four contents one is late. A few people hand in nothing."""
    for one in LEARNERS:
        place = one.group if week == "week1" else one.number
        if place % 29 == 3:
            continue
        if week == "week1":
            content = ("right", "again", "wrong")[place % 3]
        elif week == "week2":
            content = "slow" if place in (20, 300) else ("right", "stub", "again", "wrong", "right")[place % 5]
        else:
            content = ("right", "little", "stub", "again")[place % 4]
        days = (0, 0, 0, 1, 0, 2, 0, 4)[place % 8]
        if week == "week3":  # Canvas says only that it is late: the shortest delay, beyond the grace
            yield one.number, (content, DUE[week] + timedelta(minutes=15, seconds=1) if days else None)
        else:
            yield one.number, (content, DUE[week] + timedelta(days=days, hours=-1, minutes=5 * (place % 3)) if days else DUE[week] - timedelta(hours=2))


def _typed(number: int, place: int) -> str:
    """An extension names a person by any id."""
    one = LEARNERS[number]
    return (one.name, one.login, one.email, one.ids["number"])[place % 4]


def _write_class(path: Path, rows: Iterable[tuple[str, str, datetime | None]]) -> None:
    write_rows(path, [("name", "path", "submitted"), *((name, f"files/{content}", when.isoformat() if when else "") for name, content, when in rows)])


def write_rows(path: Path, rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def write_canvas(path: Path) -> Path:
    """Canvas' gradebook of the course, with an assignment for each week."""
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(f"{title} ({place})" for place, title in enumerate(("Masks", "Scores", "Heads"), 8001))]
    possible = ["    Points Possible", "", "", "", "", *(f"{sum(WORTH[name] for name in names):.2f}" for names in ASKED.values())]
    people = [[f"{one.number:03}, Learner", one.ids["canvas_id"], one.ids["number"], one.login, f"S{one.number % 3}", "", "", ""] for one in LEARNERS]
    write_rows(path, [header, possible, *people])
    return path


def write_moodle(path: Path, week: str) -> Path:
    """Moodle's grading worksheet of one assignment."""
    header = ["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade", "Grade can be changed", "Last modified (grade)", "Feedback comments"]
    most = f"{sum(WORTH[name] for name in ASKED[week]):.2f}"
    write_rows(path, [header, *([f"Participant {one.ids['moodle_id']}", one.name, one.email, "", "", most, "Yes", "-", ""] for one in LEARNERS)])
    return path


def write_gradescope(path: Path, week: str) -> Path:
    """Gradescope's grades of one assignment."""
    header = ["First Name", "Last Name", "SID", "Email", "Sections", "Total Score", "Max Points", "Status"]
    most = f"{sum(WORTH[name] for name in ASKED[week]):.1f}"
    write_rows(path, [header, *(["Learner", f"{one.number:03}", one.ids["number"], one.email, "", "", most, "Ungraded"] for one in LEARNERS)])
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))
