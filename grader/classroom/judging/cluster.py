"""Grades submissions on a Dask cluster: each is a task, and each worker has its own dispatcher with a server.

If a worker is lost, the scheduler gives its submissions to another worker, which costs only time. Every other problem
of a cluster ends the run with a sentence; the results so far are saved. Only plain data travels.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
import warnings
from typing import Any

from grader.classroom.intake.submissions import GradingProblem, Submission
from grader.classroom.judging.dispatch import Dispatcher, GradingStopped
from grader.execution.sandbox.isolation import available, missing_layers
from grader.verdict.last_verdicts import versions
from grader.verdict.results import Verdict

CONNECT_SECONDS = 15.0
CHECK_SECONDS = 5.0  # between two checks whether the scheduler is there
LOST = "it was given to {} workers, and each was lost; the next run tries again, without --dask on this machine"
GO_ON = "the results so far are saved, and the same command continues from there"

Capabilities = dict[str, Any]


class ClusterDispatcher:
    """Grades on a Dask cluster, from as many threads as call it."""

    def __init__(self, address: str, isolated: bool) -> None:
        """Connect. GradingProblem, one sentence, if there is no cluster or if it must not grade."""
        self.address, self.isolated = address, isolated
        self.run, self.versions = uuid.uuid4().hex, versions()
        self.under_way: set[Any] = set()
        self.client = connect(address)
        try:
            self.lacking = examine(self.client, address, self.versions, isolated)  # layers that some worker lacks
            self.threads = sum(self.client.nthreads().values())  # of all workers; 0 if there is no worker yet
        except BaseException as problem:
            disconnect(self.client)
            if isinstance(problem, GradingProblem) or not isinstance(problem, Exception):
                raise
            message = f"the cluster at {address} gives no clear answer ({_in_words(problem)})"
            raise GradingProblem(message) from None

    def grade(self, submission: Submission, seeds: dict[str, int]) -> Verdict | str:
        """The verdict on the exercises with these seeds, or a sentence that says why not."""
        from distributed import CancelledError, KilledWorker

        one = (submission.sources, submission.broken, seeds, self.run, self.versions, self.isolated)
        try:
            answer = self._wait_for(self.client.submit(grade_on_worker, *one, pure=False))
        except GradingStopped:
            raise
        except KilledWorker as lost:
            return LOST.format(lost.allowed_failures + 1)
        except Exception as problem:
            if isinstance(problem, CancelledError) or self.client.status != "running":
                raise GradingStopped(self._lost_message()) from None
            raise self._stopped(f"does not grade ({_in_words(problem)})") from None
        match answer:
            case {"verdict": dict() as data}:
                return Verdict.from_data(data)
            case {"trouble": str() as sentence}:
                return sentence
            case {"refused": str() as why}:
                raise GradingStopped(f"a worker of the cluster at {self.address} {why}; {GO_ON}")
        raise self._stopped("answers with something that is no verdict")

    def close(self) -> None:
        """Cancel what is queued, and end the workers' servers."""
        with contextlib.suppress(Exception):
            if self.client.status == "running":
                self.client.cancel(list(self.under_way))
                self.client.run(release, self.run, on_error="ignore")
        disconnect(self.client)

    def _wait_for(self, task: Any) -> Any:
        """What a task came to, however long it takes, as long as there is a scheduler."""
        self.under_way.add(task)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    return task.result(timeout=CHECK_SECONDS)
                if self.client.status != "running":
                    raise GradingStopped(self._lost_message())
        finally:
            self.under_way.discard(task)

    def _stopped(self, why: str) -> GradingStopped:
        return GradingStopped(f"the cluster at {self.address} {why}; {GO_ON}")

    def _lost_message(self) -> str:
        return f"the cluster at {self.address} is gone, or the connection to it was cut; {GO_ON}"


def connect(address: str) -> Any:
    """A client of the cluster; Dask's own messages about its connections are silenced."""
    try:
        import distributed
    except ImportError:
        install = "pip install -c constraints.txt -e '.[cluster]'"
        raise GradingProblem(f"--dask needs Dask, which is not installed: {install}") from None
    if not address.strip():
        raise GradingProblem("--dask needs the address of a cluster's scheduler, like tcp://192.168.1.5:8786")
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="distributed")
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except ValueError:
        problem = f"{address} is no address of a Dask cluster; one is like tcp://192.168.1.5:8786"
    except OSError:
        problem = (
            f"no Dask cluster answers at {address}; "
            "is its scheduler running (`dask scheduler`), and can it be reached from here?"
        )
    except Exception as error:
        other = f"one with another version of Dask than {distributed.__version__}"
        problem = f"what answers at {address} is no Dask cluster, or {other} ({_in_words(error)})"
    raise GradingProblem(problem)


def examine(client: Any, address: str, here: dict[str, str], isolated: bool) -> list[str]:
    """The layers of isolation that some worker lacks, in sentences.

    GradingProblem if a present worker must not be used. A worker that comes later is examined with the first
    submission it is given.
    """
    lacking: list[str] = []
    for worker, there in client.run(capabilities, on_error="return").items():
        if isinstance(there, OSError):
            continue  # it has just been lost
        if isinstance(there, Exception):
            why = f"has no Headway that it can use ({_in_words(there)}); install it there as it is here"
        else:
            why = refusal(there, here, isolated)
            lacking += [sentence for sentence in there["lacking"] if sentence not in lacking]
        if why:
            raise GradingProblem(f"the worker {worker} of the cluster at {address} {why}")
    return lacking


def disconnect(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=5)


def _in_words(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"


# ---- on a worker


_lock = threading.Lock()
_dispatchers: dict[str, tuple[Capabilities, Dispatcher]] = {}  # of this worker's threads, by run


def capabilities() -> Capabilities:
    """What decides whether this worker may grade: the versions here, and a sentence for each missing layer."""
    return {"versions": versions(), "lacking": [str(layer) for layer in missing_layers()]}


def refusal(there: Capabilities, here: dict[str, str], isolated: bool) -> str:
    """Why a worker must not grade, as the end of a sentence that names it; empty where it may."""
    found = {name: there["versions"].get(name, "unknown") for name in here}
    other = [f"{name} {found[name]} instead of {own}" for name, own in here.items() if found[name] != own]
    if other:
        return f"has {', '.join(other)}; marks must not depend on who grades, so install the same there as here"
    if isolated and there["lacking"]:
        return f"does not have the isolation that --require-isolation demands: {'; '.join(there['lacking'])}"
    return ""


def grade_on_worker(
    sources: dict[str, str], unread: dict[str, str], seeds: dict[str, int],
    run: str, here: dict[str, str], isolated: bool,
) -> dict[str, Any]:  # fmt: skip
    """Some exercises of one submission: their `verdict`, or the `trouble` with it, or why the worker is `refused`."""
    with _lock:
        if run not in _dispatchers:
            # the capabilities of now: the kit may have been replaced since the worker began
            _dispatchers[run] = capabilities(), Dispatcher(available())
        found, dispatcher = _dispatchers[run]
    if why := refusal(found, here, isolated):
        return {"refused": why}
    try:
        verdict = dispatcher.grade(Submission("", sources, broken=unread), seeds)
    except GradingStopped as problem:
        return {"refused": f"cannot grade: {problem}"}
    return {"verdict": verdict.as_data()} if isinstance(verdict, Verdict) else {"trouble": verdict}


def release(run: str) -> None:
    """Close the dispatcher of this run."""
    with _lock:
        if run in _dispatchers:
            _dispatchers.pop(run)[1].close()
