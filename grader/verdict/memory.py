"""Laws about memory and work: how large the tensors of a call are, what its graph keeps, how many numbers it
multiplies.

A watch on the implementation's side looks at the result of every operator of torch. It counts entries, not bytes or
seconds, so the machine does not matter. A storage counts once and until it is freed, so views are free, and tensors in
a list, on a graph's node or in a closure are all seen.

Numbers that leave torch, for NumPy or a Python list, are out of its sight: a call that takes more than a few out has
left torch, and that is the first thing a learner reads.

A test gives limits. The reply only says which of them were exceeded, because the diagnosis compares replies and two
pieces of code with the same fault rarely need exactly the same memory. The sizes are read without a record when a
failure is described.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from grader.execution.errors import HostDied, OutOfTime
from grader.execution.proxy import Call, Handle, Implementation
from grader.verdict.comparing import Mismatch
from torch import nn


@dataclass(frozen=True)
class Watched:
    """A call that was watched: its result, and which of the limits it exceeded."""

    result: Any
    # of the tensors and the modules' parameters among the arguments, in their order; empty without a backward pass
    gradients: list[Any]
    exceeded: list[str]
    limits: dict[str, float]
    helper: Handle
    call: Call

    def check(self) -> None:
        """Raise a Mismatch that says what was too large, if anything was."""
        if self.exceeded:
            name = self.exceeded[0]
            raise Mismatch(describe_excess(name, self.limits.get(name, 0), self._found()), looked_at=self.call)

    def _found(self) -> dict[str, Any]:
        """The sizes that the helper found; empty if the code ended its process, or changed what the helper noted."""
        try:
            found = self.helper._boundary.unrecorded("attribute", self.helper, "found")
        except (Exception, HostDied, OutOfTime):
            return {}
        return found if isinstance(found, dict) else {}


def watch_call(
    implementation: Implementation, f: Handle, *args: Any, largest: float = math.inf, alive: float = math.inf,
    **options: Any,
) -> Watched:  # fmt: skip
    """Call `f` without gradient; the largest new tensor, and all together, must have fewer entries than these."""
    return _watched(implementation, run_watched, f, args, options, {"largest": largest, "alive": alive})


def watch_gradients(
    implementation: Implementation, f: Handle, *args: Any, largest: float = math.inf, kept: float = math.inf,
    left: float = math.inf, **options: Any,
) -> Watched:  # fmt: skip
    """Call `f` with gradient, then run the backward pass. `largest` holds for both passes.

    `kept` is the greatest number of entries that may wait for the backward pass beside the arguments, their parameters
    and the output, given to autograd or stored elsewhere. `left` is the greatest number that may still exist after the
    result was dropped.
    """
    limits = {"largest": largest, "kept": kept, "stored": kept, "left": left}
    return _watched(implementation, differentiate_watched, f, args, options, limits)


def watch_growth(
    implementation: Implementation, f: Handle, small: tuple, large: tuple, *args: Any, ratio: float = math.inf,
    operations: float = math.inf,
) -> Watched:  # fmt: skip
    """Call `f` with small, then with large arguments; that may take at most `ratio` times the multiplications, and
    `operations` times as many operations of torch."""
    limits = {"ratio": ratio, "operations": operations}
    return _watched(implementation, compare_work, f, (small, large, args), {}, limits)


def _watched(
    implementation: Implementation, helper: Any, f: Handle, args: tuple, options: dict, limits: dict[str, float]
) -> Watched:
    brought = implementation.bring(helper)
    reply = brought(implementation.bring(StorageWatch), f, args, options, limits)
    return Watched(reply["result"], reply["gradients"], reply["exceeded"], limits, brought, brought._boundary.calls[-1])


def describe_excess(name: str, limit: float, found: dict[str, Any]) -> str:
    """What was too large, in a sentence for the learner."""
    if name not in found:
        return "The call takes more memory or more multiplications than it may"
    if name == "taken_out":
        where = f"Line {found['out_line']} takes" if found.get("out_line") else "The code takes"
        return (
            f"{where} numbers out of torch with {found['way']}, {found['taken_out']:,} in this call. This test counts "
            "memory and multiplications of torch only, so compute with torch's operations"
        )
    number = f"{found[name]:,.3g}" if name in ("ratio", "operations") else f"{found[name]:,}"
    below, most = f"fewer than {math.ceil(limit):,}", f"at most {limit:g} times as many are allowed here"
    if name == "ratio":
        return f"Twice as many positions take {number} times as many multiplications; {most}"
    if name == "operations":
        return f"A longer text takes {number} times as many operations of torch; {most}"
    if name == "largest":
        shape = " × ".join(str(size) for size in found["shape"] if size > 1)
        made = (
            (f"Line {found['line']} made a tensor of {shape}") if found.get("line") else f"A tensor of {shape} was made"
        )
        return f"{made}, {number} entries; the largest allowed here has {below}"
    beside = f"beside the arguments and the result; at most {math.floor(limit):,} are allowed here"
    return {
        "alive": f"At one moment the tensors that were made had {number} entries together; "
        f"all that exist at one moment must have {below}",
        "kept": f"Autograd keeps {number} entries for the backward pass, {beside}",
        "stored": f"After the forward pass {number} entries are still stored, {beside}",
        "left": f"After the result was dropped, {number} entries are still stored. A tensor and an object that refer "
        "to each other are not freed at once; keep tensors with ctx.save_for_backward",
    }[name]


# ---- on the implementation's side (see `bring` in execution/proxy.py)


class StorageWatch(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the entries of new storages, operators and multiplications. `known` are arguments: their tensors are free.

    A multiplication is one of a matrix product or of an element-wise product of floats; whole numbers are positions and
    counts, so they are free. `f` is called: the line of its file that makes the largest tensor is noted.

    What leaves torch is out of sight, so the numbers that are taken out are counted too: a few may be, for a decision.
    `room` for them is fewer than any tensor among the arguments has, or half of the parameters of a `model`.
    """

    WAYS_OUT = (
        "numpy", "tolist", "data_ptr", "__array__", "__dlpack__", "untyped_storage", "storage", "_typed_storage",
        "__reduce_ex__", "__repr__",
    )  # fmt: skip

    def __init__(self, known=(), f=None, model=None):
        import sys

        super().__init__()
        self.frame = sys._getframe
        if model is None:
            self.room = min((x.numel() for x in known if isinstance(x, torch.Tensor) and x.dim()), default=0) - 1
        else:
            self.room = sum(parameter.numel() for parameter in model.parameters()) // 2
        self.room = max(32, self.room)
        self.taken_out, self.way, self.out_line, self.looking = 0, "", 0, False
        self.operators = self.floats = 0
        code = getattr(getattr(f, "forward", f), "__code__", None)
        self.file, self.line = getattr(code, "co_filename", ""), 0
        self.known, self.living = set(), {}
        self.peak = self.largest = self.products = 0
        self.shape = ()
        waiting = list(known)
        while waiting:
            value = waiting.pop()
            if isinstance(value, torch.Tensor):
                self.known.add(value.untyped_storage()._cdata)
            elif isinstance(value, nn.Module):
                waiting.extend([*value.parameters(), *value.buffers()])
            elif isinstance(value, list | tuple):
                waiting.extend(value)

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else torch imports its compiler at the first operator, which takes a second

    def __enter__(self):
        import re

        watch = self

        class WaysOut(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                name, result = getattr(function, "__name__", ""), function(*args, **(kwargs or {}))
                if name in watch.WAYS_OUT and not watch.looking and isinstance(args[0], torch.Tensor):
                    printed = name == "__repr__" and args[0].is_floating_point()
                    if not printed or re.search(r"\.\d{6}", result):  # what torch prints by itself has four decimals
                        watch.note_taken(f"{name}()", args[0])
                return result

        self.ways_out = WaysOut()
        self.ways_out.__enter__()
        return super().__enter__()

    def __exit__(self, *problem):
        super().__exit__(*problem)
        self.ways_out.__exit__(*problem)

    def note_taken(self, way, tensor):
        """Count numbers that are taken out of torch; a truth value tells only one bit, and is free."""
        if tensor.dtype != torch.bool:
            self.taken_out += tensor.numel()
            if not self.way and self.taken_out > self.room:
                self.way, self.out_line = way, self.line_of_file()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.looking = True
        try:
            return self.look_at(func, func(*args, **(kwargs or {})), args)
        finally:
            self.looking = False

    def look_at(self, func, out, args):
        name = func._overloadpacket.__name__
        self.operators += 1
        if name == "_local_scalar_dense":
            self.note_taken("item()", args[0])
        inner = 1
        if name in ("mm", "bmm", "mv", "dot", "vdot", "addmm", "baddbmm", "addmv"):
            inner = args[name.startswith(("add", "badd"))].size(-1)
            self.products += out.numel() * inner
        elif name in ("mul", "mul_", "addcmul", "addcmul_", "addr") and out.is_floating_point():
            self.products += out.numel()
        for tensor in out if isinstance(out, list | tuple) else (out,):
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.is_floating_point() and not func.is_view:
                self.floats += tensor.numel() * inner
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self.known or key in self.living:
                continue
            entries = storage.nbytes() // tensor.element_size()
            self.living[key] = storage._weak_ref(), entries
            self.peak = max(self.peak, self.alive)
            if entries > self.largest:
                self.largest, self.shape, self.line = entries, tuple(tensor.shape), self.line_of_file()
        return out

    def line_of_file(self):
        frame: Any = self.frame(1)
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

    def entries_of(self, result):
        """The entries of a result's storage, if it was made during the watch."""
        self.looking = True  # this is not the code's own look
        key = result.untyped_storage()._cdata
        self.looking = False
        return self.living.get(key, (None, 0))[1]

    def left_torch(self):
        return ["taken_out"] if self.taken_out > self.room else []

    def found(self):
        """What is said about the sizes; read after the watch."""
        sizes = {"largest": self.largest, "shape": self.shape, "line": self.line}
        return sizes | {"taken_out": self.taken_out, "way": self.way, "out_line": self.out_line}

    @property
    def alive(self):
        """The entries of all storages that exist. Torch's own references, so the tested code cannot find them."""
        for key, (reference, _) in list(self.living.items()):
            if torch.UntypedStorage._expired(reference):
                torch.UntypedStorage._free_weak_ref(reference)
                del self.living[key]
        return sum(entries for _, entries in self.living.values())


def run_watched(watch, f, args, options, limits):
    """The result of a call without gradient, and the limits that it exceeded."""
    with torch.no_grad(), watch(args, f) as seen:
        result = f(*args, **options)
    found = seen.found() | {"alive": seen.peak}
    run_watched.found = found  # type: ignore[attr-defined]
    exceeded = seen.left_torch() + [name for name in limits if found[name] >= limits[name]]
    return {"result": result, "gradients": [], "exceeded": exceeded}


def differentiate_watched(watch, f, args, options, limits):
    """The result of a call, the gradients of a weighted sum of it, and the limits that the two passes exceeded."""
    import gc

    def floats(x):
        return isinstance(x, torch.Tensor) and x.is_floating_point()

    leaves = [x.detach().clone().requires_grad_() if floats(x) else x for x in args]
    saved = {}

    def note_saved(tensor):
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage.nbytes() // tensor.element_size()
        return tensor

    known = watch(leaves).known
    with torch.autograd.graph.saved_tensors_hooks(note_saved, lambda tensor: tensor):  # sees what is given to autograd
        result = f(*leaves, **options)
        saved = sum(entries for key, entries in saved.items() if key not in {*known, result.untyped_storage()._cdata})
    collects = gc.isenabled()
    gc.disable()  # what only the collector of cycles can free is left behind
    try:
        with watch(leaves) as dropped:
            result = f(*leaves, **options)
            del result
            left = dropped.alive
    finally:
        if collects:
            gc.enable()
    with watch(leaves, f) as seen:  # sees what is alive after the forward pass, wherever it is kept
        result = f(*leaves, **options)
        own = seen.entries_of(result)
        if seen.alive - own > limits["kept"]:
            gc.collect()
        alive = seen.alive - own
        weights = torch.arange(result.numel(), dtype=result.dtype).mul(0.7).add(0.3).cos().reshape(result.shape)
        (result * weights).sum().backward()
    gradients: list = []
    for leaf in leaves:
        if isinstance(leaf, nn.Module):
            gradients.extend(parameter.grad for _, parameter in sorted(leaf.named_parameters()))
        elif isinstance(leaf, torch.Tensor):
            gradients.append(leaf.grad)
    found = seen.found() | {"kept": saved, "stored": alive, "left": left}
    differentiate_watched.found = found  # type: ignore[attr-defined]
    exceeded = seen.left_torch() + (["largest"] if seen.largest >= limits["largest"] else [])
    exceeded += [name for name in ("kept", "stored", "left") if found[name] > limits[name]]
    return {"result": result, "gradients": gradients, "exceeded": exceeded}


def compare_work(watch, f, args, options, limits):
    """The result for the larger arguments, and whether it took too many multiplications or operations."""
    small, large, others = args
    with torch.no_grad():
        with watch([*small, *others], f) as few:
            f(*small, *others)
        with watch([*large, *others], f) as many:
            result = f(*large, *others)
    left = next((seen for seen in (few, many) if seen.left_torch()), many)
    found = left.found() | {
        "ratio": many.products / max(few.products, 1),
        "operations": many.operators / max(few.operators, 1),
    }
    compare_work.found = found  # type: ignore[attr-defined]
    exceeded = left.left_torch() + [name for name in limits if found[name] > limits[name]]
    return {"result": result, "gradients": [], "exceeded": exceeded}
