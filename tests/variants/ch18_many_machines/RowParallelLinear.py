# variant: a Linear with fewer inputs, and a bias that the sum does not see
import torch
from torch import nn
from torch.nn import functional


class RowParallelLinear(nn.Linear):
    def __init__(self, linear, group):
        assert linear.in_features % group.size == 0, f"in_features={linear.in_features} on {group.size} ranks"
        columns = linear.in_features // group.size
        super().__init__(columns, linear.out_features, linear.bias is not None, dtype=linear.weight.dtype)
        self.group = group
        with torch.no_grad():
            self.weight.copy_(linear.weight.narrow(1, group.rank * columns, columns))
            if self.bias is not None:
                self.bias.copy_(linear.bias)

    def forward(self, x):
        total = sum_over_ranks(functional.linear(x, self.weight), self.group)
        return total if self.bias is None else total + self.bias


# variant: einsum, the weight as a table of ranks
import torch
from torch import nn


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        if linear.in_features % group.size > 0:
            raise ValueError(f"{group.size} ranks do not divide in_features {linear.in_features}")
        self.group = group
        table = linear.weight.detach().unflatten(1, (group.size, -1))
        self.register_parameter("weight", nn.Parameter(table[:, group.rank].clone()))
        self.register_parameter("bias", None if linear.bias is None else nn.Parameter(linear.bias.data.clone()))

    def forward(self, x):
        y = sum_over_ranks(torch.einsum("...i,oi->...o", x, self.weight), self.group)
        return y if self.bias is None else self.bias + y


# variant: functions kept from __init__
import copy

from torch import nn


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        k, rest = divmod(linear.in_features, group.size)
        if rest:
            raise ValueError(f"n = {group.size}: in_features = {linear.in_features} leaves {rest}")
        own = [i for i in range(linear.in_features) if i // k == group.rank]
        self.weight = nn.Parameter(linear.weight.data[:, own])
        self.bias = copy.deepcopy(linear.bias)
        self.total = lambda y: sum_over_ranks(y, group)

    def forward(self, x):
        y = self.total((self.weight @ x.unsqueeze(-1)).squeeze(-1))
        return y + self.bias if self.bias is not None else y
