# variant: a Function whose gradients are computed in the forward pass
class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, chunk, ignore_index):
        rows, goals = hidden.reshape(-1, hidden.size(-1)), targets.reshape(-1)
        kept = (goals != ignore_index).sum().clamp(min=1)
        loss, grad_hidden, grad_weight = hidden.new_zeros(()), torch.zeros_like(rows), torch.zeros_like(weight)
        for a in range(0, len(goals), chunk):
            part = slice(a, a + chunk)
            logits, ids = rows[part] @ weight.T, goals[part]
            loss += torch.nn.functional.cross_entropy(logits, ids, ignore_index=ignore_index, reduction="sum")
            probs = logits.softmax(-1)
            seen = ids != ignore_index
            ids = ids.masked_fill(~seen, 0)
            probs -= torch.nn.functional.one_hot(ids, weight.size(0))
            probs *= seen[:, None]
            grad_hidden[part] = probs @ weight
            grad_weight += probs.T @ rows[part]
        ctx.save_for_backward(grad_hidden.view_as(hidden) / kept, grad_weight / kept)
        return loss / kept

    @staticmethod
    def backward(ctx, grad):
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad * grad_hidden, grad * grad_weight, None, None, None


def chunked_cross_entropy(hidden, weight, targets, chunk, ignore_index=-100):
    if chunk < 1:
        raise ValueError(f"chunk must be positive, got {chunk}")
    return _Loss.apply(hidden, weight, targets, chunk, ignore_index)


# variant: the logits computed again in the backward pass, chunk by chunk
def chunked_cross_entropy(hidden, weight, targets, chunk, ignore_index=-100):
    assert chunk >= 1, f"chunk = {chunk}"

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, rows, table):
            ctx.save_for_backward(rows, table)
            return sum(summed(rows[a : a + chunk], table, goals[a : a + chunk]) for a in range(0, len(goals), chunk)) / count

        @staticmethod
        def backward(ctx, grad):
            rows, table = (x.detach().requires_grad_() for x in ctx.saved_tensors)
            for a in range(0, len(goals), chunk):
                with torch.enable_grad():
                    (summed(rows[a : a + chunk], table, goals[a : a + chunk]) / count * grad).backward()
            return rows.grad, table.grad

    def summed(rows, table, ids):
        return torch.nn.functional.cross_entropy(rows @ table.T, ids, ignore_index=ignore_index, reduction="sum")

    goals = targets.flatten()
    count = (goals != ignore_index).sum().clamp(min=1)
    return Loss.apply(hidden.reshape(-1, hidden.shape[-1]), weight)


# variant: checkpointed chunks without those that are all ignored, logsumexp minus the target's logit
def chunked_cross_entropy(hidden, weight, targets, chunk, ignore_index=-100):
    if chunk <= 0:
        raise ValueError(f"chunk={chunk}")
    hidden, targets = hidden.reshape(-1, hidden.size(-1)), targets.flatten()
    kept = targets != ignore_index
    total = (hidden[:0].sum() + weight[:0].sum()) * 1.0
    for h, t, m in zip(hidden.split(chunk), targets.split(chunk), kept.split(chunk)):
        if m.any():
            total = total + checkpointed(_Masked(), h, weight, t.masked_fill(~m, 0), m)
    return total / kept.sum().clamp(min=1)


class _Masked(nn.Module):
    def forward(self, hidden, weight, targets, kept):
        logits = hidden @ weight.t()
        return ((logits.logsumexp(-1) - logits.gather(-1, targets[:, None])[:, 0]) * kept).sum()
