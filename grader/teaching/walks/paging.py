"""The caches of three texts and of a fork in one pool of blocks: the block tables after each step, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from grader.teaching.drawing.palette import CURVES, FAINT
from grader.teaching.drawing.svg import box, card, write
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.walk_page import WalkPage, shape

REQUIRED_EXERCISES = ("BlockPool", "PagedKVCache")
NEXT_STEP = "Next: `headway show PagedKVCache` draws the blocks of a text and its fork; `headway walk kv-cache` shows what is in such a cache."

N_BLOCKS, SIZE, HEADS, D_HEAD = 12, 4, 2, 3
PROMPTS = {"A": 6, "B": 9, "C": 3}
LONGEST = 16  # positions that a server without blocks would reserve for each text


@dataclass(frozen=True)
class State:
    """The tables after one step."""

    about: str
    tables: dict[str, list[int]]
    lengths: dict[str, int]
    free: int
    holders: dict[int, int]


@dataclass(frozen=True)
class Numbers:
    gathered: tuple[int, ...]  # the shape of text B's keys
    states: list[State]
    wrong: float  # by how much what is gathered differs from what was appended, at most
    error: str  # of the append that does not fit
    unchanged: bool  # whether it left everything as it was


class _Server:
    """A pool and the caches of its texts, with what was appended to each."""

    def __init__(self, parts: Parts, seed: int) -> None:
        self.pool = parts.BlockPool(N_BLOCKS, SIZE, HEADS, D_HEAD)
        self.new_cache = lambda: parts.PagedKVCache(self.pool)
        self.caches: dict[str, Any] = {}
        self.past: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self.generator = torch.Generator().manual_seed(seed)
        self.states: list[State] = []

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

    def state(self, about: str) -> State:
        tables = {name: list(cache.blocks) for name, cache in self.caches.items()}
        used = {block for table in tables.values() for block in table}
        lengths = {name: cache.length for name, cache in self.caches.items()}
        return State(about, tables, lengths, self.pool.n_free, {block: self.pool.holders(block) for block in sorted(used)})

    def note(self, about: str) -> None:
        self.states.append(self.state(about))

    def wrong(self) -> float:
        """By how much the gathered keys and values differ from what was appended, at most."""
        far = [0.0]
        for name, cache in self.caches.items():
            for found, expected in zip(cache.gather(), zip(*self.past[name])):
                far.append((found - torch.cat(expected, dim=1)).abs().max().item())
        return max(far)


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Serve three texts step by step."""
    server = _Server(parts, seed)
    for name, T in PROMPTS.items():
        server.append(name, T)
    server.note("three prompts are read")
    for name in PROMPTS:
        server.append(name, 2)
    server.note("each text writes two tokens")
    server.fork("B", "B2")
    server.note("B is forked: two answers to one prompt")
    server.append("B2", 1)
    server.note("the fork writes a token")
    server.append("B", 1)
    server.note("B writes a token")
    server.free("A")
    server.note("A is finished")
    server.append("C", 10)
    server.note("C writes ten tokens")
    before, wrong = server.state(""), server.wrong()
    try:
        server.append("B2", 30)
        error = ""
    except RuntimeError as problem:
        error = str(problem)
    return Numbers(tuple(server.caches["B"].gather()[0].shape), server.states, max(wrong, server.wrong()), error, server.state("") == before)


def _print_tables(page: WalkPage, state: State) -> None:
    """The tables of a state; a star marks a block that several texts hold."""
    rows = []
    for name, table in state.tables.items():
        blocks = " ".join(f"{block}{'*' if state.holders[block] > 1 else ''}" for block in table)
        rows.append([name, blocks, state.lengths[name]])
    page.table(rows, ["text", "blocks", "positions"], left=2)
    page.say(f"{state.free} of {N_BLOCKS} blocks are free.")


def print_walk(page: WalkPage, n: Numbers) -> None:
    prompts, written, forked, branch, own, gone, reused = n.states
    page.step("Three texts in one pool", f"{N_BLOCKS} blocks of {SIZE} positions")
    page.say("Three texts have prompts of " + ", ".join(f"{T} ({name})" for name, T in PROMPTS.items()) + " tokens. Each cache takes the blocks that it needs:")
    _print_tables(page, prompts)
    needed = sum(prompts.lengths.values())
    page.say(
        f"A server that reserves room for {LONGEST} positions for each text would need {LONGEST * len(PROMPTS)} positions. "
        f"The blocks have room for {SIZE * (N_BLOCKS - prompts.free)}, and {needed} are filled."
    )

    page.step("Each text writes two tokens")
    grown = [name for name in PROMPTS if len(written.tables[name]) > len(prompts.tables[name])]
    page.say("A new block is taken only when the last one is full:")
    _print_tables(page, written)
    page.say(f"{_named(grown)} took a new block; the others had room in the last one.")

    page.step("A fork takes no memory")
    page.say("B gets two answers. The fork B2 has the same past, so it has the same table (* is a block with more than one holder):")
    _print_tables(page, forked)

    page.step("Copy on write")
    copied = [block for block in branch.tables["B2"] if block not in forked.tables["B2"]]
    page.say(f"The fork writes a token. Its last block is shared and not full, so the fork first copies it into block {_joined(copied)}:")
    _print_tables(page, branch)
    page.say("Now B writes a token, too. It is the last holder of its old block, so it writes without a copy:")
    _print_tables(page, own)

    page.step("A finished text gives its blocks back")
    _print_tables(page, gone)
    again = sorted(set(reused.tables["C"]) & set(n.states[4].tables["A"]))
    page.say("C goes on for ten tokens:")
    _print_tables(page, reused)
    if again:
        blocks = f"{'blocks' if len(again) > 1 else 'block'} {_joined(again)}"
        page.say(f"It has taken {blocks}, where A was before. The blocks of a text need not be neighbours: its table has them in order.")
    page.say(f"What gather returns, for example keys of B {shape(n.gathered)}, differs from what was appended by {n.wrong:g} at most, in all texts.")

    page.step("When the pool is full")
    if n.error:
        page.say(f"B2 wants to write 30 tokens at once. append raises a RuntimeError ({n.error}).")
        page.say("Nothing has changed: no block was taken, and no position was added." if n.unchanged else "But something has changed, and it should not.")
    else:
        page.say("B2 has written 30 tokens at once, although the pool has not enough blocks for them.")


def _joined(blocks: list[int]) -> str:
    return " and ".join(filter(None, [", ".join(map(str, blocks[:-1])), str(blocks[-1]) if blocks else ""]))


def _named(names: list[str]) -> str:
    return " and ".join(names) or "No text"


def draw(n: Numbers) -> str:
    """A row for each step, a column for each block, and the texts that hold it."""
    left, top, wide, tall = 330, 76, 44, 30
    colours = dict(zip(("A", "B", "C", "B2"), CURVES))
    marks = [write(left + wide * (block + 0.5), top - 12, f"{block}", anchor="middle", colour=FAINT) for block in range(N_BLOCKS)]
    for row, state in enumerate(n.states):
        y = top + row * (tall + 8)
        marks.append(write(left - 14, y + 20, state.about, anchor="end"))
        for block in range(N_BLOCKS):
            holders = [name for name, table in state.tables.items() if block in table]
            marks.append(box(left + wide * block, y, wide, tall, None))
            for i, name in enumerate(holders):
                part = wide / len(holders)
                marks.append(box(left + wide * block + i * part, y, part, tall, colours[name]))
    below = top + len(n.states) * (tall + 8) + 14
    for i, (name, colour) in enumerate(colours.items()):
        marks += [box(left + i * 80, below, 16, 16, colour), write(left + i * 80 + 24, below + 13, name)]
    return card(marks, left + wide * N_BLOCKS + 24, below + 40, "Which texts hold which block")
