# variant: the largest score by hand, as in chapter 3
def attention_with_lse(q, k, v, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", q, k) * q.size(-1) ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    if k.size(-2) == 0:
        return q.new_zeros(*q.shape[:-1], v.size(-1)), q.new_full(q.shape[:-1], -torch.inf)
    top = scores.max(dim=-1, keepdim=True).values.clamp(min=torch.finfo(q.dtype).min).detach()
    e = (scores - top).exp()
    z = e.sum(-1, keepdim=True)
    out = e @ v / torch.where(z > 0, z, 1.0)
    return out, (top + z.log())[..., 0]


# variant: torch.softmax, with zeros where it gives NaN
def attention_with_lse(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    nothing = ~seen.any(dim=-1, keepdim=True)
    safe = scores.masked_fill(~seen, float("-inf")).masked_fill(nothing, 0.0)
    weights = safe.softmax(-1).masked_fill(nothing, 0.0)
    lse = torch.logsumexp(safe, -1).masked_fill(nothing[..., 0], float("-inf"))
    return weights @ v, lse


# variant: the mask as an additive bias of 0 and -inf, and the weights by the helper of chapter 3
def attention_with_lse(q, k, v, mask=None):
    if k.shape[-2] == 0:
        return torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device), torch.full(q.shape[:-1], -math.inf, dtype=q.dtype, device=q.device)
    output, _ = scaled_dot_product_attention(q, k, v, mask)
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.size(-1))
    if mask is not None:
        scores = scores + torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(mask.logical_not(), -math.inf)
    return output, scores.logsumexp(dim=-1)
