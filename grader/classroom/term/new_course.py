"""Writes a first course.toml with comments, and the roster from a learning platform's export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.term.course_file import NAME
from grader.classroom.term.roster import FIELDS, NO_ROSTER, Roster
from grader.classroom.term.roster_table import read_people, write_people
from grader.files import problem, write_whole

ROSTER = "roster.csv"
TEMPLATE = """\
# The course of this term. `headway course check` says what does not fit.
title = {title}
roster = "{roster}"  # columns: {columns}; only name is needed

[late]  # for every assignment that has a due date
grace = "15m"  # submissions this much after the due date are still on time
per_day = 10  # percent of the points earned that each started day costs
most = 50  # the largest deduction in percent
# last = 7  # days after which a submission gets 0 points

# [points]  # where they differ from the course's
# softmax = 20  # an exercise
# ch05 = 50  # a chapter: divided among its exercises in the course's proportions

[assignments.week1]  # grade it with: headway grade SUBMISSIONS --assignment week1
title = "Tokenizer"
chapters = ["ch01"]  # or exercises = ["softmax", "causal_mask"], or both
weight = 50  # of the term's mark, compared with the other weights
# due = 2026-12-01T23:59:00+01:00  # with the time zone
# hidden = ["NAME"]  # exercises of it whose tests learners do not get
# groups = true  # one submission counts for everybody in its group of the roster
# last = 3  # the keys of [late] work here, too

[assignments.week2]
title = "Embeddings"
chapters = ["ch02"]
weight = 50

# [extensions.week1]  # by name, e-mail, login or number
# "NAME" = 2026-12-03T23:59:00+01:00

# [[drops]]  # of these assignments only the best count; all of them have the same weight
# assignments = ["week1", "week2"]
# best = 1
"""


def write_course(folder: Path, title: str, export: Path | None, columns: Mapping[str, str]) -> tuple[Path, Roster]:
    """Write course.toml and the roster into `folder`, and return the file and the people. GradingProblem if one of the files exists."""
    roster = read_people(export, columns) if export else NO_ROSTER
    people = roster.people
    for name in (NAME, ROSTER):
        if (folder / name).exists() and not (export and name == ROSTER and export.resolve() == (folder / name).resolve()):
            raise GradingProblem(f"{folder / name} exists already, and was not changed; edit it, or move it away and run the command again")
    text = TEMPLATE.format(title=json.dumps(title, ensure_ascii=False), roster=ROSTER, columns=", ".join(FIELDS))
    if not people:
        text = text.replace(f'roster = "{ROSTER}"', f'# roster = "{ROSTER}"')
    try:
        if people:
            write_whole(folder / ROSTER, write_people(people))
        write_whole(folder / NAME, text)
    except OSError as error:
        raise GradingProblem(problem(error, f"write {NAME} in {folder}")) from error
    return folder / NAME, roster
