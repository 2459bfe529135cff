"""Every private interface of torch that Headway uses. Tried with torch 2.13.0, in its CPU build and in its build for
CUDA 13.0 (+cu130).

Torch may change these in any version without notice. Where a version lacks one, `dispatch_key` returns None, or the
function is not replaced. `grader/tests/execution/test_shortcuts.py` and `grader/tests/course/test_torch_operators.py`
fail with a torch that behaves otherwise; `grader/tests/course/test_deferred_compiler.py` does for the compiler.

The functions are bound here at import: `grader/execution/forbidden/operators.py` replaces several of them in torch, and
calls the originals itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any
from weakref import WeakSet

import torch

NATIVE = torch._C  # torch's module in C++

DispatchKeySet = torch._C.DispatchKeySet
exclude_keys = torch._C._ExcludeDispatchKeyGuard
force_keys = getattr(torch._C, "_ForceDispatchKeyGuard", None)
include_key = torch._C._dispatch_tls_set_dispatch_key_included
is_key_included = torch._C._dispatch_tls_is_dispatch_key_included

# Names of functions in NATIVE; a version of torch may lack some.
# what they return runs one kernel of an operator
LOOKUPS = ("_get_operation_overload", "_dispatch_find_schema_or_throw")
SWITCHES = (
    "_dispatch_tls_set_dispatch_key_included", "_dispatch_tls_set_dispatch_key_excluded", "_ExcludeDispatchKeyGuard",
    "_SetExcludeDispatchKeyGuard",
    "ExcludeDispatchKeyGuard", "_ForceDispatchKeyGuard",
)  # fmt: skip
MODE_PLACES = (NATIVE, torch.utils._python_dispatch, torch.overrides)
MODES = (  # functions of these places that lead to torch's modes, among them the watch of memory, or leave them out
    "_pop_torch_dispatch_stack", "_push_on_torch_dispatch_stack", "_get_dispatch_stack_at", "_set_dispatch_mode",
    "_unset_dispatch_mode", "_get_dispatch_mode",
    "_DisableTorchDispatch", "_DisablePythonDispatcher", "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack", "_disable_current_modes",
    "_pop_mode", "_pop_mode_temporarily",
    "_pop_torch_function_stack", "_push_on_torch_function_stack", "_get_function_stack_at", "_push_mode",
    "_get_current_function_mode", "_get_current_function_mode_stack",
    "DisableTorchFunction", "_set_torch_function_state", "_set_skip_next_torch_function",
    "_skip_one_hop_torch_function",
)  # fmt: skip
# functions that give the numbers of a tensor to another library, past the modes
EXPORTS = ((NATIVE, "_to_dlpack"), (NATIVE, "_to_dlpack_versioned"), (torch.utils.dlpack, "to_dlpack"))


def active_modes() -> tuple[list[Any], list[Any]]:
    """The modes of this thread, outermost first: those of operators, and those of functions."""
    return (
        [_dispatch_mode_at(i) for i in range(torch._C._len_torch_dispatch_stack())],
        [_function_mode_at(i) for i in range(torch._C._len_torch_function_stack())],
    )


def activate_modes(modes: tuple[list[Any], list[Any]]) -> None:
    """Activate these modes in this thread, for good: torch keeps them for each thread."""
    for mode in modes[0]:
        _push_dispatch_mode(mode)
    for mode in modes[1]:
        _push_function_mode(mode)


_dispatch_mode_at = torch._C._get_dispatch_stack_at
_function_mode_at = torch._C._get_function_stack_at
_push_dispatch_mode = torch._C._push_on_torch_dispatch_stack
_push_function_mode = torch._C._push_on_torch_function_stack
RUNTIMES = (  # torch's interpreters that call kernels themselves; all are off by default
    "_jit_set_llga_enabled", "_jit_to_static_module", "_fuse_to_static_module", "_jit_override_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_cpu_legacy",
    "_jit_set_te_must_use_llvm_cpu", "_jit_set_texpr_fuser_enabled",
)  # fmt: skip


def operator_names() -> list[str]:
    """Every operator that this torch has, as "aten::softmax.int"."""
    return torch._C._dispatch_get_all_op_names()


def dispatch_key(name: str) -> Any:
    """The dispatch key with this name."""
    return torch._C._parse_dispatch_key(name)


def pass_through(key_name: str) -> tuple[Any, Any]:
    """A dispatch key that every operator without a kernel for it passes through, and its library object, which must
    stay alive; (None, None) without such a key."""
    try:
        key = torch._C._parse_dispatch_key(key_name)
        library = torch._C._dispatch_library("IMPL", "_", key_name)
        library.fallback_fallthrough(key_name)
    except (AttributeError, RuntimeError, TypeError):
        return None, None
    return key, library


def takes_keyset() -> bool:
    """Can a kernel written in Python get the set of dispatch keys? An older torch cannot do that."""
    return "with_keyset" in inspect.signature(torch.library.Library.impl).parameters


def has_arguments(overload: Any) -> bool:
    return bool(overload._schema.arguments)


def wrap_calls_by_key(overload: Any, wrap: Callable[[Callable], Callable]) -> None:
    """Replace the two ways in which Python runs an operator's kernel for keys of the caller's choice."""
    # torch looks it up once, which has to happen before the look-up itself is replaced
    getattr(overload, "_handle", None)
    overload._op_dk, overload.redispatch = wrap(overload._op_dk), wrap(overload.redispatch)


COMPILER = "torch._dynamo"


class _DeferredCompiler(ModuleType):
    """A placeholder for torch's compiler, which it imports when something uses it.

    torch imports the compiler when a program first uses an optimizer, a dispatch mode or the device `meta`. This takes
    a second, and torch only needs two functions there: `disable`, for its own functions, and `graph_break`.
    """

    def disable(self, function: Any = None, recursive: bool = True, **options: Any) -> Any:
        if options != {"wrapping": False}:  # not the call of `torch._disable_dynamo`
            return _compiler().disable(function, recursive, **options)
        _not_disabled.add(function)
        return function

    def graph_break(self, *_: object) -> None:
        """Without the compiler there is no graph."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python looks for in every module
            raise AttributeError(f"module {COMPILER!r} has no attribute {name!r}")
        return getattr(_compiler(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(_compiler(), name, value)


class _ModulesOfCompiler:
    """The last finder of modules: imports the compiler before the first module of it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if path != [] or not name.startswith(COMPILER + "."):
            return None
        compiler = _compiler()
        if name not in sys.modules:
            return PathFinder.find_spec(name, compiler.__path__)
        spec: Any = sys.modules[name].__spec__  # the compiler has imported it, and Python would do so again
        self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = self.loader


_not_disabled: WeakSet[Any] = WeakSet()  # functions of torch that the compiler has not marked yet
_variables: dict[str, str] = {}  # of the environment, for the compiler's import


def defer_compiler() -> None:
    """Have torch's compiler imported when it is first used. Call this where torch serves Headway alone."""
    if COMPILER in sys.modules or (spec := importlib.util.find_spec(COMPILER)) is None:
        return
    deferred = _DeferredCompiler(COMPILER)
    deferred.__spec__, deferred.__path__ = spec, []  # no finder but the last one finds its modules
    sys.modules[COMPILER] = torch._dynamo = deferred
    sys.meta_path.append(_ModulesOfCompiler())


def compile_without_folder() -> None:
    """Give the compiler a folder that exists: it makes one when it is imported, and a sandbox does not let it."""
    _variables["TORCHINDUCTOR_CACHE_DIR"] = "/"


def compare_without_distribution() -> None:
    """Keep `torch.testing.assert_close` from importing torch's distributed tensors, which takes half a second."""
    torch.testing._comparison._HAS_DTENSOR = False


def _compiler() -> ModuleType:
    """torch's compiler, imported now."""
    if isinstance(sys.modules.get(COMPILER), _DeferredCompiler):
        del sys.modules[COMPILER]
        os.environ.update(_variables)
    compiler = importlib.import_module(COMPILER)
    while _not_disabled:  # torch asks again, at the next call
        vars(_not_disabled.pop()).pop("__dynamo_disable", None)
    return compiler
