"""Blocks, with experts or without: a block on both sides, its parts one at a time, dropout, gradients, dtypes and names."""

from __future__ import annotations

from itertools import product

import masks
import torch
from devices_and_dtypes import load_meta_device, on_meta
from grader.execution.proxy import load, parameters, state
from grader.verdict.comparing import close, holds, same
from masks import random_mask
from mode_orders import compare_in_every_order, results_in_every_order
from module_pairs import compare_gradient, compare_parameter_gradients, module_pair
from pytest_check import check
from strategies import tensor
from torch import nn


def widths_are_unique(n):
    """D and the feed-forward's 4 * D differ from all other sizes."""
    return n.H * n.d_head not in vars(n).values() and 4 * n.H * n.d_head != n.d_ff


LAST_MAP = {"attn": "attn.W_out", "self_attn": "self_attn.W_out", "cross_attn": "cross_attn.W_out", "ffn": "ffn.down"}
DROPOUT = 0.3


def block_pair(learner, reference, kind, n, seed, **options):
    return module_pair(learner, reference, kind, n.H * n.d_head, n.H, seed=seed, **options)


def block_input(n, seed, positions="T"):
    return tensor(seed, n.B, getattr(n, positions), n.H * n.d_head)


def with_zero_output(values, *parts):
    """The same parameters, but these parts answer zeros to everything."""
    names = [f"{LAST_MAP[part]}.{kind}" for part in parts for kind in ("weight", "bias")]
    return values | {name: torch.zeros_like(values[name]) for name in names}


def with_fresh_norm(values, norm):
    """The same parameters, but this norm as it starts: it stretches and shifts nothing."""
    return values | {f"{norm}.weight": torch.ones_like(values[f"{norm}.weight"]), f"{norm}.bias": torch.zeros_like(values[f"{norm}.bias"])}


def outputs_of_each(block, loads, *inputs, **options):
    """What the block answers with one set of parameters after the other."""
    found = []
    for values in loads:
        load(block, values)
        found.append(block(*inputs, **options))
    return found


def compare_each_part_alone(mine, model, values, parts, *inputs, **options):
    """The block with all parts but one outputting zeros, which shows what that part reads, adds and normalises."""
    loads = [with_zero_output(values, *(other for other in parts if other != part)) for part in parts]
    got, expected = outputs_of_each(mine, loads, *inputs, **options), outputs_of_each(model, loads, *inputs, **options)
    for part, result, wanted in zip(parts, got, expected):
        with check:
            close(result, wanted, f"the output when every part but {part} outputs zeros")


def compare_gradients(got, expected, inputs):
    """Of inputs and parameters."""
    for name, mine, gradient in zip(inputs, got.inputs, expected.inputs):
        with check:
            compare_gradient(mine, gradient, name, tol=1e-4)
    compare_parameter_gradients(got.parameters, expected.parameters, tol=1e-4)


def compare_names_and_shapes(mine, values):
    """Parameters and state dict have exactly these names with these shapes."""
    for what, found in (("parameters", parameters(mine)), ("state dict", state(mine))):
        same(sorted(found), sorted(values), f"the names of the {what}")
        same({name: list(found[name].shape) for name in sorted(values)}, {name: list(values[name].shape) for name in sorted(values)}, f"the shapes of the {what}")


def check_rows_are_normalised(outputs, what):
    """Mean 0 and variance 1 in every vector, like the result of a norm with weights 1 and biases 0."""
    close(outputs.mean(-1), torch.zeros(outputs.shape[:-1]), f"the mean of each vector of {what}", tol=1e-3)
    close(outputs.var(-1, unbiased=False), torch.ones(outputs.shape[:-1]), f"the variance of each vector of {what}", tol=1e-2)


def block_stays_on_input_device(block, *inputs):
    """Whether the block creates no tensor on a fixed device, whatever its attention modules do."""
    attentions = [part for name, part in block.named_children() if name.endswith("attn")]
    for part in attentions:
        part.forward = lambda x, *args, part=part, return_weights=False, **more: (part.W_out(x), None) if return_weights else part.W_out(x)
    try:
        with torch.device("meta"):  # what is made without a word about its device lands there, and does not fit
            return block(*inputs).device.type == "cpu"
    except Exception:  # it attends in another way: then only another device can show it
        return False
    finally:
        for part in attentions:
            del part.forward


def check_second_device(learner, block, *inputs):
    """The block on the device `meta`. Torch loads that slowly, so it is used only if there is no quicker test, and outside the learner's time."""
    if not learner.bring(block_stays_on_input_device)(block, *inputs):
        load_meta_device()
        output = learner.bring(on_meta)(block, *inputs)
        if output is not None:
            close(output, torch.empty_like(inputs[0], device="meta"), "the output on the device `meta`")


def compare_dtypes_and_devices(learner, mine, model, values, *inputs):
    """Alike in float64 and in bfloat16, and on another device."""
    wide, narrow = [x.double() for x in inputs], [x.bfloat16() for x in inputs]
    exact, rough = mine.double()(*wide), mine.bfloat16()(*narrow)
    close(exact, model.double()(*wide), "the output in float64", tol=1e-9)
    close(rough, model.bfloat16()(*narrow), "the output in bfloat16", tol=8e-2)
    check_second_device(learner, mine.float(), *inputs)


def compare_training_and_use(learner, mine, model, values, rounds, names):
    """Use without gradient, training, and use again with other parameters; an input of each round may be longer."""
    changed = {name: value.flip(0) for name, value in values.items()}
    both = list(zip((values, changed), rounds))
    compare_in_every_order(results_in_every_order(learner, mine, both), model, both, names)


def compare_full_dropout(mine, model, *inputs):
    """With dropout 1, so that nothing is random: in training what is dropped has no effect, and in eval mode nothing is dropped."""
    used, trained = mine.eval()(*inputs), mine.train()(*inputs)
    close(trained, model(*inputs), "the output in training with dropout=1.0")
    close(used, model.eval()(*inputs), "the output in eval mode with dropout=1.0")


def compare_dropout(got, model, values, name, groups, *inputs, where):
    """Every vector of `got` is the map `name` of some of `groups` scaled by 1 / (1 - DROPOUT), with the others zero.

    A group is the columns that read one head, or the one row of an output. `model` computes the result of each choice of groups.
    """
    weight, bias = values[f"{name}.weight"], values[f"{name}.bias"]
    by_column = len(groups) < weight.size(0)
    model.eval()
    choices, wanted = list(product((0.0, 1.0), repeat=len(groups))), []
    for kept in choices:
        gain = torch.zeros(weight.size(1) if by_column else weight.size(0))
        for group, loud in zip(groups, kept):
            gain[group] = loud / (1 - DROPOUT)
        changed = {f"{name}.weight": weight * gain if by_column else weight * gain[:, None], f"{name}.bias": bias if by_column else bias * gain}
        load(model, values | changed)
        wanted.append(model(*inputs))
    away = (got[:, None] - torch.stack(wanted, dim=1)).abs().flatten(2).amax(-1)  # (B, choices)
    chosen = away.argmin(1)
    one_by_one = len(chosen.unique()) > len(choices) / 2
    holds(one_by_one and bool((away.amin(1) < 2e-3).all()), f"in training, {where} should be dropped or kept with 1 / (1 - p), one by one; some outputs are neither")
    share = 1 - float(torch.tensor(choices)[chosen].mean())
    holds(abs(share - DROPOUT) < 0.1, f"with dropout={DROPOUT}, about {DROPOUT:.0%} of {where} should be dropped; it was {share:.0%}")


def head_slices(n_heads, d_head):
    return [slice(h * d_head, (h + 1) * d_head) for h in range(n_heads)]


def padding_by_row(B, S):
    """(B, 1, 1, S): every row with real keys, and padding in another place, on the left, on the right, on both sides."""
    return masks.key_padding(S, [(1, 0), (0, 2), (1, 1), (0, 1)][:B])


def masks_of_every_shape(n, seed, queries, keys):
    """Masks for these axes: one for all, by row of the batch, by head, and all at once."""
    return [
        random_mask(seed, queries, keys),
        padding_by_row(n.B, keys),
        random_mask(seed, n.B, 1, queries, keys),
        random_mask(seed, 1, n.H, 1, keys),
        random_mask(seed, n.B, n.H, queries, keys),
    ]


def output_and_loss(result, when=""):
    holds(isinstance(result, tuple | list) and len(result) == 2, f"the result should be two tensors, (output, aux_loss){when}")
    return result


def compare_output_and_loss(got, expected, when=""):
    output, aux_loss = output_and_loss(got, when)
    with check:
        close(output, expected[0], f"the output{when}")
    with check:
        close(aux_loss, expected[1], f"the balance loss{when}")


def compare_expert_gradients(got, expected, what, names=None):
    """Compare gradients by name. If the formula has no gradient, None and zeros are both right; a key's bias is left out, because its gradient is only rounding."""
    for name, gradient in expected.items():
        if name.endswith("W_k.bias") or (names is not None and name not in names):
            continue
        mine = got.get(name)
        if gradient is None or not gradient.any():
            with check:
                holds(mine is None or not mine.any(), f"{name} should get no gradient from {what}: it does not depend on it")
            continue
        with check:
            holds(mine is not None, f"no gradient reaches {name} from {what}: it will never learn from that")
            close(mine, gradient, f"the gradient of {name} from {what}", tol=1e-4)


class LossOnly(nn.Module):
    """The balance loss as the only result, to compute its gradients."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[1]


def compare_names_and_values(held, saved, values):
    for what, found in (("parameters", held), ("state dict", saved)):
        same(sorted(found), sorted(values), f"the names of the {what}")
        for name, value in values.items():
            with check:
                close(found[name], value, f"in the {what}, {name}", tol=0.0)


def compare_in_float64(mine, model, x, what, tol=1e-5):
    """The dtype of x is that of the output; a balance loss may have been computed in another."""
    got, expected = mine.double()(x.double()), model.double()(x.double())
    close(output_and_loss(got)[0], expected[0], f"the output of the {what} in float64", tol)
    close(float(output_and_loss(got)[1]), float(expected[1]), f"the balance loss of the {what} in float64")
    mine.float(), model.float()
