"""Chapter 23: a dictionary of features, of which few are active in a state."""

from __future__ import annotations

import torch
from calls import GRADIENT_FREE_MODES, call_without_gradient
from devices_and_dtypes import runs_on_second_device
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from hypothesis import example, given, settings
from memory_layouts import of_view
from module_pairs import compare_gradient, compare_parameter_gradients, module_pair
from pytest_check import check
from strategies import at, distinct, seeds, tensor
from torch import nn

few = settings(max_examples=2)
widths = distinct("B", "T", "D", "F", B=(2, 3), T=(4, 5), D=(5, 7), F=(9, 12))


def pair_of(learner, reference, n, seed, k=3):
    return module_pair(learner, reference, "SparseAutoencoder", n.D, n.F, k, seed=seed)


def x_of(n, seed):
    return 2.0 * tensor(seed, n.B, n.T, n.D)


def two(result):
    """The reconstruction and the features."""
    holds(isinstance(result, list | tuple) and len(result) == 2, "forward should return a pair: the reconstruction, and the features")
    return result


class Encoding(nn.Module):
    def __init__(self, dictionary):
        super().__init__()
        self.dictionary = dictionary

    def forward(self, x):
        return self.dictionary.encode(x)


class ReturnedFeatures(nn.Module):
    def __init__(self, dictionary):
        super().__init__()
        self.dictionary = dictionary

    def forward(self, x):
        return self.dictionary(x)[1]


# ---- SparseAutoencoder


@exercise("SparseAutoencoder", weight=3)
@few
@example(n=at(B=2, T=4, D=5, F=9), seed=1)
@given(n=widths, seed=seeds)
def test_features_are_the_k_largest_after_relu(learner, reference, n, seed):
    """encode subtracts b_dec, multiplies by W_enc, adds b_enc, applies ReLU, and keeps the k largest of each state with their values; all others are 0."""
    made = {k: pair_of(learner, reference, n, seed, k) for k in (1, 3, n.F)}
    got = {k: mine.encode(x_of(n, seed)) for k, (mine, _, _) in made.items()}
    for k, (_, model, _) in made.items():
        close(got[k], model.encode(x_of(n, seed)), f"the features with k = {k}")


def readable(learner, k):
    """A dictionary whose feature f is number f of the state."""
    mine = learner.SparseAutoencoder(5, 5, k)
    load(mine, {"W_enc": torch.eye(5), "b_enc": torch.zeros(5), "W_dec": torch.eye(5), "b_dec": torch.zeros(5)})
    return mine


@exercise("SparseAutoencoder", weight=2)
def test_each_state_has_its_own_largest_features(learner):
    """The k largest are chosen for each state alone, by value and not by size: a large negative number is no feature, and a state of small numbers has k active features too."""
    x = torch.tensor([[3.0, -9.0, 2.0, 5.0, 1.0], [0.3, 0.1, 0.2, -0.4, 0.05], [-7.0, 0.5, -6.0, 0.4, 0.6]])
    got = readable(learner, 2).encode(x)
    close(got, torch.tensor([[3.0, 0, 0, 5.0, 0], [0.3, 0, 0.2, 0, 0], [0, 0.5, 0, 0, 0.6]]), "the two largest features of each state")


@exercise("SparseAutoencoder", weight=2)
def test_fewer_than_k_may_be_active(learner):
    """Where fewer than k numbers are above 0, only these are active: none is filled up with a negative number, and a state may have no feature."""
    x = torch.tensor([[-1.0, 4.0, -2.0, -3.0, 0.0], [-1.0, -0.5, -2.0, -3.0, -4.0], [1.0, 2.0, -0.1, 0.0, -5.0]])
    got = readable(learner, 4).encode(x)
    close(got, x.clamp(min=0), "the features of states that have fewer than 4 numbers above 0")


@exercise("SparseAutoencoder", weight=2)
@few
@given(n=widths, seed=seeds)
def test_a_state_is_the_sum_of_its_features_directions(learner, reference, n, seed):
    """decode adds up the rows of W_dec, each times its feature, and b_dec; it works for any features, also for many or negative ones."""
    mine, _, values = pair_of(learner, reference, n, seed)
    features = tensor(seed + 1, n.B, n.T, n.F)
    got, none = mine.decode(features), mine.decode(torch.zeros(n.T, n.F))
    close(got, features @ values["W_dec"] + values["b_dec"], "the state that features describe")
    close(none, values["b_dec"].expand(n.T, n.D), "the state that no feature describes")


@exercise("SparseAutoencoder", weight=3)
@few
@given(n=widths, seed=seeds)
def test_forward_reconstructs_and_returns_the_features(learner, reference, n, seed):
    """forward returns the reconstruction, decode(encode(x)), and then the features; b_dec is subtracted before and added after."""
    mine, model, _ = pair_of(learner, reference, n, seed)
    got = two(mine(x_of(n, seed)))
    for name, result, expected in zip(("the reconstruction", "the features"), got, model(x_of(n, seed))):
        with check:
            close(result, expected, name)


@exercise("SparseAutoencoder", weight=2)
@few
@given(n=widths, seed=seeds)
def test_states_may_have_any_leading_axes(learner, reference, n, seed):
    """One state (D,), a list of them (N, D) and states of texts (B, T, D) have features of the same leading axes, and so have reconstructions."""
    mine, model, _ = pair_of(learner, reference, n, seed)
    x = x_of(n, seed)
    cases = {"one state": x[0, 0].clone(), "a list of states": x[0].clone(), "four axes": x[None]}
    got = {what: (two(mine(states)), mine.encode(states), mine.decode(model.encode(states))) for what, states in cases.items()}
    for what, states in cases.items():
        (reconstruction, features), encoded, decoded = got[what]
        expected, active = model(states)
        close(encoded, active, f"the features of {what}")
        close(decoded, expected, f"the decoded features of {what}")
        close(reconstruction, expected, f"the reconstruction of {what}")
        close(features, active, f"the features that forward returns for {what}")


@exercise("SparseAutoencoder", weight=3)
@few
@given(n=widths, seed=seeds)
def test_gradients_pass_through_the_active_features(learner, reference, n, seed):
    """The reconstruction has a gradient for x and for all four parameters, through the values of the k active features; b_dec gets it from both of its places."""
    mine, model, _ = pair_of(learner, reference, n, seed)
    x, weights = x_of(n, seed), tensor(seed + 1, n.B, n.T, n.D)
    got, expected = gradients(mine, x, cotangent=weights), gradients(model, x, cotangent=weights)
    close(two(got.output)[0], expected.output[0], "the reconstruction")
    compare_gradient(got.inputs[0], expected.inputs[0], "x", tol=1e-4)
    compare_parameter_gradients(got.parameters, expected.parameters, tol=1e-4)


@exercise("SparseAutoencoder", weight=2)
@few
@given(n=widths, seed=seeds)
def test_a_feature_that_is_not_active_gets_no_gradient(learner, reference, n, seed):
    """The gradient of the features, those of encode and those of forward, reaches W_enc, b_enc and b_dec; the column of a feature that is active in no state gets zeros."""
    mine, model, _ = pair_of(learner, reference, n, seed, 1)
    x, weights = x_of(n, seed)[:, :2].clone(), tensor(seed + 1, n.B, 2, n.F)
    found = [gradients(learner.bring(part)(mine), x, cotangent=weights) for part in (Encoding, ReturnedFeatures)]
    expected = gradients(reference.bring(Encoding)(model), x, cotangent=weights)
    wanted = {name: gradient for name, gradient in expected.parameters.items() if gradient is not None}
    for got, whose in zip(found, ("of encode", "that forward returns")):
        close(got.output, expected.output, f"the features {whose}, with k = 1")
        compare_gradient(got.inputs[0], expected.inputs[0], f"x, from the features {whose},", tol=1e-4)
        compare_parameter_gradients(got.parameters, wanted, tol=1e-4, when=f", from the features {whose}")


@exercise("SparseAutoencoder", weight=2)
@few
@given(n=distinct("D", "F", D=(6, 8), F=(40, 50)), seed=seeds)
def test_a_new_dictionary(learner, reference, n, seed):
    """The parameters are W_enc (D, F), b_enc (F,), W_dec (F, D) and b_dec (D,); directions begin random with length 1, W_enc as their transpose, and biases as zeros."""
    mine, other = learner.SparseAutoencoder(n.D, n.F, 4), learner.SparseAutoencoder(d_model=n.D, n_features=n.F, k=4)
    held, others, saved = parameters(mine), parameters(other), state(mine)
    model = reference.SparseAutoencoder(n.D, n.F, 4)
    wanted = {"W_dec": (n.F, n.D), "W_enc": (n.D, n.F), "b_dec": (n.D,), "b_enc": (n.F,)}
    same(sorted(held), sorted(wanted), "the names of the parameters")
    same(sorted(saved), sorted(wanted), "the names in the state dict")
    for name, shape in wanted.items():
        shaped(held[name], shape, f"`{name}`", torch.float32)
    close(held["W_dec"].norm(dim=1), torch.ones(n.F), "the lengths of the rows of W_dec in a new dictionary")
    close(held["W_enc"], held["W_dec"].T, "W_enc in a new dictionary, which should be W_dec transposed")
    close(held["b_enc"], torch.zeros(n.F), "b_enc in a new dictionary")
    close(held["b_dec"], torch.zeros(n.D), "b_dec in a new dictionary")
    holds(not torch.equal(held["W_dec"], others["W_dec"]), "two new dictionaries have the same directions; they should be random")
    mean, spread = float(held["W_dec"].mean()), torch.linalg.svdvals(held["W_dec"])
    holds(abs(mean) < 0.15, f"the numbers of new directions are {mean:.2f} on average: directions should point to all sides, also to negative ones")
    holds(float(spread[-1] / spread[0]) > 0.2, "new directions are nearly alike: they should point to all sides")
    x = tensor(seed, 3, n.D)
    load(model, held)
    got = two(mine(x))
    close(got[0], model(x)[0], "the reconstruction of a new dictionary")


def after_normalise(model, rows):
    """W_dec after the call, whether it is the same parameter in the same memory, and whether other parameters stayed."""
    with torch.no_grad():
        model.W_dec.copy_(rows)
    before, shared = model.W_dec, model.W_dec.detach()
    others = {name: p.detach().clone() for name, p in model.named_parameters() if name != "W_dec"}
    model.normalise()
    found = dict(model.named_parameters())
    return {
        "rows": model.W_dec.detach().clone(),
        "same": model.W_dec is before and model.W_dec.requires_grad and model.W_dec.is_leaf,
        "in place": torch.equal(shared, model.W_dec),
        "others": all(torch.equal(found[name], value) for name, value in others.items()),
    }


def rows_of(n, seed):
    """Directions of very different lengths, and two rows of zeros."""
    rows = tensor(seed, n.F, n.D) * torch.logspace(-2, 2, n.F)[:, None]
    rows[[1, n.F - 2]] = 0.0
    return rows


def unit_rows(rows):
    return rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)


@exercise("SparseAutoencoder", weight=3)
@few
@given(n=widths, seed=seeds)
def test_normalise_gives_every_row_length_1(learner, reference, n, seed):
    """Afterwards each row of W_dec points where it did and has length 1, however long it was; a row of zeros stays. The parameter is changed in place, and others do not change."""
    mine, _, _ = pair_of(learner, reference, n, seed)
    rows = rows_of(n, seed)
    found = learner.bring(after_normalise)(mine, rows)
    close(found["rows"], unit_rows(rows), "W_dec after normalise()")
    holds(found["same"], "after normalise(), W_dec is another parameter, or no longer gets a gradient: an optimizer would go on with the old one")
    holds(found["in place"], "normalise() gave W_dec new memory: a tensor that shares its memory did not change with it")
    holds(found["others"], "normalise() changed another parameter than W_dec")


def after_projection(model, rows, slope):
    """The gradient of W_dec after the call, and what else changed."""
    with torch.no_grad():
        model.W_dec.copy_(rows)
    for p in model.parameters():
        p.grad = torch.full_like(p, 0.5)
    model.W_dec.grad = slope.clone()
    shared = model.W_dec.grad.detach()
    model.project_gradient()
    return {
        "gradient": None if model.W_dec.grad is None else model.W_dec.grad.detach().clone(),
        "in place": model.W_dec.grad is not None and torch.equal(shared, model.W_dec.grad),
        "rows": torch.equal(model.W_dec, rows),
        "others": all(p.grad is not None and bool((p.grad == 0.5).all()) for p in model.parameters() if p is not model.W_dec),
    }


@exercise("SparseAutoencoder", weight=3)
@few
@given(n=widths, seed=seeds)
def test_the_gradient_along_each_direction_is_removed(learner, reference, n, seed):
    """From each row of the gradient its part along that row of W_dec is subtracted, for rows of any length; where the row is zeros, the gradient stays. Nothing else changes."""
    mine, _, _ = pair_of(learner, reference, n, seed)
    slope, cases = tensor(seed + 2, n.F, n.D), {"any length": rows_of(n, seed), "length 1": unit_rows(rows_of(n, seed))}
    found = {what: learner.bring(after_projection)(mine, rows, slope) for what, rows in cases.items()}
    for what, rows in cases.items():
        unit = unit_rows(rows)
        close(found[what]["gradient"], slope - (slope * unit).sum(1, keepdim=True) * unit, f"the gradient of rows of {what} after project_gradient()")
        holds(found[what]["in place"], "project_gradient() gave W_dec a new gradient: it should change the one that is there, in place")
        holds(found[what]["rows"], "project_gradient() changed W_dec itself; it should change its gradient only")
        holds(found[what]["others"], "project_gradient() changed the gradient of another parameter")


def projected_without_gradient(model, x):
    """After the call without a gradient, and after a backward pass and another call: the gradient of W_dec."""
    model.project_gradient()
    before = model.W_dec.grad
    reconstruction, _ = model(x)
    (reconstruction - x).square().sum().backward()
    model.project_gradient()
    return {"before": before is None or not before.any(), "gradient": model.W_dec.grad.clone()}


@exercise("SparseAutoencoder")
@few
@given(n=widths, seed=seeds)
def test_without_a_gradient_nothing_is_projected(learner, reference, n, seed):
    """Before the first backward pass, project_gradient does nothing and raises no error; after it, it acts."""
    mine, model, _ = pair_of(learner, reference, n, seed)
    got, expected = (side.bring(projected_without_gradient)(each, x_of(n, seed)) for side, each in ((learner, mine), (reference, model)))
    close(got["gradient"], expected["gradient"], "the gradient of W_dec after a backward pass and project_gradient()", tol=1e-4)
    holds(got["before"], "project_gradient() made a gradient where there was none")


def trained(model, batches, rate):
    """Outputs while a dictionary is trained, and how much a step changes the lengths of rows before they are normalised again."""
    optimizer, outputs, changes = torch.optim.SGD(model.parameters(), lr=rate), [], []
    for x in batches:
        optimizer.zero_grad()
        reconstruction, features = model(x)
        (reconstruction - x).square().mean().backward()
        model.project_gradient()
        optimizer.step()
        changes.append(float((model.W_dec.detach().norm(dim=1) - 1).abs().max()))
        model.normalise()
        outputs.append(model(x)[0].detach())
    return outputs, max(changes)


@exercise("SparseAutoencoder", weight=2)
@few
@given(n=widths, seed=seeds)
def test_a_step_turns_directions(learner, reference, n, seed):
    """While a dictionary is trained, a step turns the directions and does not change their length; all four parameters learn."""
    made = [pair_of(learner, reference, n, seed) for _ in range(2)]
    batches = [x_of(n, seed + step) for step in range(3)]
    for mine, model, values in made:
        for each in (mine, model):
            load(each, values | {"W_dec": unit_rows(values["W_dec"])})
    got = learner.bring(trained)(made[0][0], batches, 0.3)
    small = learner.bring(trained)(made[1][0], batches, 1e-4)
    expected = reference.bring(trained)(made[0][1], batches, 0.3)
    for step, (output, right) in enumerate(zip(got[0], expected[0])):
        close(output, right, f"the reconstruction after step {step + 1}", tol=1e-3)
    holds(small[1] < 1e-5, f"a step with a learning rate of 0.0001 changed the length of a row by {small[1]:.1e}; the gradient along a row should be gone")


@exercise("SparseAutoencoder")
@few
@given(n=widths, seed=seeds)
def test_the_dictionary_in_other_dtypes_and_on_other_devices(learner, reference, n, seed):
    """After .double() everything is float64, with its digits, and a dictionary that moves to another device computes there."""
    mine, model, _ = pair_of(learner, reference, n, seed)
    x, rows = x_of(n, seed).double(), unit_rows(rows_of(n, seed).double())
    got, expected = two(mine.double()(x)), model.double()(x)
    found = learner.bring(after_normalise)(mine, rows * 3)
    for name, result, right in zip(("the reconstruction", "the features"), got, expected):
        close(result, right, f"{name} in float64")
    close(found["rows"], rows, "W_dec in float64 after normalise()")
    moved = learner.SparseAutoencoder(n.D, n.F, 3)
    holds(learner.bring(runs_on_second_device)(learner.bring(Reconstructing)(moved), x_of(n, seed)), "the dictionary does not compute on another device than the CPU")


class Reconstructing(nn.Module):
    def __init__(self, dictionary):
        super().__init__()
        self.dictionary = dictionary

    def forward(self, x):
        return self.dictionary(x)[0]


@exercise("SparseAutoencoder")
@few
@given(n=widths, seed=seeds)
def test_modes_and_views_change_nothing(learner, reference, n, seed):
    """Train and eval mode, torch.no_grad and inference mode, and a view of the states give the same reconstruction."""
    mine, model, _ = pair_of(learner, reference, n, seed)
    x = x_of(n, seed)
    expected = model(x)[0]
    whole = learner.bring(Reconstructing)(mine)
    view, quiet = learner.bring(of_view)(whole, x), call_without_gradient(learner, mine.train(), x)
    used = two(mine.eval()(x))
    close(view, expected, "the reconstruction of states that are a view")
    for mode in GRADIENT_FREE_MODES:
        close(two(quiet[mode])[0], expected, f"the reconstruction under torch.{mode}")
    close(used[0], expected, "the reconstruction in eval mode")


@exercise("SparseAutoencoder")
@few
@given(n=widths, seed=seeds)
def test_k_is_from_1_to_the_number_of_features(learner, reference, n, seed):
    """A k below 1 or above n_features raises a ValueError that names k; 1 and n_features are fine."""
    made = {k: pair_of(learner, reference, n, seed, k) for k in (1, n.F)}
    got = {k: two(mine(x_of(n, seed))) for k, (mine, _, _) in made.items()}
    for k, (_, model, _) in made.items():
        close(got[k][0], model(x_of(n, seed))[0], f"the reconstruction with k = {k} of {n.F}")
    for k in (0, -1, n.F + 1):
        refuses(lambda k=k: learner.SparseAutoencoder(n.D, n.F, k)(x_of(n, seed)), naming={"k": k}, because=f"{k} of {n.F} features cannot be active")
