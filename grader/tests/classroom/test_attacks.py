"""Submissions that attack, graded in one class with honest ones between them, and also in process if the attack can be stopped there.

Each table of a TOML file in grader/tests/attacks is one attack. Its chapter consists of the file's `shared` lines and its own `code`. A
function softmax that returns `returns` is added where this is missing. {repeated} is replaced by `repeat`, `times`
times. An attack that has got what it wanted gives the right answer, or raises SystemExit("Success: ...").
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import subprocess
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest
from grade_command import PATIENCE, command, hand_in, marks, mistake
from grader.classroom.gradebook import Gradebook
from grader.classroom.judging.dispatch import GradeJob
from grader.classroom.judging.marks import Person
from grader.classroom.judging.rules import Rules
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.sandbox.isolation import available
from grader.processes.client import ServerProcess
from grader.processes.job import read
from grader.system import kernel
from grader.verdict.results import Verdict
from linux_processes import children_of, command_line, descendants, still_running
from pytest_runs import environment, grade, solution
from report_examples import elements_of

isolation = available()
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not (isolation.seccomp and isolation.landlock), reason="attacks run only where a sandbox isolates them"),
]

@dataclass(frozen=True)
class Attack:
    name: str
    hopes: str
    not_in_process: str = ""  # why a run in process does not withstand it
    exercise: str = "softmax"  # the code for another one is appended to the reference's chapter
    message: str = ""  # what the author must read
    loses: tuple[str, ...] = ()  # right values without the work that a law counts: the tests that must fail; without them, no point is earned
    unreadable: bool = False  # the chapter gets a sentence instead of a verdict
    coding: str = ""
    shared: str = ""
    code: str = ""
    returns: str = ""
    repeat: str = ""
    times: int = 0
    files: dict[str, str] = field(default_factory=dict)  # handed in beside the chapter

    @property
    def text(self) -> str:
        code = self.shared + self.code
        if self.returns or "softmax" not in code and self.exercise == "softmax":
            code += f"\n\ndef softmax(x, dim=-1):\n    return {self.returns or 'x'}\n"
        coding = f"# coding: {self.coding}\n" if self.coding else ""
        return f'{coding}"""Hopes {self.hopes}."""\n\n{code}'.replace("{repeated}", self.repeat * self.times)


def attacks() -> list[Attack]:
    found = []
    for path in sorted((ROOT / "grader" / "tests" / "attacks").glob("*.toml")):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        shared = tables.pop("shared", "")
        found += [Attack(name, shared=shared, **table) for name, table in tables.items()]
    return found


SEED = "20261121"  # in process: not the public seed
NAMES = ["=HYPERLINK(A1)", "@SUM(1+1)", "-1+1", "<img src=x onerror=attack()>", "\x1b[2J\x1b]0;attack\x07red", "\u202etxt.exe", "`attack` ![x](y) | a", "{{ 7 * 7 }}"]
EVERY = attacks()
ATTACKS = [attack for attack in EVERY if attack.exercise == "softmax"]
ON_OTHERS = [attack for attack in EVERY if attack.exercise != "softmax" and not attack.loses]
ON_COUNTS = [attack for attack in EVERY if attack.loses]


def honest(number: int) -> str:
    """Correct, nearly correct, and not written yet; each with other content."""
    kinds = (solution("ch03"), mistake("softmax"), mistake("softmax", 3), "def softmax(x, dim=-1):\n    raise NotImplementedError\n")
    return kinds[number % len(kinds)] + f"\n# number {number}\n"


HONEST = {f"{attack.name}_honest": honest(number) for number, attack in enumerate(ATTACKS[::15])}


def hand_in_attack(folder: Path, attack: Attack, name: str = "") -> None:
    hand_in(folder, name or attack.name, attack.text)
    for path, text in attack.files.items():
        beside = folder / (name or attack.name) / path
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")


@dataclass
class Run:
    """A run of the class grader in its own folders, observed from outside."""

    place: Path
    out: Path
    status: int = 0
    said: str = ""
    servers: set[int] = field(default_factory=set)  # processes that the grader itself started
    remaining: list[int] = field(default_factory=list)  # processes that were still there

    @cached_property
    def people(self) -> dict[str, Person]:
        with Gradebook.read(self.out) as book:
            return {person.name: person for person in book.graded_class(Rules()).people}


def run(place: Path) -> Run:
    """Grade `place/class`; home and temporary files have their own folders."""
    found = Run(place, place / "grades")
    for name in ("home", "temporary"):
        (place / name).mkdir()
    before = set(descendants(os.getpid()))
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # processes that are left behind become our children
    try:
        with open(place / "said", "w+", encoding="utf-8") as said:
            grader = subprocess.Popen(
                command("grade", place / "class", "--out", found.out, "--exercises", "softmax", "-j", 2),
                env=environment(HOME=str(place / "home"), TMPDIR=str(place / "temporary")), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip
            members: dict[int, str] = {}
            deadline = time.monotonic() + 2 * PATIENCE
            while grader.poll() is None:
                assert time.monotonic() < deadline, "the grader waits for ever"
                found.servers |= {pid for pid in children_of(grader.pid) if "grader.classroom.judging.start_server" in command_line(pid)}
                members |= descendants(grader.pid)
                time.sleep(0.1)
            reparented = {pid: start_time for pid, start_time in descendants(os.getpid()).items() if pid not in before}
            others = {pid for earlier in before for pid in descendants(earlier)}  # such as new processes of a browser that an earlier test started
            members |= {pid: start_time for pid, start_time in reparented.items() if pid not in others}
            deadline = time.monotonic() + 20
            while (remaining := still_running(members)) and time.monotonic() < deadline:
                time.sleep(0.1)
            found.status, found.remaining = grader.returncode, remaining
        found.said = (place / "said").read_text(encoding="utf-8")
    finally:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 0)
        for pid in set(descendants(os.getpid())) - before:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
    return found


@pytest.fixture(scope="module")
def attacked(tmp_path_factory) -> Run:
    place = tmp_path_factory.mktemp("attacked")
    for attack in ATTACKS:
        hand_in_attack(place / "class", attack)
    for name, text in HONEST.items():
        hand_in(place / "class", name, text)
    for name in NAMES:
        hand_in_attack(place / "class", next(attack for attack in ATTACKS if attack.name == "output_of_html"), name)
    before = _files(place / "class")
    found = run(place)
    assert _files(place / "class") == before, "an attack has changed what was handed in"
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Run:
    """The honest submissions alone."""
    place = tmp_path_factory.mktemp("alone")
    for name, text in HONEST.items():
        hand_in(place / "class", name, text)
    return run(place)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---- the class grader, alone: a machine that is busy beyond measure may cost a server too


@pytest.mark.alone
def test_no_attack_earns_a_point(attacked):
    found = marks(attacked.out)
    assert {attack.name for attack in ATTACKS if found[attack.name]["softmax"] != "0"} == set()


@pytest.mark.alone
def test_the_server_survives_and_every_submission_is_graded(attacked):
    unread = {attack.name for attack in ATTACKS if attack.unreadable}
    assert attacked.status == 1 and "Traceback" not in attacked.said, attacked.said
    assert set(re.findall(r"^Not graded: (\w+): ", attacked.said, re.MULTILINE)) == unread and len(unread) > 4
    assert len(attacked.servers) == 1, f"a server was lost: {attacked.said}"
    assert len(attacked.people) == len(ATTACKS) + len(HONEST) + len(NAMES)


@pytest.mark.alone
def test_honest_submissions_get_the_same_marks_as_without_attacks(attacked, alone):
    for name in HONEST:
        assert marks(attacked.out)[name] == marks(alone.out)[name]
        for path in (f"feedback/{name}.md", f"gradescope/{name}.json"):
            assert (attacked.out / path).read_bytes() == (alone.out / path).read_bytes()
    assert {"10", "0"} < {row["softmax"] for row in marks(alone.out).values()}


@pytest.mark.alone
def test_every_submission_without_a_verdict_has_a_message(attacked):
    for attack in ATTACKS:
        person = attacked.people[attack.name]
        feedback = (attacked.out / "feedback" / f"{attack.name}.md").read_text(encoding="utf-8")
        if attack.unreadable:
            assert attack.message and attack.message in person.problem and not person.results, (attack.name, person.problem)
            assert "**0 of 10 points.**" in feedback and "This submission could not be graded: " in feedback, feedback
            continue
        assert not person.problem and person.results, (attack.name, person.problem)
        for test in person.results[0].tests:
            assert test.outcome == "passed" or test.message.strip(), (attack.name, test)
        said = [test.message for test in person.results[0].tests] + person.results[0].forbidden + [" ".join(feedback.split())]
        assert attack.message in " ".join(said), (attack.name, attack.message, person)
        assert "Success: " not in " ".join(said), (attack.name, person)
        assert "of 10 points" in feedback and len(feedback.split()) > 20, feedback


@pytest.mark.alone
def test_attacks_leave_no_process_and_no_file(attacked):
    assert attacked.remaining == [], [command_line(pid) for pid in attacked.remaining]
    assert _files(attacked.place / "temporary") == {}
    assert [path for path in _files(attacked.place / "home") if "attack" in path] == []
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/run"):
        assert list(Path(place).glob("headway-attack*")) == []


@pytest.mark.alone
def test_names_and_output_of_attacks_are_displayed_as_text(attacked, alone):
    """The terminal, a table of marks in a spreadsheet, and the report in a browser."""
    for path in [*(path for path in attacked.out.rglob("*") if path.suffix in (".csv", ".md", ".json", ".xml", ".html")), attacked.place / "said"]:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        assert all(c.isprintable() or c in "\n\t\u200c\u200d\u00a0" for c in text), (path, [c for c in text if not c.isprintable() and c not in "\n\t"])
    for row in csv.reader(io.StringIO((attacked.out / "grades.csv").read_text(encoding="utf-8-sig"), newline="")):
        assert not [cell for cell in row if re.match(r"\s*[=+@\-]", cell)]
    plain, page = (elements_of(found.out / "report.html") for found in (alone, attacked))
    assert not [(tag, name) for tag, name in page if name.startswith("on") or name == "src" or (tag == "script" and (tag, "") not in plain)]
    assert "alert('attack')</script>" not in (attacked.out / "report.html").read_text(encoding="utf-8")


# ---- in process


@pytest.fixture
def server():
    """A pytest session with everything loaded, which is forked for each target."""
    server = ServerProcess(str(isolation), module="grader.classroom.judging.start_server")
    yield server
    server.end()


def test_attacks_that_can_be_stopped_in_process_earn_nothing(server):
    tests = {attack.name: ("softmax", attack.text, False) for attack in ATTACKS if not attack.not_in_process}
    found = verdicts(server, tests | {"right": ("softmax", solution("ch03"), False)})
    assert {name: said.results[0].earned for name, said in found.items() if said.results[0].earned} == {"right": 10}
    assert server.alive and len(found) > 40


@pytest.mark.parametrize("in_worker", [False, True], ids=["local", "worker"])
def test_attacks_on_other_exercises_earn_nothing(server, in_worker):
    right = {name: load_syllabus().exercise(name) for name in sorted({attack.exercise for attack in ON_OTHERS})}
    tests = {attack.name: (attack.exercise, f"{solution(right[attack.exercise].chapter)}\n\n{attack.text}", in_worker) for attack in ON_OTHERS}
    found = verdicts(server, tests | {f"right {name}": (name, solution(exercise.chapter), in_worker) for name, exercise in right.items()})
    assert {name: said.results[0].earned for name, said in found.items() if said.results[0].earned} == {f"right {name}": right[name].points for name in right}
    shortcuts = [name for name in tests if name.startswith("shortcut_")]
    assert [name for name in shortcuts if not found[name].results[0].forbidden] == [] and len(shortcuts) > 15


@pytest.mark.parametrize(("in_worker", "seed"), [(False, int(SEED)), (True, 7)], ids=["local", "worker"])
def test_work_that_a_law_counts_has_to_be_done(server, in_worker, seed):
    tests = {attack.name: (attack.exercise, f"{solution(load_syllabus().exercise(attack.exercise).chapter)}\n\n{attack.text}", in_worker) for attack in ON_COUNTS}
    found, wrong = verdicts(server, tests, seed), []
    for attack in ON_COUNTS:
        results = found[attack.name].results[0]
        failed = {test.name: test.message for test in results.tests if test.outcome == "failed"}
        said = " ".join([*failed.values(), *results.forbidden])
        if not set(attack.loses) <= failed.keys() or attack.message not in said:
            wrong.append((attack.name, set(attack.loses) - failed.keys(), failed, results.forbidden))
    assert not wrong


def verdicts(server: ServerProcess, tests: dict[str, tuple[str, str, bool]], seed: int = int(SEED)) -> dict[str, Verdict]:
    """For each attack: the exercise, its chapter's text, and whether a worker runs it."""
    address = server.address()

    def verdict(exercise: str, text: str, in_worker: bool) -> Verdict | list[dict]:
        sources = {load_syllabus().exercise(exercise).module: text}
        with address.ask(GradeJob(sources, {}, [exercise], seed, 600.0, in_worker=in_worker)) as sock:
            said = list(read(sock))
        return next((Verdict.from_data(message["verdict"]) for message in said if "verdict" in message), said)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(tests, pool.map(lambda job: verdict(*job), tests.values())))
    assert [(name, said) for name, said in found.items() if not isinstance(said, Verdict)] == []
    assert [name for name, said in found.items() if not said.results] == []
    return found


def test_files_next_to_a_chapter_do_not_affect_pytest(tmp_path):
    """All extra files in one folder, with a chapter that is wrong in every test."""
    for attack in ATTACKS:
        if attack.files:
            hand_in_attack(tmp_path, attack, "target")
    hand_in(tmp_path, "target", "import random\n\nimport torch\n\n\ndef softmax(x, dim=-1):\n    return x\n")
    found = grade("--target", str(tmp_path / "target"), "--exercise", "softmax", "--seed", SEED, results=tmp_path / "found.json", cwd=ROOT)
    softmax = found.exercise("softmax")
    assert found.status == 1 and softmax["earned"] == 0, found.out
    assert {test["outcome"] for test in softmax["tests"]} == {"failed"} and len(softmax["tests"]) > 5
