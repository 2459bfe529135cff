"""The caches of three texts and of a fork in one pool of blocks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import Block, table
from grader.teaching.walks.parts import MixedChapters

REQUIRED_EXERCISES = ("BlockPool", "PagedKVCache")

N_BLOCKS, SIZE, HEADS, D_HEAD = 12, 4, 2, 3
PROMPTS = {"A": 6, "B": 9, "C": 3}
MAX_POSITIONS = 16  # that a server without blocks would reserve for each text


class _Server:
    """A pool and the caches of its texts, with what was appended to each."""

    def __init__(self, parts: MixedChapters, seed: int) -> None:
        self.pool = parts.BlockPool(N_BLOCKS, SIZE, HEADS, D_HEAD)
        self.new_cache = lambda: parts.PagedKVCache(self.pool)
        self.caches: dict[str, Any] = {}
        self.past: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self.generator = torch.Generator().manual_seed(seed)

    def append(self, name: str, T: int) -> None:
        if name not in self.caches:
            self.caches[name], self.past[name] = self.new_cache(), []
        k, v = (torch.randn(HEADS, T, D_HEAD, generator=self.generator) for _ in range(2))
        self.caches[name].append(k, v)
        self.past[name].append((k, v))

    def fork(self, name: str, into: str) -> None:
        self.caches[into], self.past[into] = self.caches[name].fork(), list(self.past[name])

    def free(self, name: str) -> None:
        self.caches.pop(name).free()
        del self.past[name]

    def state(self) -> SimpleNamespace:
        tables = {name: list(cache.blocks) for name, cache in self.caches.items()}
        lengths = {name: cache.length for name, cache in self.caches.items()}
        holders = {block: self.pool.holders(block) for table in tables.values() for block in table}
        return SimpleNamespace(tables=tables, lengths=lengths, free=self.pool.n_free, holders=holders)

    def wrong(self) -> float:
        """Return by how much the gathered keys and values differ from what was appended, at most."""
        differences = [0.0]
        for name, cache in self.caches.items():
            for found, expected in zip(cache.gather(), zip(*self.past[name])):
                differences.append((found - torch.cat(expected, dim=1)).abs().max().item())
        return max(differences)


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    server = _Server(parts, seed)
    for name, T in PROMPTS.items():
        server.append(name, T)
    states = [server.state()]
    for name in PROMPTS:
        server.append(name, 2)
    states.append(server.state())
    server.fork("B", "B2")  # two answers to one prompt
    states.append(server.state())
    for name in ("B2", "B"):
        server.append(name, 1)
        states.append(server.state())
    server.free("A")
    states.append(server.state())
    server.append("C", 10)
    states.append(server.state())
    before, wrong = server.state(), server.wrong()
    try:
        server.append("B2", 30)
        error = ""
    except RuntimeError as problem:
        error = str(problem)
    return SimpleNamespace(
        gathered=tuple(server.caches["B"].gather()[0].shape),
        states=states,
        wrong=max(wrong, server.wrong()),
        error=error,  # of the append that does not fit
        is_unchanged=server.state() == before,
    )


def describe(n: SimpleNamespace) -> dict[str, Any]:
    prompts, written, forked, branch, own, _, last = (state.tables for state in n.states)
    grown = [name for name in PROMPTS if len(written[name]) > len(prompts[name])]
    reused = sorted(set(last["C"]) & set(own["A"]))
    return {
        "prompts": ", ".join(f"{length} ({name})" for name, length in PROMPTS.items()),
        "tables": [_table(state) for state in n.states],
        "reserved": MAX_POSITIONS * len(PROMPTS),
        "room": SIZE * (N_BLOCKS - n.states[0].free),
        "filled": sum(n.states[0].lengths.values()),
        "grown": " and ".join(grown) or "No text",
        "copied": " and ".join(str(block) for block in branch["B2"] if block not in forked["B2"]),
        "reused": f"block{'s' * (len(reused) > 1)} {' and '.join(map(str, reused))}" if reused else "",
        "unchanged": n.error and n.is_unchanged,
        "changed": n.error and not n.is_unchanged,
    }


def _table(state: SimpleNamespace) -> Block:
    """Return the tables of a state; a star marks a block that several texts hold."""
    rows = []
    for name, blocks in state.tables.items():
        marked = " ".join(f"{block}{'*' * (state.holders[block] > 1)}" for block in blocks)
        rows.append([name, marked, state.lengths[name]])
    return [*table(rows, ["text", "blocks", "positions"], left=2), f"{state.free} of {N_BLOCKS} blocks are free."]
