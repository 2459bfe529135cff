# variant: var and rsqrt, sums instead of means
def layer_norm_backward(x, weight, grad_out, eps=1e-5):
    D = x.shape[-1]
    rstd = (x.var(-1, unbiased=False, keepdim=True) + eps).rsqrt()
    n = (x - x.mean(-1, keepdim=True)) * rstd
    g = grad_out * weight
    grad_x = rstd / D * (D * g - g.sum(-1, keepdim=True) - n * (g * n).sum(-1, keepdim=True))
    lead = tuple(range(x.dim() - 1))
    return grad_x, (grad_out * n).sum(lead) if lead else grad_out * n, grad_out.sum(lead) if lead else grad_out.clone()


# variant: step by step through variance and mean
def layer_norm_backward(x, weight, grad_out, eps=1e-5):
    D = x.size(-1)
    c = x - x.mean(-1, keepdim=True)
    s = ((c * c).mean(-1, keepdim=True) + eps) ** 0.5
    g = grad_out * weight
    grad_var = (g * c).sum(-1, keepdim=True) * -0.5 * s**-3
    grad_c = g / s + grad_var * 2 * c / D
    grad_x = grad_c - grad_c.mean(-1, keepdim=True)
    rows, n = grad_out.flatten(0, -2) if x.dim() > 1 else grad_out[None], (c / s).reshape(-1, D)
    return grad_x, torch.einsum("nd,nd->d", rows, n), rows.sum(0)


# variant: the Jacobian of each vector, built and applied
def layer_norm_backward(x, weight, grad_out, eps=1e-5):
    D = x.shape[-1]
    c = x - x.mean(-1, keepdim=True)
    s = torch.sqrt(c.square().mean(-1, keepdim=True) + eps)
    n = c / s
    eye = torch.eye(D, dtype=x.dtype, device=x.device)
    jacobian = (eye - 1 / D - n[..., :, None] * n[..., None, :] / D) / s[..., None]
    grad_x = (jacobian @ (grad_out * weight)[..., None])[..., 0]
    return [grad_x, (grad_out * n).reshape(-1, D).sum(0), grad_out.reshape(-1, D).sum(0)]
