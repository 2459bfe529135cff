"""The implementation's side of the boundary: runs the chapter and does what a test requests, the same in process and in
a worker."""

from __future__ import annotations

import inspect
import linecache
import math
import random
import traceback
from collections.abc import Callable, Iterable
from os import _exit, getpid
from types import ModuleType
from typing import Any

import torch
from grader.course.chapter_source import ChapterSource
from grader.execution.chapter_package import LEARNER, ChapterPackage, is_replacement
from grader.execution.connection import Reply
from grader.execution.descriptions import Descriptions, folder_of, nearest
from grader.execution.errors import HostDied, OutOfTime
from grader.execution.forbidden import Notice, shortcuts
from grader.execution.forbidden.audit import BROUGHT
from grader.execution.inner_calls import InnerCalls, compile_helper
from grader.execution.threads import Threads, new_threads, running_threads
from grader.execution.values import CannotCross, Packed, changed_argument, pack, unpack
from torch import Tensor, nn

_ABSENT = object()


class _Refused(Exception):
    """A rule for all calls was broken; the message is for the learner."""


class Host:
    """One chapter with its package, and the objects that tests have handles of."""

    def __init__(
        self, sources: list[ChapterSource], chapter: str, label: str = LEARNER, notice: Notice = lambda _: None
    ) -> None:
        self.package = ChapterPackage(sources, label)
        self.chapter = chapter
        self.filename = self.package.sources[chapter].filename
        # of the same author
        self.own_files = {
            source.filename
            for source in sources
            if not source.code and folder_of(source.filename) == folder_of(self.filename)
        }
        for source in [source for source in sources if not source.code]:  # tracebacks and inspect find the text here
            linecache.cache[source.filename] = (len(source.text), None, _shown_lines(source), source.filename)
        self.descriptions = Descriptions(self.package, self.own_files)
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.forbidden: tuple[str, ...] = ()
        self.differentiable = False  # must every result of the learner's code carry gradient?
        self.notice = notice  # called with each forbidden name that the code runs
        self.inner_calls = InnerCalls(self._runs_learners_code)
        self.pid = getpid()

    def answer(self, op: str, tree: Any, buffers: list[bytes]) -> Reply:
        """Carry out one request. Every exception becomes an answer, except that of a time limit."""
        # packing an answer may run the learner's code too
        with shortcuts.watching(self.forbidden, self.notice, importing=op == "load"):
            try:
                arguments = unpack(tree, buffers, self.find_object)
                if op in ("call", "gradients"):
                    self.inner_calls.begin()
                if op == "call":
                    result = self.call((tree, buffers), *arguments)
                else:
                    result = getattr(self, f"do_{op}")(*arguments)  # one of the operations below
                body, out = pack(result, self.make_handle)
                return {"value": body}, out
            except CannotCross as problem:
                verb = "returned" if op in ("call", "gradients") else "contains"
                return {
                    "error": {"kind": "rule", "type": "CannotCross", "message": f"{verb} {problem}", "where": None}
                }, []
            except (_Refused, NoGradient) as problem:
                return {"error": {"kind": "rule", "type": "Rule", "message": str(problem), "where": None}}, []
            except (OutOfTime, HostDied):
                raise
            except BaseException as problem:
                error = self.descriptions.describe(problem)
                self.inner_calls.forget_if_operator(problem, error["where"] is not None)
                return {"error": error}, []
            finally:
                if getpid() != self.pid:
                    # a process that the learner's code forked returned here; the tests go on in the original process
                    # only
                    _exit(0)

    # ---- the operations

    def do_begin(self, seed: int, forbidden: list[str], differentiable: bool = False) -> None:
        """Begin a new example: drop the objects of the last one, and seed the random generators."""
        self.objects.clear()
        self.numbers.clear()
        self.inner_calls.clear()
        self.forbidden, self.differentiable = tuple(forbidden), differentiable
        reset_state(seed)

    def do_load(self) -> None:
        """Import the chapter, and check that it leaves no thread running."""
        before = running_threads()
        self.package.module(self.chapter)
        self._no_thread_left(before, "importing the chapter")

    def do_get(self, name: str) -> Any:
        chapters = [chapter for chapter in self.package.sources if not is_replacement(chapter)]
        for chapter in sorted(chapters, key=lambda chapter: (chapter != self.chapter, chapter)):
            found = getattr(self.package.module(chapter), name, _ABSENT)
            if found is not _ABSENT and not isinstance(found, ModuleType):
                return found
        near = nearest(name, vars(self.package.module(self.chapter)))
        found = f" (it defines `{near}`)" if near else ""
        raise _Refused(
            f"{self.chapter}.py does not define `{name}`{found}; define it at the top level, with exactly this name"
        )

    def do_attribute(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def do_set_attribute(self, owner: Any, name: str, value: Any) -> None:
        setattr(owner, name, value)

    def do_item(self, owner: Any, index: Any) -> Any:
        return owner[index]

    def do_set_item(self, owner: Any, index: Any, value: Any) -> None:
        owner[index] = value

    def do_len(self, owner: Any) -> int:
        return len(owner)

    def do_contains(self, owner: Any, item: Any) -> bool:
        return bool(item in owner)

    def do_list(self, owner: Any) -> list:
        return list(owner)

    def do_parameters(self, module: Any) -> dict[str, torch.Tensor]:
        """By name; a tied parameter is under both of its names."""
        return _by_name(_module(module).named_parameters(remove_duplicate=False))

    def do_shapes(self, module: Any) -> dict[str, list]:
        named = _by_name(_module(module).named_parameters())
        return {name: [list(_shape(name, parameter)), parameter.dtype] for name, parameter in named.items()}

    def do_state(self, module: Any) -> dict[str, torch.Tensor]:
        return _by_name(_module(module).state_dict().items())

    def do_buffers(self, module: Any) -> dict[str, torch.Tensor]:
        return _by_name(_module(module).named_buffers())

    def do_fill(self, module: Any, values: dict[str, torch.Tensor]) -> None:
        """Copy values into parameters by name."""
        own = dict(_module(module).named_parameters(remove_duplicate=False))  # a tied parameter has two names
        kind = type(module).__name__
        for name, value in values.items():
            if name not in own:
                raise _Refused(f"{kind} has no parameter `{name}`; its parameters are: {', '.join(own) or 'none'}")
            if _shape(name, own[name]) != value.shape:
                raise _Refused(
                    f"{kind}'s parameter `{name}` has shape {tuple(own[name].shape)}; it should be {tuple(value.shape)}"
                )
        with torch.no_grad():
            for name, value in values.items():
                try:
                    own[name].copy_(value)
                except RuntimeError:
                    raise _Refused(
                        f"{kind}'s parameter `{name}` cannot be changed in place; do its elements share "
                        "memory? `.clone()` gives each its own"
                    ) from None

    def do_bring(self, name: str, source: str) -> Any:
        """Define a small helper of the test here."""
        space = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math, **self.inner_calls.names()}
        exec(compile_helper(source, BROUGHT), space)
        return space[name]

    def do_inner_call(self, number: int) -> list:
        """The last call of the learner's code that a helper of the test made during the call with this number: name and
        arguments; or nothing."""
        return list(self.inner_calls.find(number))

    def do_gradients(self, target: Any, inputs: list, options: dict, cotangent: Any) -> dict:
        _require_callable(target)
        before = running_threads()
        result = gradients(target, inputs, options, cotangent)
        self._no_thread_left(before, "the call")
        return result

    def call(self, original: Packed, target: Callable, args: tuple, options: dict) -> Any:
        _require_callable(target)
        before = running_threads()
        flowing = self.differentiable and self._is_learners(target)
        if flowing:
            args, options = with_gradient(args), with_gradient(options)
        result = target(*args, **options)
        self._no_thread_left(before, "the call")
        if flowing and is_cut_off(target, args, options, result):
            raise _Refused(
                "the result has no gradient back to the inputs and parameters it was computed from; look "
                "for detach, .data, .item, no_grad"
            )
        which = changed_argument(target, args, options, original, self.make_handle, self.find_object)
        if which is not None:
            raise _Refused(f"the call changed its argument{which}; work on a copy and do not change the caller's value")
        return result

    # ---- handles

    def make_handle(self, value: Any) -> list:
        """The handle of an object: its number, and the name of the function or class."""
        number = self.numbers.get(id(value))
        if number is None:
            number = len(self.objects)
            self.objects.append(value)
            self.numbers[id(value)] = number
        name = getattr(value, "__name__", None) if isinstance(value, type) or callable(value) else None
        label = name if isinstance(name, str) else type(value).__name__
        return [number, str(label)[:80]]

    def find_object(self, handle: list) -> Any:
        return self.objects[handle[0]]

    # ---- checks and messages

    def _is_learners(self, target: Any) -> bool:
        return is_defined_in(self.package.name, target)

    def _runs_learners_code(self, target: Any) -> bool:
        """False for what an object of theirs inherits, such as `parameters`."""
        own = is_defined_in(self.package.name, target.__func__) if inspect.ismethod(target) else True
        return own and self._is_learners(target)

    def _no_thread_left(self, before: Threads, what: str) -> None:
        if left := new_threads(before):
            way = (
                "join every thread before returning, or compute inside `with ThreadPoolExecutor() as pool:`, which "
                "waits for its threads"
            )
            raise _Refused(f"{what} left a thread running ({', '.join(sorted(left))}); {way}")

    def close(self) -> None:
        self.objects.clear()
        self.numbers.clear()
        self.package.close()


def reset_state(seed: int) -> None:
    """Undo what the code of the last example may have changed in this process, and seed the random generators."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    # `torch.empty` gives NaN and the largest whole numbers, so code that reads them fails at every run in the same way
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = True  # a training in this process switches it off
    torch.default_generator.manual_seed(seed)  # torch.manual_seed seeds every kind of device, which takes 5 ms
    random.seed(seed)


def _shown_lines(source: ChapterSource) -> list[str]:
    """The chapter's lines; of a handout's reference only those that raise an error."""
    lines = source.text.splitlines(True)
    return [line if line.lstrip().startswith("raise ") else "\n" for line in lines] if source.sealed else lines


def _module(value: Any) -> torch.nn.Module:
    if not isinstance(value, torch.nn.Module):
        raise _Refused(f"an object of type {type(value).__name__} was used where an nn.Module is expected")
    return value


def _require_callable(target: Any) -> None:
    if not callable(target):
        raise _Refused(f"an object of type {type(target).__name__} was used where something callable is expected")


def _shape(name: str, parameter: torch.Tensor) -> torch.Size:
    try:
        return parameter.shape
    except RuntimeError:  # of a Lazy module
        raise _Refused(
            f"the parameter `{name}` has no shape before the first call; create it with its shape in `__init__`"
        ) from None


def _by_name(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """In alphabetical order, because authors may create parameters in any order."""
    return dict(sorted(named))


# ---- a call with gradient: autograd stays here, and everything is returned by value


class NoGradient(Exception):
    """Autograd cannot compute the gradient of the result; the message is for the learner."""


def gradients(target: Any, inputs: list, options: dict, cotangent: Tensor | None) -> dict:
    """Output, and the gradients of <output, cotangent> by the inputs and by the parameters of the module called.

    The gradient is None for an input that is not a floating tensor, and for everything that the output does not depend
    on. All are None where the output does not fit the cotangent: the tests' side reports the wrong output.
    """
    leaves = [_leaf(value) for value in inputs]
    module = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    # a tied one has two names
    named = sorted(module.named_parameters(remove_duplicate=False)) if isinstance(module, nn.Module) else []
    own = {name: parameter for name, parameter in named if parameter.requires_grad}
    with torch.enable_grad():
        output = target(*[leaf.view_as(leaf) if _floats(leaf) else leaf for leaf in leaves], **options)
    first = output[0] if isinstance(output, tuple | list) and output else output
    found: dict[int, Tensor] = {}
    wanted = [value for value in [*leaves, *own.values()] if _floats(value)]
    if _floats(first) and first.requires_grad and first.layout is torch.strided and not first.is_nested:
        if cotangent is None:
            cotangent = (
                torch.cos(torch.arange(first.numel(), dtype=torch.float64) * 0.7 + 0.3)
                .reshape(first.shape)
                .to(first.device)
            )
        if first.shape == cotangent.shape and first.device == cotangent.device:
            grads = _differentiate((first * cotangent.to(first.dtype)).sum(), wanted)
            found = {id(value): grad for value, grad in zip(wanted, grads) if grad is not None}
    return {
        "output": output,
        "inputs": [found.get(id(leaf)) for leaf in leaves],
        "parameters": {name: found.get(id(parameter)) for name, parameter in own.items()},
    }


def _differentiate(total: Tensor, wanted: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients; NoGradient if autograd refuses. An error raised by a `backward` of the learner's own passes."""
    try:
        return torch.autograd.grad(total, wanted, allow_unused=True)  # grad_outputs= imports half of torch
    except RuntimeError as problem:
        frames = (str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(problem.__traceback__))
        if any(name.partition(".")[0] not in ("torch", "grader") for name in frames):  # grader: calls that are watched
            raise
        reason = str(problem).partition("\n")[0]
        if "modified by an inplace operation" in reason:
            reason = "a tensor that it depends on is changed in place; compute a new tensor"
        raise NoGradient(f"the gradient of the result cannot be computed: {reason}") from None


def is_defined_in(package: str, target: Any) -> bool:
    """Is this function, module or method defined in the package, or in a chapter of it?"""
    owner = getattr(target, "__self__", target)
    for thing in (target, owner, type(owner)):
        module = getattr(thing, "__module__", "")
        if isinstance(module, str) and (module == package or module.startswith(package + ".")):
            return True
    return False


def with_gradient(values: Any) -> Any:
    """The same arguments with gradient tracking, so that a result shows whether it was computed from a floating
    tensor."""
    if isinstance(values, dict):
        return {name: with_gradient(value) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return type(values)(with_gradient(value) for value in values)
    return values.detach().requires_grad_(True).clone() if _floats(values) and torch.is_grad_enabled() else values


def is_cut_off(target: Any, args: tuple, options: dict, result: Any) -> bool:
    """Is a floating result without gradient, although an argument or a parameter has one?"""
    first = result[0] if isinstance(result, tuple | list) and result else result
    if not _floats(first) or first.requires_grad:
        return False
    module = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    sources = [*args, *options.values(), *(module.parameters() if isinstance(module, nn.Module) else ())]
    return any(_floats(source) and source.requires_grad for source in sources)


def _floats(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(value: Any) -> Any:
    return value.detach().clone().requires_grad_(True) if _floats(value) else value
