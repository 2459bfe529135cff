"""Every measured table and number of the lessons is what its command prints."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache

import pytest
from grader.course.syllabus import EXERCISES
from grader.teaching.measurements import list_measurements, run_measurement
from lesson_tables import COMMAND, LessonTable, agrees, lessons, tables_of, words_of

TABLES = [table for path in lessons() for table in tables_of(path)]
MEASURED = [table for table in TABLES if table.command]
SHORTER = {"cache": ["--tokens", "16", "64", "--runs", "1"]}  # its whole table takes minutes; test_measurements.py counts the other rows
QUICK = {"embeddings", "scores", "draws", "changed_past", "memory"}

# How far another machine may be away, besides 5 %: for a row and the number of a word in it, the difference, or None for any.
Looseness = Callable[[list[str], int], float | None]
LOOSE: dict[str, Looseness] = {
    "cache": lambda row, at: None if at in (1, 2, 3) else 0.0,  # the speeds
    "balance": lambda row, at: 0.0 if at < 2 or row[0] == "k" else 0.15 if at >= len(row) - 3 else 5.0,  # shares in percent; then three measures
    "induction": lambda row, at: None if at and row[0] in {"350", "400", "450", "500"} else 0.3,  # there the loss changes quickly
    "depth": lambda row, at: 0.02 if "e-" not in row[at] else 0.0,
    "serving": lambda row, at: None if at >= len(row) - 2 else 0.0,  # the speeds
    "int8": lambda row, at: 0.3 if row[at].endswith("%") else 0.0,
}

# Numbers in sentences: the lesson's words, with {} for each number, and a pattern of the command's output with a group for each.
# Where a reader calculates them from what the command prints, last the calculation, from the groups of the pattern.
SENTENCES: list[tuple] = [
    ("ch02", "embeddings", "the position vector is {} times as long as the token vector", r"position vector ([\d.]+)"),
    ("ch02", "embeddings", "a token vector has length {} and a position vector has length {}.", r"unscaled ([\d.]+) position vector ([\d.]+)"),
    ("ch02", "embeddings", "The token vectors then have length {}, about", r"token vector times √512 ([\d.]+)"),
    ("ch03", "scores", "of width 64 by √768, their standard deviation is {},", r"divided by √768: standard deviation ([\d.]+),"),
    ("ch03", "scores", "get nearly equal weights: the largest is {} on average", r"largest weight ([\d.]+)"),
    ("ch07", "extrapolation --length 32 --steps 600", "its loss already rose at twice the length (from {} to {})", r"rope ([\d.]+) ([\d.]+)"),
    ("ch07", "extrapolation --length 32 --steps 600", "worse than the learned table ({} against", r"rope [\d.]+ [\d.]+ ([\d.]+)"),
    ("ch07", "extrapolation --length 32 --steps 600", "learned table (2.06 against {})", r"learned [\d.]+ [\d.]+ ([\d.]+)"),
    ("ch05", "growth", "the last number of the first row was between {} and {}.", r"other draws of the weights: ([\d,]+) to ([\d,]+)\."),
    ("ch05", "growth", "one run set {} of them to 0", r"with p = 0.25: ([\d,]+) zeros"),
    ("ch05", "growth", "Their mean was {}.", r"a mean of ([\d.]+)\."),
    ("ch07", "first_loss", "the input token's own logit was {} on average", r"N\(0, 1\): the input token's own logit is ([\d.]+) on average"),
    ("ch07", "first_loss", "standard deviation of the other logits was {}.", r"the other logits have a standard deviation of ([\d.]+)\."),
    ("ch07", "first_loss", "the same logit is only {},", r"N\(0, 0.02\): the input token's own logit is ([\d.]+) "),
    ("ch07", "first_loss", "the stream grew from {} to about {},", r"the stream grows from ([\d.]+) to ([\d.]+)\."),
    ("ch07", "first_loss", "changes the logits by up to {}, where their standard deviation is {}.", r"change by up to ([\d.]+); their standard deviation is ([\d.]+)\."),
    ("ch08", "accumulation", "losses of {} and {}.", r"kept targets: ([\d.]+) and ([\d.]+)\."),
    ("ch08", "overfitting", "The loss starts at {}, near", r"the loss begins at ([\d.]+) "),
    ("ch08", "overfitting", "After 150 epochs it is {}, and", r"and is ([\d.]+) after 150 epochs"),
    ("ch08", "overfitting", "is (7 ln 7 + 4 ln 4 + 2 · 2 ln 2) / 101 = {}.", r"the lowest possible is ([\d.]+)\."),
    ("ch08", "overfitting", "For these fourteen sentences the lowest possible loss is {}.", r"on the sentences for training is ([\d.]+)\."),
    ("ch08", "overfitting", "The validation loss is lowest at epoch 20, with {}.", r"lowest at epoch \d+, with ([\d.]+)\."),
    ("ch12", "induction", "over more texts than in the table, this head scores {}.", r"The best is head \d of layer 1: ([\d.]+) with period 16"),
    ("ch12", "induction", "It reaches {} with period 8 and {} with period 24", r"([\d.]+) with period 8 and ([\d.]+) with period 24"),
    ("ch14", "memory", "A checkpoint keeps the {} numbers of the input.", r"checkpointed +2 [\d,]+ ([\d,]+)"),
    ("ch14", "memory", "With checkpoints, each block adds {} numbers, its input.", r"checkpointed +2 [\d,]+ ([\d,]+)"),
    ("ch15", "serving", "the model runs {} times instead of {}, but writing", r"(?=.* 8 (\d+) \d+%).*none (\d+) -"),
    ("ch15", "serving", "The first rows of both tables are the same {} passes.", r"none (\d+) -"),
    ("ch14", "memory", "Four times the length takes {} times the memory with plain attention, {} times with tiles,",
     r"1,024 ([\d,]+) ([\d,]+) [\d,]+ 4,096 ([\d,]+) ([\d,]+)",
     lambda plain, tiled, more, most: (more / plain, most / tiled)),
    ("ch14", "memory", "and {} to {} times with windows.", r"256 [\d,]+ [\d,]+ ([\d,]+) 1,024 [\d,]+ [\d,]+ ([\d,]+) 4,096 [\d,]+ [\d,]+ ([\d,]+)",
     lambda short, middle, long: (middle / short, long / middle)),
    ("ch14", "memory", "autograd keeps {} numbers from inside the block", r"checkpointed +2 ([\d,]+) [\d,]+ 4 ([\d,]+)", lambda two, four: ((four - two) / 2,)),
    ("ch15", "int8", "8 bits need {} % of the bytes, scales included",
     r"float32 ([\d,]+) .*8 bits, a scale for each row ([\d,]+)", lambda floats, bits: (100 * bits / floats,)),
]  # fmt: skip


@cache
def printed(command: str) -> str:
    """What the measurement prints, with room for its widest table."""
    name, *arguments = command.split()
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("COLUMNS", "240")
        run_measurement(name, arguments)
    return out.getvalue()


def compare(table: LessonTable, out: str, rows_may_lack: bool = False) -> list[str]:
    """Describe each difference between a lesson's table and a printed one: the first unused line with the same first cell is a row's."""
    lines = [words for line in out.splitlines() if (words := words_of(line))]
    loose = LOOSE.get(table.command or "", lambda row, at: 0.0)
    problems = []
    for number, cells in enumerate(table.rows):
        row, first = words_of(cells), words_of(cells[:1])
        found = next((words for words in lines if len(words) == len(row) and words[: len(first)] == first), None)
        if found is None:
            if not rows_may_lack and (number or re.search(r"\d", " ".join(cells))):  # a header without numbers may have other words
                problems.append(f"no line is printed for the row {' '.join(row)!r}")
            continue
        lines.remove(found)
        for at, (said, measured) in enumerate(zip(row, found)):
            difference = loose(row, at)
            if difference is not None and not agrees(said, measured, 0.05, difference):
                problems.append(f"{said} in the row {' '.join(row)!r}, but {measured} is printed")
    return problems


def marked(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in QUICK else [pytest.mark.thorough, pytest.mark.measurement(name)]


@pytest.mark.parametrize("table", [pytest.param(table, marks=marked(table.command), id=f"{table.lesson[:4]} {table.command}") for table in MEASURED])
def test_a_measured_table_is_what_its_command_prints(table):
    shorter = SHORTER.get(table.command, [])
    assert not compare(table, printed(" ".join([table.command, *shorter])), rows_may_lack=bool(shorter))


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=marked(case[1]), id=f"{case[0]} {case[2][:40]}") for case in SENTENCES]
)
def test_a_measured_number_in_a_sentence_is_what_the_command_prints(case):
    chapter, command, sentence, pattern, *calculation = case
    [path] = EXERCISES.glob(f"{chapter}_*.md")
    said = re.search(re.escape(sentence).replace(r"\{\}", r"(-?[\d.,]*\d)"), " ".join(path.read_text(encoding="utf-8").split()))
    assert said, f"{path.name} does not contain: {sentence}"
    found = re.search(pattern, " ".join(" ".join(words_of(line)) for line in printed(command).splitlines()))
    assert found, f"headway measure {command} does not print {pattern}"
    values = found.groups()
    for calculate in calculation:
        values = [f"{value:.2f}" for value in calculate(*(float(number.replace(",", "")) for number in values))]
    absolute = 0.1 if command == "induction" else 0.0
    assert all(agrees(*pair, 0.05, absolute) for pair in zip(said.groups(), values, strict=True)), (said.groups(), values)


def test_every_table_that_looks_measured_names_its_command():
    exempt = ("Shapes", "Now build it", "Lab ")  # a lab always has its experiment
    missing = [str(table) for table in TABLES if table.looks_measured and not table.command and not table.heading.startswith(exempt)]
    assert not missing, f"name `headway measure ...` beside these tables: {missing}"


def test_every_command_that_a_lesson_names_exists_and_every_measurement_is_named():
    named = {match[1] for path in EXERCISES.glob("*.md") for match in COMMAND.finditer(path.read_text(encoding="utf-8"))}
    assert named == set(list_measurements())


def test_a_changed_number_a_missing_row_and_a_changed_word_are_found():
    out = "  change of the keys\n change      layer 1  layer 2\n ─────\n a token      0.97     1.08\n nothing         0        0\n"
    rows = (("change", "layer 1", "layer 2"), ("a token", "0.97", "1.08"), ("nothing", "0", "0"))
    table = LessonTable("lesson", "heading", "`headway measure toy`", rows, "")
    assert compare(table, out) == []
    assert compare(table, out.replace("1.08", "1.10")) == []
    assert compare(table, out.replace("1.08", "1.21")) == ["1.08 in the row 'a token 0.97 1.08', but 1.21 is printed"]
    assert compare(table, out.replace("nothing", "all")) == ["no line is printed for the row 'nothing 0 0'"]
    assert compare(table, out.replace("layer 2", "layer 3")) == ["2 in the row 'change layer 1 layer 2', but 3 is printed"]
