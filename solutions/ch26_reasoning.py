"""Chapter 26: thinking longer, and learning from what was right.

It goes on from chapter 17: what its policy_loss and group_advantages leave open, and what more computation at answering time buys.

B answers, T tokens, V tokens of the vocabulary. `log_probs` (B, T) are the log probabilities of the tokens of B answers, `mask` (B,
T) is True at tokens that count; what is elsewhere has no effect, whatever it is, also inf and NaN. All losses are to be made small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from .ch09_sampling import generate

Answer = TypeVar("Answer", bound=Hashable)
Candidate = TypeVar("Candidate")


def leave_one_out_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """Compare each reward with the mean of the other rewards of its group: (B,) -> (B,).

    The first group_size rewards are a group, the next group_size another one, and so on. Nothing is divided by a standard
    deviation. Rewards are numbers without a graph. Raises a ValueError that names group_size if it is below 2 or does not divide B.
    """
    # TODO 1: check the size; give every group a row
    # TODO 2: the mean of the others is the group's sum without the own reward, divided by one less than the size
    ### BEGIN SOLUTION
    if group_size < 2 or len(rewards) % group_size != 0:
        raise ValueError(f"{len(rewards)} rewards cannot be cut into groups of group_size = {group_size}, at least 2")
    groups = rewards.view(-1, group_size)  # (B / group_size, group_size)
    others = (groups.sum(dim=1, keepdim=True) - groups) / (group_size - 1)
    return (groups - others).flatten()
    ### END SOLUTION


def informative_groups(rewards: Tensor, group_size: int) -> Tensor:
    """Return which answers are in a group whose rewards differ: (B,) -> bools (B,), the same for the whole group.

    If all rewards of a group are equal, all its advantages are 0: its answers teach nothing, but they would count in an average.
    Raises a ValueError that names group_size if it is below 1 or does not divide B.
    """
    # TODO 1: check the size; give every group a row
    # TODO 2: compare each group's largest reward with its smallest, and repeat the result for each answer
    ### BEGIN SOLUTION
    if group_size < 1 or len(rewards) % group_size != 0:
        raise ValueError(f"{len(rewards)} rewards cannot be cut into groups of group_size = {group_size}")
    groups = rewards.view(-1, group_size)
    return (groups.amax(dim=1) > groups.amin(dim=1)).repeat_interleave(group_size)
    ### END SOLUTION


def long_answer_penalty(lengths: Tensor, soft: int, hard: int) -> Tensor:
    """Return what is added to the reward of an answer for its length: (B,) -> (B,), float32.

    It is 0 up to `soft` tokens, -1 from `hard` on, and on a straight line between. Raises a ValueError that names both if soft is
    not below hard.
    """
    # TODO 1: check the limits
    # TODO 2: compute the line, and keep it within -1 and 0
    ### BEGIN SOLUTION
    if soft >= hard:
        raise ValueError(f"soft = {soft} must be below hard = {hard}")
    return ((soft - lengths) / (hard - soft)).clamp(-1, 0).float()
    ### END SOLUTION


def kl_loss(log_probs: Tensor, reference_log_probs: Tensor, mask: Tensor) -> Tensor:
    """Return a loss whose expected gradient is that of KL(policy ‖ reference), a scalar.

    Both inputs (B, T) are log probabilities of tokens that the policy has drawn: by the policy, and by the fixed reference model,
    which gets no gradient. Averaged over all tokens that the policy may draw at a place, each as often as the policy draws it, the
    gradient of the loss is the gradient of the sum over tokens of p · (log p - log reference). The loss is a mean over the tokens
    where the mask is True; without any, it is 0 and so are its gradients. Only its gradient matters, and its value is up to you.
    """
    # TODO 1: compute the difference, safe where the mask is False; detach the reference
    # TODO 2: choose a function of it: which of k1, k2 and k3 has the right expected gradient? the lesson computes all three
    # TODO 3: average over the tokens where the mask is True
    ### BEGIN SOLUTION
    d = (log_probs - reference_log_probs.detach()).masked_fill(~mask, 0.0)
    return (d.square() / 2).sum() / mask.sum().clamp(min=1)
    ### END SOLUTION


def asymmetric_policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    low: float = 0.2,
    high: float = 0.28,
    average: str = "token",
    length: float | None = None,
) -> Tensor:
    """Return the clipped loss of a policy gradient with a bound for each direction, a scalar.

    As in policy_loss, a token's ratio is exp(log_probs - old_log_probs), and its objective is the smaller one of ratio · advantage
    and clipped ratio · advantage; its loss is minus the objective. The clipped ratio is at least 1 - low and at most 1 + high.
    `old_log_probs` and `advantages` (B,) get no gradients.

    With average="token", all tokens where the mask is True count the same; with "sequence", each answer's mean counts the same, and
    answers without a token do not count. With "fixed" (Dr. GRPO), the sum over all tokens is divided by B · length, so a token's
    weight depends neither on its own answer's length nor on the others'; answers without a token count in B, and other averages
    ignore `length`. Without any token, the loss is 0, and so are its gradients. Raises a ValueError that names `average` for
    another one, and one that names `length` if "fixed" has none above 0.
    """
    # TODO 1: check average and length; compute the ratios, safe where the mask is False
    # TODO 2: compute both products, and take the smaller one of them
    # TODO 3: average in one of the three ways
    ### BEGIN SOLUTION
    if average not in ("token", "sequence", "fixed"):
        raise ValueError(f"the average {average!r} is not one of token, sequence, fixed")
    if average == "fixed" and not (length is not None and length > 0):
        raise ValueError(f"length = {length}, but the fixed average divides by a length above 0")
    change = (log_probs - old_log_probs.detach()).masked_fill(~mask, 0.0)
    ratio = change.exp()  # (B, T)
    worth = advantages.detach()[:, None]  # (B, 1)
    loss = -torch.minimum(ratio * worth, ratio.clamp(1 - low, 1 + high) * worth).masked_fill(~mask, 0.0)
    if average == "token":
        return loss.sum() / mask.sum().clamp(min=1)
    if average == "fixed":
        return loss.sum() / (len(mask) * length)
    tokens = mask.sum(dim=1)  # (B,)
    return (loss.sum(dim=1) / tokens.clamp(min=1)).sum() / (tokens > 0).sum().clamp(min=1)
    ### END SOLUTION


def sequence_policy_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, low: float = 0.2, high: float = 0.28
) -> Tensor:
    """Return the clipped loss of a policy gradient with one ratio for each answer (GSPO), a scalar.

    An answer's ratio is exp of the mean of log_probs - old_log_probs over its tokens: the geometric mean of the tokens' ratios. Its
    objective is the smaller one of ratio · advantage and clipped ratio · advantage, with the clipped ratio from 1 - low to 1 +
    high. The loss is minus the mean over the answers that have a token. Without any, it is 0, and so are its gradients.
    `old_log_probs` and `advantages` (B,) get no gradients.
    """
    # TODO 1: average the differences over each answer's tokens, and apply exp
    # TODO 2: take the smaller one of both products
    # TODO 3: average over the answers that have a token
    ### BEGIN SOLUTION
    change = (log_probs - old_log_probs.detach()).masked_fill(~mask, 0.0)
    tokens = mask.sum(dim=1)  # (B,)
    ratio = (change.sum(dim=1) / tokens.clamp(min=1)).exp()  # (B,)
    worth = advantages.detach()
    loss = -torch.minimum(ratio * worth, ratio.clamp(1 - low, 1 + high) * worth)
    counts = tokens > 0
    return loss.masked_fill(~counts, 0.0).sum() / counts.sum().clamp(min=1)
    ### END SOLUTION


def truncated_weights(train_log_probs: Tensor, rollout_log_probs: Tensor, cap: float) -> Tensor:
    """Return how much each drawn token counts if another program has drawn it: two (B, T) -> (B, T), without gradient.

    The weight is the ratio of its probability in training to its probability when it was drawn, and at most `cap`. It is finite for
    log probabilities of any finite size. Raises a ValueError that names `cap` if it is not above 0.
    """
    # TODO 1: check the cap
    # TODO 2: compute the ratio, at most cap, without a graph
    ### BEGIN SOLUTION
    if not cap > 0:
        raise ValueError(f"cap = {cap}, but a weight is above 0")
    return (train_log_probs - rollout_log_probs).detach().exp().clamp(max=cap)
    ### END SOLUTION


def entropy(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the mean entropy of the next token, -Σ p log p in nats, over the places where the mask is True: (B, T, V), (B, T) -> scalar.

    It carries gradient. Large logits, such as 1e4, are no problem, and a logit of -inf gives its token the probability 0 and adds
    nothing. Without any place, the entropy is 0, and so are its gradients.
    """
    # TODO 1: compute log-probabilities and probabilities
    # TODO 2: multiply them, safe where a probability is 0, and add up over the vocabulary
    # TODO 3: average over the places where the mask is True
    ### BEGIN SOLUTION
    logits = logits.masked_fill(~mask[..., None], 0.0)
    log_p = torch.log_softmax(logits, dim=-1)  # (B, T, V)
    surprise = log_p.exp() * log_p.masked_fill(logits == -math.inf, 0.0)
    return -surprise.sum(dim=-1).masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
    ### END SOLUTION


def distillation_loss(
    student_logits: Tensor, teacher_logits: Tensor, mask: Tensor, kind: str = "forward", temperature: float = 1.0
) -> Tensor:
    """Return how far a student is from its teacher: logits (B, T, V) of both, mask (B, T) -> a scalar.

    Both logits are divided by the temperature and become probabilities s and t. With "forward" the distance is KL(t ‖ s), the sum
    over tokens of t · (log t - log s), with "reverse" KL(s ‖ t), and with "jsd" the mean of KL(t ‖ m) and KL(s ‖ m), where m = (s +
    t) / 2. The loss is the mean over the places where the mask is True, times temperature². Without any place, it is 0, and so are
    its gradients. Loss and gradients are finite for logits of any finite size, such as 1e4. The teacher gets no gradient. Raises a
    ValueError that names `kind` if it is another one, and one that names `temperature` if it is not above 0.
    """
    # TODO 1: check kind and temperature
    # TODO 2: compute both log-probabilities at this temperature; detach the teacher
    # TODO 3: compute the distance at each place; the logarithm of the mixture is safe with torch.logaddexp
    # TODO 4: average over the places where the mask is True, and multiply by temperature²
    ### BEGIN SOLUTION
    if kind not in ("forward", "reverse", "jsd"):
        raise ValueError(f"the kind {kind!r} is not one of forward, reverse, jsd")
    if not temperature > 0:
        raise ValueError(f"temperature = {temperature}, but it must be above 0")
    hidden = ~mask[..., None]
    s = torch.log_softmax(student_logits.masked_fill(hidden, 0.0) / temperature, dim=-1)  # (B, T, V)
    t = torch.log_softmax(teacher_logits.detach().masked_fill(hidden, 0.0) / temperature, dim=-1)

    def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
        return (log_p.exp() * (log_p - log_q)).sum(dim=-1)  # (B, T)

    if kind == "forward":
        distance = kl(t, s)
    elif kind == "reverse":
        distance = kl(s, t)
    else:
        m = torch.logaddexp(s, t) - math.log(2)
        distance = (kl(t, m) + kl(s, m)) / 2
    return temperature**2 * distance.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
    ### END SOLUTION


def majority_vote(answers: Sequence[Answer | None], weights: Sequence[float] | None = None) -> Answer | None:
    """Return the answer with the most votes; of equal ones, the one that comes first.

    Each answer has one vote, or its weight. None (no answer was found) does not vote; if nothing else is there, the result is None.
    Raises a ValueError that names `weights` if there are not as many as answers.
    """
    # TODO 1: check the number of weights
    # TODO 2: add up the votes of each answer in a dict, which keeps the order; leave out None
    # TODO 3: return the answer with the most votes
    ### BEGIN SOLUTION
    if weights is None:
        weights = [1.0] * len(answers)
    if len(weights) != len(answers):
        raise ValueError(f"there are {len(answers)} answers, but {len(weights)} weights")
    votes: dict[Answer, float] = {}
    for answer, weight in zip(answers, weights):
        if answer is not None:
            votes[answer] = votes.get(answer, 0.0) + weight
    return max(votes, key=votes.__getitem__, default=None)
    ### END SOLUTION


def best_of(candidates: Sequence[Candidate | None], score: Callable[[Candidate], float]) -> Candidate | None:
    """Return the candidate with the highest score; of equal ones, the first.

    `score` is called once for each candidate, in their order, and never for None, which cannot win. Without any candidate, the
    result is None.
    """
    # TODO 1: leave out None, and compare the scores
    ### BEGIN SOLUTION
    return max((candidate for candidate in candidates if candidate is not None), key=score, default=None)
    ### END SOLUTION


def expected_vote(probabilities: Sequence[float], n: int) -> float:
    """Return the exact probability that a majority vote of n answers is right.

    Each answer is drawn independently: probabilities[0] is that of the right answer, the others are those of different wrong
    answers. What is missing to 1 is the probability of None, which does not vote. As in majority_vote, of equally many votes the
    first answer drawn wins, and each of them is equally likely to be it. With n = 1 the result is probabilities[0]. For 64 answers
    of 10 kinds it takes well under a second. Raises a ValueError that names `n` if it is below 1, and one that names
    `probabilities` if there are none, one is below 0, or their sum is above 1 by more than rounding.
    """
    # TODO 1: check n and the probabilities
    # TODO 2: for each number c of votes for the right answer, find in how many ways no wrong answer has more than c
    # TODO 3: keep apart how many wrong answers also have c: then the right one is first in one of (1 + so many) cases
    ### BEGIN SOLUTION
    if n < 1:
        raise ValueError(f"n = {n}, but a vote needs at least one answer")
    nothing = 1 - math.fsum(probabilities)
    if len(probabilities) == 0 or min(probabilities) < 0 or nothing < -1e-9:
        raise ValueError(f"probabilities must be at least 0 and add up to at most 1, and these are {list(probabilities)}")
    right, *wrong = probabilities
    result = 0.0
    for c in range(1, n + 1):
        # ways[used, ties]: the probability that `used` answers went to the wrong ones so far, of which `ties` have c each
        ways = {(0, 0): 1.0}
        for p in wrong:
            longer: dict[tuple[int, int], float] = {}
            for (used, ties), chance in ways.items():
                for votes in range(min(c, n - c - used) + 1):
                    key = used + votes, ties + (votes == c)
                    longer[key] = longer.get(key, 0.0) + chance * math.comb(n - c - used, votes) * p**votes
            ways = longer
        for (used, ties), chance in ways.items():
            silent = n - c - used
            result += math.comb(n, c) * right**c * chance * max(nothing, 0.0) ** silent / (1 + ties)
    return result
    ### END SOLUTION


def think(
    model: nn.Module,
    prompt_ids: Sequence[int],
    end_think_id: int,
    minimum: int,
    maximum: int,
    continue_ids: Sequence[int],
    eos_id: int | None = None,
    max_answer_tokens: int = 32,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[list[int], list[int]]:
    """Let a model think for at least `minimum` and at most `maximum` tokens, then answer: return (thinking, answer), two lists of ids.

    The model continues the prompt, token by token. If it writes end_think_id before it has thought `minimum` tokens, that token is
    not kept, and continue_ids are written instead: they count as thinking, and what would exceed `maximum` is cut off. When it
    writes end_think_id later, or has thought `maximum` tokens, end_think_id is written: in neither list, but the model reads it.
    Then the answer follows, until eos_id (not in the list) or max_answer_tokens tokens. While it thinks, eos_id is a token like any
    other.

    Tokens are drawn as by `generate` (chapter 9), with the temperature and the generator. The model may be on any device. Raises a
    ValueError that names `minimum` and `maximum` if minimum is above maximum, and one that names continue_ids if it is empty and
    `minimum` is above 0.
    """
    # TODO 1: check the limits and continue_ids
    # TODO 2: write a function that lets `generate` draw one token after some ids
    # TODO 3: think: draw until there are `maximum` tokens, or the end comes at `minimum` or later
    # TODO 4: write end_think_id behind the thinking, and draw the answer
    ### BEGIN SOLUTION
    if minimum > maximum:
        raise ValueError(f"minimum = {minimum} is above maximum = {maximum}")
    if minimum > 0 and not continue_ids:
        raise ValueError("continue_ids is empty, so nothing can be written when the model wants to end too early")

    def draw(ids: list[int]) -> int:
        text = torch.tensor([ids], device=next(model.parameters()).device)
        return int(generate(model, text, 1, temperature=temperature, generator=generator)[0, -1])

    prompt, thinking, answer = list(prompt_ids), [], []
    while len(thinking) < maximum:
        token = draw(prompt + thinking)
        if token != end_think_id:
            thinking.append(token)
        elif len(thinking) < minimum:
            thinking += continue_ids
        else:
            break
    del thinking[maximum:]
    while len(answer) < max_answer_tokens:
        token = draw([*prompt, *thinking, end_think_id, *answer])
        if token == eos_id:
            break
        answer.append(token)
    return thinking, answer
    ### END SOLUTION
