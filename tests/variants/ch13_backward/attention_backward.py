# variant: einsum, weights computed here
def attention_backward(q, k, v, grad_out, mask=None):
    scale = q.shape[-1] ** -0.5
    scores = torch.einsum("...qd,...kd->...qk", q, k) * scale
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    w = softmax(scores)
    gv = torch.einsum("...qk,...qe->...ke", w, grad_out)
    gw = torch.einsum("...qe,...ke->...qk", grad_out, v)
    gs = w * (gw - (w * gw).sum(-1, keepdim=True)) * scale
    return torch.einsum("...qk,...kd->...qd", gs, k), torch.einsum("...qk,...qd->...kd", gs, q), gv


# variant: torch.softmax with nan_to_num, and the mean as grad_out times the output
def attention_backward(q, k, v, grad_out, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    w = torch.softmax(scores, dim=-1).nan_to_num()
    mean = (grad_out * (w @ v)).sum(-1, keepdim=True)
    gs = w * (grad_out @ v.mT - mean) / q.size(-1) ** 0.5
    return gs.matmul(k), gs.mT.matmul(q), w.mT.matmul(grad_out)


# variant: linear_backward for the products
def attention_backward(q, k, v, grad_out, mask=None):
    weights = scaled_dot_product_attention(q, k, v, mask)[1]
    if q.dim() > 2:
        lead = q.shape[:-2]
        flat = [t.reshape(-1, *t.shape[-2:]) for t in (q, k, v, grad_out)]
        masks = [None] * len(flat[0]) if mask is None else mask.expand(*lead, q.size(-2), k.size(-2)).reshape(-1, q.size(-2), k.size(-2))
        parts = [attention_backward(*each) for each in zip(*flat, masks)]
        return tuple(torch.stack(part).reshape(*lead, *part[0].shape) for part in zip(*parts))
    grad_weights, grad_v_t, _ = linear_backward(weights, v.T, grad_out)
    grad_scores = softmax_backward(weights, grad_weights, -1) / math.sqrt(q.shape[-1])
    grad_q, grad_k, _ = linear_backward(q, k, grad_scores)
    return grad_q, grad_k, grad_v_t.T


# variant: the mask once more on the gradient of the scores, a list
def attention_backward(q, k, v, grad_out, mask=None):
    _, w = scaled_dot_product_attention(q, k, v, mask=mask)
    gs = softmax_backward(w, torch.matmul(grad_out, v.transpose(-1, -2)))
    if mask is not None:
        gs = gs.masked_fill(~mask, 0)
    gs = gs.div(q.shape[-1] ** 0.5)
    return [torch.matmul(gs, k), torch.matmul(gs.transpose(-1, -2), q), torch.matmul(w.transpose(-1, -2), grad_out)]
