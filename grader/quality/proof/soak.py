"""soak: a large class of every kind, graded undisturbed, and again by a grader that is killed and begun anew, time after time.

The kills are SIGKILL to the grader alone, at random moments: what it has started must notice by itself. Held are: every content is graded once
and what is in the gradebook stays as it is; both ways give the same gradebook and the same exports, byte for byte; no process, socket or file is
left behind, and what was handed in is as it was; memory does not grow with the class.
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

from grader.quality.benchmarks.figures import machine, table
from grader.quality.benchmarks.processes import alive, command_line, family, open_sockets, sockets
from grader.quality.benchmarks.workplace import copied_kit, environment
from grader.quality.proof import made_class
from grader.quality.proof.grader_run import GraderRun
from grader.system.process_tree import adopt_orphans

GONE = 180.0  # seconds within which everything that a killed grader has started must be gone, on a machine with much else to do
GROWTH = 1.1  # of memory, from the second sample to the last
SEED = 20261122
TORCHS_OWN = "torchinductor_"  # an empty folder that torch makes where it has none
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")


class Soak:
    """Both runs, and what is wrong with them."""

    def __init__(self, place: Path, kit: Path, options: argparse.Namespace) -> None:
        self.place, self.kit, self.options = place, kit, options
        self.environment = environment(kit) | {"PYTHONUNBUFFERED": "1"}
        for variable, name in (("HOME", "home"), ("TMPDIR", "temporary")):
            (place / name).mkdir()
            self.environment[variable] = str(place / name)
        self.members: dict[int, str] = {}  # all processes that were ever seen
        self.sockets: set[str] = set()
        self.slowest = 0.0  # seconds until a killed grader's processes were gone
        self.wrong: list[str] = []

    def held(self, true: bool, otherwise: str) -> None:
        if not true:
            self.wrong.append(otherwise)
            print(f"WRONG: {otherwise}", flush=True)

    def started(self, out: str) -> GraderRun:
        options = ["--exercises", ",".join(made_class.ASKED), "-j", str(self.options.jobs), "--seed", str(SEED)]
        return GraderRun([str(self.place / "class"), "--out", str(self.place / out), *options], self.kit, self.environment, max(1, self.options.people // 10))

    def look(self, run: GraderRun) -> None:
        members = run.members()
        self.members |= members
        self.sockets |= sockets(list(members))

    def undisturbed(self) -> tuple[GraderRun, float]:
        began = time.monotonic()
        run = self.started("undisturbed")
        while run.ended() is None:
            self.look(run)
            time.sleep(0.2)
        self.held(run.ended() in (0, 1), f"undisturbed, the grader ended with status {run.ended()}:\n{run.said()}")
        return run, time.monotonic() - began

    def disturbed(self, seconds: float) -> tuple[GraderRun, int]:
        """Killed at random moments; the last run, and how many were killed. Every other kill waits until its grader has graded something."""
        luck = random.Random(self.options.seed)
        waits = [luck.uniform(0.0, seconds / max(1, self.options.kills)) for _ in range(self.options.kills)]
        before: dict[str, tuple] = {}
        leaving: list[tuple[float, dict[int, str]]] = []
        kills, run = 0, self.started("disturbed")
        for number, wait in enumerate([*waits, float("inf")]):
            began = None if number % 2 else time.monotonic()
            while run.ended() is None and (began is None or time.monotonic() - began < wait):
                if began is None and self._has_kept(run):
                    began = time.monotonic()
                self.look(run)
                leaving = self._leaving(leaving)
                time.sleep(0.1)
            if run.ended() is not None:
                break
            self.look(run)
            members = run.members()
            run.process.send_signal(signal.SIGKILL)
            run.process.wait()
            leaving.append((time.monotonic(), members))
            kills += 1
            before = self._kept(run, before, kills)
            run = self.started("disturbed")
        self.held(run.ended() in (0, 1), f"after {kills} kills, the grader ended with status {run.ended()}:\n{run.said()}")
        self.held(kills == len(waits), f"there was time for {kills} of {len(waits)} kills only")
        self._kept(run, before, kills + 1)
        deadline = time.monotonic() + GONE
        while leaving and time.monotonic() < deadline:
            leaving = self._leaving(leaving)
            time.sleep(0.1)
        return run, kills

    def _has_kept(self, run: GraderRun) -> bool:
        """Is something written in the gradebook since it said what there is to do?"""
        return run.said_at is not None and (self.place / "disturbed" / "gradebook.sqlite").stat().st_mtime > run.said_at

    def _leaving(self, leaving: list[tuple[float, dict[int, str]]]) -> list[tuple[float, dict[int, str]]]:
        """Those killed graders' families of which somebody is still there."""
        still = []
        for since, members in leaving:
            if left := alive(members):
                self.held(time.monotonic() - since < GONE, f"{GONE:.0f} s after its grader was killed there is {command_line(left[0])}")
                if time.monotonic() - since < GONE:
                    still.append((since, members))
            else:
                self.slowest = max(self.slowest, time.monotonic() - since)
        return still

    def _kept(self, run: GraderRun, before: dict[str, tuple], number: int) -> dict[str, tuple]:
        """What is in the gradebook after a run. It must have been asked for exactly what was not there before."""
        now = gradebook(self.place / "disturbed")
        print(f"run {number}: {len(now) - len(before)} graded", flush=True)
        changed = [digest for digest, rows in before.items() if now.get(digest) != rows]
        self.held(not changed, f"run {number} has changed what was in the gradebook before, of {len(changed)} contents")
        if run.todo is not None:
            contents = len(gradebook(self.place / "undisturbed"))
            self.held(run.todo == contents - len(before), f"run {number} had {run.todo} to grade, where {contents - len(before)} were left")
        return now

    def compare(self, kinds: dict[str, int], graded: int) -> None:
        books = [gradebook(self.place / out) for out in ("undisturbed", "disturbed")]
        self.held(books[0].keys() == books[1].keys(), "the two gradebooks hold different contents")
        unlike = [digest for digest in books[0] if books[0][digest] != books[1].get(digest)]
        self.held(not unlike, f"what was found out about {len(unlike)} contents differs: {self._who(unlike[:10])}")
        troubles = [rows[0][1] for book in books for rows in book.values() if rows[0][1]]
        self.held(not troubles, f"{len(troubles)} contents could not be graded: {troubles[:3]}")
        first, second = (exports(self.place / out) for out in ("undisturbed", "disturbed"))
        unlike = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        self.held(not unlike, f"{len(unlike)} exports differ: {unlike[:10]}")
        print(f"{sum(kinds.values())} people, {len(books[0])} different contents that can be graded, {graded} graded by the last run after the kills;")
        print(f"{len(first)} exports compared, {sum(map(len, first.values())) / 1e6:.1f} MB")

    def _who(self, digests: list[str]) -> list[str]:
        database = sqlite3.connect(self.place / "undisturbed" / "gradebook.sqlite")
        with contextlib.closing(database):
            return [row[0] for digest in digests for row in database.execute("SELECT name FROM people WHERE digest = ?", (digest,))]

    def nothing_left(self, ours: set[int], files: dict[str, bytes], names: set[str]) -> None:
        deadline = time.monotonic() + GONE
        while (left := alive(self.members | {pid: at for pid, at in family(os.getpid()).items() if pid not in ours})) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.held(not left, f"{len(left)} processes are left: {[command_line(pid) for pid in left[:5]]}")
        for pid in set(family(os.getpid())) - ours:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
        bound = self.sockets & open_sockets()
        self.held(not bound, f"{len(bound)} sockets are left")
        for name in ("temporary", "home"):
            found = sorted(str(path.relative_to(self.place)) for path in (self.place / name).rglob("*") if not path.name.startswith(TORCHS_OWN))
            self.held(not found, f"files are left: {found[:10]}")
        new = {name for name in everywhere() - names if "headway-attack" in name or any(f"torch_{pid}_" in name for pid in self.members)}
        self.held(not new, f"files are left: {sorted(new)[:10]}")
        self.held(contents(self.place / "class") == files, "what was handed in has been changed")
        print(f"{len(self.members)} processes and {len(self.sockets)} sockets were seen; the last of a killed grader's were gone after {self.slowest:.1f} s")

    def flat(self, run: GraderRun) -> None:
        """Memory, processes and descriptors in the undisturbed run; the first tenth is left out, for there everything is used for the first time."""
        heads = ["graded", "these", *(f"{who} {what}" for who in run.WHO for what in ("Rss", "Pss")), "processes", "descriptors"]
        print(table(heads, [sample.row() for sample in run.samples], words=0))
        if len(run.samples) < 4:
            return
        for who, first, last in zip(run.WHO, run.samples[1].memory, run.samples[-1].memory):
            self.held(last[0] <= GROWTH * first[0] + 5, f"the {who} has grown from {first[0]:.0f} to {last[0]:.0f} MB")
        self.held(run.samples[-1].processes <= run.samples[1].processes + 10, "there are more and more processes, dead or alive")
        self.held(run.samples[-1].descriptors <= run.samples[1].descriptors + 8, "there are more and more open descriptors")


def gradebook(out: Path) -> dict[str, tuple]:
    """All that is kept of each content, of a copy with its journal: what a killed grader was writing is undone there, as the next one does."""
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
            except sqlite3.OperationalError:  # killed before it had any table
                return {}
    found: dict[str, list] = {digest: [(exercises, problem, broken, notes)] for digest, exercises, problem, broken, notes in verdicts}
    for row in rows:
        found[row[1]].append(row[2:])
    return {digest: tuple(kept) for digest, kept in found.items()}


def exports(out: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(out).items() if not name.startswith(("gradebook.sqlite", "asked.json"))}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def everywhere() -> set[str]:
    """What lies where anybody may write."""
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
    parser.add_argument("--people", type=int, default=1000, metavar="N", help="how many hand something in (1000)")
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="how often the grader is killed (20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another class, killed at other moments")
    parser.add_argument("--jobs", "-j", type=int, default=2, metavar="N", help="submissions at once (2)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in this new folder and leave it there, to look into what did not hold")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    options = parsed(arguments)
    if not sys.platform.startswith("linux"):
        print("soak looks at processes in /proc, so it runs on Linux only", file=sys.stderr)
        return 2
    print(f"soak: {machine()}", flush=True)
    adopt_orphans()  # whatever loses its parent becomes our child, and is seen
    with copied_kit() as kit, _place(options.keep) as place:
        soak = Soak(Path(place), kit, options)
        kinds = made_class.make(Path(place) / "class", options.people, options.seed)
        print(", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds)), flush=True)
        files, ours, names = contents(Path(place) / "class"), set(family(os.getpid())), everywhere()
        first, seconds = soak.undisturbed()
        print(f"undisturbed: {seconds:.0f} s", flush=True)
        soak.flat(first)
        began = time.monotonic()
        last, kills = soak.disturbed(seconds)
        print(f"killed {kills} times: {time.monotonic() - began:.0f} s", flush=True)
        soak.compare(kinds, last.todo or 0)
        soak.nothing_left(ours, files, names)
    print(f"soak: {'everything held' if not soak.wrong else f'{len(soak.wrong)} things did not hold'}")
    return min(len(soak.wrong), 1)
