"""Chapter 7, second part: a GPT's loss and what it teaches, its head tied to its embedding or not, and the initial weights."""

import math

import torch
import torch.nn.functional as F
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds
from small_models import draw_gpt_sizes, gpt_ids, gpt_pair, gpt_targets, logits_and_loss, logits_of, loss_of, make_gpt
from strategies import tensor, token_ids
from torch import nn


class LossOf(nn.Module):
    """A model's loss as a module, to compute its gradients."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, targets):
        return self.model(ids, targets)[1]


def loss_gradients(side, model, ids, targets):
    """By name; a tensor that is embedding and head goes by the embedding's name."""
    found = {name.removeprefix("model."): g for name, g in gradients(side.bring(LossOf)(model), ids, targets).parameters.items()}
    if "token_emb.weight" not in found and "lm_head.weight" in found:
        found["token_emb.weight"] = found.pop("lm_head.weight")
    return found


# ---- GPT: the loss


def loss_of_slices(model, batch):
    """The loss of each next token of a batch: inputs and targets are two slices of it."""
    return model(batch[:, :-1], batch[:, 1:])[1]


@exercise("GPT", weight=5)
def test_the_loss_is_the_mean_over_the_targets(learner, reference):
    """The loss is the mean of -log p(target) over all targets that are not -100, even if it is only one; targets are shifted already."""
    n, seed = draw_gpt_sizes()
    ids, targets, every = gpt_ids(n, seed), gpt_targets(n, seed), token_ids(seed + 50, n.B, n.T, vocab=n.V)
    single = torch.full_like(every, -100)
    single[1, 1] = every[1, 1]
    mine, model = gpt_pair(learner, reference, n, seed)
    some, whole, one, logits = mine(ids, targets), mine(ids, every), mine(ids, single), model(ids)[0]
    close(loss_of(whole), F.cross_entropy(logits.flatten(0, 1), every.flatten()), "the loss where every target counts")
    close(loss_of(some), F.cross_entropy(logits.flatten(0, 1), targets.flatten()), "the loss where some targets are -100")
    close(loss_of(one), F.cross_entropy(logits[1, 1], every[1, 1]), "the loss where all targets but one are -100")
    shifted = learner.bring(loss_of_slices)(mine, ids)
    close(shifted, model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())[1], "the loss of ids[:, :-1] with the targets ids[:, 1:], which are views")


def loss_has_graph(model, ids, targets):
    return model(ids, targets)[1].requires_grad


@exercise("GPT")
def test_a_batch_without_targets_has_a_loss_of_zero(learner, reference):
    """When every target is -100 the loss is 0, and so is its gradient: never NaN."""
    n, seed = draw_gpt_sizes()
    ids, targets = gpt_ids(n, seed), gpt_targets(n, seed)
    mine, model = gpt_pair(learner, reference, n, seed)
    ignored = torch.full_like(targets, -100)
    some, none = mine(ids, targets), mine(ids, ignored)
    slopes, has_graph = loss_gradients(learner, mine, ids, ignored), learner.bring(loss_has_graph)(mine, ids, ignored)
    close(loss_of(some), model(ids, targets)[1], "the loss where some targets are -100")
    close(loss_of(none), torch.tensor(0.0), "the loss where all targets are -100")
    holds(has_graph, "if all targets are -100 the loss has no graph: backward would raise an error; its gradient should be zero")
    for name, slope in slopes.items():
        holds(slope is None or not slope.any(), f"if all targets are -100, the gradient of {name} should be zero")


@exercise("GPT", weight=5)
def test_every_parameter_learns_from_the_loss(learner, reference):
    """Every parameter gets the right gradient from the loss; a tied matrix gets the sum of its gradients as embedding and as head."""
    n, seed = draw_gpt_sizes()
    ids, targets = gpt_ids(n, seed), gpt_targets(n, seed)
    for tied in (True, False):
        mine, model = (side.double() for side in gpt_pair(learner, reference, n, seed, tie_weights=tied))  # in float32 rounding hides small gradients
        got, expected = loss_gradients(learner, mine, ids, targets), loss_gradients(reference, model, ids, targets)
        for name, slope in expected.items():
            if not name.endswith("W_k.bias"):  # softmax ignores it, so its gradient is rounding and nothing else
                close(got.get(name), slope, f"the gradient of {name} with tie_weights={tied}", tol=1e-4)


# ---- GPT: one matrix or two, and how everything begins


def how_tied(model):
    """Whether it is one Parameter, one memory, and whether both places have the same numbers."""
    first, second = model.token_emb.weight, model.lm_head.weight
    return [first is second, first.data_ptr() == second.data_ptr(), torch.equal(first, second)]


@exercise("GPT", weight=3)
def test_a_tied_matrix_is_one_tensor(learner, reference):
    """With tie_weights the head's weight is the embedding's Parameter itself: in a new model, after loading, and after .double()."""
    n, seed = draw_gpt_sizes()
    mine = make_gpt(learner, n)
    new = learner.bring(how_tied)(mine)
    mine, model = gpt_pair(learner, reference, n, seed)
    loaded = learner.bring(how_tied)(mine)
    table = {"token_emb.weight": tensor(seed, n.V, 4 * n.H)}
    learner.bring(fill_one)(mine, table)
    reference.bring(fill_one)(model, table)
    got, moved_on = mine(gpt_ids(n, seed)), learner.bring(how_tied)(mine.double())
    close(logits_and_loss(got)[0], model(gpt_ids(n, seed))[0], "the logits after other numbers were put into token_emb.weight alone")
    for when, (one, _, equal) in (("when it is made", new), ("after loading", loaded), ("after .double()", moved_on)):
        holds(equal, f"{when}, a tied model's lm_head.weight and token_emb.weight have different numbers")
        holds(one, f"{when}, a tied model's lm_head.weight and token_emb.weight are two parameters, which will differ after the first step of training")


def fill_one(model, values):
    with torch.no_grad():
        for name, value in values.items():
            dict(model.named_parameters(remove_duplicate=False))[name].copy_(value)


@exercise("GPT", weight=2)
def test_an_untied_model_has_two_matrices(learner, reference):
    """With tie_weights=False embedding and head are two parameters with different numbers."""
    n, seed = draw_gpt_sizes()
    new = learner.bring(how_tied)(make_gpt(learner, n, tie_weights=False))
    mine, model = gpt_pair(learner, reference, n, seed, tie_weights=False)
    close(logits_of(mine, gpt_ids(n, seed)), model(gpt_ids(n, seed))[0], "the logits with tie_weights=False")
    holds(not any(new), "with tie_weights=False token_emb.weight and lm_head.weight should be two, with different numbers")


def same_tables(first, second):
    return torch.equal(first.token_emb.weight, second.token_emb.weight)


def beginnings(model, ids):
    """What is not as it should be in a new model: values, large matrices without a number far from 0, and the loss."""
    wrong, narrow = [], []
    for name, p in model.named_parameters():
        is_norm = not {"ln1", "ln2", "ln_f"}.isdisjoint(name.split("."))
        strays = 6 * 0.02 / p.numel() ** 0.5  # six standard errors: less than one run in a million has a matrix that is further off
        if p.dim() > 1 and not (0.018 < float(p.std()) < 0.022 and abs(float(p.mean())) < strays):
            wrong.append(name)
        elif p.dim() > 1 and p.numel() >= 1000 and float(p.abs().max()) < 2.3 * 0.02:  # of a thousand normal numbers, all are that near once in a billion
            narrow.append(name)
        elif p.dim() == 1 and not torch.equal(p, torch.ones_like(p) if is_norm and name.endswith("weight") else torch.zeros_like(p)):
            wrong.append(name)
    loss = float(model.eval()(ids, ids.roll(1, 0))[1])
    return [sorted(wrong), sorted(narrow), abs(loss - math.log(model.config.vocab_size)) < 0.2]


@exercise("GPT", weight=3)
def test_a_new_model_has_small_weights(learner, reference):
    """In a new model every matrix, embeddings and positions too, is N(0, 0.02), biases are 0, norms 1 and 0; its loss is about ln V."""
    ids = token_ids(int(torch.randint(10000, ())), 3, 50, vocab=101)
    found, made = {}, []
    for tied in (True, False):
        config = {"vocab_size": 101, "max_len": 50, "d_model": 40, "n_heads": 2, "n_layers": 2, "tie_weights": tied}
        made.append(learner.GPT(learner.GPTConfig(**config)))
        found[tied] = learner.bring(beginnings)(made[-1], ids)
    alike = learner.bring(same_tables)(*made)
    for tied, (wrong, narrow, near) in found.items():
        rest = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        holds(not wrong, f"in a new model with tie_weights={tied} these parameters have wrong initial values: {', '.join(wrong[:3])}{rest}")
        holds(not narrow, f"no number of {', '.join(narrow[:3])} is further from 0 than 2.3 standard deviations; of normal numbers 2 % are")
        holds(near, f"with tie_weights={tied} the first loss should be near ln(vocab_size): a new model should give all tokens about the same probability")
    holds(not alike, "two new models have the same random numbers: creating a model should not set the seed, which belongs to the caller")
