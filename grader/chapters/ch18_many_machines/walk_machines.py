"""One model on several ranks: where each tensor is, and what is sent. `headway walk machines`."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.ch18_many_machines.counting import CountedGroup, count_calls
from grader.chapters.ch18_many_machines.one_block import make_block, parameter_bytes, run_block_in_parts
from grader.chapters.ch18_many_machines.one_step import WAYS, train_one_step
from grader.chapters.ch18_many_machines.pipeline import TimedStep, bubble, most_kept, pass_time, time_steps, total_time
from grader.chapters.small_models import GPT_PARTS, small_gpt
from grader.console.output import ProgressReporter
from grader.execution.simulated_group import Group, run_ranks
from grader.teaching.terminal_drawing import Block, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    *GPT_PARTS, "MultiHeadAttention", "AdamW",
    "ring_all_reduce", "shard_batch", "average_gradients", "ShardedAdamW", "gather_parameters", "FullyShardedLinear",
    "copy_to_ranks", "sum_over_ranks", "ColumnParallelLinear", "RowParallelLinear", "TensorParallelFeedForward",
    "TensorParallelAttention", "pipeline_schedule", "run_stage",
)  # fmt: skip

RING_RANKS, RING_NUMBERS = 3, 6
RING_SIZES, LONG = (2, 4, 8), 8_000  # ranks, and the numbers of a longer tensor
RANKS, ROWS, T, VOCABULARY = 4, 8, 12, 64
D, HEADS, BATCH = 32, 4, 2
STAGES, MICRO_BATCHES, MICRO_ROWS = 4, 4, 2
MORE_MICRO_BATCHES = (4, 8, 16, 32)
KINDS = ("gpipe", "1f1b")
KEPT = ("weights", "gradients", "state", "kept")


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    given = torch.randint(1, 10, (RING_RANKS, RING_NUMBERS)).float()
    ring, ring_sums = zip(*_ring(parts, given))
    sent = {size: _ring(parts, torch.ones(size, LONG))[0][0].ring_bytes() for size in RING_SIZES}
    model = small_gpt(parts, VOCABULARY, seed)
    ids = torch.randint(VOCABULARY, (ROWS, T + 1))
    [alone] = train_one_step(parts, WAYS[0], model, ids, 1)
    ways = {way: train_one_step(parts, way, model, ids, RANKS) for way in WAYS}
    block = make_block(parts, D, HEADS)
    tensor_parallel = run_block_in_parts(parts, block, torch.randn(BATCH, T, D), RANKS)
    stages = [nn.Sequential(parts.LayerNorm(D), parts.FeedForward(D)) for _ in range(STAGES)]
    x = torch.randn(MICRO_BATCHES, MICRO_ROWS, T, D)
    one_machine = _run_pipeline(parts, [nn.Sequential(*stages)], "1f1b", x)
    pipelines = {kind: _run_pipeline(parts, stages, kind, x) for kind in KINDS}
    plain = ways[WAYS[0]]
    return SimpleNamespace(
        ring=[[message.tensor.tolist() for message in group.messages] for group in ring],
        ring_given=given.tolist(),
        ring_sums=list(ring_sums),
        ring_bytes=int(ring[0].ring_bytes()),
        sent=sent,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        loss=alone.loss,
        rank_losses=[rank.loss for rank in plain],
        rank_rows=[rank.rows for rank in plain],
        calls={way: count_calls(ranks[0].messages) for way, ranks in ways.items()},
        kept={way: [getattr(ranks[0], what) for what in KEPT] for way, ranks in ways.items()},
        step_bytes={way: ranks[0].sent for way, ranks in ways.items()},
        largest_gradient=alone.gradient.abs().max().item(),
        gradient_differs=max(_apart(rank.gradient, alone.gradient) for ranks in ways.values() for rank in ranks),
        updates_differ=max(_apart(rank.updated, plain[0].updated) for rank in ways[WAYS[1]]),
        whole_block=parameter_bytes(block),
        tensor_parallel=tensor_parallel,
        timed={kind: one.timed for kind, one in pipelines.items()},
        kept_micro={kind: one.kept for kind, one in pipelines.items()},
        pipeline_sent=[group.ring_bytes() for group in pipelines["1f1b"].groups],
        pipeline_differs=max(_apart(one.gradient, one_machine.gradient) for one in pipelines.values()),
        bubbles={m: bubble(time_steps(parts.pipeline_schedule(STAGES, m), pass_time)) for m in MORE_MICRO_BATCHES},
    )


def _apart(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()


# ---- what runs on the ranks


def _ring(parts: MixedChapters, rows: Tensor) -> list[tuple[CountedGroup, list[float]]]:
    """Add up the rows, of which each rank has one; return for each rank what it has sent, and the sum."""
    """Add up the rows, of which each rank has one."""

    def add_up(group: Group) -> tuple[CountedGroup, list[float]]:
        counted = CountedGroup(group)
        return counted, parts.ring_all_reduce(rows[group.rank].clone(), counted).tolist()

    return run_ranks(add_up, len(rows))[0]


def _run_pipeline(parts: MixedChapters, stages: list[nn.Module], kind: str, x: Tensor) -> SimpleNamespace:
    schedule = parts.pipeline_schedule(len(stages), len(x), kind)

    def run(group: Group) -> tuple[CountedGroup, Tensor]:
        counted, stage = CountedGroup(group), copy.deepcopy(stages[group.rank])
        parts.run_stage(stage, schedule[group.rank], counted, list(x), lambda output, m: output.square().mean())
        return counted, torch.cat([parameter.grad.flatten() for parameter in stage.parameters()])

    results, _ = run_ranks(run, len(stages))
    return SimpleNamespace(
        groups=[group for group, _ in results],
        gradient=torch.cat([gradient for _, gradient in results]),
        timed=time_steps(schedule, pass_time),
        kept=[most_kept(steps) for steps in schedule],
    )


# ---- what the template shows


def describe(n: SimpleNamespace) -> dict[str, Any]:
    arrows = [f"rank {rank} to {(rank + 1) % RING_RANKS}" for rank in range(RING_RANKS)]
    messages = [[f"step {step + 1}", *map(_numbers, sent)] for step, sent in enumerate(zip(*n.ring))]
    half = RING_RANKS - 1
    longest = 4 * LONG
    kept = [[way, *(f"{count:,}" for count in n.kept[way])] for way in WAYS]
    calls = [[way, _calls(n.calls[way]), f"{n.step_bytes[way]:,.0f}"] for way in WAYS]
    first = n.tensor_parallel[0]
    rings = [[size, f"{sent:,.0f}", sent / longest, f"{2 * (size - 1) * longest:,}"] for size, sent in n.sent.items()]
    columns = ["ranks", "bytes sent by a rank", "of the tensor", "rank 0 alone, in and out"]
    bubbles = [[m, f"{share:.0%}", f"{(STAGES - 1) / (m + STAGES - 1):.0%}"] for m, share in n.bubbles.items()]
    return {
        "given_table": table([[f"rank {rank}", _numbers(row)] for rank, row in enumerate(n.ring_given)], left=2),
        "adding_table": table(messages[:half], ["", *arrows], left=4),
        "copying_table": table(messages[half:], ["", *arrows], left=4),
        "sum_text": _numbers(n.ring_sums[0]),
        "sums_agree": all(row == n.ring_sums[0] for row in n.ring_sums),
        "ring_tensor": 4 * RING_NUMBERS,
        "ring_steps": 2 * half,
        "ring_table": table(rings, columns, ".2f"),
        "long_bytes": longest,
        "rows_text": ", ".join(map(str, n.rank_rows)),
        "losses_text": ", ".join(f"{loss:.4f}" for loss in n.rank_losses),
        "mean_loss": sum(n.rank_losses) / len(n.rank_losses),
        "kept_table": table(kept, ["bytes on each rank", "weights", "gradients", "state", "together"]),
        "call_table": table(calls, ["a rank", "its calls", "bytes sent"], left=2),
        "block_share": first.parameters / n.whole_block,
        "part_bytes": first.parameters,
        "parallel_calls": _calls(first.calls),
        "parallel_shape": first.shape,
        "parallel_sent": first.sent,
        "parallel_output": max(rank.output_differs for rank in n.tensor_parallel),
        "parallel_gradient": max(rank.gradient_differs for rank in n.tensor_parallel),
        "time_tables": {"gpipe": _time_table(n.timed["gpipe"]), "onefoneb": _time_table(n.timed["1f1b"])},
        "pipeline_time": total_time(n.timed["1f1b"]),
        "busy_time": MICRO_BATCHES * sum(pass_time(0, kind, 0) for kind in ("forward", "backward")),
        "same_time": total_time(n.timed["gpipe"]) == total_time(n.timed["1f1b"]),
        "bubble": bubble(n.timed["1f1b"]),
        "gpipe_kept": ", ".join(map(str, n.kept_micro["gpipe"])),
        "onefoneb_kept": ", ".join(map(str, n.kept_micro["1f1b"])),
        "pipeline_sent_text": ", ".join(f"{sent:,.0f}" for sent in n.pipeline_sent),
        "bubble_table": table(bubbles, ["micro-batches", "bubble", "formula"]),
    }


def _numbers(row: list[float]) -> str:
    return " ".join(f"{value:g}" for value in row)


def _calls(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {call}" for call, count in counts.items())


def _time_table(timed: list[list[TimedStep]]) -> Block:
    """Return a row for each stage and a column for each unit of time: F2 and B2 are the passes of micro-batch 2."""
    rows = []
    for stage, steps in enumerate(timed):
        cells = ["."] * int(total_time(timed))
        for step in steps:
            for time in range(int(step.start), int(step.end)):
                cells[time] = f"{step.kind[0].upper()}{step.micro}"
        rows.append([f"stage {stage} ", " ".join(f"{cell:<2}" for cell in cells)])
    return table(rows, left=2)
