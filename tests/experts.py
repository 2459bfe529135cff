"""What the suites of a layer of experts and of the block around it share: both results, their gradients, names and dtypes."""

from __future__ import annotations

from grader.verdict.comparing import close, holds, same
from torch import nn


def both(result, when=""):
    holds(isinstance(result, tuple | list) and len(result) == 2, f"the result should be two tensors, (output, aux_loss){when}")
    return result


def same_pair(got, expected, when=""):
    output, aux_loss = both(got, when)
    close(output, expected[0], f"the output{when}")
    close(aux_loss, expected[1], f"the balance loss{when}")


def same_gradients(got, expected, what, names=None):
    """By name. Where the formula has no gradient, none and zeros are as right; a key's bias is left out, its gradient is rounding and nothing else."""
    for name, gradient in expected.items():
        if name.endswith("W_k.bias") or (names is not None and name not in names):
            continue
        mine = got.get(name)
        if gradient is None or not gradient.any():
            holds(mine is None or not mine.any(), f"{name} should get no gradient from {what}: none of it is in there")
            continue
        holds(mine is not None, f"no gradient reaches {name} from {what}: it will never learn from that")
        close(mine, gradient, f"the gradient of {name} from {what}", tol=1e-4)


class LossOnly(nn.Module):
    """The balance loss as the only result, to ask for its gradients."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[1]


def same_names(held, saved, values):
    for what, found in (("parameters", held), ("state dict", saved)):
        same(sorted(found), sorted(values), f"the names of the {what}")
        for name, value in values.items():
            close(found[name], value, f"in the {what}, {name}", tol=0.0)


def in_float64(mine, model, x, what):
    """The dtype of x is that of the output; a balance loss may have been computed in another."""
    got, expected = mine.double()(x.double()), model.double()(x.double())
    close(both(got)[0], expected[0], f"the output of the {what} in float64", tol=1e-5)
    close(float(both(got)[1]), float(expected[1]), f"the balance loss of the {what} in float64")
    mine.float(), model.float()
