"""Whether code works on a second device and in other dtypes.

The second device is torch's `meta`, whose tensors have shapes and no values: every machine has it. In half precision each correct way to write a
formula rounds differently, so a result is compared with a tolerance, not number by number.
"""

from __future__ import annotations

import torch
from grader.verdict.comparing import close, holds
from torch import Tensor, nn


def check_device_of_result(learner, expected: Tensor, f, *inputs) -> None:
    """The result of `f(*inputs)` is on the device of the inputs. The device `meta` is used only if there is no quicker test."""
    if not learner.bring(stays_on_input_device)(f, *inputs):
        load_meta_device()
        result = learner.bring(on_meta)(f, *inputs)
        if result is not None:
            close(result, torch.empty_like(expected, device="meta"), "the result on the device `meta`")


def load_meta_device() -> None:
    """Torch imports a second's worth of modules at the first operation on the device `meta`; not while a learner's call is timed."""
    torch.empty(1, device="meta") + torch.empty(1, device="meta")


def stays_on_input_device(f, *inputs):
    """Whether calling `f` creates no tensor on a fixed device, and whether `f` contains none that stays behind when it moves."""
    parts = f.modules() if isinstance(f, nn.Module) else ()
    if any(isinstance(value, torch.Tensor) for part in parts for value in vars(part).values()):
        return False
    try:
        with torch.device("meta"):  # what is made without a word about its device lands there, and does not fit
            return f(*inputs).device.type == "cpu"
    except (RuntimeError, NotImplementedError, IndexError):
        return False


def stays_on_input_device_without_blocks(model, *inputs):
    """Whether the model creates no tensor on a fixed device. Its blocks are left out: they move a mask to the right device, which is allowed."""
    import copy

    if any(isinstance(value, torch.Tensor) for value in vars(model).values()):
        return False
    empty = copy.deepcopy(model)
    empty.blocks = nn.ModuleList()
    try:
        with torch.device("meta"):  # what is made without a word about its device lands there, and does not fit
            answers = empty(*inputs)
    except (RuntimeError, NotImplementedError, IndexError):
        return False
    return all(answer.device.type == "cpu" for answer in (answers if isinstance(answers, tuple | list) else [answers]))


def creates_tensors_elsewhere(chapter, look, *arguments):
    """Whether code of this chapter creates a tensor without naming its device, or moves one to the CPU, while it looks at a model."""
    import sys

    from torch.overrides import TorchFunctionMode

    makers = (torch.zeros, torch.ones, torch.empty, torch.full, torch.arange, torch.tensor, torch.eye, torch.Tensor.cpu)

    class Watch(TorchFunctionMode):
        found = False

        def __torch_function__(self, func, types, args=(), kwargs=None):
            frame = sys._getframe()
            while frame.f_code.co_filename.endswith("inner_calls.py"):  # this helper's own calls go through it
                frame = frame.f_back
            own = chapter in frame.f_back.f_code.co_filename
            self.found = self.found or (own and func in makers and "device" not in (kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Watch() as watch:
        look(*arguments)
    return watch.found


def on_meta(f, *inputs):
    """The result of `f` for these inputs on the device `meta`; None if `f` needs values, which `meta` does not have: that may be right too."""
    there = f.to("meta") if isinstance(f, nn.Module) else f
    try:
        return there(*[value.to("meta") if isinstance(value, torch.Tensor) else value for value in inputs])
    except (RuntimeError, NotImplementedError) as problem:
        if any(words in str(problem) for words in ("item()", "meta tensor", "nonzero", "Meta kernel", "Meta' backend")):
            return None
        raise


def runs_on_second_device(module, x):
    """Whether the module follows its input to another device. The device `meta` is used only if there is no other test, because torch loads it slowly."""
    try:
        with torch.device("meta"):  # new tensors are made there unless a device is given
            quick = module(x).device.type == "cpu"
    except (RuntimeError, NotImplementedError):
        quick = False
    module.to("meta")
    if quick and not any(isinstance(value, torch.Tensor) for value in vars(module).values()):
        return True
    try:
        return module(x.to("meta")).device.type == "meta"
    except (RuntimeError, NotImplementedError):
        return False


def dtype_and_accuracy(module, x, expected, tol):
    """The dtype of module(x), and whether its values are right; for `bring`."""
    result = module(x)
    if not isinstance(result, torch.Tensor) or result.shape != expected.shape:
        return {"instead": result}
    off = (result.double() - expected.double()).abs().max()
    return [str(result.dtype).removeprefix("torch."), bool(off <= tol * expected.double().abs().max())]


def check_dtype_and_accuracy(found, expected, what):
    """What `in_this_dtype` found of `what` is as it should be."""
    if isinstance(found, dict):
        close(found["instead"], expected, what)
    dtype, right = found
    wanted = str(expected.dtype).removeprefix("torch.")
    holds(right, f"{what} is off by more than rounding")
    holds(dtype == wanted, f"{what} is {dtype}; it should be {wanted}")
