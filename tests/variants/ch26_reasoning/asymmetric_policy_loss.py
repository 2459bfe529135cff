# variant: only the tokens that count, by boolean index
def asymmetric_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28, average="token", length=None):
    if average not in {"token", "sequence", "fixed"}:
        raise ValueError(f"average={average}")
    if average == "fixed" and (length is None or length <= 0):
        raise ValueError(f"the average is fixed, but length={length}")
    row = mask.nonzero()[:, 0]
    ratio = (log_probs[mask] - old_log_probs[mask].detach()).exp()
    advantage = advantages.detach()[row]
    loss = -(ratio * advantage).minimum(ratio.clip(1 - low, 1 + high) * advantage)
    if average == "fixed":
        return loss.sum() / mask.shape[0] / length
    if average == "token":
        return loss.sum() / max(len(row), 1)
    tokens = mask.sum(1)
    return (loss / tokens[row]).sum() / max(int((tokens > 0).sum()), 1)


# variant: answer by answer, with one bound for each sign
import torch


def asymmetric_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28, average="token", length=None):
    assert average in ("token", "sequence", "fixed"), f"unknown average {average!r}"
    if average == "fixed":
        assert length is not None and length > 0, f"length must be above 0 and is {length}"
    answers = []
    for b in range(len(log_probs)):
        kept = mask[b].nonzero().flatten()
        ratio = torch.exp(log_probs[b, kept] - old_log_probs.detach()[b, kept])
        worth = advantages[b].item()
        answers.append(-worth * (ratio.clamp(max=1 + high) if worth > 0 else ratio.clamp(min=1 - low)))
    losses = torch.cat(answers)
    if average == "fixed":
        return losses.sum() / (length * len(answers))
    if losses.numel() == 0:
        return losses.sum()
    return losses.mean() if average == "token" else torch.stack([each.mean() for each in answers if len(each)]).mean()


# variant: a weight for each token
import torch


def asymmetric_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28, average="token", length=None):
    with torch.no_grad():
        if average == "token":
            weight = mask.to(log_probs) / mask.sum().clamp(min=1)
        elif average == "sequence":
            per_row = mask.sum(-1, keepdim=True)
            weight = mask.to(log_probs) / per_row.clamp(min=1) / per_row.count_nonzero().clamp(min=1)
        elif average == "fixed":
            if not length or length < 0:
                raise ValueError(f"length = {length} is not above 0")
            weight = mask.to(log_probs) / (len(mask) * length)
        else:
            raise ValueError(f"average must be token, sequence or fixed, not {average}")
        old = torch.where(mask, old_log_probs, 0)
        gain = advantages.unsqueeze(1).expand_as(log_probs)
    ratio = torch.where(mask, log_probs, 0).sub(old).exp()
    objective = torch.where(gain >= 0, ratio.clamp(max=1 + high), ratio.clamp(min=1 - low)) * gain
    return -(objective * weight).sum()


# variant: the larger one of two losses
import torch


def asymmetric_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28, average="token", length=None):
    def of_fixed(losses):
        if length is None or not length > 0:
            raise ValueError(f"length = {length}")
        return losses.sum(dim=1).mean() / length

    def of_sequences(losses):
        counts = mask.sum(dim=1)
        rows = counts > 0
        return (losses.sum(dim=1)[rows] / counts[rows]).sum() / max(int(rows.sum()), 1)

    averages = {"token": lambda losses: losses.sum() / max(int(mask.sum()), 1), "sequence": of_sequences, "fixed": of_fixed}
    if average not in averages:
        raise ValueError(f"no average is called {average}")
    difference = torch.where(mask, log_probs - old_log_probs.detach(), torch.zeros_like(log_probs))
    ratio = torch.exp(difference)
    against = -advantages.detach().view(-1, 1)
    losses = torch.max(against * ratio, against * torch.clamp(ratio, 1 - low, 1 + high))
    return averages[average](torch.where(mask, losses, torch.zeros_like(losses)))
