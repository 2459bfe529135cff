# variant: gated values of the output, by a function of torch
def gated_attention(q, k, v, gate, mask=None):
    return F.sigmoid(gate).mul(scaled_dot_product_attention(q, k, v, mask=mask)[0])


# variant: attention written out, tanh for the gate
def gated_attention(q, k, v, gate, mask=None):
    scores = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=3)
    if mask is not None:
        nothing = ~mask.expand(scores.shape).any(dim=3, keepdim=True)
        weights = torch.softmax(scores.masked_fill(nothing, 0.0), dim=3).masked_fill(nothing, 0.0)
    return (weights @ v) * (0.5 * torch.tanh(gate / 2) + 0.5)


# variant: head by head
def gated_attention(q, k, v, gate, mask=None):
    heads = []
    whole = None if mask is None else mask.expand(q.size(0), q.size(1), q.size(2), k.size(2))
    for h in range(q.size(1)):
        output, _ = scaled_dot_product_attention(q[:, h], k[:, h], v[:, h], None if whole is None else whole[:, h])
        heads.append(output * gate[:, h].sigmoid())
    return torch.stack(heads, dim=1)
