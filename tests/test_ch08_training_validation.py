"""Chapter 8, fifth part: which texts are held out for validation, and a model's perplexity on them."""

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses
from hypothesis import given, settings
from small_models import TOKEN_COUNTS, language_sizes, uneven_batches
from strategies import seeds, tensor
from torch import nn
from torch.nn import functional as F

# ---- is_validation


def share(is_validation, kind, unit, many, *fraction):
    """The share of many texts that is held out for validation, rounded to steps of `unit` around the given share; None if a result is no bool.

    It is the given share if it differs from it by at most 0.65 steps, and is not 0. The steps and numbers of texts below make this more than six
    standard errors, and more than 20 texts held out: whatever good hash was chosen, fewer than one in 100 million stray so far.
    """
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dreamt"]
    common = 5 * "a long beginning that all of these texts have in common, and only then "
    kinds = {
        "sentences": lambda i: f"{words[i >> 9 & 7]} {words[i >> 6 & 7]} {words[i >> 3 & 7]} {words[i & 7]} {i}",
        "one beginning": lambda i: f"{common}{i:04}",
        "one end": lambda i: f"{i:04}{common}",
        "one beginning and one end": lambda i: f"{common}{i:04}{common}",
        "one length, no Latin letter": lambda i: f"{chr(0x0905 + (i >> 10 & 31))}{chr(0x0905 + (i >> 5 & 31))}{chr(0x0905 + (i & 31))}",
    }
    answers = [is_validation(text, *fraction) for text in map(kinds[kind], range(many))]
    if not all(isinstance(answer, bool) for answer in answers):
        return None
    if not any(answers):
        return 0.0
    asked = fraction[0] if fraction else 0.1
    steps = (sum(answers) / len(answers) - asked) / unit
    return asked if abs(steps) < 0.65 else round(asked + unit * round(steps), 3)


NO_LATIN = {"kind": "one length, no Latin letter", "many": 6000}  # so many that the letters differ at all places


def the_right_share(learner, *fraction, kind="sentences", unit=0.1, many=2400):
    """Compare the share of the results, which is independent of the hash."""
    asked = fraction[0] if fraction else 0.1
    found = learner.bring(share)(learner.is_validation, kind, unit, many, *fraction)
    return found, asked, f"of {many} texts ({kind}) about {100 * asked:.3g} % should be held out for validation"


def right(found, asked, sentence):
    holds(found is not None, "a result is neither True nor False")
    holds(found == asked, f"{sentence}; it was about {100 * (found or 0):.3g} %")


@exercise("is_validation", weight=2)
def test_about_the_given_fraction_is_kept(learner):
    """About `fraction` of many texts are held out: a quarter, seven tenths, a tenth by default, or two in a thousand."""
    quarter = the_right_share(learner, 0.25, unit=0.05, many=7500)  # whole tenths hold out 0.2 or 0.3
    most, default = the_right_share(learner, 0.7), the_right_share(learner, unit=0.05, many=3500)
    few = the_right_share(learner, 0.002, unit=0.0065, many=10_500)  # a hash of one byte holds out four in a thousand, whole percents ten or none
    for answer in (quarter, most, default, few):
        right(*answer)


@exercise("is_validation")
def test_fractions_of_zero_and_one(learner):
    """With fraction 0 no text is held out, with fraction 1 every text, with 0.5 about half of them."""
    none, all_of_them = (the_right_share(learner, fraction, unit=0.00025, many=5000) for fraction in (0.0, 1.0))  # one text too many counts
    for answer in (the_right_share(learner, 0.5), none, all_of_them):
        right(*answer)


@exercise("is_validation", weight=2)
def test_every_part_of_a_text_counts(learner):
    """Half of the texts are held out even if they differ only at their end, at their beginning, or in the middle, or have no Latin letter at all."""
    kinds = [{"kind": kind} for kind in ("one beginning", "one end", "one beginning and one end")]
    for answer in [the_right_share(learner, 0.5, **kind) for kind in (*kinds, NO_LATIN)]:
        right(*answer)


def steady(is_validation, texts):
    """Do texts mostly get the same answer twice in a row, always in another order and after others, and if the code cannot recognise them as the same?"""

    class Unrecognised(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            return self is other

    changed = sum(is_validation(text, 0.5) != is_validation(text, 0.5) for text in texts)
    forwards = [is_validation(text, 0.5) for text in texts]
    backwards = [is_validation(text, 0.5) for text in reversed(texts)][::-1]
    for i in range(11):
        is_validation(f"another text {i}", 0.5)
    again = [is_validation(text, 0.5) for text in texts]
    empty = all(isinstance(is_validation("", fraction), bool) for fraction in (0.3, 0.8))
    unrecognised = [is_validation(Unrecognised(text), 0.5) for text in texts]
    is_validation(Unrecognised("the last"), 0.5)  # an even number of new texts, so that a second run of this test gives the same
    return changed < len(texts) / 4, forwards == backwards == again, forwards == unrecognised, empty


@exercise("is_validation", weight=2)
@settings(max_examples=1)
@given(seed=seeds)
def test_the_answer_depends_on_the_text_alone(learner, seed):
    """The same text gets the same answer in any order and with any other texts; the empty text gets one, too."""
    texts = [f"text {seed} {i}" for i in range(199)]  # an odd number, so that counting the texts up to here shows
    shares = [the_right_share(learner, 0.5), the_right_share(learner, 0.5, **NO_LATIN)]
    in_a_row, in_another_order, unrecognised, empty = learner.bring(steady)(learner.is_validation, texts)
    for share in shares:
        right(*share)
    holds(in_a_row, "many texts got another result in a second call")
    holds(in_another_order, "the same texts, in another order or after others, got other results")
    holds(unrecognised, "equal texts got other results when they came later: the results depend on which texts came before")
    holds(empty, "the result for the empty text is neither True nor False")


def elsewhere(is_validation, texts):
    """Whether another process gives the same result. There `hash` of a string gives another number, so here it does too."""
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


@exercise("is_validation", weight=8)
@settings(max_examples=1)
@given(seed=seeds)
def test_another_process_gives_the_same_answer(learner, seed):
    """The answer is the same in every process; Python's own hash of a string is salted, and differs from run to run."""
    texts = [f"text {seed} {i}" for i in range(199)]
    shares = [the_right_share(learner, 0.5), the_right_share(learner, 0.5, **NO_LATIN)]
    unchanged = learner.bring(elsewhere)(learner.is_validation, texts)
    for share in shares:
        right(*share)
    holds(unchanged, "the results depend on Python's hash(), which differs between processes: another run would hold out other texts")


# ---- perplexity


def surprised(perplexity, weight, batches, as_tuple=False, as_generator=False, training=True, frozen=False, quiet=False, breaks=False):
    """The perplexity of a model whose logits are rows of `weight`, with dropout in it; and what became of the model.

    `quiet`: gradients are switched off before. `breaks`: the model raises an error for its second batch, or perplexity does; it is caught.
    """

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(weight.clone())
            self.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
            self.drop, self.frozen = nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5))
            self.eval_mode, self.graph, self.calls = True, False, 0

        def forward(self, ids):
            self.calls += 1
            if breaks and self.calls == 2:
                raise ValueError("the second batch is broken")
            self.eval_mode = self.eval_mode and not any(module.training for module in self.modules())
            logits = self.frozen(self.drop(self.weight[ids]))
            self.graph = self.graph or logits.requires_grad
            return (logits, "more") if as_tuple else logits

    model = Table().train(training)
    if frozen:
        model.frozen.eval()
    before = [module.training for module in model.modules()]
    try:
        with torch.set_grad_enabled(not quiet):
            found = perplexity(model, (batch for batch in batches) if as_generator else batches)
            switched = torch.is_grad_enabled() == quiet
    except (ValueError, AssertionError):
        if not breaks:
            raise
        found, switched = None, False
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        found = found.item()
    return {
        "perplexity": found,
        "eval mode": model.eval_mode,
        "graph": model.graph,
        "modes": [module.training for module in model.modules()] == before,
        "grad mode": not switched,
        "trainable": [parameter.requires_grad for parameter in model.parameters()] == [True, False],
        "weight": model.weight.detach().clone(),
    }


def both(learner, reference, weight, batches, **options):
    """The learner's perplexity, and the reference's."""
    got = learner.bring(surprised)(learner.perplexity, weight, batches, **options)
    return got, reference.bring(surprised)(reference.perplexity, weight, batches, **options)["perplexity"]


@exercise("perplexity", weight=3)
@given(n=language_sizes, seed=seeds)
def test_every_token_counts_the_same(learner, reference, n, seed):
    """Perplexity is e to the mean of -log p over all targets that are not ignored in all batches, even if the batches have different sizes."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0, dtype=torch.float64), uneven_batches(seed, n, TOKEN_COUNTS)
    got, expected = both(learner, reference, weight.float(), batches)
    double, exact = both(learner, reference, weight, batches)
    close(got["perplexity"], expected, "the perplexity")
    close(double["perplexity"], exact, "the perplexity of a model in float64", tol=1e-9)


@exercise("perplexity")
@given(n=language_sizes, seed=seeds)
def test_a_uniform_model_has_a_perplexity_of_the_vocabulary_size(learner, n, seed):
    """A model with equal logits has a perplexity of V, the size of its vocabulary; one that gives each target the probability 1 has 1."""
    batches = uneven_batches(seed, n, TOKEN_COUNTS)
    knows_nothing = learner.bring(surprised)(learner.perplexity, torch.zeros(n.V, n.V), batches)
    sure = learner.bring(surprised)(learner.perplexity, 50 * torch.eye(n.V), [(inputs, inputs) for inputs, _ in batches])
    close(knows_nothing["perplexity"], float(n.V), "the perplexity of equal logits")
    close(sure["perplexity"], 1.0, "the perplexity where the right token has all the probability")


def perplexity_of_views(perplexity, weight, batches):
    """The perplexity of a model of pairs, on batches whose axes were exchanged in memory."""
    return perplexity(nn.Embedding.from_pretrained(weight), [tuple(part.t().contiguous().t() for part in batch) for batch in batches])


@exercise("perplexity", weight=2)
@given(n=language_sizes, seed=seeds)
def test_the_division_into_batches_does_not_matter(learner, reference, n, seed):
    """The same rows in one batch or in several, from a list or from a generator, with a batch of padding among them, give one number."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), uneven_batches(seed, n, TOKEN_COUNTS)
    width = batches[-1][0].size(1)
    rows = [[F.pad(part, (0, width - part.size(1)), value=-100 * which) for which, part in enumerate(batch)] for batch in batches]
    whole = [tuple(torch.cat(parts) for parts in zip(*rows))]
    padded = [batches[0], (batches[0][0], torch.full_like(batches[0][1], -100)), *batches[1:]]
    one, expected = both(learner, reference, weight, whole)
    cut = [both(learner, reference, weight, each, as_generator=True)[0]["perplexity"] for each in (batches, padded)]
    view = learner.bring(perplexity_of_views)(learner.perplexity, weight, batches)
    close(one["perplexity"], expected, "the perplexity in one batch")
    close(cut[0], expected, "the perplexity in three batches, from a generator")
    close(cut[1], expected, "the perplexity with a batch that has no target")
    close(view, expected, "the perplexity where inputs and targets are views, such as transposed tensors,")


@exercise("perplexity")
@given(n=language_sizes, seed=seeds)
def test_the_model_may_give_a_tuple(learner, reference, n, seed):
    """If the model returns (logits, more), only the logits are used."""
    got, expected = both(learner, reference, tensor(seed, n.V, n.V, scale=2.0), uneven_batches(seed, n, TOKEN_COUNTS), as_tuple=True)
    close(got["perplexity"], expected, "the perplexity of a model that returns a tuple")


@exercise("perplexity", weight=2)
@given(n=language_sizes, seed=seeds)
def test_perplexity_does_not_change_the_model(learner, reference, n, seed):
    """The model is called in eval mode and without gradient, and its weights do not change; frozen ones stay frozen, and gradients are on or off as before."""
    weight = tensor(seed, n.V, n.V, scale=2.0)
    got, expected = both(learner, reference, weight, uneven_batches(seed, n, TOKEN_COUNTS))
    quiet, _ = both(learner, reference, weight, uneven_batches(seed, n, TOKEN_COUNTS), quiet=True)
    close(got["perplexity"], expected, "the perplexity")
    holds(got["eval mode"], "the model ran in train mode: with dropout the result differs each time")
    holds(not got["graph"], "the model ran with gradient, which keeps every intermediate result in memory without use")
    holds(got["grad mode"], "gradients are still switched off afterwards, so nothing can be trained")
    holds(quiet["grad mode"], "gradients were switched off before, and are switched on afterwards")
    holds(got["trainable"], "a parameter that was frozen can be trained afterwards, or one that could be trained is frozen")
    close(got["weight"], weight, "the model's weight afterwards")


@exercise("perplexity", weight=2)
@given(n=language_sizes, seed=seeds)
def test_every_module_gets_its_mode_back(learner, reference, n, seed):
    """Afterwards each module is in the mode it had: train, eval, or a part in eval mode inside a model that trains."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), uneven_batches(seed, n, TOKEN_COUNTS)
    cases = [{"training": True}, {"training": False}, {"training": True, "frozen": True}]
    found = [both(learner, reference, weight, batches, **case) for case in cases]
    for got, expected in found:
        close(got["perplexity"], expected, "the perplexity")
    holds(found[0][0]["modes"], "a model in train mode was left in another mode")
    holds(found[1][0]["modes"], "a model in eval mode was left in another mode")
    holds(found[2][0]["modes"], "a part of the model was in eval mode on purpose, but is in train mode now")


@exercise("perplexity")
@settings(max_examples=2)
@given(n=language_sizes, seed=seeds)
def test_an_error_does_not_leave_the_model_in_eval_mode(learner, reference, n, seed):
    """Each module gets its mode back after an error, too: one of the model, and the one that there is no token to predict."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), uneven_batches(seed, n, TOKEN_COUNTS)
    empty = [(inputs, torch.full_like(targets, -100)) for inputs, targets in batches[:1]]
    got, expected = both(learner, reference, weight, batches)
    after = [learner.bring(surprised)(learner.perplexity, weight, each, breaks=True) for each in (batches, empty)]
    close(got["perplexity"], expected, "the perplexity")
    holds(after[0]["modes"], "after an error of the model, its modules are in another mode than before")
    holds(after[1]["modes"], "after the error that there is no token to predict, the model's modules are in another mode than before")


@exercise("perplexity")
@given(n=language_sizes, seed=seeds)
def test_perplexity_without_targets_raises_an_error(learner, reference, n, seed):
    """No batches, or batches without any target, raise a ValueError."""
    weight, batches = tensor(seed, n.V, n.V, scale=2.0), uneven_batches(seed, n, TOKEN_COUNTS)
    empty = [(inputs, torch.full_like(targets, -100)) for inputs, targets in batches]
    got, expected = both(learner, reference, weight, batches)
    close(got["perplexity"], expected, "the perplexity of the batches with targets")
    for nothing, because in (([], "there is no batch"), (empty, "every target is -100")):
        refuses(lambda nothing=nothing: learner.bring(surprised)(learner.perplexity, weight, nothing), because=because)
