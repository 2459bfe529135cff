"""What the class report counts, and how it displays hostile text. How it looks in a browser: test_grading_report_seen.py."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import pytest
import report_examples as classes
from grader.classroom import sanitize
from grader.classroom.class_report import (
    ReportContext,
    classify,
    find_at_risk,
    first_sentence,
    format_number,
    measure_distribution,
    render_report,
    tally_exercises,
    tally_misconceptions,
    tally_unexplained,
    write_report,
)
from grader.classroom.term.roster import Roster, RosterPerson
from grader.counts import format_count
from grader.course.syllabus import load_syllabus
from grader.verdict.results import Diagnosis
from report_examples import graded, person, result

SMALL = classes.small()
DONE = [(place, someone) for place, someone in enumerate(SMALL.people, start=1) if not someone.problem]
PEOPLE = [someone for _, someone in DONE]


def names(together):
    return [someone.name for _, someone in together]


def test_people_are_counted_by_their_result_in_each_exercise():
    softmax, mask, gelu = tally_exercises(SMALL, PEOPLE)
    assert [tally.exercise.name for tally in (softmax, mask, gelu)] == ["softmax", "causal_mask", "gelu"]  # ordered by how many people fail
    kinds = {"passed": 1, "partly": 1, "failed": 2, "error": 1, "consequence": 1}  # the shortcut of person five has failed; person four ran out of time
    assert dict(softmax.kinds) == kinds
    assert (softmax.struggling, softmax.started) == (4, 6)  # the chapter of person six does not run, which says nothing about softmax
    assert dict(mask.kinds) == {"passed": 3, "failed": 1, "consequence": 1, "todo": 1}
    assert dict(gelu.kinds) == {"passed": 2, "todo": 4}  # those who did not hand it in count as not started


def test_results_are_classified():
    cases = {("todo", "passed"): "partly", ("failed", "error"): "error", ("failed", "timeout", "passed"): "partly", (): "todo"}
    assert {outcomes: classify(result("softmax", *outcomes)) for outcomes in cases} == cases


def test_misconceptions_and_unexplained_failures_are_collected_from_all_people():
    first, second = tally_misconceptions(DONE)
    assert (first.diagnosis, names(first.who)) == (classes.OVERFLOW, ["two", "three"])
    assert (second.diagnosis, names(second.who)) == (classes.DIAGONAL, ["two"])
    assert first.example.details == classes.FAILURE
    (riddle,) = tally_unexplained(DONE)
    assert (riddle.exercise.name, names(riddle.who), len(riddle.tests)) == ("softmax", ["four"], 2)


def test_totals_are_counted_in_tenths_with_full_points_apart():
    marks = [0, 9, 10, 79, 99, 100, 120]
    people = [person("x", total=classes.Mark(Decimal(mark), Decimal(100))) for mark in marks]
    seen = measure_distribution(people)
    assert {label: many for label, many in seen.bins.items() if many} == {"0–9": 2, "10–19": 1, "70–79": 1, "90–99": 1, "100": 2}
    assert (seen.lowest, seen.median, seen.highest) == (0, 79, 120)
    assert measure_distribution(people[:4]).median == Decimal("9.5"), "of an even number, the middle of the two"
    assert measure_distribution([]) is None
    assert measure_distribution([person("x", total=classes.Mark(Decimal(0), Decimal(0)))]).bins["0–9"] == 1  # no exercise had points


@pytest.mark.parametrize(
    "text, seen",
    [
        ("plain, naïve, 名前, 👩‍🔬, نور", "plain, naïve, 名前, 👩‍🔬, نور"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07end", "red end"),
        ("a\x00b\x9bc\x7f", "a⟨U+0000⟩b⟨U+009B⟩c⟨U+007F⟩"),
        ("\u202eevil\u2066", "⟨U+202E⟩evil⟨U+2066⟩"),
        ("half \ud800", "half ⟨U+D800⟩"),
        ("two\r\nlines\tand\u00a0space", "two\nlines\tand\u00a0space"),
        ("\x1b", ""),
    ],
)
def test_control_characters_are_displayed_as_codes(text, seen):
    assert sanitize.text(text) == sanitize.text(seen) == seen


def test_long_text_is_cut_and_numbers_read_well():
    assert len(sanitize.text("x" * 10**6, 4000)) == 4002
    assert [format_number(Decimal(text)) for text in ("12.50", "12", "0.00", "100", "33.333")] == ["12.5", "12", "0", "100", "33.33"]
    assert [format_count(1, "person", "people"), format_count(1200, "person", "people"), format_count(2, "test")] == ["1 person", "1,200 people", "2 tests"]


def test_hostile_text_creates_no_element_and_no_attribute(tmp_path):
    tame, hostile = (classes.elements_of(write_report(graded_class, tmp_path)) for graded_class in (SMALL, classes.hostile()))
    assert not hostile - tame
    assert not [name for _, name in tame if name.startswith("on") or name in ("src", "style")]


def test_names_in_backticks_are_code_wherever_the_kit_writes_them():
    words = replace(classes.FAILURE, promise="`dim` is kept.", explanation="`x < y` holds nowhere.", message="Use `amax`.", got="`as printed`")
    known = Diagnosis("scores_not_shifted", "`approximate` has no effect. So `<b>` is not bold.", "What does `dim` say?")
    people = [
        person("one", result("softmax", "failed", diagnosis=known, details=words), result("causal_mask", "failed", details=words)),
        person("two", result("softmax", "failed", diagnosis=known, details=words), result("causal_mask", "failed", details=words)),
        person("three", result("gelu", "passed", forbidden=("line 3 calls `gelu`",)), broken={"ch03_attention": replace(words, message="`a`\u00a0is missing.")}),
        classes.Person("four", "four", "0" * 64, problem="run `headway doctor`"),
    ]
    page = render_report(graded(*people))
    for shown in ("<code>approximate</code> has no effect.", "So <code>&lt;b&gt;</code> is not bold.", "What does <code>dim</code> say?", "<code>dim</code> is kept.",
                  "<code>x &lt; y</code> holds", "Use <code>amax</code>.", "calls <code>gelu</code>", "<code>a</code>", "run <code>headway doctor</code>"):  # fmt: skip
        assert shown in page, shown
    assert set(re.findall("`[^`]*`", page.partition("<body>")[2].partition("<script>")[0])) == {"`as printed`"}, "the values that a learner's code printed stay"


def test_a_class_without_graded_submissions_has_a_page(tmp_path):
    refused = classes.Person("one", "one", "0", problem="the archive is empty")
    page = write_report(graded(refused), tmp_path).read_text(encoding="utf-8")
    assert "No submission could be graded." in page and "the archive is empty" in page
    assert "No submission could be graded." in render_report(graded())


def test_a_whole_course_of_many_people_stays_small(tmp_path):
    """Twenty people, each failing a third of all exercises, each differently: at most 450 bytes for each person and exercise."""
    path = write_report(classes.large(20), tmp_path)
    assert path.stat().st_size < 20 * 450 * len(load_syllabus().exercises)


def test_without_jinja_the_message_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['jinja2'] = None\n"  # how Python itself marks a package that is not installed
        "import pathlib, report_examples as c\nfrom grader.classroom.class_report import ReportProblem, write_report\n"
        "try: write_report(c.small(), pathlib.Path(sys.argv[1]))\nexcept ReportProblem as problem: print(problem)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "the class report needs Jinja, which is not installed: pip install -c constraints.txt -e '.[reports]'\n"
    assert not list(tmp_path.iterdir())


# ---- with a course file


DUE = datetime.fromisoformat("2026-12-01T23:59:00+01:00")
CONTEXT = ReportContext(
    "Transformers", "Week 3", DUE, Roster(tuple(RosterPerson(name, section="S1") for name in ("one", "two", "three", "absent"))),
)  # fmt: skip


def test_the_page_names_course_assignment_dates_and_people_of_the_roster():
    absent = classes.Person("absent", "absent", "", problem="nothing was submitted", missing=True)
    untimed = person("untimed", is_untimed=True)
    page = render_report(graded(*SMALL.people, absent, untimed), CONTEXT)
    for words in ("<title>Week 3, Transformers: class report, 9 people, 3 exercises</title>", '<p class="course">Transformers</p>', "<h1>Week 3: class report</h1>",
                  "Due 2026-12-01 at 23:59, UTC+01:00.", "The newest submission is from 2026-11-20 at 18:04, UTC+01:00.", "1 person without a submission:",
                  "<bdi>absent</bdi>", "5 people with a submission, but not in the roster:", "1 person submitted at an unknown time, which counts as on time."):  # fmt: skip
        assert words in page, words
    assert page.count("unknown time") == 1
    alone = render_report(SMALL)
    assert "<h1>Class report</h1>" in alone
    assert not [words for words in ("Due", "Roster", "without a submission", "unknown time") if words in alone]


def test_the_newest_time_has_the_time_zone_of_the_due_date():
    people = [person("one", submitted="2026-11-25T10:00:00+00:00"), person("two", submitted="2026-11-25T10:30:00+02:00")]
    assert "The newest submission is from 2026-11-25 at 11:00, UTC+01:00." in render_report(graded(*people), CONTEXT)


def test_a_title_is_the_first_sentence_of_the_diagnosis():
    assert first_sentence("One thing is wrong. The other is not.") == ("One thing is wrong.", "The other is not.")
    assert first_sentence("It adds 0.5 to x. y is right") == ("It adds 0.5 to x. y is right", "")
    assert first_sentence("") == ("", "")


def test_people_with_few_points_or_few_exercises_started_are_at_risk():
    half = [result("softmax", "passed"), result("causal_mask", "passed")]
    people = [
        person("good", *half, result("gelu", "passed")),
        person("slow", result("gelu", "passed")),  # 16 of 29 points, but one of three exercises
        person("weak", result("softmax", "failed"), result("causal_mask", "failed"), result("gelu", "failed")),
        person("late", *half, result("gelu", "passed"), total=classes.Mark(Decimal(0), Decimal(29)), late="too late"),
    ]
    found = find_at_risk(list(enumerate(people, start=1)), classes.EXERCISES)
    assert [(place, one.name, started) for place, one, _, started in found] == [(3, "weak", 3), (2, "slow", 1)]


def test_a_mistake_of_one_group_is_no_frequent_one():
    team = [person(name, result("softmax", "failed", diagnosis=classes.OVERFLOW), digest="d") for name in ("one", "two", "three")]
    others = [person(name, result("softmax", "failed", diagnosis=classes.DIAGONAL)) for name in ("four", "five")]
    mistakes = tally_misconceptions(enumerate([*team, *others], start=1))
    assert [(len(one.who), one.is_single) for one in mistakes] == [(2, False), (3, True)]
    page = render_report(graded(*team, *others))
    assert "1 more mistake, of one submission</summary>" in page and "<b>3 people</b>, with one submission," in page
    assert "Most frequent misconception" not in render_report(graded(*team)) and "1 mistake, of one person</summary>" in render_report(graded(*team[:1]))
