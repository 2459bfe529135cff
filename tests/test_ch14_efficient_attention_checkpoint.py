"""Chapter 14, fifth part: a module that runs again in the backward pass."""

import torch
from changing_models import Additions, call_changing
from grader.execution.proxy import load, parameters, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same, sizes
from grader.verdict.memory import watch_gradients
from hypothesis import given, settings
from module_pairs import compare_gradient
from pytest_check import check
from strategies import distinct, seeds, tensor, token_ids
from torch import nn

few = settings(max_examples=3)
net_sizes = distinct("B", "T", "D", "hidden", hidden=(8, 11))


# ---- brought to both sides


class Net(nn.Module):
    """Two linear layers with a nonlinear function and dropout between them. It counts its calls; if it is `changing`, each of them has a factor of its own."""

    def __init__(self, width, hidden, p, changing=False):
        super().__init__()
        self.up, self.drop, self.down, self.calls = nn.Linear(width, hidden), nn.Dropout(p), nn.Linear(hidden, width), 0
        self.changing = changing

    def forward(self, x):
        self.calls += 1
        y = self.down(self.drop(torch.tanh(self.up(x))))
        return y * torch.special.bessel_y1(torch.zeros(1)) if self.changing else y


class Lookup(nn.Module):
    """An embedding of whole numbers, scaled by a second input, with dropout."""

    def __init__(self, vocab, width):
        super().__init__()
        self.table = nn.Embedding(vocab, width)

    def forward(self, ids, scale):
        return nn.functional.dropout(self.table(ids), 0.4, self.training) * scale


def plain(module, *inputs):
    """What a checkpoint should be equal to."""
    return module(*inputs)


def train_once(run, module, inputs, seed, times=1, outer=False, draws=0):
    """Output, gradients of inputs and parameters, and random numbers that are drawn after the forward pass and after the backward pass.

    The module runs `times` times, each time on the result before. With `outer` the input itself is computed from the one that gets the gradient.
    """
    torch.default_generator.manual_seed(seed)
    leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    first = leaves[0].mul(1.5).tanh() if outer else leaves[0]
    output = first
    for _ in range(times):
        output = run(module, output, *leaves[1:])
    after_forward = torch.random.get_rng_state()
    torch.rand(draws)
    before_backward = torch.random.get_rng_state()
    weights = torch.arange(output.numel(), dtype=output.dtype).mul(0.7).add(0.3).cos().reshape(output.shape)
    (output * weights).sum().backward()
    unchanged = torch.equal(before_backward, torch.random.get_rng_state())
    torch.random.set_rng_state(after_forward)
    return {
        "output": output.detach(),
        "inputs": [x.grad for x in leaves],
        "parameters": {name: parameter.grad for name, parameter in sorted(module.named_parameters())},
        "next random numbers": torch.rand(3),
        "backward leaves the generator": unchanged,
    }


def compare_steps(got, expected, which=""):
    """The same output, random state and gradients; those that are the most telling last."""
    with check:
        close(got["output"], expected["output"], "the output" + which)
    with check:
        close(got["next random numbers"], expected["next random numbers"], "the next random numbers after the forward pass" + which)
    for name, gradient in expected["parameters"].items():
        with check:
            compare_gradient(got["parameters"][name], gradient, f"the parameter {name}{which}")
    for i, gradient in enumerate(expected["inputs"]):
        if gradient is not None:
            with check:
                compare_gradient(got["inputs"][i], gradient, f"input {i}{which}")
    holds(got["backward leaves the generator"], f"the backward pass changes the state of the random generator{which}; restore it after the second run")


def both_nets(learner, reference, kind, *args, seed=0, training=True):
    """The same module on both sides, in float64, with the same random parameters; and both sides' function that trains it once."""
    model = reference.bring(kind)(*args).double()
    values = randomise(model, seed)
    mine = learner.bring(kind)(*args).double()
    load(mine, values)
    for module in (mine, model):
        module.train(training)
    return mine, model, learner.bring(train_once), reference.bring(train_once), reference.bring(plain)


def double(seed, *shape):
    return tensor(seed, *shape, dtype=torch.float64)


# ---- checkpointed


@exercise("checkpointed", weight=3)
@given(n=net_sizes, seed=seeds)
def test_result_and_gradients_are_those_of_the_module(learner, reference, n, seed):
    """Output, gradients of the input and gradients of the parameters are those of module(x)."""
    mine, model, step, steps, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.0, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    compare_steps(step(learner.checkpointed, mine, [x], seed), steps(direct, model, [x], seed))


@exercise("checkpointed", weight=3)
@given(n=net_sizes, seed=seeds)
def test_the_second_run_draws_the_same_random_numbers(learner, reference, n, seed):
    """With dropout, output and gradients belong to the same random numbers, and the generator is then where the plain module leaves it."""
    mine, model, step, steps, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    compare_steps(step(learner.checkpointed, mine, [x], seed), steps(direct, model, [x], seed))


@exercise("checkpointed", weight=2)
@few
@given(n=net_sizes, seed=seeds)
def test_random_numbers_drawn_in_between_change_nothing(learner, reference, n, seed):
    """If other code draws random numbers between the forward and the backward pass, the gradients stay the same, and the generator stays where it was."""
    mine, model, step, steps, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    compare_steps(step(learner.checkpointed, mine, [x], seed, draws=5), steps(direct, model, [x], seed, draws=5))


@exercise("checkpointed", weight=2)
@few
@given(n=net_sizes, seed=seeds)
def test_two_checkpoints_in_a_row_have_their_own_random_numbers(learner, reference, n, seed):
    """Two checkpoints, one after the other, drop different numbers, and each gets its own again in the backward pass."""
    mine, model, step, steps, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    compare_steps(step(learner.checkpointed, mine, [x], seed, times=2), steps(direct, model, [x], seed, times=2))


@exercise("checkpointed", weight=2)
@few
@given(n=net_sizes, seed=seeds)
def test_the_gradient_goes_on_to_what_made_the_input(learner, reference, n, seed):
    """If the input was computed from other tensors, the gradient goes on to them, once."""
    mine, model, step, steps, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.3, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    compare_steps(step(learner.checkpointed, mine, [x], seed, outer=True), steps(direct, model, [x], seed, outer=True))


@exercise("checkpointed", weight=2)
@few
@given(n=distinct("B", "T", "D", V=(8, 11)), seed=seeds)
def test_inputs_may_be_whole_numbers(learner, reference, n, seed):
    """An input of token ids gets no gradient and causes no error; the other input and the parameters get theirs."""
    mine, model, step, steps, direct = both_nets(learner, reference, Lookup, n.V, n.D, seed=seed)
    inputs = [token_ids(seed, n.B, n.T, vocab=n.V), double(seed, n.B, n.T, n.D)]
    compare_steps(step(learner.checkpointed, mine, inputs, seed), steps(direct, model, inputs, seed))


def train_parameters(run, module, x, seed, frozen=()):
    """The output, the gradients of the parameters after two passes, and which parameters still need one. The input needs none, as the frozen parameters."""
    torch.default_generator.manual_seed(seed)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for _ in range(2):
        output = run(module, x)
        (output * output.detach().cos()).sum().backward()
    named = sorted(module.named_parameters())
    return [output.detach(), {name: parameter.grad for name, parameter in named}, [name for name, parameter in named if parameter.requires_grad]]


@exercise("checkpointed", weight=2)
@few
@given(n=net_sizes, seed=seeds)
def test_parameters_get_gradients_even_if_no_input_needs_one(learner, reference, n, seed):
    """If the input needs no gradient, the parameters still get theirs, added to those of an earlier pass; a frozen one gets none and stays frozen."""
    mine, model, *_, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    results = []
    for frozen in ((), ("up.weight", "down.bias")):
        mine, model, *_, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed)
        pair = learner.bring(train_parameters)(learner.checkpointed, mine, x, seed, frozen), reference.bring(train_parameters)(direct, model, x, seed, frozen)
        results.append((frozen, *pair))
    for frozen, (output, grads, free), (expected, wanted, trained) in results:
        close(output, expected, "the output")
        for name, gradient in wanted.items():
            if name not in frozen:
                compare_gradient(grads[name], gradient, f"the parameter {name}")
            else:
                holds(grads[name] is None, f"the parameter {name} is frozen, and gets a gradient all the same")
        same(free, trained, "the names of the parameters that need a gradient after the backward pass")


def backward_twice(run, module, x, seed):
    """The output, and the gradient of the input after two backward passes of one forward pass."""
    torch.default_generator.manual_seed(seed)
    leaf = x.clone().requires_grad_()
    output = run(module, leaf)
    loss = (output * output.detach().cos()).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return [output.detach(), leaf.grad]


@exercise("checkpointed")
@few
@given(n=net_sizes, seed=seeds)
def test_the_backward_pass_may_run_again(learner, reference, n, seed):
    """If the graph is retained and the backward pass runs a second time, it adds the same gradients again, with the same random numbers."""
    mine, model, *_, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    output, gradient = learner.bring(backward_twice)(learner.checkpointed, mine, x, seed)
    expected, wanted = reference.bring(backward_twice)(direct, model, x, seed)
    close(output, expected, "the output")
    compare_gradient(gradient, wanted, "the input after two backward passes")


class Partly(nn.Module):
    """A linear layer, with a second one and a second input that it does not use."""

    def __init__(self, width):
        super().__init__()
        self.used, self.unused = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, y):
        return self.used(x).tanh()


@exercise("checkpointed")
@few
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_what_the_module_does_not_use_causes_no_error(learner, reference, n, seed):
    """A parameter or an input that the module does not use gets no gradient, or zeros, and causes no error; the others get theirs."""
    mine, model, step, steps, direct = both_nets(learner, reference, Partly, n.D, seed=seed)
    inputs = [double(seed, n.B, n.T, n.D), double(seed + 1, n.B, n.T, n.D)]
    got, expected = step(learner.checkpointed, mine, inputs, seed), steps(direct, model, inputs, seed)
    for name, gradient in (*got["parameters"].items(), ("the second input", got["inputs"][1])):
        if gradient is not None and (name.startswith("unused") or name == "the second input"):
            close(gradient, torch.zeros_like(gradient), f"the gradient of {name}, which is not used,")
    close(got["output"], expected["output"], "the output")
    for name in ("used.bias", "used.weight"):
        compare_gradient(got["parameters"][name], expected["parameters"][name], f"the parameter {name}")
    compare_gradient(got["inputs"][0], expected["inputs"][0], "the first input")


def count_calls(run, module, x):
    """How often the module runs: forward, forward and backward, and without gradient."""
    output = run(module, x.clone().requires_grad_())
    forward = module.calls
    output.sum().backward()
    both = module.calls
    with torch.no_grad():
        run(module, x)
    return [forward, both, module.calls - both]


@exercise("checkpointed", weight=2)
@few
@given(n=net_sizes, seed=seeds)
def test_the_module_runs_once_forward_and_once_more_backward(learner, reference, n, seed):
    """The module runs once in the forward pass and once in the backward pass; without gradient it runs once in all."""
    mine, model, *_, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.0, seed=seed)
    x = double(seed, n.B, n.T, n.D)
    output, expected = learner.checkpointed(mine, x), reference.bring(plain)(model, x)
    counted, _, *_ = both_nets(learner, reference, Net, n.D, n.hidden, 0.0, seed=seed)
    forward, both, without = learner.bring(count_calls)(learner.checkpointed, counted, x)
    close(output, expected, "the output")
    same(forward, 1, "the number of times that the module runs in the forward pass")
    same(both, 2, "the number of times that the module runs in both passes together")
    same(without, 1, "the number of times that the module runs without gradient")


def three_calls(run, module, x):
    """The output and its gradient, of a sum that weights each entry alike, and the output of a second call without gradient."""
    leaf = x.clone().requires_grad_()
    output = run(module, leaf)
    output.sum().backward()
    with torch.no_grad():
        return [output.detach(), leaf.grad, run(module, x)]


@exercise("checkpointed", weight=4)
@few
@given(n=net_sizes, seed=seeds)
def test_output_and_gradient_are_those_of_two_calls_of_the_module(learner, reference, n, seed):
    """If each call of the module has a factor of its own, the output has the factor of the first call, the gradient that of the second, and a call without
    gradient that of the third."""
    mine, *_ = both_nets(learner, reference, Net, n.D, n.hidden, 0.0, True, seed=seed)
    _, model, *_, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.0, seed=seed)
    x, factors = double(seed, n.B, n.T, n.D), double(seed + 1, 3, 1).abs() + torch.tensor([[1.0], [3.0], [5.0]])
    alone = reference.bring(three_calls)(direct, model, x)
    found = learner.bring(call_changing)(learner.bring(Additions), factors, learner.bring(three_calls), learner.checkpointed, mine, x)
    for i, name in enumerate(("the output", "the gradient of x", "the output without gradient")):
        close(found[i], factors[i] * alone[i], f"{name} of a module whose call number {i + 1} has the factor {factors[i].item():.3f}")


@exercise("checkpointed", weight=16)
def test_nothing_inside_the_module_is_kept(learner, reference):
    """After the forward pass of a block of width 64 on 2 texts of 32 positions, nothing but the input of 4,096 entries waits for the backward pass, and no copy of it."""
    B, T, D = 2, 32, 64
    sizes(B=B, T=T, D=D)
    mine, model = (side.PreNormBlock(D, 4) for side in (learner, reference))
    load(mine, randomise(model, 3))
    x = tensor(3, B, T, D)
    watched = watch_gradients(learner, learner.checkpointed, mine, x, kept=B * T)  # some entries for a small tensor that an implementation may need
    expected = watch_gradients(reference, reference.bring(plain), model, x)
    close(watched.result, expected.result, "the output")
    watched.check()
    for name, got, wanted in zip([*sorted(parameters(model)), "the input"], watched.gradients, expected.gradients):
        if "W_k.bias" not in name:  # softmax ignores it: its gradient is rounding
            holds(got is not None, f"no gradient reaches {name}")
            close(got, wanted, f"the gradient of {name}", tol=1e-4)


@exercise("checkpointed")
@few
@given(n=net_sizes, seed=seeds)
def test_evaluation_and_no_gradient(learner, reference, n, seed):
    """In eval mode nothing is dropped; each part may have its own mode; in torch.no_grad() the module simply runs, and the output has no graph."""
    mine, model, step, steps, direct = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed, training=False)
    x = double(seed, n.B, n.T, n.D)
    got, expected = step(learner.checkpointed, mine, [x], seed), steps(direct, model, [x], seed)
    output, has_graph, numbers = learner.bring(run_without_gradient)(learner.checkpointed, mine, x, seed)
    plainly, _, wanted = reference.bring(run_without_gradient)(direct, model, x, seed)
    mixtures = []
    for training, which in ((True, "eval mode, and the module that contains it is not"), (False, "train mode, and the module that contains it is not")):
        half, model, *_ = both_nets(learner, reference, Net, n.D, n.hidden, 0.5, seed=seed, training=training)
        for module in (half, model):
            module.drop.train(not training)
        mixtures.append((step(learner.checkpointed, half, [x], seed), steps(direct, model, [x], seed), f" where the dropout layer is in {which}"))
    close(output, plainly, "the output in torch.no_grad()")
    holds(not has_graph, "the output has a graph, although it was computed in torch.no_grad()")
    close(numbers, wanted, "the next random numbers after a call in torch.no_grad()")
    compare_steps(got, expected, " in eval mode")
    for mixed, mixture, which in mixtures:
        compare_steps(mixed, mixture, which)


def run_without_gradient(run, module, x, seed):
    """The output of the module in train mode and in torch.no_grad(), whether it has a graph, and the next random numbers."""
    module.train()
    torch.default_generator.manual_seed(seed)
    with torch.no_grad():
        output = run(module, x)
    return [output, output.requires_grad, torch.rand(3)]
