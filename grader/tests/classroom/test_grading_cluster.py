"""Grading on a Dask cluster: real schedulers and workers in separate processes, and some of them killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil
import pytest
from distributed import Client, LocalCluster
from grade_command import PATIENCE, until
from grader.classroom.judging import cluster as cluster_module
from grader.cli.commands.grade import grade
from grader.console.output import print_error
from grader.course.syllabus import SOLUTIONS
from grader.files import UserProblem
from kit_copy import posix
from linux_processes import alive

pytestmark = [pytest.mark.thorough, posix]


def graded(people, out, address=None, sandboxed=False):
    """The status of `headway grade`, which prints a problem as one sentence."""
    try:
        return grade(people, out, exercises="softmax", require_isolation=sandboxed, dask=address)
    except UserProblem as problem:
        print_error(str(problem))
        return problem.exit_status


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Five people's chapters: right, wrong in three ways, and a file that cannot be read."""
    chapter = (SOLUTIONS / "ch03_attention.py").read_text(encoding="utf-8")
    head, body = chapter[: chapter.index("def ")], re.search(r"def softmax.*?(?=^def )", chapter, re.M | re.S)[0]
    texts = {
        "alpha": head + body,
        "bo": head + body.replace("x - largest", "x"),
        "gamma": head + "def softmax(x, dim=-1):\n    raise NotImplementedError\n",
        "di": head + "def softmax(x, dim=-1):\n    return torch.softmax(x, 0)\n",
        "ed": b"\x80\x00\xff",
    }
    folder = tmp_path_factory.mktemp("class")
    for name, text in texts.items():
        (folder / name).mkdir()
        (folder / name / "ch03_attention.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "ed" / "ch02_embeddings.py").write_text("def helper():\n    return 1\n", encoding="utf-8")
    return folder


def one_machine(folder, workers):
    return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(folder))


def exports(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file() and "sqlite" not in path.name}


def server_processes(workers):
    """The server process of each of these workers, with all processes that it has started."""
    found = set()
    for pid in workers:
        try:
            for child in psutil.Process(pid).children():
                if "grader.classroom.judging.start_server" in child.cmdline():
                    found |= {child, *child.children(recursive=True)}
        except psutil.NoSuchProcess:
            pass
    return found


def gone(processes):
    return not any(process.is_running() and alive(process.pid) for process in processes)


def kill_a_busy_worker(cluster):
    """Kill a worker process that certainly has a submission under way: it is stopped and checked again before it is killed."""
    for nanny in cluster.workers.values():
        worker = cluster.scheduler.workers.get(nanny.worker_address)
        if worker and worker.processing and nanny.pid:
            with suppress(ProcessLookupError):  # it has ended already
                os.kill(pid := nanny.pid, signal.SIGSTOP)
                time.sleep(1.0)  # messages that it sent before have arrived
                if worker.processing:
                    os.kill(pid, signal.SIGKILL)
                    return pid
                os.kill(pid, signal.SIGCONT)
    return None


def verdicts(cluster):
    return sum(step.finish == "memory" for step in list(cluster.scheduler.transition_log))


def test_a_cluster_that_loses_a_worker_grades_a_class_as_this_machine_does(people, tmp_path, capsys):
    here, there = tmp_path / "here", tmp_path / "there"
    assert graded(people, here) == 0
    capsys.readouterr()
    with one_machine(tmp_path, 2) as cluster, ThreadPoolExecutor(1) as pool:
        run = pool.submit(graded, people, there, cluster.scheduler_address)
        seen, killed = set(), None
        while not run.done():
            seen |= server_processes(nanny.pid for nanny in list(cluster.workers.values()) if nanny.pid)
            if killed is None and verdicts(cluster):
                killed = kill_a_busy_worker(cluster)
            time.sleep(0.05)
        assert run.result() == 0
        assert killed is not None, "no worker was killed while it graded"
        assert "5 people, 5 submissions graded now" in capsys.readouterr().out
        assert exports(there) == exports(here)
        assert len(seen) >= 3
        until(lambda: gone(seen), "the servers to leave the workers")
        until(lambda: len(cluster.scheduler.workers) == 2, "the worker to be replaced")
        assert not cluster.scheduler.tasks and not cluster.scheduler.clients.keys() - {"fire-and-forget"}


def dask(*words, **environment):
    """A scheduler or worker as `dask scheduler` and `dask worker` start them."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{words[0]}", *map(str, words[1:]), "--no-dashboard"]
    return subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(process):
    process.kill()
    process.wait()


@contextmanager
def scheduler(folder):
    said = folder / "scheduler.json"
    process = dask("scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", said)
    try:
        until(lambda: said.is_file() and said.read_text().endswith("}"), "the scheduler")
        yield process, json.loads(said.read_text())["address"]
    finally:
        end(process)


def tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


@contextmanager
def at_work(people, out, address):
    """`headway grade`, which has sent its submissions to a cluster without workers."""
    command = [sys.executable, "-m", "grader.cli", "grade", people, "--out", out, "--exercises", "softmax", "--dask", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        end(process)


def test_control_c_cancels_what_is_queued(people, tmp_path):
    with scheduler(tmp_path) as (_, address), Client(address, set_as_default=False) as client, at_work(people, tmp_path / "out", address) as process:
        until(lambda: tasks(client), "tasks to be sent")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (130, "graded 0 of 5\n", "headway: stopped; the results so far are saved, and the same command continues from there\n")
        until(lambda: not tasks(client), "the scheduler to have no tasks left")


def test_a_lost_scheduler_ends_the_run_with_a_message(people, tmp_path, capsys):
    with scheduler(tmp_path) as (master, address), ThreadPoolExecutor(1) as pool:
        with Client(address, set_as_default=False) as client:
            run = pool.submit(graded, people, tmp_path / "out", address)
            until(lambda: tasks(client), "tasks to be sent")
        end(master)
        assert run.result() == 2
    sentence = f"the cluster at {address} is gone, or the connection to it was cut; the results so far are saved, and the same command continues from there"
    assert capsys.readouterr() == ("graded 0 of 5\n", f"headway: {sentence}\n")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A scheduler for workers that must not grade."""
    with scheduler(tmp_path_factory.mktemp("scheduler")) as (_, address), Client(address, set_as_default=False) as client:
        yield address, client


def other_version(folder, package):
    """Make a process report another version of a package."""
    (found := folder / f"{package}-2.0.1.dist-info").mkdir()
    (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0.1\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def worker_of(address, folder, **environment):
    return dask("worker", address, "--nthreads", 1, "--no-nanny", "--local-directory", folder, **environment)


def test_a_worker_with_another_torch_is_refused_also_if_it_comes_later(shared, people, tmp_path, capsys):
    address, client = shared
    why = r"has torch 2\.0\.1 instead of \S+; marks must not depend on who grades, so install the same there as here"
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(graded, people, tmp_path / "out", address)
        until(lambda: tasks(client), "tasks to be sent")
        worker = worker_of(address, tmp_path, **other_version(tmp_path, "torch"))
        try:
            assert run.result() == 2
            assert re.match(rf"headway: a worker of the cluster at {address} {why}; ", capsys.readouterr().err)
            assert graded(people, tmp_path / "again", address) == 2 and not (tmp_path / "again").exists()
            assert re.fullmatch(rf"headway: the worker tcp://\S+ of the cluster at {address} {why}\n", capsys.readouterr().err)
        finally:
            end(worker)
            until(lambda: not client.nthreads(), "the worker to be removed")


def test_a_worker_without_a_layer_of_isolation_is_refused(shared, people, tmp_path, capsys):
    address, client = shared
    worker = worker_of(address, tmp_path, PATH=str(tmp_path))
    try:
        until(client.nthreads, "a worker")
        assert graded(people, tmp_path / "out", address, sandboxed=True) == 2
        assert "does not have the isolation that --require-isolation demands: bubblewrap is off: " in capsys.readouterr().err
    finally:
        end(worker)
        until(lambda: not client.nthreads(), "the worker to be removed")


@pytest.mark.parametrize(
    "address, sentence",
    [
        ("127.0.0.1:{free}", "no Dask cluster answers at {address}; is its scheduler running (`dask scheduler`), and can it be reached from here?"),
        ("what://ever", "{address} is no address of a Dask cluster; one is like tcp://192.168.1.5:8786"),
        (" ", "--dask needs the address of a cluster's scheduler, like tcp://192.168.1.5:8786"),
    ],
)
def test_an_address_without_a_cluster(people, tmp_path, capsys, monkeypatch, address, sentence):
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 1.0)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nothing listens there
        address = address.format(free=bound.getsockname()[1])
        assert graded(people, tmp_path / "out", address) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"headway: {sentence.format(address=address)}\n")


def test_without_dask_the_message_says_what_to_install(people, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert graded(people, tmp_path / "out", "127.0.0.1:8786") == 2
    assert capsys.readouterr().err == "headway: --dask needs Dask, which is not installed: pip install -c constraints.txt -e '.[cluster]'\n"
