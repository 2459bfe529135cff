# variant: a Function with five arguments, and None for those without gradient
class _Efficient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, block, causal):
        ctx.block, ctx.causal = block, causal
        output, lse = tiled_attention(q, k, v, block, causal)
        ctx.save_for_backward(q, k, v, output, lse)
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_out):
        q, k, v, output, lse = ctx.saved_tensors
        grads = tiled_attention_backward(q, k, v, output, lse, grad_out, ctx.block, ctx.causal)
        return (*grads, None, None)


def efficient_attention(q, k, v, block=64, causal=False):
    return _Efficient.apply(q, k, v, block, causal)


# variant: setup_context, and gradients of outputs that are not used stay None
class _WithContext(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, block, causal):
        return tiled_attention(q, k, v, block, causal)

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(outputs[1])
        ctx.save_for_backward(*inputs[:3], *outputs)
        ctx.options = inputs[3:]

    @staticmethod
    def backward(ctx, grad_out, _):
        if grad_out is None:
            return None, None, None, None, None
        return *tiled_attention_backward(*ctx.saved_tensors, grad_out, *ctx.options), None, None


def efficient_attention(q, k, v, block=64, causal=False):
    output, _ = _WithContext.apply(q, k, v, block, causal)
    return output


# variant: everything written out, with lse saved and the output computed again
def efficient_attention(q, k, v, block=64, causal=False):
    if block < 1:
        raise ValueError(f"block={block} must be at least 1")

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, queries, keys, values):
            ctx.save_for_backward(queries, keys, values)
            return tiled_attention(queries, keys, values, block, causal)[0]

        @staticmethod
        def backward(ctx, grad):
            queries, keys, values = ctx.saved_tensors
            output, lse = tiled_attention(queries, keys, values, block, causal)
            return tiled_attention_backward(queries, keys, values, output, lse, grad.contiguous(), block, causal)

    return Recompute.apply(q, k, v)
