"""Chapter 26 in the terse style: as short as it can be read."""

import functools
import math

import torch

from .ch09_sampling import generate


def rows(r, n, least):
    assert n >= least and not len(r) % n, f"no groups of {n}"
    return r.view(-1, n)


def leave_one_out_advantages(rewards, group_size):
    g = rows(rewards, group_size, 2)
    return ((g - g.mean(1, True)) * (group_size / (group_size - 1))).flatten()


def informative_groups(rewards, group_size):
    g = rows(rewards, group_size, 1)
    return (g != g[:, :1]).any(1, True).expand_as(g).flatten()


def long_answer_penalty(lengths, soft, hard):
    assert soft < hard, f"{soft} >= {hard}"
    return -((lengths.float() - soft) / (hard - soft)).clamp(0, 1)


def kl_loss(log_probs, reference_log_probs, mask):
    p = log_probs[mask]
    return ((p - reference_log_probs[mask]).detach() * p).sum() / max(len(p), 1)


def clipped(ratio, a, low, high):
    return torch.maximum(-a * ratio, -a * ratio.clamp(1 - low, 1 + high))


def asymmetric_policy_loss(
    log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28, average="token", length=None
):
    assert average in ("token", "sequence", "fixed"), f"no average {average}"
    assert average != "fixed" or length and length > 0, f"length {length}"
    ratio = (log_probs - old_log_probs.detach()).where(mask, 0).exp()
    loss = clipped(ratio, advantages.detach()[:, None], low, high).where(mask, 0)
    if average == "fixed":
        return loss.sum(1).mean() / length
    n = mask.sum(1, keepdim=True) if average == "sequence" else mask.sum()
    return (loss / n.clamp(min=1)).sum() / (n > 0).sum().clamp(min=1)


def sequence_policy_loss(log_probs, old_log_probs, advantages, mask, low=0.2, high=0.28):
    n = mask.sum(1)
    ratio = ((log_probs - old_log_probs.detach()).where(mask, 0).sum(1) / n.clamp(min=1)).exp()
    return clipped(ratio, advantages.detach(), low, high)[n > 0].sum() / (n > 0).sum().clamp(min=1)


def truncated_weights(train_log_probs, rollout_log_probs, cap):
    assert cap > 0, f"cap {cap}"
    return (train_log_probs - rollout_log_probs).detach().exp().clamp_max(cap)


def entropy(logits, mask):
    x = logits[mask]
    lp = x.log_softmax(-1)
    return -(lp.exp() * lp.where(x > -torch.inf, 0)).sum() / max(1, len(x))


def distillation_loss(student_logits, teacher_logits, mask, kind="forward", temperature=1.0):
    assert kind in ("forward", "reverse", "jsd"), kind
    assert temperature > 0, f"temperature {temperature} <= 0"
    s, t = ((x[mask] / temperature).log_softmax(-1) for x in (student_logits, teacher_logits.detach()))
    m = torch.logaddexp(s, t) - math.log(2)
    pairs = {"forward": [(t, s)], "reverse": [(s, t)], "jsd": [(s, m), (t, m)]}[kind]
    kl = sum((p.exp() * (p - q)).sum() for p, q in pairs) / len(pairs)
    return kl * temperature**2 / max(1, len(s))


def majority_vote(answers, weights=None):
    w = [1] * len(answers) if weights is None else weights
    assert len(w) == len(answers), f"{len(w)} weights, {len(answers)} answers"
    found = [a for a in answers if a is not None]
    return max(found, key=lambda a: sum(x for b, x in zip(answers, w) if b == a and b is not None), default=None)


def best_of(candidates, score):
    scored = [(c, score(c)) for c in candidates if c is not None]
    return max(scored, key=lambda cs: cs[1])[0] if scored else None


def expected_vote(probabilities, n):
    (p, *wrong), rest = probabilities or [-1], 1 - math.fsum(probabilities)
    assert n > 0, f"n = {n}"
    assert min(p, *wrong, rest + 1e-9, 1) >= 0, f"probabilities {probabilities}"

    @functools.cache
    def rec(c, i, left, ties):
        if i == len(wrong):
            return max(rest, 0) ** left / (1 + ties)
        return sum(math.comb(left, k) * wrong[i] ** k * rec(c, i + 1, left - k, ties + (k == c)) for k in range(min(c, left) + 1))

    return sum(math.comb(n, c) * p**c * rec(c, 0, n - c, 0) for c in range(1, n + 1))


def think(model, prompt_ids, end_think_id, minimum, maximum, continue_ids, eos_id=None, max_answer_tokens=32, temperature=0.0, generator=None):
    assert minimum <= maximum, f"minimum {minimum} > maximum {maximum}"
    assert continue_ids or minimum < 1, "no continue_ids"
    device, prompt, thinking = next(model.parameters()).device, [*prompt_ids], []

    def write(ids, n, stop):
        ids = torch.tensor([ids], device=device)
        new = generate(model, ids, n, stop, temperature, generator=generator)[0, ids.size(1) :].tolist()
        return (new[:-1], True) if new[-1:] == [stop] else (new, False)

    early = True
    while early:
        new, ended = write(prompt + thinking, maximum - len(thinking), end_think_id)
        thinking += new
        if early := ended and len(thinking) < minimum:
            thinking = [*thinking, *continue_ids][:maximum]
    return thinking, write([*prompt, *thinking, end_think_id], max_answer_tokens, eos_id)[0]
