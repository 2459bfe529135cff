# variant: a Linear with fewer outputs
import torch
from torch import nn


class ColumnParallelLinear(nn.Linear):
    def __init__(self, linear, group):
        rows, rest = divmod(linear.out_features, group.size)
        assert rest == 0, f"out_features={linear.out_features} on {group.size} ranks"
        super().__init__(linear.in_features, rows, bias=linear.bias is not None, dtype=linear.weight.dtype)
        self.group = group
        with torch.no_grad():
            self.weight.copy_(linear.weight[rows * group.rank :][:rows])
            if self.bias is not None:
                self.bias.copy_(linear.bias[rows * group.rank :][:rows])

    def forward(self, x):
        return super().forward(copy_to_ranks(x, self.group))


# variant: einsum, the weight as a table of ranks
import torch
from torch import nn


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.group = group
        for name, whole in (("weight", linear.weight), ("bias", linear.bias)):
            own = None
            if whole is not None:
                if whole.size(0) % group.size:
                    raise ValueError(f"{whole.size(0)} out_features, {group.size} ranks")
                own = nn.Parameter(whole.data.unflatten(0, (group.size, -1))[group.rank].clone())
            self.register_parameter(name, own)

    def forward(self, x):
        x = copy_to_ranks(x, self.group)
        y = torch.einsum("...i,oi->...o", x, self.weight)
        if self.bias is not None:
            y = y + self.bias
        return y


# variant: checked at the first call
import copy

from torch import nn


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.fits = linear.out_features % group.size == 0
        self.message = f"cannot share out_features = {linear.out_features} among n = {group.size}"
        k = linear.out_features // group.size
        mine = slice(group.rank * k, group.rank * k + k)
        whole = copy.deepcopy(linear)
        self.weight = nn.Parameter(whole.weight[mine].detach().contiguous())
        self.bias = whole.bias if whole.bias is None else nn.Parameter(whole.bias[mine].detach().clone())
        self.copies = lambda x: copy_to_ranks(x, group)

    def forward(self, x):
        if not self.fits:
            raise ValueError(self.message)
        y = self.copies(x) @ self.weight.mT
        return y if self.bias is None else y.add(self.bias)
