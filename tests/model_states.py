"""A model's state before and after code looks inside it: hooks, modes, weights, and gradient."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from grader.execution.proxy import load, randomise
from grader.verdict.comparing import close, holds, sizes
from small_models import make_gpt


def draw_sizes(L=None):
    """Different sizes, except for a given number of layers, and a seed. Each test has one example: a mistake in a whole model shows at every size."""
    T, max_len, V = (low + int(torch.randint(2, ())) for low in (5, 8, 13))
    H = 2 + int(torch.randint(2, ()))
    n = SimpleNamespace(B=4, T=T, H=H, L=L or 5 - H, max_len=max_len, V=V)
    sizes(**vars(n))
    return n, int(torch.randint(10000, ()))


def training_pair(learner, reference, n, seed, **options):
    """Two GPTs, one on each side, with the same random parameters; both are in train mode."""
    model = make_gpt(reference, n, **options)
    values = randomise(model, seed, scale=1.5)
    mine = make_gpt(learner, n, **options)
    load(mine, values)
    return mine, model


def observed(look, model, *arguments):
    """Inspect a model twice that is partly in train mode and has hooks of other code: the results, and the model's state afterwards."""

    def hooks():
        return [(list(module._forward_pre_hooks), list(module._forward_hooks)) for module in model.modules()]

    def modes():
        return [module.training for module in model.modules()]

    model.train()
    for part in (model.blocks[0].ffn, model.blocks[-1].attn, model.ln_f):
        part.eval()
        part.register_forward_hook(lambda module, inputs, output: None)
        part.register_forward_pre_hook(lambda module, inputs: None)
    for block in model.blocks:
        block.register_forward_hook(lambda module, inputs, output: None)
        block.register_forward_pre_hook(lambda module, inputs: None)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = hooks(), modes()
    seen = look(model, *arguments)
    found = {
        "seen": seen,
        "hooks": hooks() == before[0],
        "modes": [modes() == before[1]],
        "graph": any(part.requires_grad for part in (seen if isinstance(seen, (list, tuple)) else [seen]) if isinstance(part, torch.Tensor)),
        "grad mode": torch.is_grad_enabled(),
        "trainable": all(p.requires_grad and p.grad is None for p in model.parameters()),
        "weights": all(torch.equal(value, weights[name]) for name, value in model.state_dict().items()),
    }
    model.train()
    with torch.enable_grad():
        found["again"] = look(model, *arguments)
    found["modes"].append(all(modes()))
    return found


def check_hooks_and_modes(found):
    holds(found["hooks"], "the model's hooks have changed: remove all of your hooks, and keep those of other code")
    parts, whole = found["modes"]
    holds(whole, "the model was in train mode before, but is not in train mode afterwards")
    holds(parts, "some parts of the model were in eval mode on purpose, others in train mode; afterwards a part is in another mode than before")


def check_trainable(found):
    holds(not found["graph"], "the result has a graph: every intermediate result of the run stays in memory without being used")
    holds(found["grad mode"], "gradients are still switched off afterwards, so nothing can be trained")
    holds(found["trainable"], "a parameter of the model has requires_grad=False now, or has a gradient that it did not have before")
    holds(found["weights"], "the call changed the model's parameters")


def check_second_run(found, expected, what):
    close(found["again"], expected, f"{what} in a second call with the same model")
