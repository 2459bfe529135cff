"""Restores the state of the notebook's process after a check: random generators, threads, torch settings, environment, imports."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from types import ModuleType

from grader.course.syllabus import TESTS


@contextlib.contextmanager
def restore_state() -> Iterator[None]:
    """Set torch as in a graded run (one thread, float32, CPU), and restore everything at the end; pytest itself restores the working directory."""
    import torch  # first: the plugin sets OMP_NUM_THREADS to 1, and a torch imported later would keep that

    with contextlib.ExitStack() as stack:
        stack.callback(_environment(dict(os.environ)))
        stack.callback(_search_path(list(sys.path)))
        stack.callback(_signals())
        stack.callback(_random_state())
        stack.callback(_torch())
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(_streams())
        stack.enter_context(_test_modules())
        stack.callback(_profile())
        stack.callback(_no_exit())
        os.environ.pop("PYTEST_ADDOPTS", None)  # meant for the learner's own runs of pytest
        import grader.runner.loading  # noqa: F401

        torch.set_num_threads(1)
        if torch.get_default_device() != torch.device("cpu"):
            stack.enter_context(torch.device("cpu"))
        yield


def _environment(before: dict[str, str]):
    def restore() -> None:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        for name, value in before.items():
            if os.environ.get(name) != value:
                os.environ[name] = value

    return restore


def _search_path(before: list[str]):
    def restore() -> None:
        sys.path[:] = before

    return restore


def _signals():
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGALRM", "SIGTERM") if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)

    return restore


def _random_state():
    import torch

    torch_state, random_state = torch.default_generator.get_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None

    def restore() -> None:
        torch.default_generator.set_state(torch_state)
        random.setstate(random_state)
        if numpy:
            numpy.random.set_state(numpy_state)

    return restore


def _torch():
    import torch

    threads, dtype, gradient = torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()

    def restore() -> None:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradient)

    return restore


def _profile():
    """Restore the notebook's own profile of hypothesis."""
    from hypothesis import settings

    name = getattr(settings, "get_current_profile_name", lambda: "default")()
    return lambda: settings.load_profile(name)


def _no_exit():
    """In a notebook `exit()` makes the kernel end later; during a check it ends the call, as outside a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return lambda: None

    def leave() -> None:
        raise SystemExit

    shell.ask_exit = leave
    return lambda: delattr(shell, "ask_exit")


@contextlib.contextmanager
def _streams() -> Iterator[None]:
    before = sys.stdin, sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


@contextlib.contextmanager
def _test_modules() -> Iterator[None]:
    """The suites are imported for each check and then removed; a notebook's module of the same name is put back."""
    names = {path.stem for path in TESTS.glob("*.py")}
    replaced = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    try:
        yield
    finally:
        for name in [name for name, module in sys.modules.items() if name in names or _is_test_module(module)]:
            del sys.modules[name]
        sys.modules.update(replaced)


def _is_test_module(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(str(TESTS) + os.sep)
