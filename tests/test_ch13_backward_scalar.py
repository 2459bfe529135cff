"""Chapter 13, last part: Scalar. Helpers on the implementation's side calculate with Scalars; torch's autograd calculates the same in float64."""

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time


# ---- calculations, for `bring`


def calculated(Scalar, expression, values):
    """The value of an expression of a, b and c, and their gradients."""
    nodes = {name: Scalar(value) for name, value in zip("abc", values)}
    result = eval(expression, {}, nodes)
    result.backward()
    return [result.value, *[node.grad for node in nodes.values()]]


def run_steps(Scalar, values, steps, calls):
    """The gradients of all nodes of a calculation in steps, after this many calls of backward on the last node."""
    nodes = [Scalar(value) for value in values]
    for operation, i, j in steps:
        a, b = nodes[i], nodes[j]
        if operation == "mean":
            nodes.append((a + b) / 2)
        elif operation == "difference":
            nodes.append(0.5 * (a - b))
        elif operation == "product":
            nodes.append(a * b)
        elif operation == "quotient":
            nodes.append(a / (1 + b**2))
        else:
            nodes.append(-a)
    for _ in range(calls):
        nodes[-1].backward()
    return [[node.value for node in nodes], [node.grad for node in nodes]]


def doubled(Scalar, value, times):
    """x + x, and that plus itself, and so on: the gradient of x, which the last node reaches by 2^times paths."""
    x = y = Scalar(value)
    for _ in range(times):
        y = y + y
    y.backward()
    return [y.value, x.grad]


def chained(Scalar, value, length):
    """A long chain of nodes: the gradients at its beginning and in its middle."""
    nodes, half, minus = [Scalar(value)], Scalar(0.5), Scalar(-1.0)
    for i in range(length):
        nodes += [nodes[-1] + half if i % 2 else nodes[-1] * minus]
    nodes[-1].backward()
    found = [nodes[-1].value, nodes[0].grad, nodes[length // 2].grad, nodes[length // 2 + 1].grad]
    nodes[-1].zero_grad()
    return [*found, nodes[0].grad]


def two_roots(Scalar, value):
    """Gradients after backward on each of two results that share nodes, and after zero_grad on the second."""
    x = Scalar(value)
    h = x * x
    first, second = h * 3.0, h + x
    nodes = (x, h, first, second)
    found = []
    for step in (first.backward, second.backward, second.zero_grad, second.backward):
        step()
        found.append([node.grad for node in nodes])
    return found


def equal_nodes(Scalar, value):
    """Gradients of two nodes with equal values, and of two equal results made of them."""
    a, b = Scalar(value), Scalar(value)
    c, d = a + 1, b + 1
    result = c * d * a
    result.backward()
    return [result.value, a.grad, b.grad, c.grad, d.grad]


def worked(Scalar):
    """The example of the lesson: the value of e, and all gradients."""
    a, b = Scalar(2), Scalar(-3)
    c = a * b
    d = c + a
    e = d**2
    e.backward()
    return [e.value, *[node.grad for node in (a, b, c, d)]]


def cleared(Scalar, value):
    """Gradients before backward, after it, after zero_grad, and after backward once more; then the values."""
    x = Scalar(value)
    h = x * 2
    z = h**2 + h
    nodes = (x, h, z)
    found = [[node.grad for node in nodes]]
    for step in (z.backward, z.zero_grad, z.backward):
        step()
        found.append([node.grad for node in nodes])
    return [*found, [node.value for node in nodes]]


def of_a_leaf(Scalar, value):
    x = Scalar(value)
    before = [type(x.value).__name__, x.grad]
    x.backward()
    after = [x.value, x.grad]
    (x * 0).zero_grad()
    return [*before, *after, x.grad]


def inner_first(Scalar, value):
    """backward on an inner node: what it was made of gets its gradient."""
    x = Scalar(value)
    h = x**3
    z = h * 5.0
    h.backward()
    inner = [h.grad, x.grad]
    z.zero_grad()
    z.backward()
    return [*inner, z.grad, h.grad, x.grad]


# ---- the same with torch


def expected_of(expression, values):
    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in zip("abc", values)}
    result = eval(expression, {}, leaves)
    found = torch.autograd.grad(result, list(leaves.values()), allow_unused=True)
    return [result.item(), *[0.0 if gradient is None else gradient.item() for gradient in found]]


def check_expressions(learner, expressions, values):
    got = {text: learner.bring(calculated)(learner.Scalar, text, values) for text in expressions}
    for text, (value, *grads) in got.items():
        expected = expected_of(text, values)
        at = ", ".join(f"{name} = {number:g}" for name, number in zip("abc", values))
        close(value, expected[0], f"{text} at {at}", tol=1e-9)
        for name, mine, right in zip("abc", grads, expected[1:]):
            close(mine, right, f"the grad of {name} after backward on {text} at {at}", tol=1e-9)


def positive(seed):
    """Three numbers from 0.6 to 2.4, each with a few digits, so that a learner can check them."""
    return [round(1.5 + 0.9 * math.sin(x), 2) for x in tensor(seed, 3, scale=3.0).tolist()]


@exercise("Scalar", weight=3)
@given(seed=seeds)
def test_sums_differences_and_products(learner, seed):
    """a + b, a - b, a * b and -a have the right value, and backward gives each side its slope."""
    a, b, _ = positive(seed)
    check_expressions(learner, ["a + b", "a - b", "a * b", "-a", "a * -b", "a * b - b"], [a, -b])


@exercise("Scalar", weight=3)
@given(seed=seeds)
def test_quotients_and_powers(learner, seed):
    """a / b has the slopes 1 / b and -a / b^2, and a ** n the slope n a^(n - 1), for negative and fractional n too. Divisors and bases may be negative, and a base 0."""
    texts = ["a / b", "b / a", "a ** 3", "a ** -1", "a ** 0.5", "a ** 1", "b ** 2 / a", "(a / b) ** 2", "a / -b", "(-a) ** 3", "a ** 2.5", "a ** 0"]
    check_expressions(learner, texts, positive(seed)[:2])
    check_expressions(learner, ["a ** 1", "a ** 2", "a / b"], [0.0, positive(seed)[1]])


@exercise("Scalar", weight=2)
@given(seed=seeds)
def test_exponential_and_logarithm(learner, seed):
    """exp() has itself as its slope, and log() has 1 / a."""
    check_expressions(learner, ["a.exp()", "a.log()", "(a * b).exp()", "(a + b).log()", "(b * a.log()).exp()", "(10 + a * b).exp()"], positive(seed)[:2])


@exercise("Scalar", weight=3)
@given(seed=seeds)
def test_numbers_on_either_side(learner, seed):
    """A number may stand on the left or on the right of + - * /, whole or not, and sum() of a list of Scalars works."""
    texts = ["a + 2", "2 + a", "a - 2.5", "2.5 - a", "a * 3", "3 * a", "a / 4", "4 / a", "1 - 2 / (3 + a)", "sum([a, b, a])"]
    check_expressions(learner, texts, positive(seed)[:2])


@exercise("Scalar", weight=2)
def test_the_worked_numbers_of_scalar(learner):
    """For a = 2, b = -3, c = a b, d = c + a, e = d^2 the gradients are a 16, b -16, c -8, d -8; for x = 3, h = 2 x, z = h^2 + h they are h 13, x 26."""
    short = learner.bring(worked)(learner.Scalar)
    long = learner.bring(cleared)(learner.Scalar, 3)
    for name, got, expected in zip(("the value of e", *[f"the grad of {node}" for node in "abcd"]), short, (16.0, 16.0, -16.0, -8.0, -8.0)):
        close(got, expected, name)
    for name, got, expected in zip(("x", "h", "z"), long[1], (26.0, 13.0, 1.0)):
        close(got, expected, f"the grad of {name} after z.backward()")
    close(long[-1][-1], 42.0, "the value of z")


@exercise("Scalar", weight=3)
@given(seed=seeds)
def test_a_node_that_is_used_twice_gets_both_gradients(learner, seed):
    """The gradients of all uses of a node add up: a * a has the slope 2 a, and so on through every path."""
    texts = ["a * a", "a + a", "a * b + a", "(a * b) * (a + b) / a", "(a + b) * (a + b).log() * a.exp()", "a / a * b"]
    check_expressions(learner, texts, positive(seed)[:2])


def drawn_steps(seed, count):
    """A calculation whose numbers stay within -1 and 1: each step uses nodes that exist, often the newest ones."""
    numbers = torch.randint(0, 10**6, (count, 3), generator=torch.Generator().manual_seed(seed)).tolist()
    steps = []
    for place, (which, i, j) in enumerate(numbers):
        nodes = 3 + place
        steps.append([("mean", "difference", "product", "quotient", "negative")[which % 5], nodes - 1 - i % min(nodes, 3), j % nodes])
    return steps


def steps_with_torch(values, steps):
    nodes = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]
    for operation, i, j in steps:
        a, b = nodes[i], nodes[j]
        results = {"mean": (a + b) / 2, "difference": 0.5 * (a - b), "product": a * b, "quotient": a / (1 + b**2), "negative": -a}
        nodes.append(results[operation])
    found = torch.autograd.grad(nodes[-1], nodes, allow_unused=True)
    return [node.item() for node in nodes], [0.0 if gradient is None else gradient.item() for gradient in found]


@exercise("Scalar", weight=4)
@given(count=st.integers(4, 12), seed=seeds)
def test_every_node_of_a_calculation_gets_its_gradient(learner, count, seed):
    """In a calculation of many steps, whose paths differ in length, every node gets the gradient that torch's autograd computes."""
    steps, values = drawn_steps(seed, count), [round(math.sin(x), 2) for x in tensor(seed, 3, scale=2.0).tolist()]
    got = learner.bring(run_steps)(learner.Scalar, values, steps, 1)
    numbers, slopes = steps_with_torch(values, steps)
    for place, (value, mine, right) in enumerate(zip(*got, slopes)):
        close(value, numbers[place], f"the value of node {place}", tol=1e-9)
        close(mine, right, f"the grad of node {place} in {['leaf'] * 3 + [step[0] for step in steps]}", tol=1e-9)


@exercise("Scalar", weight=3)
@few
@given(count=st.integers(3, 8), seed=seeds)
def test_a_second_backward_adds_the_same_once_more(learner, count, seed):
    """After two calls of backward every grad is exactly twice what one call gives, at inner nodes and at the root too; after three, three times."""
    steps, values = drawn_steps(seed, count), [round(math.sin(x), 2) for x in tensor(seed, 3, scale=2.0).tolist()]
    one, two, three = (learner.bring(run_steps)(learner.Scalar, values, steps, calls) for calls in (1, 2, 3))
    _, slopes = steps_with_torch(values, steps)
    for calls, (_, grads) in enumerate((one, two, three), start=1):
        for place, right in enumerate(slopes):
            close(grads[place], calls * right, f"the grad of node {place} after {calls} calls of backward", tol=1e-9)


@exercise("Scalar", weight=2)
def test_two_results_over_one_node_add(learner):
    """backward on two results adds their gradients in the nodes that they share; zero_grad on one result clears all nodes below it."""
    got = learner.bring(two_roots)(learner.Scalar, 5)
    expected = [[30.0, 3.0, 1.0], [41.0, 4.0, 1.0, 1.0], [0.0, 0.0], [11.0, 1.0]]
    moments = ("backward on 3 h", "backward on h + x too", "zero_grad on h + x", "backward on h + x once more")
    for moment, grads, right in zip(moments, got, expected):
        for name, mine, number in zip(("x", "h = x * x", "3 h", "h + x"), grads, right):
            close(mine, number, f"the grad of {name} after {moment}, x = 5,")


@exercise("Scalar", weight=2)
def test_zero_grad_clears_every_node_below(learner):
    """Before backward every grad is 0; zero_grad sets it to 0 again at the root, at inner nodes and at leaves, so that backward starts afresh. No value changes."""
    got = learner.bring(cleared)(learner.Scalar, 3)
    *grads_found, values = got
    moments = ("before backward", "after backward", "after zero_grad", "after backward once more")
    for moment, grads, right in zip(moments, grads_found, ([0.0] * 3, [26.0, 13.0, 1.0], [0.0] * 3, [26.0, 13.0, 1.0])):
        for name, mine, number in zip(("x", "h = 2 x", "z = h^2 + h"), grads, right):
            close(mine, number, f"the grad of {name} {moment}")
    for name, mine, number in zip(("x", "h = 2 x", "z = h^2 + h"), values, (3.0, 6.0, 42.0)):
        close(mine, number, f"the value of {name} at the end")


@exercise("Scalar", weight=2)
@few
@given(seed=seeds)
def test_backward_starts_at_any_node(learner, seed):
    """A leaf alone gets grad 1.0 from its own backward, an inner node gives its gradient to what it was made of, and x * 0 was made of x too."""
    x = positive(seed)[0]
    kind, before, value, grad, after = learner.bring(of_a_leaf)(learner.Scalar, round(x))
    inner = learner.bring(inner_first)(learner.Scalar, x)
    same(kind, "float", "the type of value, for a Scalar made of a whole number,")
    names = ("the grad of a new Scalar", "its value", "its grad after its own backward", "the grad of x after zero_grad on x * 0")
    for name, got, expected in zip(names, (before, value, grad, after), (0.0, float(round(x)), 1.0, 0.0)):
        close(got, expected, name)
    expected = [1.0, 3 * x**2, 1.0, 5.0, 15 * x**2]
    names = ("h after h.backward()", "x after h.backward()", "z after z.backward()", "h after z.backward()", "x after z.backward()")
    for name, mine, right in zip(names, inner, expected):
        close(mine, right, f"the grad of {name}, h = x^3, z = 5 h", tol=1e-9)


@exercise("Scalar", weight=2)
@few
@given(seed=seeds)
def test_two_equal_values_are_two_nodes(learner, seed):
    """Two Scalars with the same value are different nodes, each with its own grad, and so are two results with the same value."""
    x = positive(seed)[0]
    got = learner.bring(equal_nodes)(learner.Scalar, x)
    expected = [x * (x + 1) ** 2, (x + 1) ** 2 + x * (x + 1), x * (x + 1), x * (x + 1), x * (x + 1)]
    for name, mine, right in zip(("the value of c d a", "the grad of a", "the grad of b", "the grad of c = a + 1", "the grad of d = b + 1"), got, expected):
        close(mine, right, name, tol=1e-9)


@exercise("Scalar", weight=3)
def test_each_node_is_visited_once_however_many_paths_lead_to_it(learner):
    """After 3 doublings 8 paths lead back to x, after 40 doublings 2^40: backward visits each node once, so it ends at once."""
    few_paths = learner.bring(doubled)(learner.Scalar, 1.5, 3)
    many_paths = learner.bring(doubled)(learner.Scalar, 1.5, 40)
    for times, (value, grad) in ((3, few_paths), (40, many_paths)):
        close(value, 1.5 * 2**times, f"the value after {times} doublings")
        close(grad, float(2**times), f"the grad of x after {times} doublings")


@exercise("Scalar", weight=3)
def test_a_chain_of_twenty_thousand_nodes_works(learner):
    """backward and zero_grad work through a chain of 20,000 nodes, which is too deep for recursion."""
    short, long = learner.bring(chained)(learner.Scalar, 1.0, 10), learner.bring(chained)(learner.Scalar, 1.0, 20_000)
    for length, (value, first, middle, after, zeroed) in ((10, short), (20_000, long)):
        sign = (-1.0) ** (length // 2)
        value_expected = 1.0
        for i in range(length):
            value_expected = value_expected + 0.5 if i % 2 else -value_expected
        close(value, value_expected, f"the value at the end of {length} nodes")
        close(first, sign, f"the grad of the first of {length} nodes")
        holds(abs(middle) == 1.0 and abs(after) == 1.0, f"every node of a chain of {length} nodes should have a grad of 1 or -1")
        close(zeroed, 0.0, f"the grad of the first of {length} nodes after zero_grad")
