"""Two designs are trained alike: the same steps, text, seed and recipe. What is trained already is used again."""

import shutil

import pytest
from grader.models import checkpoint
from grader.models.comparison import measuring
from grader.models.comparison.training import PairTraining, entries_of, train_pair
from grader.models.training import run
from grader.models.training.settings import Settings
from grader.teaching.walks.progress_line import hide_progress
from trainings import Silent, stop_after


def pair(one="learned", other="rope", steps=6, minutes=None, **base) -> PairTraining:
    return PairTraining(entries_of((one, other), Settings(**base)), steps, minutes)


def train_all(made: PairTraining, stop: int | None = None) -> tuple[bool, list[str]]:
    """Whether both reached their end, and the names of those that were trained; `stop` interrupts after this many steps of any."""
    trained = []

    def one(training):
        trained.append(training.name)
        return run.run(training, Silent(), (lambda: False) if stop is None else stop_after(training, stop))

    return train_pair(made, one, "cpu", hide_progress), trained


def record_of(folder):
    return checkpoint.read_record(folder)["record"]


def test_two_designs_are_trained_alike_and_only_once(trainings):
    """The same steps, text, seed and recipe; the second time, nothing is trained; a third design is trained like the first two."""
    made = pair(steps=2)
    assert train_all(made) == (True, ["compare-learned", "compare-rope"])
    one, other = map(record_of, made.folders)
    for name in ("steps", "steps_done", "corpus", "seed", "recipe"):
        assert one[name] == other[name], name
    assert one["history"]["tokens"] == other["history"]["tokens"] and one["history"]["losses"] != other["history"]["losses"]
    again = pair(steps=None)
    assert train_all(again) == (True, []) and again.folders == made.folders
    third = pair("alibi", "learned", steps=None)
    assert train_all(third) == (True, ["compare-alibi"])
    assert record_of(third.folders[0])["recipe"] == one["recipe"] and record_of(third.folders[0])["steps"] == 2
    longer = pair(steps=3)
    assert train_all(longer) == (True, ["compare-learned-2", "compare-rope-2"]) and record_of(longer.folders[1])["steps"] == 3
    shutil.rmtree(longer.folders[1])
    equally_long = pair(steps=None)
    assert train_all(equally_long) == (True, []) and equally_long.folders == made.folders, "not the newest of each, which differ in their steps"
    assert train_all(pair(steps=2)) == (True, []) and train_all(pair(steps=2, seed=1))[1] == ["compare-learned-seed-1", "compare-rope-seed-1"]


def test_a_model_that_was_trained_in_another_way_is_not_taken_for_this_one(trainings):
    """The number of warm-up steps and the size of a batch are in no design: only how it was trained tells them apart."""
    assert train_all(pair("warmup=1", "batch=6", steps=2)) == (True, ["compare-warmup-1", "compare-batch-6"])
    assert train_all(pair("learned", "warmup=1", steps=2)) == (True, ["compare-learned"])
    assert [record_of(trainings.folder / f"compare-{name}")["recipe"]["rows"] for name in ("batch-6", "learned")] == [6, 4]


def test_an_interrupted_pair_goes_on_as_if_nothing_had_happened(trainings):
    assert train_all(pair()) == (True, ["compare-learned", "compare-rope"])
    whole = [record_of(trainings.folder / name)["history"]["losses"] for name in ("compare-learned", "compare-rope")]
    shutil.rmtree(trainings.folder)
    assert train_all(pair(), stop=3) == (False, ["compare-learned"])
    assert train_all(pair(), stop=6) == (True, ["compare-learned", "compare-rope"])
    shutil.rmtree(trainings.folder / "compare-rope")
    assert train_all(pair(), stop=2) == (False, ["compare-rope"])
    made = pair()
    assert train_all(made) == (True, ["compare-rope"])
    assert [record_of(folder)["history"]["losses"] for folder in made.folders] == whole


@pytest.mark.thorough
def test_with_minutes_the_second_design_gets_the_steps_and_the_schedule_of_the_first(trainings):
    made = pair(steps=None, minutes=0.05)
    assert train_all(made)[0]
    one, other = map(record_of, made.folders)
    assert one["steps"] == other["steps"] == other["steps_done"] and one["recipe"] == other["recipe"] and one["minutes"] == other["minutes"] == 0.05
    assert train_all(pair(steps=None, minutes=0.05)) == (True, []) and train_all(pair(steps=None)) == (True, [])
    assert train_all(pair(steps=None, minutes=0.06), stop=1) == (False, ["compare-learned-2"])


def test_a_pair_on_a_text_of_the_users(trainings, text):
    made = pair("words", "bpe", steps=2, text=text)
    assert train_all(made) == (True, ["compare-words-river", "compare-bpe-river"])
    found = measuring.compare(made.folders, (), "cpu", hide_progress)
    assert not found.same_tokenizer and found.held_out[0].name == "the held-out part of river.txt"
    assert train_all(pair("words", "bpe", steps=2, text=text)) == (True, [])
    text.write_text(text.read_text() + "A new line about the sea.")
    assert train_all(pair("words", "bpe", steps=2, text=text))[1] == ["compare-words-river-2", "compare-bpe-river-2"]
    assert train_all(pair("words", "bpe", steps=2))[1] == ["compare-words", "compare-bpe"]
