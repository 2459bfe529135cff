"""Two designs are trained alike: the same steps, text, seed and recipe. What is trained already is used again."""

import shutil

import pytest
from grader.console.output import hide_progress
from grader.models import checkpoint
from grader.models.comparison import measuring
from grader.models.comparison.trainings import entries_of, train_pair
from grader.models.training import training_run
from grader.models.training.recipes import Settings
from trainings import Silent, stop_after


def train(one="learned", other="rope", steps=4, minutes=None, stop=None, **base):
    """The two folders, and the names of those that were trained; `stop` interrupts after this many steps of any."""
    trained = []

    def train_one(training):
        trained.append(training.name)
        return training_run.run(training, Silent(), (lambda: False) if stop is None else stop_after(training, stop))

    return train_pair(entries_of((one, other), Settings(**base)), steps, minutes, train_one, "cpu", hide_progress), trained


def record_of(folder):
    return checkpoint.read_record(folder)["record"]


def test_two_designs_are_trained_alike_and_only_once(trainings):
    """The same steps, text, seed and recipe; the second time, nothing is trained; a third design is trained like the first two."""
    folders, trained = train(steps=2)
    assert trained == ["compare-learned", "compare-rope"]
    one, other = map(record_of, folders)
    for name in ("steps", "steps_done", "corpus", "seed", "recipe"):
        assert one[name] == other[name], name
    assert one["history"]["tokens"] == other["history"]["tokens"] and one["history"]["losses"] != other["history"]["losses"]
    assert train(steps=None) == (folders, [])
    third, trained = train("alibi", "learned", steps=None)
    assert trained == ["compare-alibi"] and record_of(third[0])["recipe"] == one["recipe"] and record_of(third[0])["steps"] == 2
    assert train("alibi", "rope", steps=3)[1] == ["compare-alibi", "compare-rope"] and record_of(folders[1])["steps"] == 3
    assert train("learned", "rope", steps=None)[1] == ["compare-rope"], "both need the same number of steps"


def test_a_model_that_was_trained_in_another_way_is_not_taken_for_this_one(trainings):
    """The number of warm-up steps and the size of a batch are in no design: only how it was trained tells them apart."""
    folders, trained = train("warmup=1", "batch=6", steps=2)
    assert trained == ["compare-warmup-1", "compare-batch-6"] and [record_of(each)["recipe"]["rows"] for each in folders] == [4, 6]
    assert train("learned", "warmup=1", steps=2)[1] == ["compare-learned"]


def test_an_interrupted_pair_goes_on(trainings):
    assert train(stop=2) == (None, ["compare-learned"])
    assert train(stop=4)[1] == ["compare-learned", "compare-rope"]
    shutil.rmtree(trainings.folder / "compare-rope")
    assert train(stop=2) == (None, ["compare-rope"])
    folders, trained = train()
    assert trained == ["compare-rope"] and [record_of(folder)["steps_done"] for folder in folders] == [4, 4]


@pytest.mark.thorough
def test_with_minutes_the_second_design_gets_the_steps_and_the_schedule_of_the_first(trainings):
    folders, _ = train(steps=None, minutes=0.05)
    one, other = map(record_of, folders)
    assert one["steps"] == other["steps"] == other["steps_done"] and one["recipe"] == other["recipe"] and one["minutes"] == other["minutes"] == 0.05
    assert train(steps=None, minutes=0.05) == (folders, []) and train(steps=None) == (folders, [])
    assert train(steps=None, minutes=0.06, stop=1) == (None, ["compare-learned"])


def test_a_pair_on_a_text_of_the_users(trainings, text):
    folders, trained = train("words", "bpe", steps=2, text=text)
    assert trained == ["compare-words-river", "compare-bpe-river"]
    found = measuring.compare(folders, (), "cpu", hide_progress)
    assert not found.same_tokenizer and found.held_out.name == "the held-out part of river.txt"
    assert train("words", "bpe", steps=2, text=text) == (folders, [])
    text.write_text(text.read_text() + "A new line about the sea.")
    assert train("words", "bpe", steps=2, text=text)[1] == ["compare-words-river", "compare-bpe-river"]
