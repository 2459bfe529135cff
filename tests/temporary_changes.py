"""A model inside a `with` block that changes it, such as `with ablate_head(model, 0, 1):`, and after the block."""

from __future__ import annotations

import torch
from grader.verdict.comparing import close, holds
from pytest_check import check


def logits_while(ablate_head, model, ids, *arguments):
    """The logits inside the `with` block."""
    with ablate_head(model, *arguments):
        result = model(ids)
    return (result[0] if isinstance(result, tuple) else result).detach()


def own_logits(model, ids):
    result = model(ids)
    return (result[0] if isinstance(result, tuple) else result).detach()


def before_and_after(change, model, ids, *arguments):
    """The logits inside a `with` block, the logits after it and after one that ends in an error, and what became of the model."""

    def state():
        hooks = [(list(module._forward_pre_hooks), list(module._forward_hooks)) for module in model.modules()]
        return hooks, [module.training for module in model.modules()], [parameter.requires_grad for parameter in model.parameters()]

    def logits():
        result = model(ids)
        return (result[0] if isinstance(result, tuple) else result).detach()

    for block in model.blocks:
        for part in (block, block.attn, block.attn.W_out):
            part.register_forward_hook(lambda module, inputs, output: None)
            part.register_forward_pre_hook(lambda module, inputs: None)
        block.ffn.eval()
    model.blocks[0].ln1.requires_grad_(False)
    before, parts = state(), list(model.modules())
    found = {}
    with change(model, *arguments):
        found["inside"] = logits()
        found["modes inside"] = state()[1] == before[1]
        found["gradients inside"] = torch.is_grad_enabled()
    found["after"], found["state after"] = logits(), state() == before
    try:
        with change(model, *arguments):
            raise KeyError("an error of the caller")
    except KeyError:
        found["error"] = "raised"
    found["after an error"], found["state after an error"] = logits(), state() == before
    found["parts"] = all(a is b for a, b in zip(parts, model.modules())) and len(parts) == len(list(model.modules()))
    return found


def judge_before_and_after(found, inside, outside):
    close(found["inside"], inside, "the logits inside the block", tol=1e-4)
    close(found["after"], outside, "the logits after the block", tol=1e-4)
    close(found["after an error"], outside, "the logits after a block that ended in an error", tol=1e-4)
    holds(found["modes inside"], "inside the block, a part of the model is in another mode than before")
    holds(found["gradients inside"], "inside the block, gradients are switched off")
    holds(found["state after"], "after the block, the model's hooks, its modes, or which parameters are frozen are not as before: remove your hook, and keep those of other code")
    holds(found.get("error") == "raised", "an error inside the block does not leave it")
    holds(found["state after an error"], "after a block that ended in an error, the model is not as before: remove your hook in a `finally`")
    holds(found["parts"], "after the block, a part of the model is not the same object as before")


def gradients_while(change, model, ids, *arguments):
    """The gradient of every parameter, for a loss inside the `with` block."""
    model.zero_grad()
    with change(model, *arguments):
        result = model(ids)
        logits = result[0] if isinstance(result, tuple) else result
        if not logits.requires_grad:
            return {}
        (logits * torch.cos(torch.arange(logits.numel()) * 0.7).view(logits.shape)).sum().backward()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in sorted(model.named_parameters())}


def judge_gradients(got, expected, what):
    holds(bool(got), f"inside the block, the logits {what} have no graph")
    for name, gradient in expected.items():
        with check:
            close(got[name], gradient, f"the gradient of {name} {what}", tol=1e-3)


def device_while(change, model, ids, *arguments):
    """Where the logits are inside the `with` block, with the model on the device `meta`."""
    try:
        with change(model.to("meta"), *arguments):
            result = model(ids.to("meta"))
        return (result[0] if isinstance(result, tuple) else result).device.type
    except (RuntimeError, NotImplementedError) as problem:
        return f"nowhere, for it ended in {type(problem).__name__} ({problem})"
