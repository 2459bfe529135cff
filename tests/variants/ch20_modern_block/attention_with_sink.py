# variant: a key of zeros and a value of zeros, with the sink as a bias
def attention_with_sink(q, k, v, sink, mask=None):
    B, H, Tq, d = q.shape
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * d**-0.5
    if mask is not None:
        scores = scores.masked_fill(mask == False, float("-inf"))  # noqa: E712
    scores = torch.cat([sink.view(1, H, 1, 1).to(scores).expand(B, H, Tq, 1), scores], dim=3)
    weights = F.softmax(scores, dim=3)
    values = torch.cat([torch.zeros_like(v[:, :, :1]), v], dim=2)
    return weights @ values, weights[..., 1:]


# variant: the formula with the largest score subtracted
def attention_with_sink(q, k, v, sink, mask=None):
    scores = (q @ k.mT) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-math.inf, dtype=scores.dtype, device=scores.device))
    own = sink[:, None, None].to(scores.dtype)
    top = torch.maximum(scores.amax(-1, keepdim=True), own).detach()
    exps = (scores - top).exp()
    weights = exps / (exps.sum(-1, keepdim=True) + (own - top).exp())
    return torch.matmul(weights, v), weights


# variant: a softmax, times the share that is not the sink's
def attention_with_sink(q, k, v, sink, mask=None):
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30 if q.dtype in (torch.float32, torch.float64, torch.bfloat16) else -6e4)
    total = torch.logsumexp(scores, dim=-1, keepdim=True)
    share = torch.sigmoid(total - sink.to(scores.dtype).view(-1, 1, 1))
    weights = torch.softmax(scores, dim=-1) * share
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights
