"""In explicit loops: groups one by one, answers one by one, tokens one after the other."""

import math

import torch


def leave_one_out_advantages(rewards, group_size):
    if group_size < 2:
        raise ValueError(f"group_size = {group_size}, but a group needs at least 2 answers")
    if len(rewards) % group_size != 0:
        raise ValueError(f"group_size = {group_size} does not divide {len(rewards)}")
    result = torch.zeros_like(rewards)
    for start in range(0, len(rewards), group_size):
        for i in range(start, start + group_size):
            others = 0
            for j in range(start, start + group_size):
                if j != i:
                    others = others + rewards[j]
            result[i] = rewards[i] - others / (group_size - 1)
    return result


def informative_groups(rewards, group_size):
    if group_size < 1:
        raise ValueError(f"group_size = {group_size} is below 1")
    if len(rewards) % group_size != 0:
        raise ValueError(f"group_size = {group_size} does not divide {len(rewards)}")
    result = torch.zeros(len(rewards), dtype=torch.bool)
    for start in range(0, len(rewards), group_size):
        different = False
        for i in range(start + 1, start + group_size):
            if rewards[i] != rewards[start]:
                different = True
        for i in range(start, start + group_size):
            result[i] = different
    return result


def long_answer_penalty(lengths, soft, hard):
    if soft >= hard:
        raise ValueError(f"soft = {soft} must be smaller than hard = {hard}")
    result = torch.zeros(len(lengths))
    for i in range(len(lengths)):
        length = float(lengths[i])
        if length >= hard:
            result[i] = -1
        elif length > soft:
            result[i] = -(length - soft) / (hard - soft)
    return result


def kl_loss(log_probs, reference_log_probs, mask):
    B, T = log_probs.shape
    total = 0
    count = 0
    for b in range(B):
        for t in range(T):
            if mask[b, t]:
                difference = log_probs[b, t] - reference_log_probs[b, t].detach()
                total = total + difference**2 / 2
                count += 1
    if count == 0:
        return torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum()
    return total / count


def one_objective(ratio, advantage, low, high):
    clipped = torch.clamp(ratio, 1 - low, 1 + high)
    if ratio * advantage <= clipped * advantage:
        return ratio * advantage
    return clipped * advantage


def asymmetric_policy_loss(
    log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28, average="token", length=None
):
    if average != "token" and average != "sequence" and average != "fixed":
        raise ValueError(f"average = {average} is not known")
    if average == "fixed" and (length is None or length <= 0):
        raise ValueError(f"length = {length}, but it must be above 0")
    B, T = log_probs.shape
    answers = []
    for b in range(B):
        losses = []
        for t in range(T):
            if mask[b, t]:
                ratio = torch.exp(log_probs[b, t] - old_log_probs[b, t].detach())
                losses.append(-one_objective(ratio, advantages[b].detach(), low, high))
        if len(losses) > 0:
            answers.append(losses)
    if len(answers) == 0:
        return torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum()
    total = 0
    count = 0
    for losses in answers:
        if average == "sequence":
            total = total + sum(losses) / len(losses)
            count += 1
        else:
            total = total + sum(losses)
            count += len(losses)
    if average == "fixed":
        return total / (B * length)
    return total / count


def sequence_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28):
    B, T = log_probs.shape
    total = 0
    answers = 0
    for b in range(B):
        change = 0
        tokens = 0
        for t in range(T):
            if mask[b, t]:
                change = change + log_probs[b, t] - old_log_probs[b, t].detach()
                tokens += 1
        if tokens > 0:
            ratio = torch.exp(change / tokens)
            total = total - one_objective(ratio, advantages[b].detach(), low, high)
            answers += 1
    if answers == 0:
        return torch.where(mask, log_probs, torch.zeros_like(log_probs)).sum()
    return total / answers


def truncated_weights(train_log_probs, rollout_log_probs, cap):
    if cap <= 0:
        raise ValueError(f"cap = {cap} is not above 0")
    result = torch.zeros_like(train_log_probs)
    B, T = train_log_probs.shape
    for b in range(B):
        for t in range(T):
            difference = float(train_log_probs[b, t]) - float(rollout_log_probs[b, t])
            if difference > math.log(cap):
                result[b, t] = cap
            else:
                result[b, t] = math.exp(difference)
    return result
