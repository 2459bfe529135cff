"""In explicit loops: layers one by one, texts one by one, tokens one after the other."""

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        if rank < 1:
            raise ValueError(f"rank = {rank}, but it must be 1 or more")
        self.linear = linear
        for parameter in self.linear.parameters():
            parameter.requires_grad = False
        self.rank = rank
        self.alpha = alpha
        A = torch.zeros(rank, linear.in_features, dtype=linear.weight.dtype, device=linear.weight.device)
        for row in range(rank):
            A[row] = torch.randn(linear.in_features) / math.sqrt(linear.in_features)
        B = torch.zeros(linear.out_features, rank, dtype=linear.weight.dtype, device=linear.weight.device)
        self.A = nn.Parameter(A)
        self.B = nn.Parameter(B)

    def forward(self, x):
        y = self.linear(x)
        for row in range(self.rank):
            number = (x * self.A[row]).sum(dim=-1, keepdim=True)
            y = y + (self.alpha / self.rank) * number * self.B[:, row]
        return y

    def merged(self):
        with_bias = self.linear.bias is not None
        weight = self.linear.weight
        new = nn.Linear(self.linear.in_features, self.linear.out_features, bias=with_bias, dtype=weight.dtype, device=weight.device)
        with torch.no_grad():
            change = torch.zeros_like(weight)
            for row in range(self.rank):
                change += torch.outer(self.B[:, row], self.A[row])
            new.weight.copy_(weight + change * self.alpha / self.rank)
            if with_bias:
                new.bias.copy_(self.linear.bias)
        return new


def add_lora(model, rank, alpha, names):
    found = []
    for dotted, module in model.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        parts = dotted.split(".")
        for name in names:
            ending = name.split(".")
            if parts[-len(ending) :] == ending:
                found.append(dotted)
                break
    if not found:
        raise ValueError(f"found no linear layer with one of these names: {names}")
    for parameter in model.parameters():
        parameter.requires_grad = False
    for dotted in found:
        parts = dotted.split(".")
        parent = model
        for part in parts[:-1]:
            parent = getattr(parent, part)
        setattr(parent, parts[-1], LoRALinear(getattr(parent, parts[-1]), rank, alpha))
    return found


def answer_labels(ids, spans, ignore_index=-100):
    targets = []
    for i in range(len(ids) - 1):
        target = ignore_index
        for start, stop in spans:
            if i + 1 >= start and i + 1 < stop:
                target = ids[i + 1]
        targets.append(target)
    return targets


def pack(sequences, length, pad_id):
    if length < 1:
        raise ValueError(f"length = {length}, but it must be 1 or more")
    parts = []
    for sequence in sequences:
        start = 0
        while start < len(sequence):
            stop = min(start + length, len(sequence))
            targets = []
            for i in range(start, stop):
                if i + 1 < len(sequence):
                    targets.append(sequence[i + 1])
                else:
                    targets.append(-100)
            parts.append((sequence[start:stop], targets))
            start = stop
    used = []
    places = []
    for part, _ in parts:
        row = 0
        while row < len(used) and used[row] + len(part) > length:
            row += 1
        if row == len(used):
            used.append(0)
        places.append((row, used[row]))
        used[row] += len(part)
    R = len(used)
    ids = torch.full((R, length), pad_id, dtype=torch.int64)
    targets = torch.full((R, length), -100, dtype=torch.int64)
    positions = torch.zeros((R, length), dtype=torch.int64)
    mask = torch.zeros((R, length, length), dtype=torch.bool)
    for (part, following), (row, start) in zip(parts, places):
        for i in range(len(part)):
            ids[row, start + i] = part[i]
            targets[row, start + i] = following[i]
            positions[row, start + i] = i
            for j in range(i + 1):
                mask[row, start + i, start + j] = True
    return ids, targets, positions, mask


def sequence_log_prob(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    log_probs = torch.log_softmax(logits, dim=-1)
    result = []
    for b in range(logits.shape[0]):
        total = 0 * log_probs[b, 0, 0]
        for t in range(logits.shape[1]):
            if targets[b, t] != ignore_index:
                total = total + log_probs[b, t, targets[b, t]]
        result.append(total)
    return torch.stack(result)


def reward_loss(chosen: Tensor, rejected: Tensor, margin: float = 0.0) -> Tensor:
    total = 0
    for i in range(len(chosen)):
        total = total - F.logsigmoid(chosen[i] - rejected[i] - margin)
    return total / len(chosen)


def dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta=0.1):
    total = 0
    chosen_reward = torch.zeros_like(policy_chosen)
    rejected_reward = torch.zeros_like(policy_rejected)
    for i in range(len(policy_chosen)):
        better = beta * (policy_chosen[i] - reference_chosen[i].detach())
        worse = beta * (policy_rejected[i] - reference_rejected[i].detach())
        total = total - F.logsigmoid(better - worse)
        chosen_reward[i] = better.detach()
        rejected_reward[i] = worse.detach()
    return total / len(policy_chosen), chosen_reward, rejected_reward


def kl_estimate(policy: Tensor, reference: Tensor, kind: str = "k3") -> Tensor:
    d = policy - reference
    if kind == "k1":
        return d
    elif kind == "k2":
        return d * d / 2
    elif kind == "k3":
        return torch.exp(-d) - 1 + d
    else:
        raise ValueError(f"kind = {kind} is not known")


def group_advantages(rewards: Tensor, group_size: int, normalise: bool = True) -> Tensor:
    if group_size < 1 or len(rewards) % group_size != 0:
        raise ValueError(f"group_size = {group_size} does not divide {len(rewards)} rewards")
    result = torch.zeros_like(rewards)
    for start in range(0, len(rewards), group_size):
        group = rewards[start : start + group_size]
        different = False
        for reward in group:
            if reward != group[0]:
                different = True
        if not different:
            continue
        mean = 0
        for reward in group:
            mean = mean + reward / group_size
        variance = 0
        for reward in group:
            variance = variance + (reward - mean) ** 2 / (group_size - 1)
        for i in range(group_size):
            result[start + i] = group[i] - mean
            if normalise:
                result[start + i] = (group[i] - mean) / torch.sqrt(variance)
    return result


def policy_loss(log_probs, old_log_probs, advantages, mask, clip=0.2, kl=None, kl_weight=0.0, average="token"):
    if average != "token" and average != "sequence":
        raise ValueError(f"average = {average} is not known")
    B, T = log_probs.shape
    answers = []
    for b in range(B):
        advantage = advantages[b].detach()
        losses = []
        for t in range(T):
            if not mask[b, t]:
                continue
            ratio = torch.exp(log_probs[b, t] - old_log_probs[b, t].detach())
            clipped = torch.clamp(ratio, 1 - clip, 1 + clip)
            if ratio * advantage <= clipped * advantage:
                loss = -ratio * advantage
            else:
                loss = -clipped * advantage
            if kl is not None:
                loss = loss + kl_weight * kl[b, t]
            losses.append(loss)
        if len(losses) > 0:
            answers.append(losses)
    if len(answers) == 0:
        return (log_probs * mask).sum() * 0
    total = 0
    count = 0
    for losses in answers:
        if average == "token":
            total = total + sum(losses)
            count += len(losses)
        else:
            total = total + sum(losses) / len(losses)
            count += 1
    return total / count


def last_number(text):
    one = r"(?:\d{1,3}(?:,\d\d\d)+(?!\d)|\d+)(?:\.\d+)?"
    found = None
    for match in re.finditer(rf"{one}(?:/{one})?", text):
        found = match
    if found is None:
        return None
    parts = []
    for part in found.group().split("/"):
        parts.append(float(part.replace(",", "")))
    number = parts[0]
    if len(parts) == 2:
        if parts[1] == 0:
            return None
        number = number / parts[1]
    before = text[: found.start()]
    if before != "" and before[-1] == "-":
        if len(before) == 1 or not (before[-2].isalpha() or before[-2].isdigit() or before[-2] in ")]}"):
            number = -number
    return number


def grade_answer(text: str, expected: float | str) -> float:
    if isinstance(expected, str):
        expected = last_number(expected)
    number = last_number(text)
    if number is None or expected is None:
        return 0.0
    if number == expected:
        return 1.0
    return 0.0
