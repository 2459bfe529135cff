# variant: children of children, by recursion
from torch import nn


def add_lora(model, rank, alpha, names):
    wanted = {tuple(name.split(".")) for name in names}
    seen, found = set(), []

    def visit(parent, path):
        for own, child in parent.named_children():
            here = (*path, own)
            if child in seen:
                continue
            seen.add(child)
            if isinstance(child, nn.Linear) and any(here[-len(parts) :] == parts for parts in wanted):
                found.append((parent, here, child))
            visit(child, here)

    visit(model, ())
    if len(found) == 0:
        raise ValueError(f"no nn.Linear is named {list(names)}")
    for parameter in model.parameters():
        parameter.requires_grad = False
    for parent, path, child in found:
        parent.add_module(path[-1], LoRALinear(child, rank=rank, alpha=alpha))
    return [".".join(path) for _, path, _ in found]


# variant: a regular expression, and a dict of all modules
import re

from torch import nn


def add_lora(model, rank, alpha, names):
    modules = dict(model.named_modules())
    ending = re.compile(r"(?:.*\.)?(?:" + "|".join(re.escape(name) for name in names) + ")")
    layers = [name for name in modules if ending.fullmatch(name) and isinstance(modules[name], nn.Linear)]
    assert layers and names, f"looked for {', '.join(names)}, and found nothing"
    for module in modules.values():
        module.requires_grad_(requires_grad=False)
    for name in layers:
        *path, own = name.split(".")
        modules[".".join(path)]._modules[own] = LoRALinear(modules[name], rank, alpha)
    return layers


# variant: new layers first, then all parameters but theirs are frozen
from torch import nn


def add_lora(model, rank, alpha, names):
    def fits(dotted):
        return any(dotted == name or dotted.endswith("." + name) for name in names)

    new = {}
    for dotted, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and fits(dotted):
            new[dotted] = LoRALinear(module, rank, alpha)
            model.set_submodule(dotted, new[dotted])
    if not new:
        raise ValueError(f"none of {tuple(names)} is the name of a linear layer")
    trained = {id(parameter) for layer in new.values() for parameter in (layer.A, layer.B)}
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in trained)
    return list(new)
