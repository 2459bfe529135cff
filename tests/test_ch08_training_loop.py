"""Chapter 8, third part: what is kept for validation, how surprised a model is, what its curves say, and the loop around it all."""

import torch
from grader.comparing import close, holds, refuses, same
from grader.marks import exercise
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distinct, seeds, tensor, token_ids
from torch import nn
from torch.nn import functional as F

# ---- is_validation


def share(is_validation, kind, unit, *fraction):
    """About which share of many texts is kept for validation, in steps of `unit` around the share asked for; None if an answer is no bool."""
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dreamt"]
    alike = "a long beginning that all of these texts have in common, and only then "
    kinds = {
        "sentences": lambda i: " ".join(words[(i >> shift) % 8] for shift in (9, 6, 3, 0)) + f" {i}",
        "one beginning": lambda i: f"{alike}{i:04}",
        "one end": lambda i: f"{i:04}{alike}",
        "one length, no Latin letter": lambda i: "".join(chr(0x0905 + (i >> shift) % 32) for shift in (10, 5, 0)),
    }
    answers = [is_validation(kinds[kind](i), *fraction) for i in range(6000)]
    if not all(isinstance(answer, bool) for answer in answers):
        return None
    asked = fraction[0] if fraction else 0.1
    return round(asked + unit * round((sum(answers) / len(answers) - asked) / unit), 3)


def the_right_share(learner, *fraction, kind="sentences", unit=0.05):
    """Judged from what came back: a share in words, whatever hash was used."""
    asked = fraction[0] if fraction else 0.1
    found = learner.bring(share)(learner.is_validation, kind, unit, *fraction)
    return found, asked, f"of 6000 texts ({kind}) about {100 * asked:.0f} % should be kept for validation"


def right(found, asked, sentence):
    holds(found is not None, "an answer is neither True nor False")
    holds(found == asked, f"{sentence}; it was about {100 * (found or 0):.0f} %")


@exercise("is_validation", weight=2)
def test_about_the_fraction_asked_for(learner):
    """About `fraction` of many texts are kept: a quarter, seven tenths, or a tenth where nothing is said."""
    for answer in [the_right_share(learner, *fraction) for fraction in ((0.25,), (0.7,), ())]:
        right(*answer)


@exercise("is_validation")
def test_nothing_and_everything(learner):
    """With fraction 0 no text is kept, with fraction 1 every text, with 0.5 about half of them."""
    for answer in [the_right_share(learner, fraction, unit=0.00025 if fraction in (0.0, 1.0) else 0.05) for fraction in (0.5, 0.0, 1.0)]:
        right(*answer)


@exercise("is_validation", weight=2)
def test_every_part_of_a_text_counts(learner):
    """Half of the texts are kept also when they differ only at their end, only at their beginning, or have no Latin letter at all."""
    kinds = ("one beginning", "one end", "one length, no Latin letter")
    for answer in [the_right_share(learner, 0.5, kind=kind, unit=0.1) for kind in kinds]:
        right(*answer)


def steady(is_validation, texts):
    """Do all texts get the same answer each time: forwards, backwards, and after ten others?"""
    forwards = [is_validation(text, 0.5) for text in texts]
    backwards = [is_validation(text, 0.5) for text in reversed(texts)][::-1]
    for i in range(10):
        is_validation(f"another text {i}", 0.5)
    again = [is_validation(text, 0.5) for text in texts]
    return forwards == backwards == again


@exercise("is_validation", weight=2)
@settings(max_examples=3)
@given(seed=seeds)
def test_the_answer_depends_on_the_text_alone(learner, seed):
    """The same text gets the same answer in any order and in any company."""
    texts = [f"text {seed} {i}" for i in range(200)]
    share, unchanged = the_right_share(learner, 0.5), learner.bring(steady)(learner.is_validation, texts)
    right(*share)
    holds(unchanged, "the same texts, asked again in another order, got other answers")


def elsewhere(is_validation, texts):
    """Would another process answer the same? There `hash` of a string gives another number, so here it does too."""
    import builtins

    true_hash, answers = builtins.hash, []

    class Text(str):
        def __hash__(self):
            return true_hash((salt, str(self)))

    try:
        for salt in range(2):
            builtins.hash = lambda value: true_hash((salt, value))
            answers.append([is_validation(Text(text), 0.5) for text in texts])
    finally:
        builtins.hash = true_hash
    return answers[0] == answers[1]


@exercise("is_validation", weight=4)
@settings(max_examples=3)
@given(seed=seeds)
def test_another_process_gives_the_same_answer(learner, seed):
    """The answer is the same in every process; Python's own hash of a string is salted, and differs from run to run."""
    texts = [f"text {seed} {i}" for i in range(200)]
    share, unchanged = the_right_share(learner, 0.5), learner.bring(elsewhere)(learner.is_validation, texts)
    right(*share)
    holds(unchanged, "the answers come from Python's hash(), which is another one in every process: tomorrow other texts would be kept")


# ---- perplexity


def batches_of(seed, n, counts):
    """Batches (B, T), (B, T + 1), ... with unequal numbers of tokens: targets of -100 on the left and on the right."""
    batches = []
    for i, (rows, kept) in enumerate(counts):
        inputs, targets = (token_ids(seed + 2 * i + which, rows, n.T + i, vocab=n.V) for which in (0, 1))
        for row in range(rows):
            targets[row, kept + row % 2 :] = -100
            targets[row, : row % 2] = -100
        batches.append((inputs, targets))
    return batches


UNEQUAL = ((2, 1), (3, 3), (1, 2))  # 2, 9 and 2 tokens
language = distinct(T=(5, 6), V=(9, 12))


def surprised(perplexity, weight, batches, as_tuple=False, as_generator=False, training=True, frozen=False):
    """The perplexity of a model whose logits are rows of `weight`, with dropout in it; and what became of the model."""

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(weight.clone())
            self.drop, self.frozen = nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5))
            self.eval_mode, self.graph = True, False

        def forward(self, ids):
            self.eval_mode = self.eval_mode and not any(module.training for module in self.modules())
            logits = self.frozen(self.drop(self.weight[ids]))
            self.graph = self.graph or logits.requires_grad
            return (logits, "more") if as_tuple else logits

    model = Table().train(training)
    if frozen:
        model.frozen.eval()
    before = [module.training for module in model.modules()]
    found = perplexity(model, (batch for batch in batches) if as_generator else batches)
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        found = found.item()
    return {
        "perplexity": found,
        "eval mode": model.eval_mode,
        "graph": model.graph,
        "modes": [module.training for module in model.modules()] == before,
        "grad mode": torch.is_grad_enabled(),
        "weight": model.weight.detach().clone(),
    }


def both(learner, reference, weight, batches, **options):
    """What the learner's perplexity gives, and what ours does."""
    got = learner.bring(surprised)(learner.perplexity, weight, batches, **options)
    return got, reference.bring(surprised)(reference.perplexity, weight, batches, **options)["perplexity"]


@exercise("perplexity", weight=3)
@given(n=language, seed=seeds)
def test_every_token_counts_the_same(learner, reference, n, seed):
    """Perplexity is e to the mean surprise over all kept targets of all batches, however unequally the batches are filled."""
    got, expected = both(learner, reference, tensor(seed, n.V, n.V, scale=2.0), batches_of(seed, n, UNEQUAL))
    close(got["perplexity"], expected, "the perplexity")


@exercise("perplexity")
@given(n=language, seed=seeds)
def test_one_that_knows_nothing_hesitates_among_all(learner, n, seed):
    """A model with equal logits has a perplexity of V, the size of its vocabulary; one that is sure and right has 1."""
    batches = batches_of(seed, n, UNEQUAL)
    knows_nothing = learner.bring(surprised)(learner.perplexity, torch.zeros(n.V, n.V), batches)
    sure = learner.bring(surprised)(learner.perplexity, 50 * torch.eye(n.V), [(inputs, inputs) for inputs, _ in batches])
    close(knows_nothing["perplexity"], float(n.V), "the perplexity of equal logits")
    close(sure["perplexity"], 1.0, "the perplexity where the right token has all the probability")


@exercise("perplexity", weight=2)
@given(n=language, seed=seeds)
def test_how_it_is_cut_into_batches_does_not_matter(learner, reference, n, seed):
    """The same rows in one batch or in several, from a list or from a generator, with a batch of padding among them, give one number."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), batches_of(seed, n, UNEQUAL)
    width = batches[-1][0].size(1)
    rows = [[F.pad(part, (0, width - part.size(1)), value=-100 * which) for which, part in enumerate(batch)] for batch in batches]
    whole = [tuple(torch.cat(parts) for parts in zip(*rows))]
    padded = [batches[0], (batches[0][0], torch.full_like(batches[0][1], -100)), *batches[1:]]
    one, expected = both(learner, reference, weight, whole)
    cut = [both(learner, reference, weight, each, as_generator=True)[0]["perplexity"] for each in (batches, padded)]
    close(one["perplexity"], expected, "the perplexity in one batch")
    close(cut[0], expected, "the perplexity in three batches, from a generator")
    close(cut[1], expected, "the perplexity with a batch that has no target")


@exercise("perplexity")
@given(n=language, seed=seeds)
def test_the_model_may_give_a_tuple(learner, reference, n, seed):
    """A model that gives (logits, more) is measured by its logits."""
    got, expected = both(learner, reference, tensor(seed, n.V, n.V, scale=2.0), batches_of(seed, n, UNEQUAL), as_tuple=True)
    close(got["perplexity"], expected, "the perplexity of a model that gives a tuple")


@exercise("perplexity", weight=2)
@given(n=language, seed=seeds)
def test_it_only_looks(learner, reference, n, seed):
    """The model is asked in eval mode and without gradient, and its weights stay as they are."""
    weight = tensor(seed, n.V, n.V, scale=2.0)
    got, expected = both(learner, reference, weight, batches_of(seed, n, UNEQUAL))
    close(got["perplexity"], expected, "the perplexity")
    holds(got["eval mode"], "the model was asked in train mode: with dropout the number is another one each time")
    holds(not got["graph"], "the model was asked with gradient, which keeps every intermediate result in memory for nothing")
    holds(got["grad mode"], "gradients are still switched off afterwards: nothing could be trained any more")
    close(got["weight"], weight, "the model's weight afterwards")


@exercise("perplexity", weight=2)
@given(n=language, seed=seeds)
def test_every_module_gets_its_mode_back(learner, reference, n, seed):
    """Afterwards each module is in the mode it had: train, eval, or a part in eval mode inside a model that trains."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), batches_of(seed, n, UNEQUAL)
    cases = [{"training": True}, {"training": False}, {"training": True, "frozen": True}]
    found = [both(learner, reference, weight, batches, **case) for case in cases]
    for got, expected in found:
        close(got["perplexity"], expected, "the perplexity")
    holds(found[0][0]["modes"], "a model in train mode was left in another mode")
    holds(found[1][0]["modes"], "a model in eval mode was left in another mode")
    holds(found[2][0]["modes"], "a part of the model was in eval mode on purpose, and is not in it any more")


@exercise("perplexity")
@given(n=language, seed=seeds)
def test_no_token_is_refused(learner, reference, n, seed):
    """Without any batch, or with none that has a target, there is nothing to measure: a ValueError."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), batches_of(seed, n, UNEQUAL)
    empty = [(inputs, torch.full_like(targets, -100)) for inputs, targets in batches]
    got, expected = both(learner, reference, weight, batches)
    close(got["perplexity"], expected, "the perplexity where there are targets")
    for nothing, because in (([], "there is no batch"), (empty, "every target is -100")):
        refuses(lambda nothing=nothing: learner.bring(surprised)(learner.perplexity, weight, nothing), because=because)


# ---- judge_fit


def judged(learner, *cases):
    """Each case: the training curve, the validation curve, and how it should be judged."""
    got = [learner.judge_fit(train, val) for train, val, _ in cases]
    for judgement, (train, val, right) in zip(got, cases):
        curves = " and validation ".join(str([round(loss, 2) for loss in curve]) for curve in (train, val))
        same(judgement, right, f"the judgement of training {curves}")


@exercise("judge_fit", weight=2)
@given(high=st.floats(3.0, 9.0), rise=st.floats(1.2, 1.8))
def test_overfitting_is_validation_that_turned_upward(learner, high, rise):
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
def test_underfitting_is_training_that_hardly_moved(learner, high):
    """The last training loss less than 10 % below the first: underfitting, whatever came between; else learning."""
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
    """Where validation turned upward, training decides: at its lowest, even after a small fall, it is overfitting; risen too, it is not."""
    up = [high, 0.8 * high, 0.9 * high, 1.0 * high]
    small, risen = [high, 0.97 * high, 0.95 * high, 0.93 * high], [high, 0.5 * high, 0.4 * high, 0.45 * high]
    back, worse = [high, 0.9 * high, 0.95 * high, 0.98 * high], [high, 0.9 * high, 1.1 * high, 1.2 * high]
    judged(learner, (small, up, "overfitting"), (risen, up, "learning"), (back, up, "underfitting"), (worse, up, "underfitting"))


@exercise("judge_fit")
@given(high=st.floats(3.0, 9.0))
def test_curves_of_one_and_two_epochs(learner, high):
    """After one epoch nothing has fallen yet, so it is underfitting; after two there is something to compare."""
    half = [high, 0.5 * high]
    judged(learner, ([high], [high], "underfitting"), (half, [high, 1.2 * high], "overfitting"), (half, [high, 0.9 * high], "learning"))


# ---- fit


def trained(fit, weight, epochs_of, epochs, validated=True, as_tuple=False):
    """Fit a small model to these batches, each epoch its own; the records, the weight, and what happened in which order."""

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
    """Three epochs, each with batches of its own, of unequal numbers of tokens, and not always as many."""
    return [batches_of(seed + 50 * i, n, counts) for i, counts in enumerate((UNEQUAL, ((3, 3), (2, 1)), ((1, 1), (2, 3), (3, 2))))]


def both_fits(learner, reference, n, seed, **options):
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), epochs_of(seed, n)
    got = learner.bring(trained)(learner.fit, weight, batches, 3, **options)
    holds(got is not None, "what fit gives should be a list of records, a dict for each epoch")
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
@given(n=language, seed=seeds)
def test_one_update_a_batch(learner, reference, n, seed):
    """Every batch of every epoch is one update, in the order in which they come: the weights end where those steps lead."""
    got, expected = both_fits(learner, reference, n, seed, validated=False)
    same(got["happened"], expected["happened"], "the list of updates")
    close(got["weight"], expected["weight"], "the model's weight after three epochs", tol=1e-4)


@exercise("fit", weight=3)
@given(n=language, seed=seeds)
def test_train_loss_is_the_mean_over_tokens(learner, reference, n, seed):
    """`train_loss` is the epoch's mean over kept targets, be it one, of the losses as they were met while training; padding does not count."""
    got, expected = both_fits(learner, reference, n, seed, validated=False)
    weight, single = tensor(seed, n.V, n.V, scale=2.0), [batches_of(seed, n, ((1, 1),))]
    one, alone = (side.bring(trained)(side.fit, weight, single, 1, validated=False) for side in (learner, reference))
    the_same(got, expected, "train_loss")
    close(values(one, "train_loss")[0], values(alone, "train_loss")[0], "train_loss of an epoch with a single target")


@exercise("fit")
@given(n=language, seed=seeds)
def test_a_record_for_each_epoch(learner, reference, n, seed):
    """There is one record an epoch, numbered from 1; without `validate` it has no val_loss."""
    got, expected = both_fits(learner, reference, n, seed, validated=False)
    the_same(got, expected, "train_loss")
    same(values(got, "epoch"), [1, 2, 3], "the list of epochs")
    holds(not any("val_loss" in record for record in got["records"]), "without validate there is nothing to write under val_loss")


@exercise("fit", weight=2)
@given(n=language, seed=seeds)
def test_validation_ends_each_epoch(learner, reference, n, seed):
    """validate(model) is called once at the end of every epoch, after its last update, and what it gives is the val_loss."""
    got, expected = both_fits(learner, reference, n, seed)
    same(got["happened"], expected["happened"], "the list of updates and validations")
    the_same(got, expected, "val_loss", tol=1e-4)


@exercise("fit", weight=2)
@given(n=language, seed=seeds)
def test_batches_are_asked_for_anew_each_epoch(learner, reference, n, seed):
    """make_batches() is called once an epoch, and may give other batches each time."""
    got, expected = both_fits(learner, reference, n, seed, as_tuple=True)
    same(got["asked"], 3, "how often make_batches was called in 3 epochs")
    close(got["weight"], expected["weight"], "the model's weight after three epochs", tol=1e-4)


@exercise("fit")
@given(n=language, seed=seeds)
def test_after_validation_training_goes_on_in_train_mode(learner, reference, n, seed):
    """Also when validate leaves the model in eval mode, the next epoch trains in train mode: dropout is on again."""
    got, expected = both_fits(learner, reference, n, seed)
    close(got["weight"], expected["weight"], "the model's weight after three epochs", tol=1e-4)
    holds(got["modes"], "the model was trained in eval mode after a validation: from then on its dropout does nothing")
