"""What the suites of blocks share: a block on both sides, its parts silenced or heard alone, its dropout, dtypes and names."""

from __future__ import annotations

from itertools import product

import masks
import torch
from elsewhere import meta_is_ready, on_meta
from grader.execution.proxy import load, parameters, state
from grader.verdict.comparing import close, holds, same
from masks import some
from pairs import pair
from slopes import every_parameter_learns, same_gradient
from strategies import tensor


def width_of_its_own(n):
    """D is no other size, nor is the 4 * D of a feed-forward."""
    return n.H * n.d_head not in vars(n).values() and 4 * n.H * n.d_head != n.d_ff


SILENT = {"attn": "attn.W_out", "self_attn": "self_attn.W_out", "cross_attn": "cross_attn.W_out", "ffn": "ffn.down"}
RATE = 0.3


def two(learner, reference, kind, n, seed, **options):
    return pair(learner, reference, kind, n.H * n.d_head, n.H, seed=seed, **options)


def x_of(n, seed, positions="T"):
    return tensor(seed, n.B, getattr(n, positions), n.H * n.d_head)


def silenced(values, *parts):
    """The same parameters, but these parts answer zeros to everything."""
    names = [f"{SILENT[part]}.{kind}" for part in parts for kind in ("weight", "bias")]
    return values | {name: torch.zeros_like(values[name]) for name in names}


def plain(values, norm):
    """The same parameters, but this norm as it starts: it stretches and shifts nothing."""
    return values | {f"{norm}.weight": torch.ones_like(values[f"{norm}.weight"]), f"{norm}.bias": torch.zeros_like(values[f"{norm}.bias"])}


def answers(block, loads, *inputs, **options):
    """What the block answers with one set of parameters after the other."""
    found = []
    for values in loads:
        load(block, values)
        found.append(block(*inputs, **options))
    return found


def each_part_alone(mine, model, values, parts, *inputs, **options):
    """The block with all parts but one silent: whatever that part reads, adds and normalises is then seen by itself."""
    loads = [silenced(values, *(other for other in parts if other != part)) for part in parts]
    got, expected = answers(mine, loads, *inputs, **options), answers(model, loads, *inputs, **options)
    for part, result, wanted in zip(parts, got, expected):
        close(result, wanted, f"the output when every part but {part} answers zeros")


def same_gradients(got, expected, inputs):
    """Of inputs and parameters."""
    for name, mine, gradient in zip(inputs, got.inputs, expected.inputs):
        same_gradient(mine, gradient, name, tol=1e-4)
    every_parameter_learns(got.parameters, expected.parameters, tol=1e-4)


def same_names(mine, values):
    """Parameters and state dict hold these names in these shapes, and nothing else."""
    for what, found in (("parameters", parameters(mine)), ("state dict", state(mine))):
        same(sorted(found), sorted(values), f"the names of the {what}")
        same({name: list(found[name].shape) for name in sorted(values)}, {name: list(values[name].shape) for name in sorted(values)}, f"the shapes of the {what}")


def each_row_normalised(outputs, what):
    """Mean 0 and variance 1 in every vector, as a norm leaves it that neither stretches nor shifts."""
    close(outputs.mean(-1), torch.zeros(outputs.shape[:-1]), f"the mean of each vector of {what}", tol=1e-3)
    close(outputs.var(-1, unbiased=False), torch.ones(outputs.shape[:-1]), f"the variance of each vector of {what}", tol=1e-2)


def makes_nothing_of_its_own(block, *inputs):
    """Does the block make no tensor on a device of its own choice, whatever its attentions do?"""
    attentions = [part for name, part in block.named_children() if name.endswith("attn")]
    for part in attentions:
        part.forward = lambda x, *args, part=part, return_weights=False, **more: (part.W_out(x), None) if return_weights else part.W_out(x)
    try:
        with torch.device("meta"):  # what is made without a word about its device lands there, and does not fit
            return block(*inputs).device.type == "cpu"
    except Exception:  # it attends in its own way: then only another device tells
        return False
    finally:
        for part in attentions:
            del part.forward


def works_elsewhere(learner, block, *inputs):
    """The block on the device `meta`. Torch loads what that takes slowly, so only where nothing quicker tells, and on no learner's time."""
    if not learner.bring(makes_nothing_of_its_own)(block, *inputs):
        meta_is_ready()
        output = learner.bring(on_meta)(block, *inputs)
        if output is not None:
            close(output, torch.empty_like(inputs[0], device="meta"), "the output on the device `meta`")


def keeps_dtypes(learner, mine, model, values, *inputs):
    """Alike in float64 and in bfloat16, and on another device."""
    wide, narrow = [x.double() for x in inputs], [x.bfloat16() for x in inputs]
    exact, rough = mine.double()(*wide), mine.bfloat16()(*narrow)
    close(exact, model.double()(*wide), "the output in float64", tol=1e-5)
    close(rough, model.bfloat16()(*narrow), "the output in bfloat16", tol=8e-2)
    works_elsewhere(learner, mine.float(), *inputs)


def in_training_and_after(mine, model, *inputs):
    """With dropout 1, so that chance has no say: in training nothing is heard of what is dropped, and in eval mode all of it."""
    used, trained = mine.eval()(*inputs), mine.train()(*inputs)
    close(trained, model(*inputs), "the output in training with dropout=1.0")
    close(used, model.eval()(*inputs), "the output in eval mode with dropout=1.0")


def drops(got, model, values, name, groups, *inputs, where):
    """Every vector of `got` is one that the map `name` gives with some of `groups` heard 1 / (1 - RATE) times as loud, and the others not at all.

    A group is the columns that read one head, or the one row of an output. `model` says what comes of each choice of groups.
    """
    weight, bias = values[f"{name}.weight"], values[f"{name}.bias"]
    by_column = len(groups) < weight.size(0)
    model.eval()
    choices, wanted = list(product((0.0, 1.0), repeat=len(groups))), []
    for kept in choices:
        gain = torch.zeros(weight.size(1) if by_column else weight.size(0))
        for group, loud in zip(groups, kept):
            gain[group] = loud / (1 - RATE)
        changed = {f"{name}.weight": weight * gain if by_column else weight * gain[:, None], f"{name}.bias": bias if by_column else bias * gain}
        load(model, values | changed)
        wanted.append(model(*inputs))
    away = (got[:, None] - torch.stack(wanted, dim=1)).abs().flatten(2).amax(-1)  # (B, choices)
    chosen = away.argmin(1)
    one_by_one = len(chosen.unique()) > len(choices) / 2
    holds(one_by_one and bool((away.amin(1) < 2e-3).all()), f"in training, {where} should be dropped or kept with 1 / (1 - p), one by one; some outputs are neither")
    share = 1 - float(torch.tensor(choices)[chosen].mean())
    holds(abs(share - RATE) < 0.1, f"with dropout={RATE}, about {RATE:.0%} of {where} should be dropped; it was {share:.0%}")


def heads_of(n_heads, d_head):
    return [slice(h * d_head, (h + 1) * d_head) for h in range(n_heads)]


def padding(B, S):
    """(B, 1, 1, S): every row with real keys, and padding in another place, on the left, on the right, on both sides."""
    return masks.padding(S, [(1, 0), (0, 2), (1, 1), (0, 1)][:B])


def of_every_shape(n, seed, queries, keys):
    """Masks for these axes: one for all, by row of the batch, by head, and all at once."""
    return [some(seed, queries, keys), padding(n.B, keys), some(seed, n.B, 1, queries, keys), some(seed, 1, n.H, 1, keys), some(seed, n.B, n.H, queries, keys)]
