# variant: a hook on the gradient
def copy_to_ranks(x, group):
    same = x.view_as(x)
    if same.requires_grad:
        same.register_hook(lambda g: group.all_reduce(g))
    return same


# variant: a Function outside, with the group in the context
import torch


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, x):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None, ctx.group.all_reduce(gradient.contiguous())


def copy_to_ranks(x, group):
    return _Spread.apply(group, x)


# variant: setup_context, x itself
import torch


def copy_to_ranks(x, group):
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.add_up = group.all_reduce

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return ctx.add_up(g)

    return Identity.apply(x)
