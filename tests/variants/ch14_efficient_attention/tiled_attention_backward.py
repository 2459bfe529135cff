# variant: einsum, and the strips of keys written with index_add
def tiled_attention_backward(q, k, v, output, lse, grad_out, block, causal=False):
    if block < 1:
        raise ValueError(f"block must be positive, not {block}")
    Tq, Tk, scale = q.shape[-2], k.shape[-2], q.shape[-1] ** -0.5
    delta = torch.einsum("...qd,...qd->...q", grad_out, output)
    dq, dk, dv = q * 0, k * 0, v * 0
    for a in range(0, Tk, block):
        at = torch.arange(a, min(a + block, Tk), device=q.device)
        kk, vv = k.index_select(-2, at), v.index_select(-2, at)
        s = torch.einsum("...qd,...kd->...qk", q, kk) * scale
        if causal:
            s = s.masked_fill(at[None] > torch.arange(Tk - Tq, Tk, device=q.device)[:, None], -torch.inf)
        p = torch.where(s == -torch.inf, 0.0, (s - lse.unsqueeze(-1)).exp())
        ds = p * (torch.einsum("...qd,...kd->...qk", grad_out, vv) - delta.unsqueeze(-1))
        dq = dq + scale * torch.einsum("...qk,...kd->...qd", ds, kk)
        dk = dk.index_add(-2, at, scale * torch.einsum("...qk,...qd->...kd", ds, q))
        dv = dv.index_add(-2, at, torch.einsum("...qk,...qd->...kd", p, grad_out))
    return dq, dk, dv


# variant: the strips of grad_k and grad_v in lists, concatenated at the end
def tiled_attention_backward(q, k, v, output, lse, grad_out, block, causal=False):
    assert block > 0, f"block={block}"
    past = k.size(-2) - q.size(-2)
    scale = math.sqrt(q.size(-1))
    q = q / scale
    grad_q, grads_k, grads_v, start = torch.zeros_like(q), [], [], 0
    for keys, values in zip(k.split(block, -2), v.split(block, -2)):
        weights = (q @ keys.mT - lse[..., None]).exp()
        if causal:
            i, j = torch.arange(q.size(-2), device=q.device), torch.arange(keys.size(-2), device=q.device)
            weights = torch.where(j[None, :] + start <= i[:, None] + past, weights, 0.0)
        grad_scores = weights * (grad_out @ values.mT - (grad_out * output).sum(-1, keepdim=True))
        grad_q += grad_scores @ keys / scale
        grads_k.append(grad_scores.mT @ q)
        grads_v.append(weights.mT @ grad_out)
        start += keys.size(-2)
    return grad_q, torch.cat(grads_k, -2), torch.cat(grads_v, -2)


# variant: tiles over queries and keys, both added into the gradients
def tiled_attention_backward(q, k, v, output, lse, grad_out, block, causal=False):
    if not block >= 1:
        raise ValueError(f"{block} keys in a strip")
    Tq, Tk = q.size(-2), k.size(-2)
    grads = [torch.zeros_like(x) for x in (q, k, v)]
    with torch.no_grad():
        for i in range(0, Tq, 32):
            rows = slice(i, min(i + 32, Tq))
            for j in range(0, Tk, block):
                cols = slice(j, min(j + block, Tk))
                p = torch.exp(q[..., rows, :] @ k[..., cols, :].mT / math.sqrt(q.size(-1)) - lse[..., rows, None])
                if causal:
                    p = p.tril(Tk - Tq + i - j)
                dp = grad_out[..., rows, :] @ v[..., cols, :].mT
                ds = p * (dp - (output[..., rows, :] * grad_out[..., rows, :]).sum(-1, keepdim=True)) / math.sqrt(q.size(-1))
                grads[0][..., rows, :] += ds @ k[..., cols, :]
                grads[1][..., cols, :] += ds.mT @ q[..., rows, :]
                grads[2][..., cols, :] += p.mT @ grad_out[..., rows, :]
    return tuple(grads)


# variant: one query at a time
def tiled_attention_backward(q, k, v, output, lse, grad_out, block, causal=False):
    if block < 1:
        raise ValueError(f"block = {block}")
    scale = 1 / math.sqrt(q.shape[-1])
    Tq, Tk = q.shape[-2], k.shape[-2]
    grad_q, grad_k, grad_v = (x.new_zeros(x.shape) for x in (q, k, v))
    for i in range(Tq):
        row, g = q[..., i : i + 1, :], grad_out[..., i : i + 1, :]
        average = (g * output[..., i : i + 1, :]).sum(-1, True)
        end = Tk - Tq + i + 1 if causal else Tk
        for s in range(0, end, block):
            e = min(end, s + block)
            weights = torch.exp(row @ k[..., s:e, :].mT * scale - lse[..., i : i + 1, None])
            grad_scores = weights * (g @ v[..., s:e, :].mT - average) * scale
            grad_v[..., s:e, :].add_(weights.mT @ g)
            grad_k[..., s:e, :].add_(grad_scores.mT @ row)
            grad_q[..., i : i + 1, :].add_(grad_scores @ k[..., s:e, :])
    return grad_q, grad_k, grad_v
