"""The gradebook: a class graded once, whatever happens to the grader on the way."""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path

import pytest
from grader.grading import marking
from grader.grading.exports import write_all
from grader.grading.gradebook import REMEMBERED, UNFINISHED, Gradebook, GradebookProblem
from grader.grading.record import Mark
from grader.grading.rules import Rules
from grader.grading.versions import versions
from grader.results import ExerciseResult, Failure
from grader.syllabus import load_syllabus
from grader.verdict import Verdict
from made_up_class import EXERCISES, HOSTILE, RULES, VERSIONS, a_class, digest_of, one_test, submission, verdict_of

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals, limits and modes are POSIX's")
PATH = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])

GRADER = """
import sys
from pathlib import Path
from grader.grading.gradebook import Gradebook, GradebookProblem
from made_up_class import *

def say(words):
    print(words, flush=True)

folder = Path(sys.argv[1])
"""
GRADE_ALL = """
with Gradebook.open(folder) as book:
    book.begin(0, EXERCISES, VERSIONS)
    for one in book.submissions_to_do(a_class(int(sys.argv[2]))):
        sys.stdin.readline()
        book.keep(one.digest, verdict_of(one.digest, seconds=len(sys.argv)))
        say(one.digest)
"""


def process(body: str, *arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-c", GRADER + body, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": PATH}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def begun(folder: Path, people: list, seed: int = 0, exercises=EXERCISES, **changed) -> tuple[Gradebook, list, str]:
    book = Gradebook.open(folder)
    said = book.begin(seed, exercises, VERSIONS | changed)
    return book, book.submissions_to_do(people), said


def graded(folder: Path, people: list, seed: int = 0, exercises=EXERCISES, **changed) -> int:
    """Grade all of it; how many were graded in this run."""
    book, todo, _ = begun(folder, people, seed, exercises, **changed)
    with book:
        for one in todo:
            book.keep(one.digest, verdict_of(one.digest, exercises))
    return len(todo)


def exported(book: Gradebook, folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in write_all(book.graded(RULES), folder)}


def refused(folder: Path) -> str:
    with pytest.raises(GradebookProblem) as caught:
        Gradebook.open(folder)
    return str(caught.value)


# ---- what is kept


def test_everything_found_comes_back_but_the_seconds(tmp_path):
    one = submission("Alpha")
    given = verdict_of(one.digest, seconds=3.5)
    given.broken["ch03_attention"] = Failure("", message="invalid syntax", where="ch03_attention.py, line 3")
    given.results[0].partial, given.results[0].missing_weight = True, 4.0
    given.notes.append("slow")
    book, todo, said = begun(tmp_path, [one])
    assert todo == [one] and said == ""
    book.keep(one.digest, given)
    book.close()
    book, todo, said = begun(tmp_path, [one])
    with book:
        [person] = book.graded(RULES).people
    assert todo == [] and said == ""
    for result in given.results:
        for test in result.tests:
            test.seconds = 0.0
    assert list(person.results) == given.results and person.broken == given.broken and person.notes == ("slow",)


def test_equal_contents_are_graded_once_and_everybody_gets_the_marks(tmp_path):
    people = [submission("Alpha", "same"), submission("Beta", "same"), submission("Gamma", "other")]
    book, todo, _ = begun(tmp_path, people)
    with book:
        assert [one.name for one in todo] == ["Alpha", "Gamma"]
        for one in todo:
            book.keep(one.digest, verdict_of(one.digest))
        alpha, beta, gamma = book.graded(RULES).people
    assert alpha.results == beta.results and alpha.total == beta.total and alpha.results != gamma.results


def test_what_could_not_be_graded_has_its_sentence_and_the_next_run_tries_again(tmp_path):
    people = [submission("Alpha"), submission("Beta", problem="beta.zip is empty"), submission("Gamma")]
    book, todo, _ = begun(tmp_path, people)
    with book:
        assert [one.name for one in todo] == ["Alpha", "Gamma"]
        book.keep(todo[0].digest, "the grader's process ended while it tested this")
        assert [person.problem for person in book.graded(RULES).people] == ["the grader's process ended while it tested this", "beta.zip is empty", UNFINISHED]
        assert {person.total for person in book.graded(RULES).people} == {Mark(Decimal(0), Decimal(8) * len(EXERCISES))}
        assert [one.name for one in book.submissions_to_do(people)] == ["Alpha", "Gamma"]
        book.keep(todo[0].digest, verdict_of(todo[0].digest))
        assert [one.name for one in book.submissions_to_do(people)] == ["Gamma"]
        assert [person.problem for person in book.graded(RULES).people] == ["", "beta.zip is empty", UNFINISHED]


def test_changed_and_new_submissions_are_graded_and_no_others(tmp_path):
    people = a_class(8)
    assert graded(tmp_path, people) == 5
    changed = [submission(people[0].name, "mended"), *people[1:], submission("Newcomer")]
    assert graded(tmp_path, changed) == 2
    assert graded(tmp_path, people) == 0  # what somebody had handed in before is still known


def test_a_regrade_tells_who_is_graded_anew(tmp_path):
    people = [submission("Alpha", "same"), submission("Beta", "same"), submission("Gamma")]
    graded(tmp_path, people)
    book, todo, _ = begun(tmp_path, people)
    with book:
        assert todo == []
        assert book.forget("Beta") == ["Alpha", "Beta"]
        assert [one.name for one in book.submissions_to_do(people)] == ["Alpha"]
        assert {slug: name for slug, (name, _) in book.contents().items()} == {one.slug: one.name for one in people}
        with pytest.raises(GradebookProblem, match="^nobody in this gradebook is called xyz; grades.csv names all who are in it"):
            book.forget("xyz")
        with pytest.raises(GradebookProblem, match="^nobody in this gradebook is called Betta; did you mean Beta"):
            book.forget("Betta")


# ---- other conditions


def test_other_conditions_are_told_and_never_mixed(tmp_path):
    people = a_class(4)
    assert graded(tmp_path, people) == 3
    book, todo, said = begun(tmp_path, people, seed=1, torch="2.14.0")
    assert said.startswith("Changed since the last run: the seed (0, now 1) and torch (2.13.0, now 2.14.0). Earlier results stay") and len(todo) == 3
    assert {person.problem for person in book.graded(RULES).people} == {UNFINISHED, people[-1].problem}
    book.close()
    book, todo, said = begun(tmp_path, people, kit="0.1.0+bbbbbbbbbbbb", seed=1)
    assert "the kit (its grader, tests, solutions or syllabus) and torch (2.14.0, now 2.13.0)" in said and len(todo) == 3
    book.close()
    book, todo, said = begun(tmp_path, people)
    with book:
        assert said and todo == []  # and back: nothing was lost
        assert not any(person.problem == UNFINISHED for person in book.graded(RULES).people)


def test_results_of_long_ago_make_room(tmp_path):
    people = a_class(2)
    assert [graded(tmp_path, people, seed=seed) for seed in range(REMEMBERED)] == [2] * REMEMBERED
    assert graded(tmp_path, people, seed=0) == 0
    assert graded(tmp_path, people, seed=99) == 2  # now the results of seed 1 go, which counted longest ago
    assert [graded(tmp_path, people, seed=seed) for seed in (0, 2, 3, 4, 99, 1)] == [0, 0, 0, 0, 0, 2]
    with Gradebook.open(tmp_path) as book:
        assert book._all("SELECT count(DISTINCT conditions) FROM results") == [(REMEMBERED,)]


def test_more_exercises_are_graded_and_fewer_are_not(tmp_path):
    people = a_class(4)
    assert graded(tmp_path, people, exercises=EXERCISES[:2]) == 3
    book, todo, said = begun(tmp_path, people, exercises=EXERCISES[1:])
    assert said == "New in this run: split_heads and LayerNorm. Submissions that were not graded in that yet are graded now." and len(todo) == 3
    for one in todo:
        book.keep(one.digest, verdict_of(one.digest, EXERCISES[1:]))
    book.close()
    for exercises in (EXERCISES[:1], EXERCISES[:2], EXERCISES):
        book, todo, said = begun(tmp_path, people, exercises=exercises)
        with book:
            assert todo == []
            person = book.graded(RULES).people[1]
            assert [result.exercise for result in person.results] == list(exercises) and list(person.marks) == [e.name for e in exercises]


def test_the_stamp_of_the_kit_follows_what_decides_marks(kit):
    ask = "from grader.grading.versions import versions; print(versions()['kit'])"

    def stamp() -> str:
        return subprocess.run([sys.executable, "-c", ask], cwd=kit.root, env=kit.environment(), capture_output=True, text=True, check=True).stdout

    before = stamp()
    for aside in ("grader/page.py", "grader/tests/conftest.py", "exercises/ch03_attention.py"):
        (kit.root / aside).write_text((kit.root / aside).read_text(encoding="utf-8") + "\n# more\n", encoding="utf-8")
    assert stamp() == before
    for deciding in ("tests/test_ch03_attention.py", "solutions/ch03_attention.py", "grader/comparing.py", "exercises/syllabus.toml"):
        path = next(kit.root.glob(deciding.replace(".py", "*.py")))
        path.write_text(path.read_text(encoding="utf-8") + "\n# more\n", encoding="utf-8")
        assert stamp() != before, deciding
        before = stamp()
    assert set(versions()) == {"kit", "python", "torch", "pytest", "hypothesis"}


# ---- the same bytes, whatever happened


@posix
def test_a_killed_grader_goes_on_where_it_was_and_repeats_nothing(tmp_path):
    many, log, kills = 60, [], 0
    book, todo, _ = begun(tmp_path / "calm", a_class(many))
    with book:
        for one in reversed(todo):
            book.keep(one.digest, verdict_of(one.digest))
        calm = exported(book, tmp_path / "calm")
    chance = random.Random(7)
    while True:
        grader = process(GRADE_ALL, tmp_path / "rough", many)
        fatal = chance.randint(1, 5) if kills < 3 else 100
        grader.stdin.write("one more\n" * (fatal + 3))  # so far it may get until it is killed
        grader.stdin.flush()
        for told, line in enumerate(grader.stdout, start=1):
            log.append(line.strip())
            if told == fatal:
                time.sleep(chance.random() / 50)
                grader.send_signal(signal.SIGKILL)
        if grader.wait(60) == 0:
            break
        assert grader.returncode == -signal.SIGKILL
        kills += 1
    assert kills == 3 and len(log) == len(set(log)) and len(todo) - kills <= len(log) <= len(todo)  # one that was kept may die before it says so
    book, todo, _ = begun(tmp_path / "rough", a_class(many))
    with book:
        assert todo == [] and exported(book, tmp_path / "rough") == calm


@posix
def test_a_grader_killed_in_the_midst_of_a_transaction_leaves_none_of_it(tmp_path):
    people = a_class(4)
    graded(tmp_path, people)
    before = (tmp_path / "gradebook.sqlite").read_bytes()
    die = """
import os, signal
book = Gradebook.open(folder)
book._database.execute("PRAGMA cache_size = 1")
with book._transaction():
    book._database.execute("UPDATE results SET outcome = 'lost', tests = hex(zeroblob(9000))")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert process(die, tmp_path).wait(60) == -signal.SIGKILL
    assert (tmp_path / "gradebook.sqlite").read_bytes() != before and (tmp_path / "gradebook.sqlite-journal").stat().st_size  # half of it is there
    book, todo, _ = begun(tmp_path, people)
    with book:
        assert todo == []
        assert "lost" not in str(book._all("SELECT outcome FROM results"))


def test_the_order_of_the_work_leaves_no_trace(tmp_path):
    people = a_class(10)
    book, todo, _ = begun(tmp_path / "one", people)
    with book:
        for one in todo:
            book.keep(one.digest, verdict_of(one.digest))
        first = exported(book, tmp_path / "one")
        assert exported(book, tmp_path / "one") == first
        kept = book._all("SELECT * FROM results ORDER BY digest, exercise")
    names = [one.name for one in todo]
    book, todo, _ = begun(tmp_path / "two", people[::-1])
    with book:
        assert [one.name for one in todo] == names == sorted(names, key=str.casefold)
        for one in random.Random(3).sample(todo, len(todo)):
            book.keep(one.digest, verdict_of(one.digest, seconds=9.9))
        assert exported(book, tmp_path / "two") == first
        assert book._all("SELECT * FROM results ORDER BY digest, exercise") == kept
    assert len(first) == 2 + 2 * len(people)


# ---- what a gradebook may meet


@posix
def test_another_grader_at_work_is_told_and_its_death_frees_the_gradebook(tmp_path):
    graded(tmp_path, a_class(2))
    holder = process("book = Gradebook.open(folder)\nsay('mine')\nimport time\ntime.sleep(600)", tmp_path)
    try:
        assert holder.stdout.readline() == "mine\n"
        assert refused(tmp_path).endswith("gradebook.sqlite is in use: another grader (or a database viewer) has it open; wait until it is done, or end it")
    finally:
        holder.kill()
        holder.wait(60)
    assert graded(tmp_path, a_class(2)) == 0


def test_a_damaged_gradebook_is_told_and_left_as_it_is(tmp_path):
    graded(tmp_path / "good", a_class(20))
    good = (tmp_path / "good" / "gradebook.sqlite").read_bytes()
    zeros = good[: len(good) // 2] + bytes(4096) * 3 + good[len(good) // 2 + 3 * 4096 :]
    for name, data in {"cut": good[: len(good) // 2], "short": good[:50], "text": b"name,total\n" * 100, "zeros": zeros}.items():
        (tmp_path / name).mkdir()
        path = tmp_path / name / "gradebook.sqlite"
        path.write_bytes(data)
        assert "gradebook.sqlite is damaged and cannot be read; it is left as it is. " in refused(tmp_path / name), name
        assert path.read_bytes() == data and [entry.name for entry in path.parent.iterdir()] == ["gradebook.sqlite"]


def test_a_row_that_makes_no_sense_is_damage_too(tmp_path):
    people = a_class(2)
    graded(tmp_path, people)
    for spoil in ("UPDATE results SET tests = '[{\"name\": 3'", "UPDATE results SET tests = '[{}]'", "UPDATE verdicts SET broken = x'ff'"):
        shutil.copytree(tmp_path, tmp_path / "spoilt", ignore=shutil.ignore_patterns("spoilt"))
        with sqlite3.connect(tmp_path / "spoilt" / "gradebook.sqlite") as database:
            database.execute(spoil)
        database.close()
        book, _, _ = begun(tmp_path / "spoilt", people)
        with book, pytest.raises(GradebookProblem, match="is damaged and cannot be read"):
            book.graded(RULES)
        shutil.rmtree(tmp_path / "spoilt")


def test_a_newer_gradebook_and_the_database_of_something_else_are_refused(tmp_path):
    graded(tmp_path, a_class(2))
    path = tmp_path / "gradebook.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert "gradebook.sqlite was written by a newer Headway than this one; update this one" in refused(tmp_path)
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE photographs (id INTEGER)")
    database.close()
    kept = path.read_bytes()
    assert "is a database of something else, not a gradebook" in refused(tmp_path)
    assert path.read_bytes() == kept


def test_a_gradebook_that_was_never_begun_is_begun(tmp_path):
    (tmp_path / "gradebook.sqlite").touch()  # a grader killed in its first moments
    assert graded(tmp_path, a_class(2)) == 2


@posix
def test_a_gradebook_that_cannot_be_written_is_told():
    try_it = """
import os
os.chmod(folder / sys.argv[2], int(sys.argv[3], 8))
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    Gradebook.open(folder / sys.argv[4])
except GradebookProblem as problem:
    say(problem)
"""
    folder = Path(tempfile.mkdtemp())  # not in pytest's, which nobody else may enter
    try:
        folder.chmod(0o755)
        graded(folder, a_class(2))
        kept = (folder / "gradebook.sqlite").read_bytes()
        for what, mode, where in [("gradebook.sqlite", "444", "."), (".", "555", ".")]:
            said = process(try_it, folder, what, mode, where).communicate(timeout=60)[0]
            assert said.endswith("gradebook.sqlite cannot be written: allow writing to it and to its folder, or give --out another folder\n"), (what, said)
        said = process(try_it, folder, ".", "555", "new").communicate(timeout=60)[0]
        assert said == f"could not make the folder {folder / 'new'} for the grades: permission denied\n"
        folder.chmod(0o755)
        assert (folder / "gradebook.sqlite").read_bytes() == kept
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@posix
def test_a_full_disk_is_told_and_what_was_graded_is_kept(tmp_path):
    fill = """
import resource
people = a_class(40)
with Gradebook.open(folder) as book:
    book.begin(0, EXERCISES, VERSIONS)
    todo = book.submissions_to_do(people)
    now = book.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (now + 60_000, resource.RLIM_INFINITY))
    kept = 0
    try:
        for one in todo:
            book.keep(one.digest, verdict_of(one.digest, said="x" * 500))
            kept += 1
    except GradebookProblem as problem:
        say(kept)
        say(problem)
"""
    kept, said = process(fill, tmp_path).communicate(timeout=60)[0].splitlines()
    assert "gradebook.sqlite could not be written: the disk is full, or there is a limit on file sizes" in said and "What was graded before is kept" in said
    assert int(kept) > 3
    people = a_class(40)
    book, todo, _ = begun(tmp_path, people)
    with book:
        assert len(todo) == len({one.digest for one in people if not one.problem}) - int(kept)
        assert sum(bool(person.results) for person in book.graded(RULES).people) >= int(kept)


def test_names_of_every_kind_are_kept(tmp_path):
    names = ["O'L; DROP TABLE people", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0646\u062f", "caf\udce9", "\ud800", "\x1b[2Jclear", "a\nb\u00a0c", "\U0001f600", "0", "="]
    people = [submission(name, slug=f"s{number}", digest=digest_of(str(number))) for number, name in enumerate(names)]
    graded(tmp_path, people)
    book, todo, _ = begun(tmp_path, people)
    with book:
        shown = {person.slug: person.name for person in book.graded(RULES).people}
        book.forget("caf\udce9")
    assert todo == [] and [shown[f"s{number}"] for number in (0, 1, 4, 5, 6, 7, 8)] == [names[0], names[1], "clear", "a b c", names[6], "0", "="]
    assert shown["s2"].startswith("caf\ufffd") and set(shown["s3"]) == {"\ufffd"}


def test_nothing_that_comes_out_commands_a_terminal(tmp_path):
    one = submission(HOSTILE, digest="0125" * 16, notes=(HOSTILE,))
    verdict = verdict_of(one.digest, said=HOSTILE)
    verdict.results[0].forbidden.append(HOSTILE)
    verdict.broken["ch05_layers"] = Failure(HOSTILE, HOSTILE, [HOSTILE], HOSTILE)
    verdict.notes.append(HOSTILE)
    people = [one, submission(f"{HOSTILE}2", problem=HOSTILE), submission("Alpha")]
    book, todo, _ = begun(tmp_path, people)
    with book:
        book.keep(one.digest, verdict)
        book.keep(todo[1].digest, HOSTILE)
        for person in book.graded(RULES).people:
            said = str([asdict(result) for result in person.results]) + str(replace(person, results=()))
            assert not re.search(r"\\x|\\u|\\r", said), said  # nothing that Python would have to spell out
            assert person.name == "Alpha" or said.count("<script>") >= 1


# ---- marks


def exercise_with(*outcomes: str, weights=None, **more) -> ExerciseResult:
    weights = weights or [1] * len(outcomes)
    tests = [one_test(EXERCISES[0], number, outcome, 0.0, weight) for number, (outcome, weight) in enumerate(zip(outcomes, weights))]
    return ExerciseResult(EXERCISES[0], tests, **more)


@pytest.mark.parametrize(
    ("outcomes", "weights", "points", "earned"),
    [
        (["passed", "passed"], None, "33.33", "33.33"),
        (["passed", "failed", "failed"], None, 8, "2.67"),
        (["passed", "passed", "todo"], None, 8, "5.33"),
        (["passed", "failed"], None, "0.01", "0"),  # half up, and yet never whole
        (["passed", *["failed"] * 199], None, 1, "0.01"),  # half a cent
        (["failed", *["passed"] * 999], None, 1, "0.99"),
        (["passed", "error"], [0.1, 0.2], "0.3", "0.1"),
        (["passed", "timeout"], [3, 1], 10, "7.5"),
        (["failed"], None, 10, "0"),
        ([], None, 10, "0"),
    ],
)
def test_a_mark_is_the_won_share_rounded_once(outcomes, weights, points, earned):
    mark = marking.mark(exercise_with(*outcomes, weights=weights), points)
    assert mark == Mark(Decimal(earned), Decimal(str(points)))
    assert marking.mark(exercise_with("passed"), 100 / 3) == Mark(Decimal("33.33"), Decimal("33.33"))


def test_shortcuts_and_tests_that_were_not_run_earn_nothing():
    assert marking.mark(exercise_with("passed", "failed", forbidden=["it calls `x`"]), 8).earned == 0
    assert marking.mark(exercise_with("passed", "passed", partial=True, missing_weight=2.0), 8).earned == 4
    assert marking.mark(None, 8) == Mark(Decimal(0), Decimal(8))


def test_lateness_is_taken_off_the_total():
    marks = [Mark(Decimal("2.67"), Decimal(8)), Mark(Decimal("5.38"), Decimal(10))]
    assert marking.total(marks) == Mark(Decimal("8.05"), Decimal(18))
    assert marking.total(marks, 0.9) == Mark(Decimal("7.25"), Decimal(18))  # 7.245, half up
    assert marking.total(marks, 0) == Mark(Decimal(0), Decimal(18))


def test_who_handed_in_nobody_knows_when_is_not_counted_as_late(tmp_path):
    people = [submission("Alpha", submitted=None)]
    graded(tmp_path, people)
    book, _, _ = begun(tmp_path, people)
    with book:
        [alpha] = book.graded(RULES).people
    assert alpha.late == "" and alpha.notes == ("nobody knows when it was handed in, so it counts as in time",)


def test_marks_follow_the_rules_of_today_without_grading_anew(tmp_path):
    people = a_class(2)
    graded(tmp_path, people)
    book, todo, _ = begun(tmp_path, people)
    with book:
        ours, theirs = book.graded(RULES).people, book.graded(Rules()).people
    assert todo == [] and {person.total.points for person in ours} == {Decimal(32)}
    assert {person.total.points for person in theirs} == {sum(Decimal(str(exercise.points)) for exercise in EXERCISES)}
    late = ours[-1]
    before = sum(mark.earned for mark in late.marks.values())
    assert late.late == "1 day late (handed in 2026-05-02 10:00, due 2026-05-01 23:59): 10 % of the points earned are taken off"
    assert late.total.earned == marking.total([Mark(before, Decimal(1))], "0.9").earned < before and theirs[-1].late == ""
    assert late.submitted == "2026-05-02T10:00:00+00:00"


@pytest.mark.parametrize("amount", ["8", "0.05", "33.33", "0", "33.333"])
def test_shares_add_to_the_amount(amount):
    for weights in ([1, 1, 1], [0.1, 0.2, 0.7], [5], [1] * 30, []):
        parts = marking.shares(Decimal(amount), weights)
        assert not parts or sum(parts) == Decimal(amount)
        assert all(part >= 0 for part in parts) and len(parts) == len(weights)
    assert [marking.written(Decimal(points)) for points in ("8", "7.50", "2.67", "100", "0", "0.00", "1E+1")] == ["8", "7.5", "2.67", "100", "0", "0", "10"]


def test_a_whole_course_comes_back(tmp_path):
    every = load_syllabus().exercises
    one = submission("Alpha")
    verdict = Verdict([ExerciseResult(exercise, [one_test(exercise, 1, "passed")]) for exercise in every])
    with Gradebook.open(tmp_path) as book:
        book.begin(5, every, VERSIONS)
        book.submissions_to_do([one])
        book.keep(one.digest, verdict)
        [person] = book.graded(Rules()).people
    assert person.total.earned == person.total.points == sum(Decimal(str(exercise.points)) for exercise in every)
    assert json.dumps([result.exercise.name for result in person.results]) == json.dumps([exercise.name for exercise in every])
