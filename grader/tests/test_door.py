"""The door, of each kind: what goes through comes back equal, and whatever happens on the far side is an answer."""

from __future__ import annotations

import signal
import sys
import threading

import pytest
import torch
from doors import FILENAME, KINDS, QUICK_KINDS, TOY, alike, doors_of
from grader.chapter import ChapterSource
from grader.door.errors import ChapterBroken, FarSideDied, LearnerError, OutOfTime, RuleBroken, Todo
from grader.door.local import Local
from grader.door.near import Door, Handle, Implementation, buffers, gradients, load, parameters, randomise, state
from grader.door.worker import Nursery
from hypothesis import given, settings
from hypothesis import strategies as st
from kit_copy import posix

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def toy_door(request):
    nursery = Nursery()
    door = doors_of(request.param, nursery)
    yield door
    door.far.close()
    nursery.close()


@pytest.fixture
def toy(toy_door):
    toy_door.begin(7)
    return Implementation(toy_door)


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


@settings(max_examples=120)
@given(value=values)
def test_every_value_comes_back_equal(toy_door, value):
    toy_door.begin(0)
    assert alike(toy_door.ask("call", toy_door.ask("get", "same"), (value,), {}), value)


@pytest.mark.parametrize("value", ["\ud800 alone", "\0", "a\u2028b", 10**4000, -0.0, [], (), {}, set(), b"", "", float("nan"), 1e308, {1: {(): []}}])
def test_unusual_values_come_back_equal(toy, value):
    assert alike(toy.same(value), value)


def test_keyword_arguments_cross_too(toy):
    assert toy.same(value=[1, torch.arange(3)], other=2)[0] == 1


def test_what_is_nearly_plain_comes_as_what_it_is(toy):
    x = torch.arange(6.0).reshape(2, 3)
    assert toy.returns("size", x) == (2, 3)
    values, indices = toy.returns("named", x)
    assert alike(values, torch.tensor([2.0, 5.0])) and alike(indices, torch.tensor([2, 2]))
    assert toy.returns("numpy", x) == 15.0
    assert alike(toy.returns("parameter", x), x)
    assert alike(toy.returns("conjugate", x), torch.conj(x * 1j).resolve_conj())
    assert alike(toy.returns("negative view", x), -x)


def test_a_copy_comes_and_never_the_thing_itself(toy):
    net = toy.Net()
    net.first.weight.zero_()
    assert parameters(net)["first.weight"].abs().sum() > 0
    assert not toy.returns("graph", torch.ones(2)).requires_grad


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("subclass", "an object of class Liar, a subclass of torch.Tensor"),
        ("nested subclass", "a subclass of torch.Tensor"),
        ("sparse", "a sparse_coo tensor"),
        ("huge", "more than 32 MiB"),
        ("huge list", "more parts"),
        ("huge integer", "a whole number of 100001 bits"),
        ("loop", "nested more deeply"),
        ("pretender", "Pretender"),
    ],
)
def test_what_cannot_cross_is_refused_with_a_sentence(toy, what, sentence):
    with pytest.raises(RuleBroken, match="returned") as refused:
        toy.returns(what, torch.ones(2, 2))
    assert sentence in refused.value.message
    assert toy.add(1, 2) == 3


# ---- handles


def test_an_object_stays_on_the_far_side(toy):
    net = toy.Net(4)
    assert isinstance(net, Handle) and toy.same(net) == net and toy.Net(4) != net
    assert (len(net), net[2], net[-1], 3 in net, 9 in net, list(net)) == (4, 2, 3, True, False, [0, 1, 2, 3])
    assert net.wide == 4 and net.first.out_features == 4
    assert torch.equal(net(torch.ones(1, 2), scale=0.0), torch.zeros(1, 4))
    assert toy.same([net, {"n": net}])[1]["n"] == net
    assert isinstance(toy.returns("generator"), Handle) and isinstance(toy.returns("class"), Handle)
    assert isinstance(toy.returns("slice", None).start, torch.Tensor)


def test_attributes_can_be_set(toy):
    net = toy.Net()
    net.wide = 7
    assert len(net) == 7
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = net.missing


def test_a_missing_name_is_told(toy):
    with pytest.raises(RuleBroken, match="toy.py defines no `softmacs`"):
        _ = toy.softmacs


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


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"second.weight": torch.zeros(1)}, "Net has no parameter called `second.weight`; it has first.weight, first.bias"),
        ({"first.weight": torch.zeros(2, 3)}, r"Net's parameter `first.weight` has shape \(3, 2\); it should be \(2, 3\)"),
    ],
)
def test_values_that_do_not_fit_are_told(toy, values, sentence):
    net = toy.Net()
    before = parameters(net)
    with pytest.raises(RuleBroken, match=sentence):
        load(net, {"first.bias": torch.ones(3)} | values)
    assert alike(parameters(net), before)


def test_where_a_module_belongs(toy):
    with pytest.raises(RuleBroken, match="an object of type generator stands where an nn.Module belongs"):
        parameters(toy.returns("generator"))
    with pytest.raises(RuleBroken, match="a int came back where an nn.Module belongs"):
        parameters(toy.add(1, 2))


def test_helpers_can_be_brought(toy):
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


def test_gradients_of_a_method_and_of_a_tuple(toy):
    found = gradients(toy.Net().both, torch.ones(1, 2), torch.ones(1, 3))
    assert len(found.output) == 2 and found.parameters["first.bias"].shape == (3,) and len(found.inputs) == 2


def test_what_is_cut_off_has_no_gradient(toy):
    x = torch.randn(3)
    assert gradients(toy.detached, x).inputs == [None] and gradients(toy.whole, x).inputs == [None]
    found = gradients(toy.square, x, torch.ones(3))
    assert torch.allclose(found.inputs[0], 2 * x * torch.cos(torch.arange(3) * 0.7 + 0.3), atol=1e-6) and found.inputs[1] is None
    assert gradients(toy.square, torch.arange(3), x).inputs == [None, None]


# ---- errors


def test_an_error_crosses_with_its_place(toy):
    with pytest.raises(ZeroDivisionError) as caught:
        toy.divide(1, 0)
    problem = caught.value
    assert isinstance(problem, LearnerError) and (problem.type_name, problem.message) == ("ZeroDivisionError", "division by zero")
    line = TOY.split("# the line of the error")[0].count("\n") + 1
    assert (problem.where.file, problem.where.line, problem.where.code) == ("toy.py", line, "return a / b  # the line of the error")


def test_the_learners_line_is_named_and_not_torchs(toy):
    with pytest.raises(RuntimeError, match="shapes") as caught:
        toy.Net()(torch.ones(1, 5))
    assert "torch.tanh(self.first(x))" in caught.value.where.code


def test_errors_of_every_kind(toy):
    for how, kind, message in [
        ("loud", ValueError, "x" * 100), ("mute", LearnerError, "cannot be read"), ("exit", LearnerError, "it ended the program (enough)"),
        ("deep", RecursionError, "maximum recursion depth"), ("name", KeyError, "name"),
    ]:  # fmt: skip
        with pytest.raises(kind) as caught:
            toy.fails(how)
        assert message in str(caught.value) and len(str(caught.value)) <= 600
        assert caught.value.where.file == "toy.py"
    with pytest.raises(Todo):
        toy.fails("todo")


def test_no_message_can_command_the_terminal(toy):
    with pytest.raises(ValueError) as caught:
        toy.fails("escapes")
    assert "red" in caught.value.message and caught.value.message.isprintable()


# ---- what no call may do


@pytest.mark.parametrize(
    ("value", "how"),
    [
        (torch.zeros(3), "in place"),
        (torch.zeros(3), "resize"),
        ([1, 2], "list"),
        ({"a": 1, "b": 2}, "dict"),
        ({"a": 1, "b": 2}, "order"),
        ({"deep": [torch.ones(2)]}, "nested"),
        ({1, 2}, "set"),
    ],
)
def test_a_changed_argument_is_told(toy, value, how):
    with pytest.raises(RuleBroken, match="the call changed its argument number 1; work on a copy"):
        toy.change(value, how)
    assert toy.change(torch.ones(2), "not") == 1


def test_a_changed_option_is_named(toy):
    with pytest.raises(RuleBroken, match="changed its argument `mask`"):
        toy.change_option(torch.ones(1), mask=torch.tensor([False]))


def test_the_callers_value_stays_as_it_was(toy):
    mine = torch.zeros(3)
    with pytest.raises(RuleBroken):
        toy.change(mine, "in place")
    assert mine.tolist() == [0, 0, 0]


def test_nan_and_nothing_are_not_a_change(toy):
    assert toy.change(torch.tensor([float("nan"), -0.0]), "not") == 1
    assert toy.change(torch.empty(0, 3), "not") == 1


def test_a_thread_left_behind_is_told_and_a_joined_one_is_fine(toy):
    assert toy.thread(0.01, True) == 1
    with pytest.raises(RuleBroken, match=r"the call left a thread running \(helper\); join every thread"):
        toy.thread(0.6, False)
    before = threading.active_count()
    assert toy.thread(0.05, False) == 0, "one that ends by itself at once is no harm"
    assert threading.active_count() == before


# ---- examples


def test_each_example_begins_as_new(toy_door):
    toy = Implementation(toy_door)
    toy_door.begin(3)
    first = toy.chance()
    toy.meddle()
    assert not alike(toy.chance(), first)
    toy_door.begin(3)
    assert alike(toy.chance(), first)
    assert toy.state_of_torch() == [torch.float32, True, torch.float32]
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_the_three_doors_answer_alike(toy_door):
    """Byte for byte: what crosses is recorded, and compared with what the first of the doors sent."""
    toy_door.begin(11)
    toy = Implementation(toy_door)
    net = toy.Net(4)
    randomise(net, 2)
    net(torch.ones(3, 2), scale=0.5)
    gradients(net, torch.ones(3, 2))
    toy.chance()
    for call in (lambda: toy.divide(1, 0), lambda: toy.change([1], "list"), lambda: toy.returns("sparse", torch.ones(2)), lambda: toy.fails("deep")):
        with pytest.raises(LearnerError):
            call()
    told = [(asked.op, asked.tree, asked.reply, asked.out) for asked in toy_door.log]
    assert told == _first.setdefault("told", told)


_first: dict = {}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\nraise ValueError('at import')\n", 2, "ValueError: at import"),
        ("import nowhere_to_be_found\n", 1, "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def f(:\n    pass\n", 1, "SyntaxError"),
        ("import sys\nsys.exit()\n", 2, "it ended the program"),
        ("from .ch09_other import x\n", 1, "there is no chapter ch09_other"),
        ("def f():\n    raise NotImplementedError\nf()\n", 0, "a stub is called at the top level"),
    ],
)
@pytest.mark.parametrize("kind", QUICK_KINDS)
def test_a_chapter_that_does_not_import_is_one_sentence(kind, text, line, words):
    nursery = Nursery()
    door = doors_of(kind, nursery, text)
    try:
        with pytest.raises(ChapterBroken, match=words) as caught:
            door.begin(0)
        where = caught.value.where
        assert (where.line if where else 0) == line and (where is None or where.file == FILENAME.rpartition("/")[2])
    finally:
        door.far.close()
        nursery.close()


@pytest.mark.parametrize(("folder", "why"), [("kit/solutions", ": while this chapter is tested, that one is ours. Keep a helper in the chapter"), ("mine", "$")])
def test_a_helper_that_an_earlier_chapter_lacks_is_a_sentence_without_a_path(folder, why):
    sources = [ChapterSource("toy", "from .ch01_one import helper\n", FILENAME), ChapterSource("ch01_one", "x = 1\n", f"{folder}/ch01_one.py")]
    door = Door(Local(sources, "toy", 1.0, 10.0))
    with pytest.raises(ChapterBroken, match="there is no helper in ch01_one.py" + why) as caught:
        door.begin(0)
    assert "solutions" not in str(caught.value)
    door.far.close()


def test_in_process_an_import_ends_in_time_too():
    door = doors_of("local", Nursery(), "while True:\n    try:\n        f()\n    except BaseException:\n        pass\n", import_seconds=0.3)
    with pytest.raises(ChapterBroken, match="importing it did not end within 0.3 s") as caught:
        door.begin(0)
    assert caught.value.timed_out
    door.far.close()


@posix
def test_control_c_ends_the_run_whatever_the_code_catches():
    text = "import os, signal\ndef f():\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n        while True: pass\n    except BaseException:\n"
    door = doors_of("local", Nursery(), text + "        return 1\ndef g():\n    raise KeyboardInterrupt\n")
    door.begin(0)
    with pytest.raises(LearnerError) as caught:
        Implementation(door).g()
    assert caught.value.type_name == "KeyboardInterrupt"
    with pytest.raises(KeyboardInterrupt):
        Implementation(door).f()
    door.far.close()


@pytest.mark.parametrize("how", ["sleep", "spin", "stubborn"])
def test_in_process_too_a_call_ends_in_time(how):
    door = doors_of("local", Nursery(), seconds=0.3)
    door.begin(0)
    toy = Implementation(door)
    before = sys.gettrace(), signal.getsignal(signal.SIGALRM)
    for _ in range(2):
        with pytest.raises(OutOfTime, match="did not end within 0.3 s"):
            toy.stall(how)
        assert toy.add(1, 2) == 3
    assert (sys.gettrace(), signal.getsignal(signal.SIGALRM)) == before
    door.far.close()


@pytest.mark.parametrize("how", ["exit", "abort"])
def test_in_process_the_process_cannot_be_ended(how):
    door = doors_of("local", Nursery())
    door.begin(0)
    with pytest.raises(FarSideDied, match="your code ended the process"):
        Implementation(door).die(how)
    door.far.close()


def test_a_package_leaves_nothing_in_the_interpreter():
    before = set(sys.modules), list(sys.meta_path)
    door = doors_of("local", Nursery())
    door.begin(0)
    assert Implementation(door).add(1, 2) == 3
    door.far.close()
    assert (set(sys.modules), list(sys.meta_path)) == before
