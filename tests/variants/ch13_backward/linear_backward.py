# variant: einsum
def linear_backward(x, weight, grad_out):
    grad_x = torch.einsum("...m,mn->...n", grad_out, weight)
    grad_weight = torch.einsum("...m,...n->mn", grad_out, x)
    return grad_x, grad_weight, torch.einsum("...m->m", grad_out)


# variant: a sum of outer products, row by row
def linear_backward(x, weight, grad_out):
    rows, grads = x.reshape(-1, x.shape[-1]), grad_out.reshape(-1, grad_out.shape[-1])
    grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(weight[:, 0])
    for row, grad in zip(rows, grads):
        grad_weight = grad_weight + torch.outer(grad, row)
        grad_bias = grad_bias + grad
    return torch.matmul(grad_out, weight), grad_weight, grad_bias


# variant: a list of results, sums over all leading axes at the end
def linear_backward(x, weight, grad_out):
    lead = tuple(range(x.dim() - 1))
    outer = grad_out.unsqueeze(-1) * x.unsqueeze(-2)
    sums = [outer.sum(lead), grad_out.sum(lead)] if lead else [outer, grad_out.clone()]
    return [(grad_out.unsqueeze(-1) * weight).sum(-2), *sums]


# variant: F.linear with transposed matrices, under no_grad
def linear_backward(x, weight, grad_out):
    import torch.nn.functional as F

    with torch.no_grad():
        flat_x, flat_g = x.flatten(0, -2) if x.dim() > 1 else x[None], grad_out.flatten(0, -2) if x.dim() > 1 else grad_out[None]
        return F.linear(grad_out, weight.t()), F.linear(flat_g.t(), flat_x.t()), flat_g.new_ones(len(flat_g)) @ flat_g
