# variant: two products, the second with the sum
def softmax_backward(weights, grad_out, dim=-1):
    product = weights * grad_out
    return product - weights * product.sum(dim, keepdim=True)


# variant: the Jacobian of each slice, built and applied
def softmax_backward(weights, grad_out, dim=-1):
    w, g = weights.movedim(dim, -1), grad_out.movedim(dim, -1)
    jacobian = torch.diag_embed(w) - w[..., :, None] * w[..., None, :]
    return (jacobian @ g[..., None])[..., 0].movedim(-1, dim)


# variant: einsum over the last axis
def softmax_backward(weights, grad_out, dim=-1):
    w, g = weights.transpose(dim, -1), grad_out.transpose(dim, -1)
    return (w * (g - torch.einsum("...v,...v->...", w, g).unsqueeze(-1))).transpose(dim, -1).contiguous()


# variant: slice by slice
def softmax_backward(weights, grad_out, dim=-1):
    w, g = weights.movedim(dim, -1), grad_out.movedim(dim, -1)
    rows = [a * (b - torch.dot(a, b)) for a, b in zip(w.reshape(-1, w.shape[-1]), g.reshape(-1, g.shape[-1]))]
    return torch.stack(rows).reshape(w.shape).movedim(-1, dim)
