# variant: only the tokens that count, by boolean index
def policy_loss(log_probs, old_log_probs, advantages, mask, clip=0.2, kl=None, kl_weight=0.0, average="token"):
    if average not in {"token", "sequence"}:
        raise ValueError(f"average={average}")
    row = mask.nonzero()[:, 0]
    ratio = (log_probs[mask] - old_log_probs[mask].detach()).exp()
    advantage = advantages.detach()[row]
    loss = -(ratio * advantage).minimum(ratio.clip(1 - clip, 1 + clip) * advantage)
    if kl is not None:
        loss = loss + kl[mask] * kl_weight
    if average == "token":
        return loss.sum() / max(len(row), 1)
    length = mask.sum(1)
    n_answers = int((length > 0).sum())
    return (loss / length[row]).sum() / max(n_answers, 1)


# variant: answer by answer
import torch


def policy_loss(log_probs, old_log_probs, advantages, mask, clip=0.2, kl=None, kl_weight=0.0, average="token"):
    assert average in ("token", "sequence"), f"unknown average {average!r}"
    answers = []
    for b in range(len(log_probs)):
        kept = mask[b].nonzero().flatten()
        if len(kept) == 0:
            continue
        ratio = torch.exp(log_probs[b, kept] - old_log_probs.detach()[b, kept])
        worth = advantages[b].item()
        held = ratio.clamp(max=1 + clip) if worth > 0 else ratio.clamp(min=1 - clip)
        loss = -worth * held
        if kl is not None:
            loss += kl_weight * kl[b, kept]
        answers.append(loss)
    if not answers:
        return (log_probs * 0).nan_to_num().sum()
    if average == "token":
        return torch.cat(answers).mean()
    return torch.stack([loss.mean() for loss in answers]).mean()


# variant: weights of tokens, where
import torch


def policy_loss(log_probs, old_log_probs, advantages, mask, clip=0.2, kl=None, kl_weight=0.0, average="token"):
    with torch.no_grad():
        if average == "token":
            weight = mask.to(log_probs.dtype) / mask.sum().clamp(min=1)
        elif average == "sequence":
            per_row = mask.sum(-1, keepdim=True)
            weight = mask / per_row.clamp(min=1) / per_row.count_nonzero().clamp(min=1)
            weight = weight.to(log_probs)
        else:
            raise ValueError(f"average must be token or sequence, not {average}")
        old = torch.where(mask, old_log_probs, 0)
        gain = advantages.unsqueeze(1).expand_as(log_probs)
    ratio = torch.where(mask, log_probs, 0).sub(old).exp()
    objective = torch.where(gain >= 0, ratio.clamp(max=1 + clip), ratio.clamp(min=1 - clip)) * gain
    if kl is not None:
        objective = objective - kl_weight * torch.where(mask, kl, 0)
    return -(weight * objective).sum()
