# variant: einsum, queries scaled before the product, torch.where for the mask
def scaled_dot_product_attention(q, k, v, mask=None, bias=None):
    scores = torch.einsum("...qd,...kd->...qk", q * q.shape[-1] ** -0.5, k)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(float("-inf"), dtype=scores.dtype))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, v), weights


# variant: -1e9 for masked keys, whose weights are then set to zero
def scaled_dot_product_attention(q, k, v, mask=None, bias=None):
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.size(-1))
    scores = scores if bias is None else scores + bias
    if mask is None:
        weights = softmax(scores, -1)
    else:
        weights = softmax(scores.masked_fill(mask == 0, -1e9), -1) * mask
    return torch.matmul(weights, v), weights


# variant: mask and bias joined into one additive bias, added the other way round; both sides scaled by the fourth root
def scaled_dot_product_attention(q, k, v, mask=None, bias=None):
    root = q.size(-1) ** 0.25
    scores = (q / root) @ (k / root).transpose(-2, -1)
    if mask is not None:
        scores = scores + torch.zeros(mask.shape, dtype=q.dtype).masked_fill(mask.logical_not(), float("-inf"))
    if bias is not None:
        scores = scores + bias
    weights = softmax(scores, dim=-1)
    return weights @ v, weights


# variant: torch's softmax, with empty rows taken out before it
def scaled_dot_product_attention(q, k, v, mask=None, bias=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
    return [weights @ v, weights]


# variant: in double precision inside, one query after the other
def scaled_dot_product_attention(q, k, v, mask=None, bias=None):
    dtype, q, k, v = q.dtype, q.double(), k.double(), v.double()
    whole = (*q.shape[:-1], k.size(-2))
    rows = []
    for i in range(q.size(-2)):
        row = (q[..., i : i + 1, :] * k).sum(-1) / q.size(-1) ** 0.5
        if bias is not None:
            row = row + bias.expand(whole)[..., i, :]
        if mask is not None:
            row = row.masked_fill(~mask.expand(whole)[..., i, :], -math.inf)
        rows.append(softmax(row))
    weights = torch.stack(rows, dim=-2)
    return (weights @ v).to(dtype), weights.to(dtype)


# variant: the least finite number for masked keys, and zeros for rows without a key
def scaled_dot_product_attention(q, k, v, mask=None, bias=None):
    scores = (q @ k.transpose(-2, -1)).div(math.sqrt(q.size(-1)))
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if bias is not None:
        scores, allowed = scores + bias, allowed & (bias > -math.inf)
    if mask is not None:
        allowed = allowed & mask
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    weights = softmax(scores).masked_fill(~allowed, 0)
    return weights @ v, weights
