"""The boundary, of each kind: values cross it and come back equal, objects stay where they are, and gradients are autograd's."""

from __future__ import annotations

import sys

import pytest
import torch
from boundaries import KINDS, alike, opened
from grader.execution.errors import LearnerError, RuleBroken, WrongResult
from grader.execution.proxy import Handle, Implementation, buffers, gradients, load, parameters, randomise, state
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def toy_boundary(request, worker_pool):
    with opened(request.param, worker_pool) as boundary:
        yield boundary


@pytest.fixture
def toy(toy_boundary):
    toy_boundary.begin(7)
    return Implementation(toy_boundary)


# ---- values

tensors = st.builds(
    lambda dtype, shape, seed, how: _tensor(dtype, shape, seed, how),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 4), max_size=4),
    st.integers(0, 99),
    st.sampled_from(["plain", "transposed", "expanded", "strided", "meta", "nan", "grad"]),
)


def _tensor(dtype, shape, seed, how):
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 50).to(dtype)
    if how == "transposed":
        return x.transpose(0, -1) if x.dim() > 1 else x
    if how == "expanded":
        return x.unsqueeze(0).expand(3, *x.shape)
    if how == "strided":
        return x[..., ::2] if x.dim() else x
    if how == "meta":
        return x.to("meta")
    if how == "nan" and dtype.is_floating_point and x.numel() > 2:
        x.view(-1)[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")], dtype=dtype)
    return x.requires_grad_() if how == "grad" and dtype.is_floating_point else x


text = st.text(st.characters(codec=None), max_size=6)
hashables = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | text | st.binary(max_size=9)
plain = hashables | tensors | st.sampled_from([*DTYPES, torch.device("cpu"), torch.device("meta"), slice(1, None, 2)])
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3)
    | st.tuples(inner, inner)
    | st.dictionaries(hashables | st.tuples(hashables, hashables), inner, max_size=3)
    | st.sets(st.integers() | text | st.tuples(st.integers(), st.booleans()), max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(value=values)
def test_every_value_comes_back_equal(toy_boundary, value):
    toy_boundary.begin(0)
    assert alike(toy_boundary.ask("call", toy_boundary.ask("get", "same"), (value,), {}), value)


def test_unusual_values_come_back_equal(toy):
    for value in ("\ud800 alone", "\0", "a\u2028b", 10**4000, -0.0, [], (), {}, set(), b"", "", float("nan"), 1e308, {1: {(): []}}):
        assert alike(toy.same(value), value)
    assert toy.same(value=[1, torch.arange(3)], other=2)[0] == 1


def test_nearly_plain_values_keep_their_type(toy):
    x = torch.arange(6.0).reshape(2, 3)
    assert toy.returns("size", x) == (2, 3)
    values, indices = toy.returns("named", x)
    assert alike(values, torch.tensor([2.0, 5.0])) and alike(indices, torch.tensor([2, 2]))
    assert toy.returns("numpy", x) == 15.0
    assert alike(toy.returns("parameter", x), x)
    assert alike(toy.returns("conjugate", x), torch.conj(x * 1j).resolve_conj())
    assert alike(toy.returns("negative view", x), -x)


def test_the_caller_gets_a_copy_and_never_the_object_itself(toy):
    net = toy.Net()
    net.first.weight.zero_()
    assert parameters(net)["first.weight"].abs().sum() > 0
    assert not toy.returns("graph", torch.ones(2)).requires_grad


REFUSED = {
    "subclass": "an object of class Liar, a subclass of torch.Tensor",
    "nested subclass": "a subclass of torch.Tensor",
    "sparse": "a sparse_coo tensor",
    "huge": "more than 32 MiB",
    "huge list": "more parts",
    "huge integer": "a whole number of 100001 bits",
    "loop": "nested more deeply",
    "pretender": "Pretender",
}


def test_values_that_cannot_cross_are_refused_with_a_sentence(toy):
    for what, sentence in REFUSED.items():
        with pytest.raises(RuleBroken, match="returned") as refused:
            toy.returns(what, torch.ones(2, 2))
        assert sentence in refused.value.message
    assert toy.add(1, 2) == 3


# ---- handles


def test_an_object_stays_in_the_host(toy):
    net = toy.Net(4)
    assert isinstance(net, Handle) and toy.same(net) == net and toy.Net(4) != net
    assert (len(net), net[2], net[-1], 3 in net, 9 in net, list(net)) == (4, 2, 3, True, False, [0, 1, 2, 3])
    assert net.wide == 4 and net.first.out_features == 4
    assert torch.equal(net(torch.ones(1, 2), scale=0.0), torch.zeros(1, 4))
    assert toy.same([net, {"n": net}])[1]["n"] == net
    assert isinstance(toy.returns("generator"), Handle) and isinstance(toy.returns("class"), Handle)
    assert isinstance(toy.returns("slice", None).start, torch.Tensor)


def test_attributes_can_be_set_and_missing_ones_are_reported(toy):
    net = toy.Net()
    net.wide = 7
    assert len(net) == 7
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = net.missing
    with pytest.raises(RuleBroken, match="toy.py does not define `softmacs`"):
        _ = toy.softmacs
    assert repr(net.noisy) == "<Net().noisy, a method without @property>" and repr(net.first) == "<Net().first>"


def test_eval_and_train(toy):
    net = toy.Net()
    x = torch.ones(50)
    assert (net.noisy(x) == 0).any()
    net.eval()
    assert not net.training and alike(net.noisy(x), x)
    net.train()
    assert net.training


def test_state_and_parameters(toy):
    net = toy.Net()
    assert {name: tuple(p.shape) for name, p in parameters(net).items()} == {"first.weight": (3, 2), "first.bias": (3,)}
    assert list(state(net)) == ["first.bias", "first.weight", "steps"] and alike(buffers(net), {"steps": torch.zeros(2)})
    drawn = randomise(net, 5)
    assert alike(parameters(net), {name: drawn[name] for name in ("first.bias", "first.weight")})
    other = toy.Net()
    load(other, drawn)
    x = torch.randn(3, 2)
    assert alike(net(x), other(x)) and alike(randomise(other, 5), drawn) and not alike(randomise(other, 6), drawn)


def test_values_and_objects_that_do_not_fit_are_reported(toy):
    net = toy.Net()
    before = parameters(net)
    for values, sentence in (
        ({"second.weight": torch.zeros(1)}, "Net has no parameter `second.weight`; its parameters are: first.weight, first.bias"),
        ({"first.weight": torch.zeros(2, 3)}, r"Net's parameter `first.weight` has shape \(3, 2\); it should be \(2, 3\)"),
    ):
        with pytest.raises(RuleBroken, match=sentence):
            load(net, {"first.bias": torch.ones(3)} | values)
    assert alike(parameters(net), before)
    with pytest.raises(RuleBroken, match="an object of type generator was used where an nn.Module is expected"):
        parameters(toy.returns("generator"))
    with pytest.raises(RuleBroken, match="the result is a int, where an nn.Module is expected"):
        parameters(toy.add(1, 2))


def test_helpers_can_be_installed(toy):
    def twice(f, x):
        return f(f(x, 1), 1)

    assert toy.bring(twice)(toy.add, torch.ones(2)).tolist() == [3.0, 3.0]


# ---- gradients


def test_gradients_are_autograds(toy):
    net = toy.Net()
    values = randomise(net, 1)
    x, cotangent = torch.randn(4, 2), torch.randn(4, 3)
    found = gradients(net, x, cotangent=cotangent, scale=2.0)

    leaf, weight, bias = (t.clone().requires_grad_() for t in (x, values["first.weight"], values["first.bias"]))
    output = torch.tanh(leaf @ weight.T + bias) * 2.0
    output.backward(cotangent)
    for got, expected in [(found.output, output.detach()), (found.inputs[0], leaf.grad)]:
        assert torch.allclose(got, expected, atol=1e-6)
    assert torch.allclose(found.parameters["first.weight"], weight.grad, atol=1e-6)
    assert torch.allclose(found.parameters["first.bias"], bias.grad, atol=1e-6)


def test_a_detached_result_has_no_gradient(toy):
    x = torch.randn(3)
    assert gradients(toy.detached, x).inputs == [None] and gradients(toy.whole, x).inputs == [None]
    found = gradients(toy.square, x, torch.ones(3))
    assert torch.allclose(found.inputs[0], 2 * x * torch.cos(torch.arange(3) * 0.7 + 0.3), atol=1e-6) and found.inputs[1] is None
    assert gradients(toy.square, torch.arange(3), x).inputs == [None, None]


def test_gradients_of_a_result_of_another_shape_name_the_shapes(toy):
    for shape in ((4,), (3, 3), (1,), ()):
        with pytest.raises(WrongResult) as caught:
            gradients(toy.square, torch.ones(3), torch.ones(3), cotangent=torch.ones(shape))
        assert str(caught.value) == f"The result has shape (3,); it should be {shape}" and caught.value.call.what == "square"
    both = toy.Net().both
    found = gradients(both, torch.ones(1, 2), torch.ones(1, 3))
    assert len(found.output) == 2 and found.parameters["first.bias"].shape == (3,) and len(found.inputs) == 2
    with pytest.raises(WrongResult, match=r"^The result has shape \(1, 3\); it should be \(3,\)$"):
        gradients(both, torch.ones(1, 2), torch.ones(1, 3), cotangent=torch.ones(3))


# ---- examples


def test_each_example_starts_fresh(toy_boundary):
    toy = Implementation(toy_boundary)
    toy_boundary.begin(3)
    first = toy.chance()
    toy.meddle()
    assert not alike(toy.chance(), first)
    toy_boundary.begin(3)
    assert alike(toy.chance(), first)
    assert toy.state_of_torch() == [torch.float32, True, torch.float32]
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_the_three_kinds_of_boundary_give_the_same_answers(toy_boundary):
    """Byte for byte: what crosses is recorded, and compared with what the first kind of boundary sent."""
    toy_boundary.begin(11)
    toy = Implementation(toy_boundary)
    net = toy.Net(4)
    randomise(net, 2)
    net(torch.ones(3, 2), scale=0.5)
    gradients(net, torch.ones(3, 2))
    toy.chance()
    for call in (lambda: toy.divide(1, 0), lambda: toy.change([1], "list"), lambda: toy.returns("sparse", torch.ones(2)), lambda: toy.fails("deep")):
        with pytest.raises(LearnerError):
            call()
    log = [(entry.op, entry.tree, entry.reply, entry.out) for entry in toy_boundary.log]
    assert log == _first.setdefault("log", log)


_first: dict = {}


def test_a_package_leaves_nothing_in_the_interpreter():
    before = set(sys.modules), list(sys.meta_path)
    with opened("local", None) as boundary:
        boundary.begin(0)
        assert Implementation(boundary).add(1, 2) == 3
    assert (set(sys.modules), list(sys.meta_path)) == before
