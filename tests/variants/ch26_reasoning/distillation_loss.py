# variant: kl_div with logarithms as targets, on the places that count
import math

import torch
import torch.nn.functional as F


def distillation_loss(student_logits, teacher_logits, mask, kind="forward", temperature=1.0):
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} is not positive")
    s = F.log_softmax(student_logits[mask] / temperature, -1)
    with torch.no_grad():
        t = F.log_softmax(teacher_logits[mask] / temperature, -1)

    def distance(a, b):
        return F.kl_div(b, a, reduction="sum", log_target=True)

    match kind:
        case "forward":
            total = distance(t, s)
        case "reverse":
            total = distance(s, t)
        case "jsd":
            m = torch.stack([s, t]).logsumexp(0) - math.log(2)
            total = 0.5 * (distance(t, m) + distance(s, m))
        case _:
            raise ValueError(f"unknown kind {kind!r}")
    return total * temperature**2 / max(int(mask.sum()), 1)


# variant: entropy and cross-entropy, weights of places
import torch


def distillation_loss(student_logits, teacher_logits, mask, kind="forward", temperature=1.0):
    assert kind in {"forward", "reverse", "jsd"}, f"kind = {kind}"
    assert temperature > 0, f"temperature = {temperature}"
    safe = [torch.where(mask[:, :, None], logits, 0).div(temperature) for logits in (student_logits, teacher_logits.detach())]
    s, t = (logits - logits.logsumexp(-1, keepdim=True) for logits in safe)
    weight = temperature**2 * mask.to(s.dtype) / mask.sum().clamp(min=1)
    if kind == "jsd":
        m = torch.logaddexp(s, t) - torch.full_like(s, 2).log()
        each = (s.exp() * (s - m) + t.exp() * (t - m)).sum(-1) / 2
    else:
        p, q = (t, s) if kind == "forward" else (s, t)
        each = torch.einsum("btv,btv->bt", p.exp(), p - q)
    return (weight * each).sum()


# variant: place by place
import torch


def distillation_loss(student_logits, teacher_logits, mask, kind="forward", temperature=1.0):
    if kind not in ["forward", "reverse", "jsd"]:
        raise ValueError("kind must be forward, reverse or jsd, not " + kind)
    if temperature <= 0:
        raise ValueError("temperature must be positive, not " + str(temperature))
    losses = []
    for b, t in mask.nonzero().tolist():
        mine = torch.log_softmax(student_logits[b, t] / temperature, 0)
        other = torch.log_softmax(teacher_logits[b, t].detach() / temperature, 0)
        middle = torch.logaddexp(mine - torch.tensor(2.0).log().item(), other - torch.tensor(2.0).log().item())
        if kind == "forward":
            losses.append((other.exp() * (other - mine)).sum())
        elif kind == "reverse":
            losses.append((mine.exp() * (mine - other)).sum())
        else:
            losses.append((mine.exp() * (mine - middle)).sum() / 2 + (other.exp() * (other - middle)).sum() / 2)
    if len(losses) == 0:
        return 0 * student_logits.nan_to_num().sum()
    return sum(losses) / len(losses) * temperature * temperature


# variant: the teacher is masked by the distance only
import math

import torch


def distillation_loss(student_logits, teacher_logits, mask, kind="forward", temperature=1.0):
    if kind not in ("forward", "reverse", "jsd") or not temperature > 0:
        raise ValueError(f"kind = {kind!r} and temperature = {temperature} are not possible")
    s = (student_logits.masked_fill(~mask[..., None], 0) / temperature).log_softmax(2)
    t = (teacher_logits.detach() / temperature).log_softmax(2)
    m = torch.logaddexp(s, t).detach() - math.log(2)
    if kind == "forward":
        each = t.exp() * (t - s)
    elif kind == "reverse":
        each = s.exp() * (s - t)
    else:
        each = (s.exp() * (s - m) + t.exp() * (t - m)) / 2
    each = each.sum(2).masked_fill(~mask, 0)
    return each.sum() / mask.sum().clamp(min=1) * temperature**2
