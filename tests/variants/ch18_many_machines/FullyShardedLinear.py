# variant: a gathered vector with a gradient of its own, of which autograd saves a promise
import torch
from torch import nn
from torch.nn import functional


class FullyShardedLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.group = group
        self.sizes = linear.weight.shape
        self.has_bias = linear.bias is not None
        parts = [linear.weight.data.flatten()] + ([linear.bias.data] if self.has_bias else [])
        flat = torch.cat(parts)
        self.total = len(flat)
        k = (self.total + group.size - 1) // group.size
        own = flat[group.rank * k : (group.rank + 1) * k]
        self.shard = nn.Parameter(functional.pad(own, (0, k - len(own))))

    def gather(self):
        return gather_parameters([self.shard.detach()], [(self.total,)], self.group)[0]

    def forward(self, x):
        layer = self

        class Gather(torch.autograd.Function):
            @staticmethod
            def forward(ctx, shard):
                return layer.gather()

            @staticmethod
            def backward(ctx, g):
                padding = len(layer.shard) * layer.group.size - layer.total
                return layer.group.reduce_scatter(functional.pad(g, (0, padding)))

        flat = Gather.apply(self.shard)
        address = flat.untyped_storage().data_ptr()

        def pack(t):
            if t.untyped_storage().data_ptr() == address:
                return t.shape, t.stride(), t.storage_offset()
            return t

        def unpack(t):
            return t if isinstance(t, torch.Tensor) else self.gather().as_strided(*t)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            weight = flat[: self.sizes.numel()].view(self.sizes)
            return functional.linear(x, weight, flat[self.sizes.numel() :] if self.has_bias else None)


# variant: a Function outside; the weight's gradient comes from autograd itself
import torch
from torch import nn


class _Sharded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, whole, group):
        ctx.save_for_backward(x, shard)
        ctx.whole, ctx.group = whole, group
        return ctx.whole(x, *gather_parameters([shard], [[whole.numbers]], group))

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            flat = gather_parameters([shard], [[ctx.whole.numbers]], ctx.group)[0].requires_grad_()
            gx, gw = torch.autograd.grad(ctx.whole(x, flat), (x, flat), g)
        padded = gw.new_zeros(len(shard) * ctx.group.size)
        padded[: len(gw)] = gw
        return gx, ctx.group.reduce_scatter(padded), None, None


class _Whole:
    def __init__(self, linear):
        self.out, self.into = linear.out_features, linear.in_features
        self.bias = linear.bias is not None
        self.numbers = self.out * (self.into + self.bias)

    def __call__(self, x, flat):
        y = x @ flat[: self.out * self.into].view(self.out, self.into).T
        return y + flat[self.out * self.into :] if self.bias else y


class FullyShardedLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.whole, self.group = _Whole(linear), group
        with torch.no_grad():
            flat = nn.utils.parameters_to_vector(linear.parameters())
            missing = -len(flat) % group.size
            flat = torch.cat([flat, flat.new_zeros(missing)])
            self.shard = nn.Parameter(flat.view(group.size, -1)[group.rank].clone())

    def forward(self, x):
        return _Sharded.apply(x, self.shard, self.whole, self.group)


# variant: einsum, and all_gather by itself
import math

import torch
from torch import nn


class FullyShardedLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.group, self.bias = group, linear.bias is not None
        self.o, self.i = linear.weight.shape
        tensors = (linear.weight, linear.bias) if self.bias else (linear.weight,)
        numbers = torch.cat([t.detach().reshape(-1) for t in tensors])
        k = math.ceil(len(numbers) / group.size)
        whole = numbers.new_zeros(group.size, k)
        whole.view(-1)[: len(numbers)] = numbers
        self.shard = nn.Parameter(whole[group.rank].clone())

    def parts(self, shard):
        flat = torch.cat(self.group.all_gather(shard))
        return flat[: self.o * self.i].reshape(self.o, self.i), flat[self.o * self.i :][: self.o if self.bias else 0]

    def forward(self, x):
        module = self

        class Layer(torch.autograd.Function):
            @staticmethod
            def forward(ctx, shard, x):
                ctx.save_for_backward(shard, x)
                weight, bias = module.parts(shard)
                y = torch.einsum("...i,oi->...o", x, weight)
                return y.add_(bias) if module.bias else y

            @staticmethod
            def backward(ctx, g):
                shard, x = ctx.saved_tensors
                weight, _ = module.parts(shard)
                gradient = torch.zeros(module.group.size * len(shard), dtype=g.dtype)
                gradient[: weight.numel()] = torch.einsum("...o,...i->oi", g, x).reshape(-1)
                if module.bias:
                    gradient[weight.numel() : weight.numel() + module.o] = torch.einsum("...o->o", g)
                return module.group.reduce_scatter(gradient), torch.einsum("...o,oi->...i", g, weight)

        return Layer.apply(self.shard, x)
