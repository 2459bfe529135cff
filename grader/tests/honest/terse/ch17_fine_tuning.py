"""Chapter 17 in the terse style: as short as it can be read."""

import itertools
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        assert rank > 0, f"rank {rank} < 1"
        self.linear, self.scale, w = linear.requires_grad_(False), alpha / rank, linear.weight
        self.A = nn.Parameter(w.new_empty(rank, w.shape[1]).normal_(0, w.shape[1] ** -0.5))
        self.B = nn.Parameter(w.new_zeros(len(w), rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + x @ (self.scale * self.B @ self.A).mT

    def merged(self) -> nn.Linear:
        o, i = self.linear.weight.shape
        new = nn.Linear(i, o, self.linear.bias is not None).to(self.linear.weight)
        new.load_state_dict(self.linear.state_dict())
        new.weight.data += self.scale * self.B.data @ self.A.data
        return new


def add_lora(model, rank, alpha, names) -> list[str]:
    ends = tuple("." + n for n in names)
    found = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and ("." + n).endswith(ends)}
    assert found, f"no linear layer is one of {names}"
    model.requires_grad_(False)
    for n, m in found.items():
        model.set_submodule(n, LoRALinear(m, rank, alpha))
    return [*found]


def answer_labels(ids, spans, ignore_index=-100):
    inside = {i for s in spans for i in range(*s)}
    return [x if i in inside else ignore_index for i, x in enumerate(ids)][1:]


def pack(sequences, length, pad_id):
    assert length > 0, f"length {length} < 1"
    rows: list[list[tuple]] = []  # id, target, position, number of the part
    n = 0
    for s in sequences:
        tokens = [*itertools.pairwise([*s, -100])]
        for i in range(0, len(s), length):
            n += 1
            part = [(x, y, p, n) for p, (x, y) in enumerate(tokens[i : i + length])]
            row = next((r for r in rows if len(r) + len(part) <= length), None)
            if row is None:
                rows.append(row := [])
            row += part
    full = [r + [(pad_id, -100, 0, -1)] * (length - len(r)) for r in rows]
    ids, targets, positions, part = torch.tensor(full, dtype=torch.long).view(-1, length, 4).unbind(-1)
    return ids, targets, positions, ((part[:, :, None] == part[:, None]) & (part > 0)[:, None]).tril()


def sequence_log_prob(logits, targets, ignore_index=-100):
    return -F.cross_entropy(logits.mT, targets, ignore_index=ignore_index, reduction="none").sum(1)


def reward_loss(chosen, rejected, margin=0.0):
    return F.softplus(rejected - chosen + margin).mean()


def dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta=0.1):
    c = beta * (policy_chosen - reference_chosen.detach())
    r = beta * (policy_rejected - reference_rejected.detach())
    return reward_loss(c, r), c.detach(), r.detach()


def kl_estimate(policy, reference, kind="k3"):
    d = policy - reference
    assert kind in ("k1", "k2", "k3"), f"no {kind}"
    return d if kind == "k1" else d**2 / 2 if kind == "k2" else torch.expm1(-d) + d


def group_advantages(rewards, group_size, normalise=True):
    assert group_size > 0 and len(rewards) % group_size == 0, f"group_size {group_size} for {len(rewards)} rewards"
    g = rewards.reshape(-1, group_size)
    a = g - g.mean(1, keepdim=True)
    a = a / (g.std(1, keepdim=True) + 1e-8) if normalise and group_size > 1 else a
    return a.where(g.amax(1, True) > g.amin(1, True), 0).flatten()


def policy_loss(log_probs, old_log_probs, advantages, mask, clip=0.2, kl=None, kl_weight=0.0, average="token"):
    assert average in ("token", "sequence"), f"no average {average}"
    ratio = (log_probs - old_log_probs.detach()).where(mask, 0).exp()
    a = advantages.detach()[:, None]
    loss = torch.maximum(-a * ratio, -a * ratio.clamp(1 - clip, 1 + clip)) + (0 if kl is None else kl_weight * kl)
    n = mask.sum(1, keepdim=True) if average == "sequence" else mask.sum()
    loss = loss.where(mask, 0) / n.clamp(min=1)
    return loss.sum() / ((n > 0).sum().clamp(min=1))


N = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"


def value(text):
    if isinstance(text, str):
        *_, (minus, a, b) = [("", "nan", ""), *re.findall(rf"((?<![^\W_])(?<![)\]}}])-)?({N})(?:/({N}))?", text)]
        a, b = (float(x.replace(",", "")) for x in (a, b or "1"))
        return (-a if minus else a) / b if b else float("nan")
    return text


def grade_answer(text, expected):
    return float(value(text) == value(expected))
