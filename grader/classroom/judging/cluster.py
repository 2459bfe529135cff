"""Grades submissions on a Dask cluster: each is a task, and each worker has its own server (dask_worker.py).

If a worker is lost, the scheduler gives its submissions to another worker, which costs only time. Every other problem of a cluster ends the run
with a sentence; the results so far are saved.
"""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from typing import Any

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging import dask_worker
from grader.classroom.judging.dispatch import GradingStopped
from grader.verdict.conditions import versions
from grader.verdict.summary import Verdict

CONNECT = 15.0  # seconds to reach the scheduler
LOOK = 5.0  # seconds between two checks whether there is any worker
WORKERLESS = 180.0  # seconds that a cluster may be without any worker: a cluster that grows on demand begins without one
LOST = "it was given to {} workers, and each was lost; the next run tries again, without --dask on this machine"
GO_ON = "the results so far are saved, and the same command continues from there"


class ClusterDispatcher:
    """Grades on a Dask cluster, from as many threads as call it."""

    def __init__(self, address: str, exercises: list[str], seed: int, isolated: bool) -> None:
        """Connect. GradingProblem, one sentence, if there is no cluster or if it must not grade."""
        self.address, self.exercises, self.seed, self.isolated = address, exercises, seed, isolated
        self.versions = versions()
        self.under_way: set[Any] = set()
        self.client = connect(address)
        try:
            self.lacking = examine(self.client, address, self.versions, isolated)  # sentences: layers of isolation that some worker lacks
            self.threads = sum(self.client.nthreads().values())  # submissions that all workers take at once; 0 if there is no worker yet
        except BaseException as problem:
            disconnect(self.client)
            if isinstance(problem, GradingProblem) or not isinstance(problem, Exception):
                raise
            raise GradingProblem(f"the cluster at {address} gives no clear answer ({_in_words(problem)})") from None

    def grade(self, submission: Submission, seeds: dict[str, int] | None = None) -> Verdict | str:
        """The verdict on the exercises with these seeds (on all without them), or a sentence that says why it is missing."""
        from distributed import CancelledError, KilledWorker

        asked = (submission.sources, submission.broken, submission.digest, self.exercises, self.seed, self.versions, self.isolated, seeds)
        try:
            answer = self._answer(self.client.submit(dask_worker.grade, *asked, pure=False))
        except GradingStopped:
            raise
        except KilledWorker as lost:
            return LOST.format(lost.allowed_failures + 1)
        except CancelledError:
            raise GradingStopped(self._lost_message()) from None
        except Exception as problem:
            if self.client.status != "running":
                raise GradingStopped(self._lost_message()) from None
            raise GradingStopped(f"the cluster at {self.address} does not grade ({_in_words(problem)}); {GO_ON}") from None
        match answer:
            case {"verdict": dict() as data}:
                return Verdict.from_data(data)
            case {"trouble": str() as sentence}:
                return sentence
            case {"refused": str() as why}:
                raise GradingStopped(f"a worker of the cluster at {self.address} {why}; {GO_ON}")
        raise GradingStopped(f"the cluster at {self.address} answers with something that is no verdict; {GO_ON}")

    def close(self) -> None:
        """Cancel what is queued. The workers' servers end after what they have under way; nothing waits for that."""
        with contextlib.suppress(Exception):
            if self.client.status == "running":
                self.client.cancel(list(self.under_way))
                self.client.run(dask_worker.release, self.exercises, self.seed, on_error="ignore")
        disconnect(self.client)

    def _answer(self, task: Any) -> Any:
        """What a task came to, however long it takes, as long as the cluster has workers."""
        seen = time.monotonic()
        self.under_way.add(task)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    return task.result(timeout=LOOK)
                if self.client.status != "running":
                    raise GradingStopped(self._lost_message())
                if self.client.nthreads():
                    seen = time.monotonic()
                elif time.monotonic() - seen > WORKERLESS:
                    raise GradingStopped(f"the cluster at {self.address} has had no worker for {WORKERLESS:.0f} seconds, start some with `dask worker`; {GO_ON}")
        finally:
            self.under_way.discard(task)

    def _lost_message(self) -> str:
        return f"the cluster at {self.address} is gone, or the connection to it was cut; {GO_ON}"


def connect(address: str) -> Any:
    """A client of the cluster; Dask's own messages about its connections are silenced."""
    try:
        import distributed
    except ImportError:
        raise GradingProblem("--dask needs Dask, which is not installed: pip install -c constraints.txt -e '.[cluster]'") from None
    if not address.strip():
        raise GradingProblem("--dask needs the address of a cluster's scheduler, like tcp://192.168.1.5:8786")
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="distributed")
    try:
        return distributed.Client(address, timeout=CONNECT, set_as_default=False)
    except ValueError:
        raise GradingProblem(f"{address} is no address of a Dask cluster; one is like tcp://192.168.1.5:8786") from None
    except OSError:
        raise GradingProblem(f"no Dask cluster answers at {address}; is its scheduler running (`dask scheduler`), and can it be reached from here?") from None
    except Exception as problem:
        said = f"what answers at {address} is no Dask cluster, or one with another version of Dask than {distributed.__version__}"
        raise GradingProblem(f"{said} ({_in_words(problem)})") from None


def examine(client: Any, address: str, here: dict[str, str], isolated: bool) -> list[str]:
    """The layers of isolation that some worker lacks, in sentences. GradingProblem if the scheduler or a present worker must not be used.

    A worker that comes later is examined with the first submission it is given.
    """
    dask = client.get_versions()
    ours = dask["client"]["packages"]["distributed"]
    for who, theirs in [("the scheduler", dask["scheduler"]), *((f"the worker {worker}", found) for worker, found in dask["workers"].items())]:
        if theirs["packages"]["distributed"] != ours:
            raise GradingProblem(f"{who} of the cluster at {address} runs distributed {theirs['packages']['distributed']} and this machine {ours}; install the same")
    lacking: list[str] = []
    for worker, found in client.run(dask_worker.capabilities, on_error="return").items():
        if isinstance(found, OSError):
            continue  # it has just been lost
        if isinstance(found, ImportError):
            why = f"has no Headway that it can use ({_in_words(found)}); install it there as it is here"
        elif isinstance(found, Exception):
            why = f"cannot report its versions and its isolation ({_in_words(found)})"
        else:
            why = dask_worker.refusal(found, here, isolated)
            lacking += [sentence for sentence in found["lacking"] if sentence not in lacking]
        if why:
            raise GradingProblem(f"the worker {worker} of the cluster at {address} {why}")
    return lacking


def disconnect(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=5)


def _in_words(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
