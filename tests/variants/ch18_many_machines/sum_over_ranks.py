# variant: the others' sum as a constant, x with its gradient
def sum_over_ranks(x, group):
    total = group.all_reduce(x.detach())
    return total + (x - x.detach())


# variant: a Function outside, with the group in the context
import torch


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return group.all_reduce(x.contiguous())

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clone(), None


def sum_over_ranks(x, group):
    return _Gathered.apply(x, group)


# variant: the sum replaces the values of a copy
def sum_over_ranks(x, group):
    out = x.clone()
    out.data = group.all_reduce(x.detach())
    return out
