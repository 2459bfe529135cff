"""Chapter 18 with loops: part by part, rank by rank, parameter by parameter."""

import torch
from torch import nn

from .ch03_attention import merge_heads, scaled_dot_product_attention, split_heads
from .ch05_layers import gelu


def ring_all_reduce(t, group):
    n = group.size
    numbers = t.clone().reshape(-1)
    starts = [0]
    for part in range(n):
        length = numbers.numel() // n
        if part < numbers.numel() % n:
            length = length + 1
        starts.append(starts[-1] + length)
    left = (group.rank + n - 1) % n
    right = (group.rank + 1) % n
    moving = group.rank
    for step in range(2 * (n - 1)):
        group.send(numbers[starts[moving] : starts[moving + 1]], right)
        moving = (moving - 1) % n
        start, end = starts[moving], starts[moving + 1]
        arrived = group.receive((end - start,), left)
        if step < n - 1:
            numbers[start:end] += arrived
        else:
            numbers[start:end] = arrived
    return numbers.reshape(t.shape)


def shard_batch(ids, rank, size):
    rows_of_rank = [0] * size
    for row in range(len(ids)):
        rows_of_rank[row % size] += 1
    start = 0
    for earlier in range(rank):
        start += rows_of_rank[earlier]
    return ids[start : start + rows_of_rank[rank]]


def average_gradients(model, group, bucket_bytes=1 << 20):
    parameters = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameters.append(parameter)
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
    total = 0
    for parameter in parameters:
        total += parameter.numel()
    if total == 0:
        return
    together = torch.empty(total, dtype=parameters[0].grad.dtype, device=parameters[0].device)
    place = 0
    for parameter in parameters:
        together[place : place + parameter.numel()] = parameter.grad.reshape(-1)
        place += parameter.numel()
    step = max(1, bucket_bytes // together.element_size())
    for start in range(0, total, step):
        together[start : start + step] = group.all_reduce(together[start : start + step]) / group.size
    place = 0
    for parameter in parameters:
        parameter.grad.copy_(together[place : place + parameter.numel()].reshape(parameter.shape))
        place += parameter.numel()


class ShardedAdamW:
    def __init__(self, parameters, group, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.parameters = list(parameters)
        self.param_groups = [
            {"params": self.parameters, "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        ]
        self.group = group
        self.total = 0
        for parameter in self.parameters:
            self.total += parameter.numel()
        self.length = self.total // group.size
        if self.total % group.size > 0:
            self.length += 1
        kind = {"dtype": self.parameters[0].dtype, "device": self.parameters[0].device}
        self.m = torch.zeros(self.length, **kind)
        self.v = torch.zeros(self.length, **kind)
        self.steps = 0

    def cut(self, tensors):
        whole = torch.zeros(self.length * self.group.size, dtype=self.m.dtype, device=self.m.device)
        place = 0
        for tensor in tensors:
            whole[place : place + tensor.numel()] = tensor.reshape(-1)
            place += tensor.numel()
        start = self.group.rank * self.length
        return whole[start : start + self.length]

    @torch.no_grad()
    def step(self):
        settings = self.param_groups[0]
        b1, b2 = settings["betas"]
        lr = settings["lr"]
        weights = self.cut(settings["params"])
        gradients = []
        for parameter in settings["params"]:
            gradients.append(parameter.grad)
        gradient = self.cut(gradients)
        self.steps += 1
        weights = weights - lr * settings["weight_decay"] * weights
        self.m = b1 * self.m + (1 - b1) * gradient
        self.v = b2 * self.v + (1 - b2) * gradient * gradient
        m_hat = self.m / (1 - b1**self.steps)
        v_hat = self.v / (1 - b2**self.steps)
        weights = weights - lr * m_hat / (torch.sqrt(v_hat) + settings["eps"])
        whole = torch.cat(self.group.all_gather(weights))
        place = 0
        for parameter in settings["params"]:
            parameter.copy_(whole[place : place + parameter.numel()].reshape(parameter.shape))
            place += parameter.numel()

    def zero_grad(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None


def gather_parameters(shards, shapes, group):
    together = torch.cat(list(shards))
    of_ranks = group.all_gather(together)
    tensors = []
    place = 0
    for shard, shape in zip(shards, shapes):
        numbers = 1
        for side in shape:
            numbers *= side
        parts = []
        for rank in range(group.size):
            parts.append(of_ranks[rank][place : place + len(shard)])
        place += len(shard)
        tensors.append(torch.cat(parts)[:numbers].reshape(list(shape)))
    return tensors


class LinearOfShards(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, layer):
        ctx.save_for_backward(x, shard)
        ctx.layer = layer
        weight, bias = layer.whole(shard)
        output = x @ weight.T
        if bias is not None:
            output = output + bias
        return output

    @staticmethod
    def backward(ctx, g):
        x, shard = ctx.saved_tensors
        layer = ctx.layer
        weight, bias = layer.whole(shard)
        g_rows = g.reshape(-1, layer.outputs)
        x_rows = x.reshape(-1, layer.inputs)
        gradient = torch.zeros(layer.length * layer.group.size, dtype=shard.dtype, device=shard.device)
        for output in range(layer.outputs):
            gradient[output * layer.inputs : (output + 1) * layer.inputs] = g_rows[:, output] @ x_rows
        if bias is not None:
            start = layer.outputs * layer.inputs
            gradient[start : start + layer.outputs] = g_rows.sum(0)
        return g @ weight, layer.group.reduce_scatter(gradient), None


class FullyShardedLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.group = group
        self.outputs, self.inputs = linear.weight.shape
        self.with_bias = linear.bias is not None
        numbers = self.outputs * self.inputs
        if self.with_bias:
            numbers += self.outputs
        self.length = -(-numbers // group.size)
        whole = torch.zeros(self.length * group.size, dtype=linear.weight.dtype, device=linear.weight.device)
        whole[: linear.weight.numel()] = linear.weight.detach().reshape(-1)
        if self.with_bias:
            whole[linear.weight.numel() : numbers] = linear.bias.detach()
        start = group.rank * self.length
        self.shard = nn.Parameter(whole[start : start + self.length].clone())

    def whole(self, shard):
        weights = self.outputs * self.inputs
        numbers = weights
        if self.with_bias:
            numbers += self.outputs
        flat = gather_parameters([shard], [[numbers]], self.group)[0]
        weight = flat[:weights].reshape(self.outputs, self.inputs)
        if self.with_bias:
            return weight, flat[weights:]
        return weight, None

    def forward(self, x):
        return LinearOfShards.apply(x, self.shard, self)


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return ctx.group.all_reduce(g), None


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return group.all_reduce(x)

    @staticmethod
    def backward(ctx, g):
        return g, None


def copy_to_ranks(x, group):
    return Copied.apply(x, group)


def sum_over_ranks(x, group):
    return Summed.apply(x, group)


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.group = group
        if linear.out_features % group.size != 0:
            raise ValueError(f"{linear.out_features} outputs (out_features) do not go onto {group.size} ranks")
        length = linear.out_features // group.size
        start = group.rank * length
        rows = []
        for row in range(start, start + length):
            rows.append(linear.weight[row].detach())
        self.weight = nn.Parameter(torch.stack(rows))
        if linear.bias is None:
            self.bias = None
        else:
            self.bias = nn.Parameter(linear.bias[start : start + length].detach().clone())

    def forward(self, x):
        output = copy_to_ranks(x, self.group) @ self.weight.T
        if self.bias is not None:
            output = output + self.bias
        return output


class RowParallelLinear(nn.Module):
    def __init__(self, linear, group):
        super().__init__()
        self.group = group
        if linear.in_features % group.size != 0:
            raise ValueError(f"{linear.in_features} inputs (in_features) do not go onto {group.size} ranks")
        length = linear.in_features // group.size
        start = group.rank * length
        self.weight = nn.Parameter(linear.weight[:, start : start + length].detach().clone())
        if linear.bias is None:
            self.bias = None
        else:
            self.bias = nn.Parameter(linear.bias.detach().clone())

    def forward(self, x):
        output = sum_over_ranks(x @ self.weight.T, self.group)
        if self.bias is not None:
            output = output + self.bias
        return output


class TensorParallelFeedForward(nn.Module):
    def __init__(self, feed_forward, group):
        super().__init__()
        self.activation = feed_forward.activation
        self.up = ColumnParallelLinear(feed_forward.up, group)
        self.down = RowParallelLinear(feed_forward.down, group)

    def bend(self, wide):
        if self.activation == "relu":
            return torch.relu(wide)
        return gelu(wide, approximate=self.activation == "gelu_tanh")

    def forward(self, x):
        for step in (self.up, self.bend, self.down):
            x = step(x)
        return x


class TensorParallelAttention(nn.Module):
    def __init__(self, attention, group):
        super().__init__()
        if attention.n_heads % group.size != 0:
            raise ValueError(f"{attention.n_heads} heads (n_heads) do not go onto {group.size} ranks")
        self.group = group
        self.n_heads = attention.n_heads // group.size
        for name in ("W_q", "W_k", "W_v"):
            whole = getattr(attention, name)
            length = whole.out_features // group.size
            start = group.rank * length
            part = nn.Linear(whole.in_features, length, bias=whole.bias is not None).to(whole.weight)
            with torch.no_grad():
                for row in range(length):
                    part.weight[row] = whole.weight[start + row]
                    if whole.bias is not None:
                        part.bias[row] = whole.bias[start + row]
            setattr(self, name, part)
        self.W_out = RowParallelLinear(attention.W_out, group)

    def forward(self, x, mask=None):
        x = copy_to_ranks(x, self.group)
        q = split_heads(self.W_q(x), self.n_heads)
        k = split_heads(self.W_k(x), self.n_heads)
        v = split_heads(self.W_v(x), self.n_heads)
        output, _ = scaled_dot_product_attention(q, k, v, mask)
        return self.W_out(merge_heads(output))


def pipeline_schedule(n_stages, n_micro, kind="1f1b"):
    if kind != "gpipe" and kind != "1f1b":
        raise ValueError(f"{kind!r} is neither gpipe nor 1f1b")
    stages = []
    for stage in range(n_stages):
        ahead = n_micro
        if kind == "1f1b":
            ahead = min(n_micro, n_stages - 1 - stage)
        steps = []
        forward = 0
        backward = 0
        while backward < n_micro:
            while forward < n_micro and forward < ahead:
                steps.append(("forward", forward))
                forward += 1
            if forward < n_micro:
                steps.append(("forward", forward))
                forward += 1
            steps.append(("backward", backward))
            backward += 1
        stages.append(steps)
    return stages


def run_stage(stage, schedule, group, inputs, loss):
    is_first = group.rank == 0
    is_last = group.rank == group.size - 1
    waiting = []
    losses = []
    for what, micro in schedule:
        if what == "forward":
            if is_first:
                x = inputs[micro]
            else:
                x = group.receive(inputs[micro].shape, group.rank - 1)
                x.requires_grad_()
            y = stage(x)
            if is_last:
                y = loss(y, micro)
                losses.append(y.detach())
            else:
                group.send(y.detach(), group.rank + 1)
            waiting.append((micro, x, y))
        else:
            for place in range(len(waiting)):
                if waiting[place][0] == micro:
                    _, x, y = waiting.pop(place)
                    break
            if is_last:
                y.backward()
            else:
                y.backward(group.receive(y.shape, group.rank + 1))
            if not is_first:
                group.send(x.grad, group.rank - 1)
            x = y = None
    return losses
