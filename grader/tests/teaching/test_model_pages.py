"""The pages "Train it" and "Open it up": what they show was recorded, and what they say about the kit is true."""

import math
import re
import shlex

import pytest
import typer
from grader.cli.main import app
from grader.course.source import read_source
from grader.models.checkpoint import MODEL, OPTIMIZER, RECORD
from grader.models.design import PRESETS
from grader.models.play.commands import COMMANDS
from grader.models.stories import cast
from grader.models.training.corpora import STORIES
from grader.models.training.own_text import SUFFIXES
from grader.models.training.settings import MINUTES
from grader.quality.readme import story_model

PAGES = {name: read_source(story_model.PAGES / f"{name}.md") for name in story_model.FILLED}
RECORDED = story_model.load_record()
TRAIN, PLAY = PAGES["train"], PAGES["play"]
SENTENCES = " ".join(" ".join(PAGES.values()).split())


def without_recordings(page):
    return re.sub(r"^```text \w+\n.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


# what was recorded


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_the_recorded_run(name):
    assert story_model.fill(PAGES[name], RECORDED) == PAGES[name]


def test_each_recorded_text_is_on_a_page_and_a_changed_page_is_filled_again():
    shown = set(re.findall(r"^```text (\w+)$", TRAIN + PLAY, re.MULTILINE))
    assert shown == {"begins", "ends", "compared", *RECORDED["played"]}
    assert all(f"| {step} | {text} |" in TRAIN for step, text in RECORDED["samples"]) and len(RECORDED["samples"]) >= 5
    emptied = re.sub(r"(?<=^```text lens\n).*?(?=^```$)", "", PLAY, flags=re.MULTILINE | re.DOTALL)
    assert emptied != PLAY and story_model.fill(emptied, RECORDED) == PLAY


def test_the_picture_is_that_of_the_recorded_losses():
    assert read_source(story_model.PICTURE) == story_model.losses_picture(RECORDED)
    assert f"](pictures/{story_model.PICTURE.name})" in TRAIN
    assert len(RECORDED["losses"]) == RECORDED["steps"] == RECORDED["validation"][-1][0]


def test_numbers_in_the_sentences_are_those_of_the_record():
    vocabulary = int(re.search(r"([\d,]+) tokens", RECORDED["begins"])[1].replace(",", ""))
    assert f"Here V is {vocabulary}, and ln {vocabulary} is {math.log(vocabulary):.2f}" in SENTENCES
    first, last = (RECORDED["validation"][at][1] for at in (0, -1))
    assert f"The first validation loss was {first:.3f}; the last was {last:.3f}." in SENTENCES
    assert f"e^{last:.3f} = {math.exp(last):.2f} equally likely" in SENTENCES
    learned, rope = re.search(r"^validation loss +([\d.]+) +([\d.]+)$", RECORDED["compared"], re.MULTILINE).groups()
    compared = f"the validation loss is {rope} after {story_model.COMPARED_STEPS} steps"
    assert f"{compared}, with learned positions {learned}." in SENTENCES
    assert f"headway train --steps {RECORDED['steps']}`" in SENTENCES
    assert f"The recorded {RECORDED['steps']} steps read {RECORDED['tokens']:,} tokens." in SENTENCES
    rate = re.search(r"about ([\d,]+) tokens in a second of processor time", SENTENCES)[1]
    figures = read_source(story_model.PAGES / "figures.md").splitlines()
    assert f"{rate} tokens" in next(line for line in figures if "A step of `headway train`" in line)
    assert abs(RECORDED["losses"][0] - math.log(vocabulary)) < 0.1
    assert f"had {story_model.EARLY_STEPS} steps of training" in SENTENCES
    assert f"learned rope --steps {story_model.COMPARED_STEPS} ```" in SENTENCES


def test_what_is_said_about_a_head_and_about_the_layers_is_in_their_tables():
    played, bar = RECORDED["played"], "[█▏▎▍▌▋▊▉]+"
    rows = dict(re.findall(rf"^  (\S+) +{bar} +([\d.]+ % \S+)", played["attend"], re.MULTILINE))
    assert rows["some"].endswith(" make") and rows["to"].endswith(" wanted")
    to_start = [row for row in rows.values() if row.endswith("<start>") and float(row.split()[0]) > 95]
    assert len(to_start) == 4  # three words, and <start> itself
    layers = dict(re.findall(rf"^  (embeddings|layer \d) +{bar} +(.*)$", played["lens"], re.MULTILINE))
    assert layers["embeddings"].startswith("some ") and layers["layer 1"].startswith("nuts ")
    assert layers["layer 2"].startswith("soup ")
    drawn = re.findall(rf"^  (\S+) +{bar} +[\d.]+ %", played["why"], re.MULTILINE)
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
    assert set(RECORDED["files"]) == {MODEL, RECORD, OPTIMIZER} and story_model.NAME == STORIES
    assert all(suffix in TRAIN for suffix in SUFFIXES)


def test_every_command_of_play_is_explained_and_no_other():
    named = set(re.findall(r"(?<![\w/.)])/[a-z][a-z-]*", without_recordings(PLAY).replace("/path", "")))
    assert {command.name for command in COMMANDS} - {"/quit"} == named


def test_every_command_on_the_pages_exists_with_its_options():
    group = typer.main.get_command(app)
    found = re.findall(r"(?:`|^|> |\| )(headway [a-z]+[^`\n|>]*)", without_recordings(TRAIN + PLAY), re.MULTILINE)
    assert len(found) > 15
    for line in found:
        words = shlex.split(line)
        command = group.get_command(None, words[1])
        options = [word for word in words[2:] if word not in ("FILE", "FOLDER")]
        command.make_context(words[1], options, resilient_parsing=False)
