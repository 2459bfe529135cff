"""Answers from hostile code: whatever bytes arrive, the server gets a value of bounded size or a refusal, and leaks no memory."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time

import pytest
import torch
from boundaries import TOY, forks, frame, opened
from grader.execution.errors import HostDied
from grader.execution.proxy import Implementation
from grader.execution.values import MAX_BYTES, MAX_KEYS, MAX_NODES, MAX_TEXT_CHARACTERS, CannotCross, pack, unpack
from grader.execution.wire import MAX_EXAMPLE, MAX_HEAD, Allowance, DeadlinePassed, MalformedFrame, receive
from hypothesis import given, settings
from hypothesis import strategies as st

REFUSALS = (CannotCross, KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)  # what the proxy catches


def receive_bytes(data: bytes, allowance: Allowance | None = None):
    """What `receive` makes of these bytes from a sender that then closes the connection."""
    ours, theirs = socket.socketpair()

    def write() -> None:
        with theirs, contextlib.suppress(OSError):  # who refuses it does not read it to its end
            theirs.sendall(data)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with ours:
            return receive(ours, time.monotonic() + 60, allowance)
    finally:
        thread.join()


def weight(value) -> int:
    """Bytes of all tensors and texts in a value."""
    if isinstance(value, torch.Tensor):
        return 0 if value.is_meta else value.untyped_storage().nbytes()
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(weight, [*value.keys(), *value.values()]))
    if isinstance(value, list | tuple | set):
        return sum(map(weight, value))
    return 8


# ---- any bytes at all

numbers = st.one_of(st.integers(-3, 5), st.integers(), st.sampled_from([2**31, 2**47, 2**62, 2**63, 2**64, 10**9]), st.floats(), st.booleans())
words = st.one_of(st.sampled_from(["float32", "bool", "int64", "cpu", "meta", "complex128", "cuda", "nonsense", ""]), st.text(max_size=4))
kinds = st.sampled_from(["tensor", "tuple", "dict", "set", "bytes", "dtype", "device", "slice", "handle", "other"])
plain = st.one_of(st.none(), numbers, words)
tensors = st.fixed_dictionaries({"tensor": st.tuples(words, st.lists(numbers, max_size=4), words, numbers).map(list)})
trees = st.recursive(plain | tensors, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(kinds, inner, max_size=2), max_leaves=12)


@settings(max_examples=60)
@given(tree=trees, buffers=st.lists(st.binary(max_size=16), max_size=3))
def test_any_tree_is_a_value_of_its_size_or_refused(tree, buffers):
    with contextlib.suppress(*REFUSALS):
        value = unpack(tree, buffers, lambda handle: [int(handle[0]), str(handle[1])])
        assert weight(value) <= 100 * len(json.dumps(tree)) + sum(map(len, buffers))


@settings(max_examples=60)
@given(data=st.data(), value=st.recursive(plain | st.binary(max_size=9), lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner), max_leaves=6))
def test_a_frame_with_bytes_changed_is_read_or_refused(data, value):
    tree, buffers = pack([value, torch.arange(4.0)], lambda _: [0, "x"])
    good = frame({"value": tree}, map(len, buffers), b"".join(buffers))
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(bad) - 1))
        bad[where : where + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        bad = bad or bytearray(b"h")
    with contextlib.suppress(MalformedFrame, EOFError):
        body, out = receive_bytes(bytes(bad))
        with contextlib.suppress(*REFUSALS):
            unpack(body["value"], out, lambda handle: handle)


@settings(max_examples=60)
@given(data=st.binary(max_size=200), head=st.booleans())
def test_noise_is_refused(data, head):
    with pytest.raises((MalformedFrame, EOFError)):
        receive_bytes(struct.pack("<4sI", b"hdwy", len(data)) * head + data + b"[]" * head)


# ---- small answers that would cost much


COSTLY = {
    "one buffer named twice": ([{"tensor": ["float32", [2], "cpu", 0]}] * 2, [b"12345678"]),
    "the same bytes twice": ([{"bytes": 0}] * 2, [b"1"]),
    "a buffer counted from the end": ({"bytes": -1}, [b"1"]),
    "a buffer that is true": ({"bytes": True}, [b"1", b"2"]),
    "an empty tensor that would grow": ({"tensor": ["float32", [0, 10**9], "cpu", 0]}, [b""]),
    "and the other way round": ({"tensor": ["float32", [10**9, 0, 1], "cpu", 0]}, [b""]),
    "sizes that overflow": ({"tensor": ["float32", [2**62, 4], "cpu", 0]}, [b""]),
    "an imagined giant": ({"tensor": ["float32", [10**9, 10**9], "meta", -1]}, []),
    "a size that is true": ({"tensor": ["float32", [True], "cpu", 0]}, [b"1234"]),
    "a size with a point": ({"tensor": ["float32", [1.0], "cpu", 0]}, [b"1234"]),
    "a size that is no number": ({"tensor": ["float32", [float("nan")], "cpu", 0]}, [b"1234"]),
    "more axes than letters to name them": ({"tensor": ["float32", [1] * 17, "cpu", 0]}, [b"1234"]),
    "too few bytes": ({"tensor": ["float32", [3], "cpu", 0]}, [b"1234"]),
    "a dtype that does not cross": ({"tensor": ["quint8", [4], "cpu", 0]}, [b"1234"]),
    "an invalid dtype": ({"tensor": ["__class__", [4], "cpu", 0]}, [b"1234"]),
    "truth values that are neither": ({"tensor": ["bool", [2], "cpu", 0]}, [b"\x02\xff"]),
    "a tensor without its buffer": ({"tensor": ["float32", [1], "cpu"]}, [b"1234"]),
    "a tensor in words": ({"tensor": "abcd"}, []),
    "a tuple in words": ({"tuple": "abc"}, []),
    "a dict in a dict": ({"dict": {"a": 1}}, []),
    "a device by number": ({"device": 3}, []),
    "a slice in four parts": ({"slice": [1, 2, 3, 4]}, []),
    "keys that collide": ({"dict": [[n * (2**61 - 1), 0] for n in range(MAX_KEYS + 1)]}, []),
    "keys in many sets": ([{"set": [n]} for n in range(MAX_KEYS + 1)], []),
    "more parts than a value has": ([0] * (MAX_NODES + 1), []),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTLY)
def test_no_value_is_built_from_it(name):
    with pytest.raises(REFUSALS):
        unpack(*COSTLY[name], lambda handle: handle)


def test_a_tree_that_is_too_deep_is_refused_before_python_fails():
    tree: list = []
    for _ in range(900):
        tree = [tree]
    with pytest.raises(CannotCross):
        unpack(tree, [], lambda handle: handle)


HEADERS = {
    "a million empty lists": (b"[[" + b"[]," * (4 * MAX_NODES) + b"[]],[]]", "more parts"),
    "a million empty dicts": (b"[[" + b"{}," * (4 * MAX_NODES) + b"{}],[]]", "more parts"),
    "a million empty buffers": (b"[1,[" + b"0," * (7 * MAX_NODES) + b"0]]", "more parts"),
    "a length of five thousand digits": (b"[1,[" + b"9" * 5000 + b"]]", "cannot be read"),
    "a length without end": (b"[1,[1e400]]", "larger"),
    "a length that is no number": (b"[1,[NaN]]", "larger"),
    "a length that is true": (b"[1,[true]]", "larger"),
    "lengths in words": (b'[1,"12"]', "larger"),
    "lengths in a dict": (b'[1,{"1":2}]', "larger"),
    "a length below nothing": (b"[1,[-1]]", "larger"),
    "lengths too large together": (f"[1,[{MAX_BYTES // 2 + 1},{MAX_BYTES // 2}]]".encode(), "larger"),
    "deep": (b"[" * 200_000, "cannot be read"),
    "two heads": (b"[1,[]] []", "cannot be read"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_an_invalid_header_is_refused(name):
    head, words = HEADERS[name]
    with pytest.raises(MalformedFrame, match=words):
        receive_bytes(frame(head))


def test_an_example_has_a_size_limit():
    allowance = Allowance(1000)
    assert receive_bytes(frame({"value": 1}, [500], b"x" * 500), allowance)[0] == {"value": 1}
    with pytest.raises(MalformedFrame, match="in one example"):
        receive_bytes(frame({"value": 1}, [500], b"x" * 500), allowance)
    with pytest.raises(MalformedFrame, match="in one example"):
        receive_bytes(struct.pack("<4sI", b"hdwy", MAX_HEAD), Allowance())


def test_a_frame_that_arrives_drop_by_drop_is_too_late():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frame({"value": 1})[:-1])
        with pytest.raises(DeadlinePassed):
            receive(ours, time.monotonic() + 0.2)


def test_a_frame_may_be_as_large_as_a_value_can_be():
    text = "\U0001f600" * (MAX_TEXT_CHARACTERS - 1)  # twelve bytes each, as JSON writes them
    tree, buffers = pack(text, lambda _: [0, "x"])
    assert len(json.dumps([{"value": tree}, []])) < MAX_HEAD and not buffers


# ---- through a real worker


LARGE = TOY + "\n\ndef large(n):\n    return torch.zeros(n)\n"


@forks
def test_an_example_with_too_large_answers_affects_only_itself(worker_pool):
    with opened("fork", worker_pool, LARGE) as boundary:
        boundary.begin(1)
        toy = Implementation(boundary)
        each = MAX_BYTES // 4 - 1
        with pytest.raises(HostDied, match="in one example"):
            for _ in range(MAX_EXAMPLE // MAX_BYTES + 1):
                assert toy.large(each).numel() == each
        boundary.begin(2)
        assert toy.large(each).numel() == each, "the next example begins with nothing"


@forks
def test_a_malformed_answer_gives_a_plain_message(worker_pool):
    with opened("fork", worker_pool) as boundary:
        for tree in ({"device": "\x1b[31mmars\x07" * 99}, {"tensor": ["\x1b[31m" * 9999, [1], "cpu", 0]}, {"\x1b[2J": 1}, {"handle": ["\x9b31m" * 99, "x"]}):
            boundary.begin(1)
            with pytest.raises(HostDied) as caught:
                Implementation(boundary).says(frame({"value": tree}))
            assert str(caught.value).replace("\n", "").isprintable() and len(str(caught.value)) < 300
