"""Laws about memory and work: how large the tensors of a call are, what its graph keeps, how many numbers it
multiplies.

A watch on the implementation's side looks at the result of every operator of torch. It counts entries, not bytes or
seconds, so the machine does not matter. A storage counts once and until it is freed, so views are free, and tensors in
a list, on a graph's node or in a closure are all seen.

A test gives limits. The reply only says which of them were exceeded, because the diagnosis compares replies and two
pieces of code with the same fault rarely need exactly the same memory. The sizes are read without a record when a
failure is described.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from grader.execution.calls import Call
from grader.execution.errors import HostDied, OutOfTime
from grader.execution.proxy import Handle, Implementation
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
            raise Mismatch(describe_excess(name, self.limits[name], self._found()), looked_at=self.call)

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
    implementation: Implementation, f: Handle, small: tuple, large: tuple, *args: Any, ratio: float
) -> Watched:
    """Call `f` with small, then with large arguments; that may take at most `ratio` times the multiplications."""
    return _watched(implementation, compare_work, f, (small, large, args), {}, {"ratio": ratio})


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
    number = f"{found[name]:,.3g}" if name == "ratio" else f"{found[name]:,}"
    below, most = f"fewer than {math.ceil(limit):,}", f"at most {limit:g} times as many are allowed here"
    if name == "ratio":
        return f"Twice as many positions take {number} times as many multiplications; {most}"
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


# ---- on the implementation's side (see `bring` in CONTRIBUTING.md)


class StorageWatch(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the entries of new storages and the multiplications. `known` are arguments: their tensors do not count.

    A multiplication is one of a matrix product or of an element-wise product of floats; whole numbers are positions and
    counts, so they are free. `f` is called: the line of its file that makes the largest tensor is noted.
    """

    def __init__(self, known=(), f=None):
        import sys

        super().__init__()
        self.frame = sys._getframe
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

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if name in ("mm", "bmm", "mv", "dot", "vdot"):
            self.products += out.numel() * args[0].size(-1)
        elif name in ("addmm", "baddbmm", "addmv"):
            self.products += out.numel() * args[1].size(-1)
        elif name in ("mul", "mul_", "addcmul", "addcmul_", "addr") and out.is_floating_point():
            self.products += out.numel()
        for tensor in out if isinstance(out, list | tuple) else (out,):
            if not isinstance(tensor, torch.Tensor):
                continue
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
        frame: Any = self.frame(2)
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

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
    found = {"largest": seen.largest, "shape": seen.shape, "line": seen.line, "alive": seen.peak}
    run_watched.found = found  # type: ignore[attr-defined]
    return {"result": result, "gradients": [], "exceeded": [name for name in limits if found[name] >= limits[name]]}


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
        own = result.untyped_storage()
        own = own.nbytes() // result.element_size() if own._cdata in seen.living else 0
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
    found = {"largest": seen.largest, "shape": seen.shape, "line": seen.line}
    found |= {"kept": saved, "stored": alive, "left": left}
    differentiate_watched.found = found  # type: ignore[attr-defined]
    exceeded = ["largest"] if seen.largest >= limits["largest"] else []
    exceeded += [name for name in ("kept", "stored", "left") if found[name] > limits[name]]
    return {"result": result, "gradients": gradients, "exceeded": exceeded}


def compare_work(watch, f, args, options, limits):
    """The result for the larger arguments, and whether it took too many multiplications."""
    small, large, others = args
    with torch.no_grad():
        with watch() as few:
            f(*small, *others)
        with watch() as many:
            result = f(*large, *others)
    found = {"ratio": many.products / max(few.products, 1)}
    compare_work.found = found  # type: ignore[attr-defined]
    return {"result": result, "gradients": [], "exceeded": [name for name in limits if found[name] > limits[name]]}
