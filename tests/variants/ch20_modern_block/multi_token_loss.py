# variant: targets filled up with ignore_index
def multi_token_loss(logits, targets, ignore_index=-100):
    K, B, T, V = logits.shape
    total = 0.0
    for k in range(K):
        shifted = torch.full_like(targets, ignore_index)
        if k < T:
            shifted[:, : T - k] = targets[:, k:]
        losses = F.cross_entropy(logits[k].reshape(B * T, V), shifted.reshape(B * T), ignore_index=ignore_index, reduction="none")
        total = total + losses.sum() / max(int((shifted != ignore_index).sum()), 1)
    return total / K


# variant: log-probabilities looked up with gather
def multi_token_loss(logits, targets, ignore_index=-100):
    heads = []
    for k in range(logits.size(0)):
        wanted = targets[:, k:]
        real = wanted != ignore_index
        log_probs = torch.log_softmax(logits[k, :, : wanted.size(1)], dim=-1)
        found = log_probs.gather(2, wanted.masked_fill(~real, 0).unsqueeze(2)).squeeze(2)
        heads.append(-(found.masked_fill(~real, 0.0)).sum() / real.sum().clamp(min=1))
    return sum(heads) / len(heads)


# variant: only the positions that count
def multi_token_loss(logits, targets, ignore_index=-100):
    losses = []
    for k, own in enumerate(logits.unbind()):
        length = max(targets.size(1) - k, 0)
        real = targets[:, k:].ne(ignore_index)
        chosen, wanted = own[:, :length][real], targets[:, k:][real]
        losses.append(F.cross_entropy(chosen, wanted) if len(wanted) else (chosen * 0).sum())
    return torch.stack(losses).mean()
