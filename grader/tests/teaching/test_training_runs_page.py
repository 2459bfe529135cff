"""The page "Reading a training run": its numbers are those of the recordings, and it explains each look."""

import math
import re

from grader.chapters.training_runs.appendix import HEADING, appendix
from grader.chapters.training_runs.cases import CASES
from grader.chapters.training_runs.drawing import LOOKS
from grader.chapters.training_runs.records import read_records
from grader.chapters.training_runs.setups import STEPS
from grader.cli.commands.hunt_training import BUDGET, NOTHING
from grader.course.source import read_source
from grader.course.syllabus import ROOT

PAGE = read_source(ROOT / "grader" / "teaching" / "book" / "pages" / "training_runs.md")
BODY, _, APPENDIX = PAGE.partition(HEADING)
SENTENCES = " ".join(BODY.split())
RIGHT = read_records("right_plain")[0]


def test_the_appendix_is_what_the_recordings_give():
    assert HEADING + APPENDIX == appendix(), "python -m grader.chapters.training_runs.appendix prints it"
    assert APPENDIX.count("<details>") == len(CASES) >= 20


def test_no_fold_names_its_exercise_before_it_is_opened():
    for summary in re.findall(r"<summary>(.*?)</summary>", APPENDIX, re.DOTALL):
        assert "`" not in summary and summary.startswith("Run ")


def test_numbers_in_the_sentences_are_those_of_the_right_run():
    curves, figures = RIGHT["curves"], RIGHT["figures"]
    words = figures["vocabulary"]
    assert f"Here V is {words}, ln {words} is {math.log(words):.2f}, and the first loss of the right run is {curves['train'][0]:.2f}." in SENTENCES
    assert f"In the right run they end at {curves['train'][-1]:.2f} and {curves['validation'][-1]:.2f}." in SENTENCES
    assert f"The norm before clipping is between {min(curves['norm']):.2f} and {max(curves['norm']):.2f} in the right run." in SENTENCES
    assert figures["state"] == 2 * figures["weights"] and "its memory is twice that of the weights" in SENTENCES
    assert f"{RIGHT['samples']['loss']:.2f} in the right run" in SENTENCES
    assert f"so this number is {curves['moved'][0]:.2f} here" in SENTENCES and f"falls to about {curves['moved'][-1]:.1f}." in SENTENCES
    assert f"The greatest weight of a query is {RIGHT['attention']['greatest'] * 100:.0f} % on average" in SENTENCES
    assert f"It is {RIGHT['positions']['losses'][0]:.2f} at position 0 in the right run" in SENTENCES
    assert f"the largest difference is {RIGHT['cache']['apart']:.6f} here" in SENTENCES
    assert f"for {STEPS} steps" in SENTENCES and BUDGET == 5 and "You have five further looks" in SENTENCES


def test_every_look_is_explained_and_the_silent_runs_too():
    assert sorted(re.findall(r"^\*\*`(\w+)`:", BODY, re.MULTILINE)) == sorted(LOOKS)
    assert [case.symptom for case in CASES].count(None) == 3 and "Three runs of the hunt have a mistake that nobody would notice" in SENTENCES
    assert f"`{NOTHING}`" in BODY
    assert set(re.findall(r"--look (\w+)", BODY)) <= {*LOOKS}
