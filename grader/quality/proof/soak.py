"""soak: grades a large class of every kind without interruption, and again with a grader that is killed and restarted many times.

SIGKILL goes to the grader alone, at random moments: the processes that it started must notice by themselves. These must hold: every content is
graded once, and what is in the gradebook stays unchanged; both runs give the same gradebook and the same exports, byte for byte; no process, socket
or file remains, and the submissions are unchanged; memory does not grow with the size of the class.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from grader.classroom.gradebook.gradebook import Gradebook
from grader.quality.benchmarks.figures import machine, table
from grader.quality.benchmarks.processes import command_line, descendants, open_sockets, sockets, still_running
from grader.quality.benchmarks.workplace import copied_kit, environment
from grader.quality.proof import made_class
from grader.quality.proof.grader_run import GraderRun
from grader.system.process_tree import adopt_orphans

GONE = 180.0  # seconds within which all processes of a killed grader must have ended, also on a busy machine
GROWTH = 1.1  # of memory, from the second sample to the last
SEED = 20261122
SECRET = "the same for both runs"
TORCHS_OWN = "torchinductor_"  # an empty folder that torch creates
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")


class Soak:
    """Both runs, and the problems found."""

    def __init__(self, place: Path, kit: Path, options: argparse.Namespace) -> None:
        self.place, self.kit, self.options = place, kit, options
        self.environment = environment(kit) | {"PYTHONUNBUFFERED": "1"}
        for variable, name in (("HOME", "home"), ("TMPDIR", "temporary")):
            (place / name).mkdir()
            self.environment[variable] = str(place / name)
        self.members: dict[int, str] = {}  # all processes seen so far
        self.sockets: set[str] = set()
        self.slowest = 0.0  # seconds until a killed grader's processes had ended
        self.wrong: list[str] = []

    def check(self, condition: bool, problem: str) -> None:
        if not condition:
            self.wrong.append(problem)
            print(f"WRONG: {problem}", flush=True)

    def started(self, out: str) -> GraderRun:
        if not (self.place / out).exists():
            Gradebook(self.place / out, SECRET).close()  # so that both runs draw the same examples
        options = ["--exercises", ",".join(made_class.GRADED), "-j", str(self.options.jobs), "--seed", str(SEED)]
        return GraderRun([str(self.place / "class"), "--out", str(self.place / out), *options], self.kit, self.environment, max(1, self.options.people // 10))

    def observe(self, run: GraderRun) -> None:
        members = run.members()
        self.members |= members
        self.sockets |= sockets(list(members))

    def undisturbed(self) -> tuple[GraderRun, float]:
        began = time.monotonic()
        run = self.started("undisturbed")
        while run.ended() is None:
            self.observe(run)
            time.sleep(0.2)
        self.check(run.ended() in (0, 1), f"without kills, the grader ended with status {run.ended()}:\n{run.output()}")
        return run, time.monotonic() - began

    def disturbed(self, seconds: float) -> tuple[GraderRun, int]:
        """Kill the grader at random moments; return the last run and the number of kills. Every other kill waits until its grader has graded something."""
        random_numbers = random.Random(self.options.seed)
        waits = [random_numbers.uniform(0.0, seconds / max(1, self.options.kills)) for _ in range(self.options.kills)]
        before: dict[str, tuple] = {}
        leaving: list[tuple[float, dict[int, str]]] = []
        kills, run = 0, self.started("disturbed")
        for number, wait in enumerate([*waits, float("inf")]):
            began = None if number % 2 else time.monotonic()
            while run.ended() is None and (began is None or time.monotonic() - began < wait):
                if began is None and self._has_graded(run):
                    began = time.monotonic()
                self.observe(run)
                leaving = self._leaving(leaving)
                time.sleep(0.1)
            if run.ended() is not None:
                break
            self.observe(run)
            members = run.members()
            run.process.send_signal(signal.SIGKILL)
            run.process.wait()
            leaving.append((time.monotonic(), members))
            kills += 1
            before = self._check_gradebook(run, before, kills)
            run = self.started("disturbed")
        self.check(run.ended() in (0, 1), f"after {kills} kills, the grader ended with status {run.ended()}:\n{run.output()}")
        self.check(kills == len(waits), f"only {kills} of {len(waits)} kills happened before the class was graded")
        self._check_gradebook(run, before, kills + 1)
        deadline = time.monotonic() + GONE
        while leaving and time.monotonic() < deadline:
            leaving = self._leaving(leaving)
            time.sleep(0.1)
        return run, kills

    def _has_graded(self, run: GraderRun) -> bool:
        """Has the run written to the gradebook since it printed the number of submissions?"""
        return run.announced_at is not None and (self.place / "disturbed" / "gradebook.sqlite").stat().st_mtime > run.announced_at

    def _leaving(self, leaving: list[tuple[float, dict[int, str]]]) -> list[tuple[float, dict[int, str]]]:
        """The families of killed graders of which some process still runs."""
        still = []
        for since, members in leaving:
            if left := still_running(members):
                self.check(time.monotonic() - since < GONE, f"{GONE:.0f} s after its grader was killed, this process still runs: {command_line(left[0])}")
                if time.monotonic() - since < GONE:
                    still.append((since, members))
            else:
                self.slowest = max(self.slowest, time.monotonic() - since)
        return still

    def _check_gradebook(self, run: GraderRun, before: dict[str, tuple], number: int) -> dict[str, tuple]:
        """The gradebook after a run. The run must have graded exactly what was missing before."""
        now = gradebook(self.place / "disturbed")
        print(f"run {number}: {len(now) - len(before)} graded", flush=True)
        changed = [digest for digest, rows in before.items() if now.get(digest) != rows]
        self.check(not changed, f"run {number} has changed {len(changed)} contents that were in the gradebook before")
        if run.todo is not None:
            contents = len(gradebook(self.place / "undisturbed"))
            self.check(run.todo == contents - len(before), f"run {number} had {run.todo} to grade, but {contents - len(before)} were left")
        return now

    def compare(self, kinds: dict[str, int], graded: int) -> None:
        books = [gradebook(self.place / out) for out in ("undisturbed", "disturbed")]
        self.check(books[0].keys() == books[1].keys(), "the two gradebooks have different contents")
        unlike = [digest for digest in books[0] if books[0][digest] != books[1].get(digest)]
        self.check(not unlike, f"the results of {len(unlike)} contents differ: {self._names_of(unlike[:10])}")
        problems = [rows[0][1] for book in books for rows in book.values() if rows[0][1]]
        self.check(not problems, f"{len(problems)} contents could not be graded: {problems[:3]}")
        first, second = (exports(self.place / out) for out in ("undisturbed", "disturbed"))
        unlike = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        self.check(not unlike, f"{len(unlike)} exports differ: {unlike[:10]}")
        print(f"{sum(kinds.values())} people, {len(books[0])} different contents that can be graded, {graded} graded by the last run after the kills;")
        print(f"{len(first)} exports compared, {sum(map(len, first.values())) / 1e6:.1f} MB")

    def _names_of(self, digests: list[str]) -> list[str]:
        database = sqlite3.connect(self.place / "undisturbed" / "gradebook.sqlite")
        with contextlib.closing(database):
            return [row[0] for digest in digests for row in database.execute("SELECT name FROM people WHERE digest = ?", (digest,))]

    def check_nothing_left(self, own_processes: set[int], files: dict[str, bytes], names: set[str]) -> None:
        deadline = time.monotonic() + GONE

        def others() -> dict[int, str]:
            return self.members | {pid: at for pid, at in descendants(os.getpid()).items() if pid not in own_processes}

        while (left := still_running(others())) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.check(not left, f"{len(left)} processes remain: {[command_line(pid) for pid in left[:5]]}")
        for pid in set(descendants(os.getpid())) - own_processes:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        bound = self.sockets & open_sockets()
        self.check(not bound, f"{len(bound)} sockets remain")
        for name in ("temporary", "home"):
            found = sorted(str(path.relative_to(self.place)) for path in (self.place / name).rglob("*") if not path.name.startswith(TORCHS_OWN))
            self.check(not found, f"files remain: {found[:10]}")
        new = {name for name in everywhere() - names if "headway-attack" in name or any(f"torch_{pid}_" in name for pid in self.members)}
        self.check(not new, f"files remain: {sorted(new)[:10]}")
        self.check(contents(self.place / "class") == files, "the submissions have changed")
        print(f"{len(self.members)} processes and {len(self.sockets)} sockets were seen; the slowest process of a killed grader ended after {self.slowest:.1f} s")

    def check_growth(self, run: GraderRun) -> None:
        """Compare memory, processes and descriptors in the uninterrupted run; the first tenth does not count, because it includes every first use."""
        heads = ["graded", "these", *(f"{who} {what}" for who in run.WHO for what in ("Rss", "Pss")), "processes", "descriptors"]
        print(table(heads, [sample.row() for sample in run.samples], words=0))
        if len(run.samples) < 4:
            return
        for who, first, last in zip(run.WHO, run.samples[1].memory, run.samples[-1].memory):
            self.check(last[0] <= GROWTH * first[0] + 5, f"the memory of the {who} has grown from {first[0]:.0f} to {last[0]:.0f} MB")
        self.check(run.samples[-1].processes <= run.samples[1].processes + 10, "the number of processes grows")
        self.check(run.samples[-1].descriptors <= run.samples[1].descriptors + 8, "the number of open descriptors grows")


def gradebook(out: Path) -> dict[str, tuple]:
    """All results of each content, read from a copy with its journal: a killed grader's unfinished transaction is rolled back there, as in the next run."""
    with tempfile.TemporaryDirectory(prefix="headway-soak-") as place:
        for name in ("gradebook.sqlite", "gradebook.sqlite-journal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(out / name, place)
        if not (Path(place) / "gradebook.sqlite").exists():
            return {}
        database = sqlite3.connect(Path(place) / "gradebook.sqlite")
        with contextlib.closing(database):
            try:
                verdicts = database.execute("SELECT digest, exercises, problem, broken, notes FROM verdicts ORDER BY digest").fetchall()
                rows = database.execute("SELECT * FROM results ORDER BY digest, exercise").fetchall()
            except sqlite3.OperationalError:  # killed before it had created the tables
                return {}
    found: dict[str, list] = {digest: [(exercises, problem, broken, notes)] for digest, exercises, problem, broken, notes in verdicts}
    for row in rows:
        found[row[1]].append(row[2:])
    return {digest: tuple(rows) for digest, rows in found.items()}


def exports(out: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(out).items() if not name.startswith(("gradebook.sqlite", "asked.json"))}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def everywhere() -> set[str]:
    """The entries of the folders that everybody may write to."""
    return {entry.path for place in PLACES if os.path.isdir(place) for entry in os.scandir(place)}


@contextlib.contextmanager
def _place(keep: Path | None) -> Iterator[str]:
    if keep:
        keep.mkdir(parents=True)
        yield str(keep)
    else:
        with tempfile.TemporaryDirectory(prefix="headway-soak-") as place:
            yield place


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.proof soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=1000, metavar="N", help="number of people (1000)")
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="number of kills (20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another class, with kills at other moments")
    parser.add_argument("--jobs", "-j", type=int, default=2, metavar="N", help="submissions at once (2)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in this new folder and do not delete it, to examine problems")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    options = parsed(arguments)
    if not sys.platform.startswith("linux"):
        print("soak reads /proc, so it runs on Linux only", file=sys.stderr)
        return 2
    print(f"soak: {machine()}", flush=True)
    adopt_orphans()  # orphans then become children of this process, which sees them
    with copied_kit() as kit, _place(options.keep) as place:
        soak = Soak(Path(place), kit, options)
        kinds = made_class.make(Path(place) / "class", options.people, options.seed)
        print(", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds)), flush=True)
        files, own_processes, names = contents(Path(place) / "class"), set(descendants(os.getpid())), everywhere()
        first, seconds = soak.undisturbed()
        print(f"undisturbed: {seconds:.0f} s", flush=True)
        soak.check_growth(first)
        began = time.monotonic()
        last, kills = soak.disturbed(seconds)
        print(f"killed {kills} times: {time.monotonic() - began:.0f} s", flush=True)
        soak.compare(kinds, last.todo or 0)
        soak.check_nothing_left(own_processes, files, names)
    print(f"soak: {'everything holds' if not soak.wrong else f'{len(soak.wrong)} things do not hold'}")
    return min(len(soak.wrong), 1)
