"""In explicit loops: groups one by one, answers one by one, tokens one after the other."""

import math

import torch

from .ch09_sampling import generate


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


def entropy(logits, mask):
    total = 0
    places = 0
    for b in range(logits.shape[0]):
        for t in range(logits.shape[1]):
            if not mask[b, t]:
                continue
            places += 1
            row = logits[b, t]
            largest = row.max().detach()
            weights = []
            for v in range(row.shape[0]):
                weights.append(torch.exp(row[v] - largest))
            normaliser = sum(weights)
            for v in range(row.shape[0]):
                if row[v] == -math.inf:
                    continue
                log_p = row[v] - largest - torch.log(normaliser)
                total = total - weights[v] / normaliser * log_p
    if places == 0:
        return 0 * torch.nan_to_num(logits).sum()
    return total / places


def one_kl(log_p, log_q):
    total = 0
    for v in range(log_p.shape[0]):
        total = total + torch.exp(log_p[v]) * (log_p[v] - log_q[v])
    return total


def distillation_loss(student_logits, teacher_logits, mask, kind="forward", temperature=1.0):
    if kind != "forward" and kind != "reverse" and kind != "jsd":
        raise ValueError(f"kind = {kind}, but it must be forward, reverse or jsd")
    if temperature <= 0:
        raise ValueError(f"temperature = {temperature}, but it must be positive")
    losses = []
    for b in range(student_logits.shape[0]):
        for t in range(student_logits.shape[1]):
            if mask[b, t]:
                student = torch.log_softmax(student_logits[b, t] / temperature, dim=0)
                teacher = torch.log_softmax(teacher_logits[b, t].detach() / temperature, dim=0)
                if kind == "forward":
                    losses.append(one_kl(teacher, student))
                elif kind == "reverse":
                    losses.append(one_kl(student, teacher))
                else:
                    mixture = torch.logaddexp(student, teacher) - math.log(2)
                    losses.append(0.5 * one_kl(teacher, mixture) + 0.5 * one_kl(student, mixture))
    if len(losses) == 0:
        return 0 * torch.nan_to_num(student_logits).sum()
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total / len(losses) * temperature * temperature


def majority_vote(answers, weights=None):
    if weights is not None and len(answers) != len(weights):
        raise ValueError(f"there are {len(answers)} answers and {len(weights)} weights")
    best = None
    best_votes = None
    for i in range(len(answers)):
        if answers[i] is None:
            continue
        votes = 0
        for j in range(len(answers)):
            if answers[j] is not None and answers[j] == answers[i]:
                if weights is None:
                    votes += 1
                else:
                    votes += weights[j]
        if best_votes is None or votes > best_votes:
            best = answers[i]
            best_votes = votes
    return best


def best_of(candidates, score):
    best = None
    best_score = None
    for candidate in candidates:
        if candidate is not None:
            this = score(candidate)
            if best_score is None or this > best_score:
                best = candidate
                best_score = this
    return best


def expected_vote(probabilities, n):
    if n < 1:
        raise ValueError(f"n = {n}, but it must be 1 or more")
    if len(probabilities) == 0:
        raise ValueError("probabilities is empty")
    total = 0.0
    for p in probabilities:
        if p < 0:
            raise ValueError(f"probabilities has {p}, which is below 0")
        total += p
    if total > 1.000001:
        raise ValueError(f"the probabilities add up to {total}")
    rest = max(0.0, 1.0 - total)
    number = len(probabilities) - 1
    result = 0.0
    for c in range(1, n + 1):
        left = n - c
        # chance[used][ties]
        chance = [[0.0] * (number + 1) for _ in range(left + 1)]
        chance[0][0] = 1.0
        for p in probabilities[1:]:
            new = [[0.0] * (number + 1) for _ in range(left + 1)]
            for used in range(left + 1):
                for ties in range(number + 1):
                    old = chance[used][ties]
                    if old == 0:
                        continue
                    for k in range(0, left - used + 1):
                        if k > c:
                            break
                        more = 1 if k == c else 0
                        new[used + k][ties + more] += old * math.comb(left - used, k) * p**k
            chance = new
        for used in range(left + 1):
            for ties in range(number + 1):
                part = chance[used][ties] * rest ** (left - used)
                result += math.comb(n, c) * probabilities[0] ** c * part / (ties + 1)
    return result


def think(model, prompt_ids, end_think_id, minimum, maximum, continue_ids, eos_id=None, max_answer_tokens=32, temperature=0.0, generator=None):
    if minimum > maximum:
        raise ValueError(f"minimum = {minimum} is more than maximum = {maximum}")
    if minimum > 0 and len(continue_ids) == 0:
        raise ValueError("continue_ids needs at least one id")
    for parameter in model.parameters():
        device = parameter.device
        break
    text = []
    for token in prompt_ids:
        text.append(token)
    thinking = []
    while len(thinking) < maximum:
        ids = torch.tensor([text], device=device)
        token = generate(model, ids, 1, temperature=temperature, generator=generator)[0, -1].item()
        if token == end_think_id:
            if len(thinking) >= minimum:
                break
            for more in continue_ids:
                if len(thinking) < maximum:
                    thinking.append(more)
                    text.append(more)
        else:
            thinking.append(token)
            text.append(token)
    text.append(end_think_id)
    answer = []
    for _ in range(max_answer_tokens):
        ids = torch.tensor([text], device=device)
        token = generate(model, ids, 1, temperature=temperature, generator=generator)[0, -1].item()
        if token == eos_id:
            break
        answer.append(token)
        text.append(token)
    return thinking, answer
