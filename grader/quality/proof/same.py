"""same: grades a small class of every kind in every possible way. Marks, outcomes and diagnoses must be the same each time.

`headway grade` runs with different numbers of jobs, on this machine and on a Dask cluster, as root and as an unprivileged user: all files that it
writes must be the same, byte for byte. Then pytest runs each exercise, in a worker and in process, with the seed that the grader used for it; and
once more without recorded examples, which must change nothing that it prints or reports but times.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.submissions import read_submissions
from grader.classroom.judging.sharing import Planner
from grader.course.syllabus import load_syllabus
from grader.quality.benchmarks.figures import machine
from grader.quality.benchmarks.workplace import copied_kit, environment
from grader.quality.proof.made_class import GRADED, reference, tarred, with_mistake, with_stub, write, zipped
from grader.quality.proof.soak import exports

SEED = 7
SECRET = "the same for all runs"
AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
CLUSTER = """
import sys
from distributed import LocalCluster
with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=sys.argv[1]) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""
WHERE = {False: "in process", True: "in a worker"}
NOT_IN_PROCESS = ("crash", "exit")  # they would end pytest itself, as the documentation says

Found = dict[str, dict]  # of one submission: exercise -> its result


def make_class(folder: Path) -> None:
    """Write the submissions of sixteen people; two submit the same content, and two submissions cannot be graded.

    The endless loop is one line: in a longer one, chance decides at which line the time limit ends it, and feedback names that line.
    """
    right = reference()
    attention = right["ch03_attention"]
    people = {
        "right": right,
        "mistake one": with_mistake(right, "softmax", 0),
        "mistake two": with_mistake(right, "softmax", 3),
        "mistake three": with_mistake(right, "count_pairs", 1),
        "two mistakes": with_mistake(with_mistake(right, "softmax", 1), "count_pairs", 0),
        "stub": with_stub(with_stub(right, "softmax"), "count_pairs"),
        "half": {"ch01_tokenizer": right["ch01_tokenizer"]},
        "crash": right | {"ch03_attention": f"{attention}\n\ndef softmax(x, dim=-1):\n    import ctypes\n    ctypes.string_at(0)\n"},
        "exit": right | {"ch03_attention": f"{attention}\n\ndef softmax(x, dim=-1):\n    import os\n    os._exit(3)\n"},
        "loop": right | {"ch01_tokenizer": right["ch01_tokenizer"] + "\n\ndef count_pairs(ids):\n    while True: pass\n"},
        "shortcut": right | {"ch03_attention": f"{attention}\n\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n"},
        "broken": right | {"ch03_attention": f"{attention}\nimport nothing_like_it\n"},
        "no python": right | {"ch01_tokenizer": "def count_pairs(:\n"},
    }
    for name, texts in people.items():
        write(folder / name, texts)
    (folder / "twin.zip").write_bytes(zipped(right))
    (folder / "cut short.tar.gz").write_bytes(tarred(right)[:900])
    (folder / "nothing").mkdir()


def graded(kit: Path, place: Path, out: str, more: list[str], prefix: list[str], at_home: Path) -> Path:
    """Run `headway grade`; return the folder that it wrote."""
    Gradebook(place / "out" / out, SECRET).close()
    for path in (place / "out" / out, place / "out" / out / "gradebook.sqlite"):
        path.chmod(0o777)  # also for the user nobody
    command = [*prefix, sys.executable, "-P", "-m", "grader.cli", "grade", str(place / "class"), "--out", str(place / "out" / out), "--seed", str(SEED)]
    done = subprocess.run(
        [*command, "--exercises", ",".join(GRADED), *more], cwd=kit, env=environment(kit) | {"HOME": str(at_home), "TMPDIR": str(at_home)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode != 1:  # because of the truncated archive and the empty folder
        raise RuntimeError(f"headway grade, {out}, ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return place / "out" / out


@contextlib.contextmanager
def cluster(kit: Path, place: Path) -> Iterator[str]:
    """The address of a cluster with two workers, each a separate process."""
    command = [sys.executable, "-c", CLUSTER, str(place / "dask")]
    with subprocess.Popen(command, cwd=kit, env=environment(kit), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin and process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


def why_not_nobody(place: Path) -> str:
    """Why the user `nobody` cannot run the grader; empty if it can."""
    if os.geteuid():
        return "this is not root; run it again as root"
    if not shutil.which(AS_NOBODY[0]):
        return "there is no setpriv"
    start = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import torch']))"  # two starts: the first may still use root's rights
    tried = subprocess.run([*AS_NOBODY, sys.executable, "-c", start], cwd=place, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"the user nobody cannot run this Python ({tried.stderr.strip().splitlines()[-1:]})"


def in_the_gradebook(out: Path) -> dict[str, Found]:
    """Everybody's results from the gradebook and the table of marks."""
    with contextlib.closing(sqlite3.connect(out / "gradebook.sqlite")) as database:
        rows = database.execute("SELECT name, exercise, tests, diagnosis, forbidden FROM people JOIN results USING (digest)").fetchall()
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        marks = {row["name"]: row for row in csv.DictReader(file)}
    found: dict[str, Found] = {}
    for name, exercise, tests, diagnosis, forbidden in rows:
        found.setdefault(name, {})[exercise] = plain(float(marks[name][exercise]), json.loads(tests), json.loads(diagnosis), json.loads(forbidden))
    return found


def by_pytest(kit: Path, place: Path, name: str, in_worker: bool, seeds: dict[str, int]) -> tuple[Found, list[str]]:
    """The results, and the exercises that are printed or reported differently without recorded examples."""
    found, different = {}, []
    for exercise in GRADED:
        command = [sys.executable, "-P", "-m", "pytest", "-q", "--target", str(place / "class" / name), "--exercise", exercise]
        command += [*["--worker"][:in_worker], "--seed", str(seeds.get(exercise, 0))]
        results = place / "results" / f"{name} {exercise} {WHERE[in_worker]}.json"
        recorded, drawn = (_printed_and_reported(kit, command, results, more) for more in ([], ["--no-recordings"]))
        if recorded != drawn:
            different.append(exercise)
        for entry in json.loads(results.read_text(encoding="utf-8"))["exercises"]:
            found[entry["name"]] = plain(entry["earned"], entry["tests"], entry["diagnosis"], entry["forbidden"])
    return found, different


def _printed_and_reported(kit: Path, command: list[str], results: Path, more: list[str]) -> tuple[str, str]:
    """What pytest prints and writes, without times. The first run makes the recordings that the second one uses."""
    for _ in range(1 if more else 2):
        done = subprocess.run(
            [*command, f"--results={results}", *more], cwd=kit, env=environment(kit), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    return re.sub(r" in [\d.]+s\b.*", "", done.stdout), re.sub(r'"seconds": [\d.e-]+', "", results.read_text(encoding="utf-8"))


def plain(earned: float, tests: list[dict], diagnosis: dict | None, forbidden: list[str]) -> dict:
    outcomes = {test["name"]: test["outcome"] for test in tests}
    return {"earned": earned, "outcomes": outcomes, "diagnosis": diagnosis["id"] if diagnosis else None, "forbidden": sorted(forbidden)}


def prove(kit: Path, place: Path) -> list[str]:
    """The differences, as sentences."""
    make_class(place / "class")
    (place / "results").mkdir()
    homes = {who: place / f"home of {who}" for who in ("root", "nobody")}
    for home in homes.values():
        home.mkdir(mode=0o777)
    (place / "out").mkdir()
    for folder in (place, kit.parent, place / "out", homes["nobody"]):
        folder.chmod(0o777)
    here = (("here -j 1", "1"), ("here -j 2", "2"), ("here -j 2 again", "2"), ("here -j 4", "4"))
    runs: list[tuple[str, list[str], list[str]]] = [(name, ["-j", jobs], []) for name, jobs in here]
    left_out = why_not_nobody(place)
    if left_out:
        print(f"skipped: grading as the user nobody, because {left_out}")
    else:
        runs += [("nobody -j 1", ["-j", "1"], AS_NOBODY), ("nobody -j 2", ["-j", "2"], AS_NOBODY)]
    done = {}
    for name, more, prefix in runs:
        done[name] = graded(kit, place, name, more, prefix, homes["nobody" if prefix else "root"])
        print(f"graded: {name}", flush=True)
    with cluster(kit, place) as address:
        for name, jobs in (("Dask -j 1", "1"), ("Dask -j 2", "2"), ("Dask -j 2 again", "2"), ("Dask -j 4", "4")):
            done[name] = graded(kit, place, name, ["-j", jobs, "--dask", address], [], homes["root"])
            print(f"graded: {name}", flush=True)
    wrong, (first, *others) = [], done.items()
    files, found = exports(first[1]), in_the_gradebook(first[1])
    for name, out in others:
        other_files = exports(out)
        different = sorted(path for path in files.keys() | other_files.keys() if files.get(path) != other_files.get(path))
        wrong += [f"{name} and {first[0]} write different {path}" for path in different]
        if in_the_gradebook(out) != found:
            wrong.append(f"{name} and {first[0]} give different results")
    print(f"graded {len(done)} times: {len(files)} files each, {len(found)} people with results, {_mistakes(found)} diagnoses", flush=True)
    return wrong + through_pytest(kit, place, first[1], found)


def through_pytest(kit: Path, place: Path, out: Path, found: dict[str, Found]) -> list[str]:
    exercises = [load_syllabus().exercise(name) for name in GRADED]
    with Gradebook(out) as book:
        planner = Planner(book, exercises, SEED)
        seeds = {submission.name: {one.name: planner.seed_of(one, submission) for one in exercises} for submission in read_submissions(place / "class")}
    runs = [(name, in_worker) for name in found if (place / "class" / name).is_dir() for in_worker in (True, False) if in_worker or name not in NOT_IN_PROCESS]
    with ThreadPoolExecutor(2) as pool:
        found_by_pytest = list(pool.map(lambda one: by_pytest(kit, place, one[0], one[1], seeds[one[0]]), runs))
    wrong = [
        f"{name}, {exercise}: pytest {WHERE[in_worker]} finds {by_exercise.get(exercise)}, headway grade {graded}"
        for (name, in_worker), (by_exercise, _) in zip(runs, found_by_pytest)
        for exercise, graded in found[name].items()
        if by_exercise.get(exercise) != graded
    ]
    wrong += [
        f"{name}, {exercise}: pytest {WHERE[in_worker]} prints or reports something else without recorded examples"
        for (name, in_worker), (_, different) in zip(runs, found_by_pytest)
        for exercise in different
    ]
    left_out = f"{' and '.join(NOT_IN_PROCESS)} not in process, because they would end pytest itself"
    print(f"{len(runs)} runs of pytest compared, in process and in workers, with recorded examples and without; {left_out}", flush=True)
    return wrong


def _mistakes(found: dict[str, Found]) -> int:
    return sum(bool(entry["diagnosis"]) for person in found.values() for entry in person.values())


def run(arguments: list[str]) -> int:
    argparse.ArgumentParser(prog="python -m grader.quality.proof same", description=__doc__.partition("\n")[0]).parse_args(arguments)
    print(f"same: {machine()}", flush=True)
    with copied_kit() as kit, tempfile.TemporaryDirectory(prefix="headway-same-", ignore_cleanup_errors=True) as place:
        wrong = prove(kit, Path(place))
    for sentence in wrong:
        print(f"WRONG: {sentence}")
    print(f"same: {'everything agrees' if not wrong else f'{len(wrong)} things differ'}")
    return min(len(wrong), 1)
