"""Every private interface of torch that Headway uses. Tried with torch 2.13.0, in its CPU build and in its build for
CUDA 13.0 (+cu130).

Torch may change these in any version without notice. Where a version lacks one, `dispatch_key` returns None, or the
function is not replaced. `grader/tests/execution/test_shortcuts.py` and `grader/tests/course/test_torch_operators.py`
fail with a torch that behaves otherwise.

The functions are bound here at import: `grader/execution/forbidden/operators.py` replaces several of them in torch, and
calls the originals itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

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
MODE_STACK = torch.utils._python_dispatch
MODES = (  # functions of both places that lead to the dispatch modes, among them the watch of memory, or leave them out
    "_pop_torch_dispatch_stack", "_push_on_torch_dispatch_stack", "_get_dispatch_stack_at", "_set_dispatch_mode",
    "_unset_dispatch_mode", "_get_dispatch_mode",
    "_DisableTorchDispatch", "_DisablePythonDispatcher", "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack", "_disable_current_modes",
    "_pop_mode", "_pop_mode_temporarily",
)  # fmt: skip
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
