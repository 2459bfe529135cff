# variant: a MultiHeadAttention with fewer heads
import torch
from torch import nn


class TensorParallelAttention(MultiHeadAttention):
    def __init__(self, attention, group):
        h, n = attention.n_heads, group.size
        if h % n:
            raise ValueError(f"n_heads = {h} heads on n = {n} ranks")
        super().__init__(attention.W_q.in_features, h, attention.W_q.bias is not None)
        self.group, self.n_heads = group, h // n
        for name in ("W_q", "W_k", "W_v"):
            whole = getattr(attention, name)
            rows = range(whole.out_features)[group.rank * whole.out_features // n :][: whole.out_features // n]
            part = nn.Linear(whole.in_features, len(rows), whole.bias is not None, dtype=whole.weight.dtype)
            part.load_state_dict({key: value[rows.start : rows.stop] for key, value in whole.state_dict().items()})
            setattr(self, name, part)
        self.W_out = RowParallelLinear(attention.W_out, group)

    def forward(self, x, mask=None):
        return super().forward(copy_to_ranks(x, self.group), mask=mask)


# variant: one multiplication for q, k and v
import torch
from torch import nn
from torch.nn import functional


class TensorParallelAttention(nn.Module):
    def __init__(self, attention, group):
        super().__init__()
        assert attention.n_heads % group.size == 0, f"n_heads is {attention.n_heads}, the group has {group.size} ranks"
        self.heads = attention.n_heads // group.size
        self.group = group
        for name, whole in attention.named_children():
            if name in ("W_q", "W_k", "W_v"):
                part = nn.Linear(1, 1, whole.bias is not None)
                part.weight = nn.Parameter(whole.weight.data.tensor_split(group.size)[group.rank].clone())
                if whole.bias is not None:
                    part.bias = nn.Parameter(whole.bias.data.tensor_split(group.size)[group.rank].clone())
                self.add_module(name, part)
            elif name == "W_out":
                self.W_out = RowParallelLinear(whole, group)

    def forward(self, x, mask=None):
        layers = (self.W_q, self.W_k, self.W_v)
        weight = torch.cat([layer.weight for layer in layers])
        bias = None if self.W_q.bias is None else torch.cat([layer.bias for layer in layers])
        together = functional.linear(copy_to_ranks(x, self.group), weight, bias)  # (B, T, 3 D / n)
        q, k, v = together.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.W_out(scaled_dot_product_attention(q, k, v, mask)[0].transpose(1, 2).flatten(2))


# variant: head after head
import torch
from torch import nn


class TensorParallelAttention(nn.Module):
    def __init__(self, attention, group):
        super().__init__()
        if attention.n_heads % group.size != 0:
            raise ValueError(f"{attention.n_heads} (n_heads) / {group.size} (n)")
        self.group, self.n = group, attention.n_heads // group.size

        def rows(layer):
            k = layer.out_features // group.size
            new = nn.Linear(layer.in_features, k, bias=layer.bias is not None).to(layer.weight.dtype)
            new.weight.data[:] = layer.weight.data[group.rank * k : (group.rank + 1) * k]
            if layer.bias is not None:
                new.bias.data[:] = layer.bias.data[group.rank * k : (group.rank + 1) * k]
            return new

        self.W_q, self.W_k, self.W_v = rows(attention.W_q), rows(attention.W_k), rows(attention.W_v)
        self.W_out = RowParallelLinear(attention.W_out, group)

    def forward(self, x, mask=None):
        x = copy_to_ranks(x, self.group)
        if mask is not None:
            mask = mask[:, 0] if mask.dim() == 4 else mask
        heads = []
        for q, k, v in zip(*(layer(x).chunk(self.n, dim=-1) for layer in (self.W_q, self.W_k, self.W_v))):
            heads.append(scaled_dot_product_attention(q, k, v, mask)[0])
        return self.W_out(torch.cat(heads, dim=-1))
