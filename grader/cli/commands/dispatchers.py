"""Chooses what grades submissions: this machine, with the layers of the sandbox that it has, or a Dask cluster."""

from __future__ import annotations

import os

from grader.classroom.intake.problems import GradingProblem
from grader.console.output import print_error
from grader.execution.sandbox.isolation import Isolation, available, missing_layers


def _count_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _choose_isolation(required: bool) -> Isolation:
    """Every layer of the sandbox that this machine has, with a warning for each that is missing."""
    lacking = missing_layers()
    if lacking and required:
        raise GradingProblem("--require-isolation: " + "; ".join(str(layer) for layer in lacking))
    for layer in lacking:
        print_error(str(layer))
    return available()


def make_dispatcher(dask: str | None, names: list[str], seed: int, require_isolation: bool):
    """What grades the submissions, and how many it grades at a time."""
    from grader.classroom.judging.dispatch import Dispatcher

    if dask is None:
        return Dispatcher(_choose_isolation(require_isolation), names, seed), _count_processors()
    return _connect_cluster(dask, names, seed, require_isolation)


def _connect_cluster(address: str, names: list[str], seed: int, require_isolation: bool):
    """The cluster, and the number of its workers' threads; a cluster without workers may start some when it gets submissions."""
    from grader.classroom.judging.cluster import ClusterDispatcher

    cluster = ClusterDispatcher(address, names, seed, require_isolation)
    for sentence in cluster.lacking:
        print_error(f"on a worker of the cluster, {sentence}")
    return cluster, cluster.threads or os.cpu_count() or 1
