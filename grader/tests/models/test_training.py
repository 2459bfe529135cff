"""A training can be interrupted and resumed, and gives the losses of an undisturbed one."""

import json
import math
import os
import re

import pytest
import torch
from grader.course.source import read_source
from grader.course.syllabus import TESTS
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.design import DesignProblem
from grader.models.own_parts import CodeProblem
from grader.models.training import training_run
from grader.models.training.corpora import TextProblem
from grader.models.training.trainer import NotANumber, default_threads
from grader.models.training.training_run import Training
from own_models import parameters, solved
from trainings import Silent, stop_after

ADAMW_VARIANTS = re.split(r"^# variant: ", read_source(TESTS / "variants" / "ch08_training" / "AdamW.py"), flags=re.MULTILINE)[1:]


def finished(training: Training) -> Training:
    assert training_run.run(training, Silent())
    return training


SETTINGS = {"experts": dict(kind="moe"), "translator": dict(kind="translate"), "own text": dict(text=True, positions="rope", norm="post", tokens="bpe")}


@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS)
def test_a_resumed_training_gives_the_losses_of_an_undisturbed_one(trainings, text, changes):
    """Also at an interruption between two evaluations."""
    changes = changes | ({"text": text} if "text" in changes else {})
    stopped = trainings.begin("stopped", **changes)
    assert not training_run.run(stopped, Silent(), stop_after(stopped, 5))
    assert stopped.trainer.steps_done == 5
    resumed = trainings.resume("stopped")
    assert resumed.trainer.steps_done == 5 and resumed.total == 8
    before, after = parameters(stopped.trainer.model), parameters(resumed.trainer.model)
    assert all(before[name].equal(after[name]) for name in before)
    finished(resumed)
    history, undisturbed = resumed.trainer.history, finished(trainings.begin("whole", **changes)).trainer.history
    assert history.losses == pytest.approx(undisturbed.losses, abs=1e-5) and history.losses[-1] < history.losses[0]
    assert [step for step, _ in history.validation] == list(range(9))


def test_everybodys_adamw_goes_on_with_its_averages(trainings):
    whole = finished(trainings.begin("whole", steps=6)).trainer.history.losses
    for number, variant in enumerate(ADAMW_VARIANTS):
        trainings.chapters = {"ch08_training": solved("ch08_training") + "\n\n" + variant.partition("\n")[2]}
        stopped = trainings.begin(f"stopped-{number}", steps=6)
        assert not training_run.run(stopped, Silent(), stop_after(stopped, 3))
        resumed = trainings.resume(f"stopped-{number}")
        assert resumed.notes == [] and finished(resumed).trainer.history.losses == pytest.approx(whole, abs=1e-5), variant


def test_without_a_fitting_state_adamw_begins_with_new_averages(trainings):
    whole, stopped = finished(trainings.begin("whole")), trainings.begin("stopped")
    assert not training_run.run(stopped, Silent(), stop_after(stopped, 5))
    trainings.chapters = {"ch08_training": solved("ch08_training") + "\n\n" + ADAMW_VARIANTS[1].partition("\n")[2]}
    state = trainings.folder / "stopped" / checkpoint.OPTIMIZER
    for damage in (lambda: None, lambda: state.write_bytes(b"damaged"), state.unlink):
        damage()
        resumed = trainings.resume("stopped")
        assert resumed.notes == ["optimizer.safetensors is missing or does not fit, so AdamW begins with new averages."]
    assert finished(resumed).trainer.history.losses[-1] != pytest.approx(whole.trainer.history.losses[-1], abs=1e-4)


def test_the_threads_are_those_of_the_environment_or_one_for_each_processor(monkeypatch):
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for wanted, threads in (("3", 3), ("4,2", 4), ("", processors), ("0", processors), ("many", processors)):
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
        assert default_threads() == threads, wanted


def test_with_minutes_the_steps_are_planned_and_the_plan_is_saved(trainings):
    """The rate rises before the plan is made, also over an interruption, and ends at its floor with the last step."""
    begun = trainings.begin(steps=None, minutes=0.01)
    assert not training_run.run(begun, Silent(), stop_after(begun, 2)) and begun.total is None
    training = trainings.resume()
    rates = []
    step = training.trainer.step
    training.trainer.step = lambda total: (step(total), rates.append(training.trainer.optimizer.param_groups[0]["lr"]))[0]
    assert not training_run.run(training, Silent(), lambda: training.total is not None and training.trainer.steps_done > training.total // 2)
    planned = training.total
    resumed = trainings.resume()
    assert resumed.total == planned == json.loads((trainings.folder / "one" / "checkpoint.json").read_text())["record"]["steps"]
    finished(resumed)
    recipe = training.trainer.recipe
    rising = min(len(rates), recipe.warmup - 2)
    assert rates[:rising] == pytest.approx([recipe.peak * (i + 3) / recipe.warmup for i in range(rising)])
    assert resumed.trainer.optimizer.param_groups[0]["lr"] == pytest.approx(recipe.peak * recipe.floor_share)
    assert len(resumed.trainer.history.losses) == planned >= recipe.warmup


def test_the_record_says_what_happened(trainings):
    training = finished(trainings.begin())
    record = checkpoint.read_record(trainings.folder / "one")["record"]
    assert record["corpus"] == {"kind": "stories", "seed": 0} and record["finished"] and record["steps_done"] == record["steps"] == 8
    assert len(record["history"]["losses"]) == 8 and record["history"]["samples"][0][0] == 0
    assert record["judgement"] in ("learning", "underfitting", "overfitting") and record["parts"]["learner"] == []
    assert record["parameters"] == sum(p.numel() for p in training.trainer.model.parameters())


def test_the_balance_loss_has_its_share_of_the_gradient(trainings):
    """The gradient of all parts of a batch is that of the cross-entropy plus the weighted mean of the balance losses."""
    from grader.models.training.trainer import BALANCE_WEIGHT

    trainer = trainings.begin(kind="moe").trainer
    batches = trainer.corpus.batch(0)
    trainer.step(8)
    trainer.whole.pieces = len(batches)
    updates = trainer.optimizer.step
    trainer.optimizer.step = lambda: None
    trainer.clipping.max_norm = 1e9
    trainer.parts.accumulated_step(trainer.whole, trainer.clipping, batches)
    got = [parameter.grad.clone() for parameter in trainer.parameters]
    count = sum(int((targets != -100).sum()) for _, targets in batches)
    loss = 0.0
    for inputs, targets in batches:
        logits, balance = trainer.model(inputs)
        loss = loss + torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / count + BALANCE_WEIGHT * balance / len(batches)
    expected = torch.autograd.grad(loss, trainer.parameters)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, expected))
    trainer.optimizer.step = updates


def test_the_loss_of_a_translator_leaves_padding_out(trainings):
    """The loss of a batch is the mean over all target words of its sentences, each alone without padding."""
    trainer = trainings.begin(kind="translate").trainer
    corpus = trainer.corpus
    pairs = corpus.training[:3] + corpus.training[-3:]
    corpus.held_out = pairs
    (batch,) = corpus.validation()
    assert (batch[1] == -100).any() and (batch[0] == 0).any()
    together = math.log(trainer.parts.perplexity(trainer.whole, [batch]))
    surprises = []
    for source, target in pairs:
        ids = torch.tensor([corpus.tokenizer.encode(source)])
        words = [*corpus.tokenizer.start_ids, *corpus.tokenizer.encode(target), corpus.tokenizer.end_id]
        logits = trainer.model.eval()(ids, torch.tensor([words[:-1]]))[0]
        surprises += torch.nn.functional.cross_entropy(logits, torch.tensor(words[1:]), reduction="none").tolist()
    assert together == pytest.approx(sum(surprises) / len(surprises), rel=1e-4)


# ---- problems


def test_a_crash_in_the_learners_code_is_their_line_and_the_checkpoint_stays(trainings):
    update = "                t, m, v = t + 1, b1 * m"
    crashing = solved("ch08_training", (update, "                if t == 4:\n                    raise IndexError('list index out of range')\n" + update))
    trainings.chapters = {"ch08_training": crashing}
    training = trainings.begin()
    training.save()
    with pytest.raises(CodeProblem, match=r"your AdamW raised IndexError: list index out of range \(ch08_training.py, line \d+:  raise IndexError"):
        training_run.run(training, Silent())
    assert checkpoint.read_record(trainings.folder / "one")["record"]["steps_done"] == 0


def test_a_loss_that_is_no_number_or_nothing_is_a_sentence(trainings):
    for name, loss, problem, says in (
        ("one", "None", CodeProblem, "your code passes its tests, but does not work here: TypeError"),
        ("two", "float('nan')", NotANumber, "the loss of step 1 is nan"),
    ):
        trainings.chapters = {"ch08_training": solved("ch08_training", ("    return whole\n", f"    return {loss}\n"))}
        with pytest.raises(problem, match=says):
            training_run.run(trainings.begin(name), Silent())


def test_what_the_learners_code_prints_is_not_shown(trainings, capsys):
    trainings.chapters = {"ch08_training": solved("ch08_training", ("    return whole\n", "    print('look here')\n    return whole\n"))}
    finished(trainings.begin(steps=2))
    assert capsys.readouterr().out == ""


def test_a_taken_name_a_changed_text_and_a_wrong_design_are_sentences(trainings, text, tmp_path):
    copy = tmp_path / "mine.txt"
    copy.write_text(text.read_text())
    training = trainings.begin(text=copy)
    assert not training_run.run(training, Silent(), stop_after(training, 2))
    with pytest.raises(CheckpointProblem, match="there is a checkpoint one already"):
        trainings.begin()
    copy.write_text(text.read_text() + "One line more.")
    with pytest.raises(TextProblem, match="has changed since this training began"):
        trainings.resume()
    with pytest.raises(DesignProblem, match="experts have no rope"):
        trainings.begin("two", kind="moe", positions="rope")
    with pytest.raises(TextProblem, match="a translator needs pairs"):
        trainings.begin("two", kind="translate", text=text)
    assert training_run.free_name("one") == "one-2" and training_run.free_name("two") == "two"
