"""A model's state before and after code looks inside it: hooks, modes, weights, and gradient."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from grader.execution.proxy import load, randomise
from grader.verdict.comparing import close, holds, sizes
from small_models import ATTENTION_POSITIONS, TABLE_POSITIONS, make_gpt, make_llama

MODEL_KINDS = (*TABLE_POSITIONS, *ATTENTION_POSITIONS, "Llama")


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


def pair_of_kind(learner, reference, n, seed, kind, **options):
    """A GPT with an untied head and this kind of positions, or a Llama with its own head, on each side, with the same random parameters."""
    if kind != "Llama":
        return training_pair(learner, reference, n, seed, positions=kind, tie_weights=False, **options)
    model, mine = make_llama(reference, n), make_llama(learner, n)
    load(mine, randomise(model, seed, scale=1.5))
    return mine, model


def name_of_kind(kind):
    return "a Llama" if kind == "Llama" else f"a GPT with positions={kind!r}"


def observed(look, model, *arguments):
    """The results of three calls, and what became of the model's state. The model has hooks of other code, gradients from before, and a frozen part.

    In the first call it is in train mode except for some parts, in the second in train mode, and in the third in eval mode except for these parts.
    """

    def hooks():
        return [(list(module._forward_pre_hooks), list(module._forward_hooks)) for module in model.modules()]

    def modes():
        return [module.training for module in model.modules()]

    def gradients():
        return [None if p.grad is None else p.grad.clone() for p in model.parameters()]

    def unchanged(old, new):
        return all(a is None and b is None or a is not None and b is not None and torch.equal(a, b) for a, b in zip(old, new))

    parts = (model.blocks[0].ffn, model.blocks[-1].attn, model.ln_f)
    model.train()
    for p in model.blocks[0].parameters():
        p.grad = torch.ones_like(p)
    model.ln_f.requires_grad_(False)
    for part in parts:
        part.eval()
        part.register_forward_hook(lambda module, inputs, output: None)
        part.register_forward_pre_hook(lambda module, inputs: None)
    for block in model.blocks:
        block.register_forward_hook(lambda module, inputs, output: None)
        block.register_forward_pre_hook(lambda module, inputs: None)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before, learns, slopes = (hooks(), modes()), [p.requires_grad for p in model.parameters()], gradients()
    seen = look(model, *arguments)
    found = {
        "seen": seen,
        "hooks": hooks() == before[0],
        "modes": [modes() == before[1]],
        "graph": any(part.requires_grad for part in (seen if isinstance(seen, (list, tuple)) else [seen]) if isinstance(part, torch.Tensor)),
        "grad mode": torch.is_grad_enabled(),
        "frozen": [p.requires_grad for p in model.parameters()] == learns,
        "gradients": unchanged(slopes, gradients()),
        "weights": all(torch.equal(value, weights[name]) for name, value in model.state_dict().items()),
    }
    model.train()
    with torch.enable_grad():
        found["again"] = look(model, *arguments)
    found["modes"].append(all(modes()))
    model.eval()
    for part in parts:
        part.train()
    before = modes()
    with torch.no_grad():
        found["parts in train mode"] = look(model, *arguments)
        found["grad mode of others"] = not torch.is_grad_enabled()
    found["modes"][0] = found["modes"][0] and modes() == before
    return found


def left_by_an_error(look, model, *arguments):
    """Whether hooks and modes of the model are those from before after a call that cannot succeed."""

    def hooks_and_modes():
        return [[list(module._forward_pre_hooks), list(module._forward_hooks)] for module in model.modules()], [module.training for module in model.modules()]

    hooks, modes = hooks_and_modes()
    try:
        look(model, *arguments)
    except Exception:  # of any type: ids beyond the vocabulary may be noticed anywhere
        pass
    return [kept == before for kept, before in zip(hooks_and_modes(), (hooks, modes))]


def check_left_by_an_error(found):
    hooks, modes = found
    holds(hooks, "a run that failed, for an id beyond the vocabulary, has changed the model's hooks: remove yours in a `finally`, and keep those of other code")
    holds(modes, "after a run that failed, for an id beyond the vocabulary, a part of the model is in another mode than before: restore the modes in a `finally`")


def check_hooks_and_modes(found):
    holds(found["hooks"], "the model's hooks have changed: remove all of your hooks, and keep those of other code")
    parts, whole = found["modes"]
    holds(whole, "the model was in train mode before, but is not in train mode afterwards")
    holds(parts, "some parts of the model were in eval mode on purpose, others in train mode; afterwards a part is in another mode than before")


def check_trainable(found):
    holds(not found["graph"], "the result has a graph: every intermediate result of the run stays in memory without being used")
    holds(found["grad mode"], "gradients are still switched off afterwards, so nothing can be trained")
    holds(found["grad mode of others"], "a call inside the caller's own torch.no_grad() switched gradients on for the rest of it")
    holds(found["frozen"], "a parameter of the model has another requires_grad now: it was frozen or made trainable")
    holds(found["gradients"], "a parameter of the model has another gradient than before: gradients from before are gone, or new ones were added")
    holds(found["weights"], "the call changed the model's parameters")


def check_other_runs(found, expected, what, judge=close):
    judge(found["again"], expected, f"{what} in a second call with the same model")
    judge(found["parts in train mode"], expected, f"{what} of a model in eval mode that has parts in train mode")
