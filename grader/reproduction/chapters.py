"""What a script imports: opens the learner's chapter as the tests do, with the reference's earlier chapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.errors import ChapterBroken
from grader.execution.host import Host
from grader.execution.host import gradients as host_gradients
from grader.execution.proxy import Gradients
from grader.execution.target import NoTarget, package_sources, resolve
from grader.execution.values import pack, unpack
from torch import Tensor, nn

_hosts: list[Host] = []


class BrokenRule(Exception):
    """A call broke a rule for all calls."""


class OpenChapter:
    """The names of a chapter, and of the earlier chapters that it can use, as attributes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        # here, so that a debugger steps from the failed call into the learner's code
        vars(self).update(vars(host.package.module(host.chapter)))

    def __getattr__(self, name: str) -> Any:
        return self._host.do_get(name)


def open_chapter(
    name: str,
    seed: int = 0,
    folder: str | None = None,
    whole: bool = False,
    replaced: Sequence[str] = (),
    gradient: bool = False,
) -> OpenChapter:
    """The chapter, for example `open_chapter("ch03_attention")`.

    `seed` is that of the test's random numbers. `folder` is another folder than exercises/; `whole` takes its own
    earlier chapters too; `replaced` are exercises of the chapter for which the reference is used. `gradient`:
    `check_call` requires results to carry gradient.
    """
    torch.set_num_threads(1)  # as in the tests
    if folder is not None and not Path(folder).is_dir():
        raise NoTarget(f"the folder {folder}, whose code failed, does not exist any more; run the tests again")
    target = resolve(folder)
    chapter = load_syllabus().chapter(name)
    if not target.has(chapter.name):
        raise NoTarget(f"there is no {chapter.name}.py in {target.folder}")
    try:
        host = Host(package_sources(target, chapter, whole, tuple(replaced)), chapter.name, "chapters")
    except ChapterBroken as problem:
        file = f"{Path(str(target.folder)).name}/{chapter.name}.py"
        raise NoTarget(f"{file} cannot be opened: {problem.message}") from None
    _hosts.append(host)
    opened = OpenChapter(host)
    host.do_begin(seed, [], gradient)
    return opened


def close_chapters() -> None:
    """Remove all chapters that were opened here."""
    while _hosts:
        _hosts.pop().close()


def set_parameters(module: nn.Module, values: dict[str, Tensor]) -> None:
    """Copy values into the parameters with these names, as the tests do."""
    _hosts[-1].do_fill(module, values)


def parameters(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in _hosts[-1].do_parameters(module).items()}


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in _hosts[-1].do_state(module).items()}


def buffers(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in _hosts[-1].do_buffers(module).items()}


def gradients(function: Any, *inputs: Any, cotangent: Tensor | None = None, **options: Any) -> Gradients:
    """The output, and the gradients of a weighted sum of it; the weights are `cotangent`."""
    return Gradients(**host_gradients(function, list(inputs), options, cotangent))


def check_call(function: Any, *args: Any, **options: Any) -> Any:
    """Call the function as the tests do. BrokenRule if it changes an argument or cuts off the gradient."""
    host = _hosts[-1]
    reply, out = host.answer("call", *pack([function, args, options], host.make_handle))
    if "error" in reply:
        raise BrokenRule(reply["error"]["message"])
    return unpack(reply["value"], out, host.find_object)
