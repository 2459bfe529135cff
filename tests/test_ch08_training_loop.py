"""Chapter 8, last part: what two curves of losses show, and the training loop. Validation is in test_ch08_training_validation.py."""

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import given
from hypothesis import strategies as st
from small_models import TOKEN_COUNTS, language_sizes, uneven_batches
from strategies import seeds, tensor
from torch import nn

# ---- judge_fit


def judged(learner, *cases):
    """Each case: the training curve, the validation curve, and how it should be judged."""
    got = [learner.judge_fit(train, val) for train, val, _ in cases]
    for judgement, (train, val, right) in zip(got, cases):
        curves = " and validation ".join(str([round(loss, 2) for loss in curve]) for curve in (train, val))
        same(judgement, right, f"the judgement of training {curves}")


@exercise("judge_fit", weight=2)
@given(high=st.floats(3.0, 9.0), rise=st.floats(1.2, 1.8))
def test_overfitting_is_a_rising_validation_loss(learner, high, rise):
    """Training at its lowest, validation more than 5 % above its lowest: overfitting; up to 5 %, or still falling: learning."""
    train = [high * part for part in (1.0, 0.7, 0.5, 0.3)]
    low = 0.6 * high
    up, turned = [high, low, 0.9 * rise * low, rise * low], [high, low, 1.3 * rise * low, rise * low]
    level, down = [high, low, 1.01 * low, 1.03 * low], [4 * high, 3 * high, 2 * high, high]
    slowly = [high, 1.02 * low, low, 1.07 * low]
    judged(
        learner,
        (train, up, "overfitting"),
        (train, turned, "overfitting"),
        (train, slowly, "overfitting"),
        (train, level, "learning"),
        (train, down, "learning"),
        ([0.6, 0.3, 0.2], [0.5, 0.4, 0.41], "learning"),
        ([0.6, 0.3, 0.2], [0.5, 0.4, 0.44], "overfitting"),
    )


@exercise("judge_fit", weight=2)
@given(high=st.floats(3.0, 9.0))
def test_underfitting_is_a_training_loss_that_hardly_fell(learner, high):
    """The last training loss less than 10 % below the first: underfitting, regardless of the epochs between; else learning."""
    val = [high * part for part in (1.1, 1.0, 0.95, 0.9)]
    level, little = [high, 0.99 * high, 0.98 * high, 0.97 * high], [high, 0.98 * high, 0.95 * high, 0.93 * high]
    lost, hill = [high, 0.5 * high, 0.7 * high, 0.95 * high], [high, 1.3 * high, 1.1 * high, 0.95 * high]
    enough = [high, 0.95 * high, 0.9 * high, 0.85 * high]
    judged(
        learner,
        (level, val, "underfitting"),
        (little, val, "underfitting"),
        (lost, val, "underfitting"),
        (hill, val, "underfitting"),
        (enough, val, "learning"),
        ([0.4 * loss for loss in level], [2.0, 1.5], "underfitting"),
    )


@exercise("judge_fit", weight=2)
@given(high=st.floats(3.0, 9.0))
def test_overfitting_needs_both(learner, high):
    """If the validation loss has risen, the training loss decides: at its lowest, even after a small fall, it is overfitting; if it has risen too, it is not."""
    up = [high, 0.8 * high, 0.9 * high, 1.0 * high]
    small, risen = [high, 0.97 * high, 0.95 * high, 0.93 * high], [high, 0.5 * high, 0.4 * high, 0.45 * high]
    back, worse = [high, 0.9 * high, 0.95 * high, 0.98 * high], [high, 0.9 * high, 1.1 * high, 1.2 * high]
    level = [high, 0.5 * high, 0.4 * high, 0.4 * high]
    judged(
        learner,
        (small, up, "overfitting"),
        (level, up, "overfitting"),
        (risen, up, "learning"),
        (back, up, "underfitting"),
        (worse, up, "underfitting"),
    )


@exercise("judge_fit")
@given(high=st.floats(3.0, 9.0))
def test_curves_of_one_and_two_epochs(learner, high):
    """After one epoch nothing has fallen yet, so it is underfitting; after two there is something to compare. A curve may be a tuple."""
    half = [high, 0.5 * high]
    judged(
        learner,
        ([high], [high], "underfitting"),
        (half, [high, 1.2 * high], "overfitting"),
        (half, [high, 0.9 * high], "learning"),
        (tuple(half), (high, 1.2 * high), "overfitting"),
    )


# ---- fit


def trained(fit, weight, epochs_of, epochs, validated=True, as_tuple=False, used=False):
    """Fit a small model to these batches, which differ between epochs; the records, the weight, and the order of events.

    A model that was used before has a gradient.
    """

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(weight.clone())
            self.modes = []

        def forward(self, ids):
            self.modes.append(self.training)
            return (self.weight[ids], "more") if as_tuple else self.weight[ids]

    class Descent:
        def zero_grad(self, set_to_none=True):
            model.weight.grad = None

        def step(self):
            happened.append("update")
            if model.weight.grad is not None:
                model.weight.data -= 2.0 * model.weight.grad

    def make_batches():
        asked.append(len(asked))
        return (batch for batch in epochs_of[min(len(asked), len(epochs_of)) - 1])

    def validate(given):
        happened.append("validate" if given is model else "validate with something else")
        given.eval()
        return float(given.weight.detach().abs().sum())

    model, happened, asked = Table(), [], []
    if used:
        model.weight.grad = torch.ones_like(model.weight)
    found = fit(model, Descent(), make_batches, epochs, validate) if validated else fit(model, Descent(), make_batches, epochs)
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        return None
    names = ("epoch", "train_loss", "val_loss")
    records = [{name: record[name] for name in names if name in record} for record in found]
    for record in records:
        record.update({name: value.item() for name, value in record.items() if isinstance(value, torch.Tensor) and value.numel() == 1})
    weight = model.weight.detach().clone()
    return {"records": records, "weight": weight, "happened": happened, "asked": len(asked), "modes": all(model.modes)}


def epochs_of(seed, n):
    """Three epochs with different batches, of different numbers and sizes."""
    return [uneven_batches(seed + 50 * i, n, counts) for i, counts in enumerate((TOKEN_COUNTS, ((3, 3), (2, 1)), ((1, 1), (2, 3), (3, 2))))]


def both_fits(learner, reference, n, seed, **options):
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), epochs_of(seed, n)
    got = learner.bring(trained)(learner.fit, weight, batches, 3, **options)
    holds(got is not None, "fit should return a list of records, with a dict for each epoch")
    holds(got["records"] and all("train_loss" in record for record in got["records"]), 'a record has no "train_loss"')
    return got, reference.bring(trained)(reference.fit, weight, batches, 3, **options)


def values(found, name):
    holds(all(name in record for record in found["records"]), f'a record has no "{name}"')
    return [record[name] for record in found["records"]]


def the_same(got, expected, name, tol=None):
    mine, right = values(got, name), values(expected, name)
    same(len(mine), len(right), "the number of records")
    for epoch, (value, loss) in enumerate(zip(mine, right), 1):
        close(value, loss, f"{name} of epoch {epoch}", tol)


@exercise("fit", weight=2)
@given(n=language_sizes, seed=seeds)
def test_one_update_a_batch(learner, reference, n, seed):
    """Every batch of every epoch is one update, in order; the final weights are those after all updates. A gradient from before is cleared."""
    got, expected = both_fits(learner, reference, n, seed, validated=False, used=True)
    same(got["happened"], expected["happened"], "the list of updates")
    close(got["weight"], expected["weight"], "the model's weight after three epochs", tol=1e-4)


@exercise("fit", weight=5)
@given(n=language_sizes, seed=seeds)
def test_train_loss_is_the_mean_over_tokens(learner, reference, n, seed):
    """`train_loss` is the epoch's mean over targets that are not ignored, even if there is only one, of the losses before each update; padding does not count."""
    got, expected = both_fits(learner, reference, n, seed, validated=False)
    weight, single = tensor(seed, n.V, n.V, scale=2.0), [uneven_batches(seed, n, ((1, 1),))]
    one, alone = (side.bring(trained)(side.fit, weight, single, 1, validated=False) for side in (learner, reference))
    the_same(got, expected, "train_loss")
    close(values(one, "train_loss")[0], values(alone, "train_loss")[0], "train_loss of an epoch with a single target")


@exercise("fit")
@given(n=language_sizes, seed=seeds)
def test_a_record_for_each_epoch(learner, reference, n, seed):
    """There is one record for each epoch, numbered from 1; without `validate` it has no val_loss."""
    got, expected = both_fits(learner, reference, n, seed, validated=False)
    the_same(got, expected, "train_loss")
    same(values(got, "epoch"), [1, 2, 3], "the list of epochs")
    holds(not any("val_loss" in record for record in got["records"]), "without validate there should be no val_loss")


@exercise("fit", weight=2)
@given(n=language_sizes, seed=seeds)
def test_validation_ends_each_epoch(learner, reference, n, seed):
    """validate(model) is called once at the end of every epoch, after its last update, and what it gives is the val_loss."""
    got, expected = both_fits(learner, reference, n, seed)
    same(got["happened"], expected["happened"], "the list of updates and validations")
    the_same(got, expected, "val_loss", tol=1e-4)


@exercise("fit", weight=2)
@given(n=language_sizes, seed=seeds)
def test_make_batches_is_called_once_each_epoch(learner, reference, n, seed):
    """make_batches() is called once in each epoch, and may give other batches each time."""
    got, expected = both_fits(learner, reference, n, seed, as_tuple=True)
    same(got["asked"], 3, "how often make_batches was called in 3 epochs")
    close(got["weight"], expected["weight"], "the model's weight after three epochs", tol=1e-4)


@exercise("fit")
@given(n=language_sizes, seed=seeds)
def test_training_continues_in_train_mode_after_validation(learner, reference, n, seed):
    """If validate leaves the model in eval mode, the next epoch still trains in train mode: dropout is on again."""
    got, expected = both_fits(learner, reference, n, seed)
    close(got["weight"], expected["weight"], "the model's weight after three epochs", tol=1e-4)
    holds(got["modes"], "the model was trained in eval mode after a validation: from then on its dropout does nothing")
