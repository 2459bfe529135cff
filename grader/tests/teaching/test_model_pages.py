"""The pages "Train it", "Other trainings" and "Open it up": what they show was recorded, and what they say about the kit is true."""

import math
import re
import shlex

import typer
from grader.chapters.stories import cast
from grader.cli.main import app
from grader.course.source import read_source
from grader.course.syllabus import ROOT
from grader.models.checkpoint import MODEL, OPTIMIZER, RECORD
from grader.models.design import PRESETS
from grader.models.play.session import COMMANDS
from grader.models.training.corpora import SUFFIXES
from grader.models.training.recipes import MINUTES

FOLDER = ROOT / "grader" / "teaching" / "book" / "pages"
TRAIN, OTHERS, PLAY = (read_source(FOLDER / f"{name}.md") for name in ("train", "trainings", "play"))
SENTENCES = " ".join(f"{TRAIN} {OTHERS} {PLAY}".split())
RECORDED = dict(re.findall(r"^```text (\w+)\n(.*?)^```$", TRAIN + OTHERS + PLAY, re.MULTILINE | re.DOTALL))


def without_recordings(page):
    return re.sub(r"^```text \w+\n.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


# what was recorded


def test_numbers_in_the_sentences_are_those_of_the_recorded_texts():
    vocabulary = int(re.search(r"([\d,]+) tokens", RECORDED["begins"])[1].replace(",", ""))
    assert f"Here V is {vocabulary}, and ln {vocabulary} is {math.log(vocabulary):.2f}" in SENTENCES
    last, power = re.search(r"the last was ([\d.]+)\. .* e\^\1 = ([\d.]+) equally likely", SENTENCES).groups()
    assert power == f"{math.exp(float(last)):.2f}"
    learned, rope = re.search(r"^validation loss +([\d.]+) +([\d.]+)$", RECORDED["compared"], re.MULTILINE).groups()
    steps = re.search(r"learned rope --steps (\d+) ```", SENTENCES)[1]
    assert f"the validation loss is {rope} after {steps} steps, with learned positions {learned}." in SENTENCES
    rate = re.search(r"about ([\d,]+) tokens per second of processor time", SENTENCES)[1]
    figures = read_source(FOLDER / "figures.md").splitlines()
    assert f"{rate} tokens" in next(line for line in figures if "A step of `headway train`" in line)


def test_what_is_said_about_a_head_and_about_the_layers_is_in_their_tables():
    bar = "[█▏▎▍▌▋▊▉]+"
    rows = dict(re.findall(rf"^  (\S+) +{bar} +([\d.]+ % \S+)", RECORDED["attend"], re.MULTILINE))
    assert rows["some"].endswith(" make") and rows["to"].endswith(" wanted")
    to_start = [row for row in rows.values() if row.endswith("<start>") and float(row.split()[0]) > 95]
    assert len(to_start) == 4  # three words, and <start> itself
    layers = dict(re.findall(rf"^  (embeddings|layer \d) +{bar} +(.*)$", RECORDED["lens"], re.MULTILINE))
    assert layers["embeddings"].startswith("some ") and layers["layer 1"].startswith("nuts ")
    assert layers["layer 2"].startswith("soup ")
    drawn = re.findall(rf"^  (\S+) +{bar} +[\d.]+ %", RECORDED["why"], re.MULTILINE)
    meals = {meal for meal, *_ in cast.MEALS} | {food for _, one, two, _ in cast.MEALS for food in (one, two)}
    assert len(drawn) == 5 and set(drawn) <= meals


# what the pages say about the kit


def test_the_table_of_presets_is_true():
    rows = re.findall(r"^\| `(\w+)`[^|]*\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", TRAIN, re.MULTILINE)
    designs = {
        name: (design.n_layers, design.n_heads, design.d_model, design.max_len, MINUTES[name])
        for name, design in PRESETS.items()
    }
    assert {name: tuple(map(int, numbers)) for name, *numbers in rows} == designs


def test_the_files_of_a_checkpoint_and_of_a_text_are_those_of_the_kit():
    assert re.findall(r"^\| `([\w.]+\.(?:json|safetensors))` \|", TRAIN, re.MULTILINE) == [MODEL, RECORD, OPTIMIZER]
    assert all(suffix in TRAIN for suffix in SUFFIXES)


def test_every_command_of_play_is_explained_and_no_other():
    named = set(re.findall(r"(?<![\w/.)])/[a-z][a-z-]*", without_recordings(PLAY).replace("/path", "")))
    assert {command.name for command in COMMANDS} - {"/quit"} == named


def test_every_command_on_the_pages_exists_with_its_options():
    group = typer.main.get_command(app)
    found = re.findall(r"(?:`|^|> |\| )(headway [a-z]+[^`\n|>]*)", without_recordings(TRAIN + OTHERS + PLAY), re.MULTILINE)
    assert len(found) > 15
    for line in found:
        words = shlex.split(line)
        command = group.get_command(None, words[1])
        options = [word for word in words[2:] if word not in ("FILE", "FOLDER")]
        command.make_context(words[1], options, resilient_parsing=False)
