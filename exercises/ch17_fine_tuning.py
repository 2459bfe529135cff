"""Chapter 17: from a model that continues to one that answers.

Adapters make fine-tuning cheap. Training on answers makes a model that answers, and preferences or rewards make one that people
want. All losses here are to be made small.

B texts, T positions, V tokens of the vocabulary, r = rank of an adapter.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch17_fine_tuning.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LoRALinear(nn.Module):
    """A frozen linear layer plus a small trained change: y = linear(x) + alpha/rank · (x Aᵀ) Bᵀ.

    Its parts: `linear` (the given layer, whose parameters no longer get gradients) and the parameters `A` (rank, in_features) and
    `B` (out_features, rank), with the dtype and the device of the layer's weight. A begins with random numbers, normal with
    standard deviation 1/sqrt(in_features), and B with zeros. A rank below 1 raises a ValueError that names rank.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        # TODO 1: check the rank
        # TODO 2: keep the layer, and switch off the gradients of its parameters
        # TODO 3: make A and B, like the layer's weight, and keep the scale alpha / rank
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 4: add the scaled change to what the layer gives
        raise NotImplementedError

    def merged(self) -> nn.Linear:
        """Return one new nn.Linear of the same function.

        Its parameters are its own and get gradients: a later change of one of the two layers does not change the other.
        """
        # TODO 5: make a linear layer of the same size, with a bias if the layer has one
        # TODO 6: copy the bias, and the weight plus the scaled product of B and A, without gradient
        raise NotImplementedError


def add_lora(model: nn.Module, rank: int, alpha: float, names: Sequence[str]) -> list[str]:
    """Put a LoRALinear in the place of every nn.Linear with one of these names, and freeze everything else in the model.

    "attn.W_q" and "W_q" name the layer "blocks.0.attn.W_q": a name is the end of the dotted name, in whole parts, so "q" does not.
    Returns the dotted names of these layers, in the order of model.named_modules(). Only the new A and B get gradients; weights
    that are one Parameter stay one Parameter. If no layer has one of the names, a ValueError says which names were looked for,
    and the model stays as it was.
    """
    # TODO 1: list the linear layers whose dotted name is one of the names, or ends with a dot and one of the names
    # TODO 2: if no layer is found, raise the error
    # TODO 3: switch off the gradients of the whole model
    # TODO 4: in the parent of each layer, put a LoRALinear in its place
    raise NotImplementedError


def answer_labels(ids: Sequence[int], spans: Sequence[tuple[int, int]], ignore_index: int = -100) -> list[int]:
    """Return the targets for training on the answers in a text only: T ids -> T - 1 targets, for the inputs ids[:-1].

    As in next_token_pairs, the target at position i is the next id, ids[i + 1]. It counts if position i + 1 is in one of the
    spans (start, stop), where stop is the first position after the answer and its end token. All other targets are ignore_index.
    """
    # TODO 1: begin with T - 1 targets that are all ignore_index
    # TODO 2: for each position of a span, write its id one place earlier; the first id of a text is never a target
    raise NotImplementedError


def pack(sequences: Sequence[Sequence[int]], length: int, pad_id: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Put several texts into each row of a batch: return (ids, targets, positions, mask) of R rows, each `length` long.

    A text longer than `length` is cut into parts of that length, of which the last may be shorter; any other text is one part. In
    their order, each part goes into the first row that has room for it, behind what is there. If no row has room, it begins a new
    row. Empty texts are left out.

    `ids` (R, length) ends with pad_id in rows that are not full. `targets` (R, length) has the next id of the text, also where that
    is in the next part; at the end of a text and at padding it is -100. `positions` (R, length) count from 0 in each part, and are 0
    at padding. `mask` (R, length, length) is True where a query may attend to a key: both in the same part, and the key not later.
    Padding is in no part, so its rows and columns of the mask are False. Ids, targets and positions are int64. Without any token,
    R is 0. A length below 1 raises a ValueError that names length.
    """
    # TODO 1: check the length; cut every text into parts, each with its targets
    # TODO 2: put each part into the first row with room; keep for every row which parts it has
    # TODO 3: fill the four tensors, part by part; a part's mask is a lower triangle
    raise NotImplementedError


def sequence_log_prob(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Return the log probability of each text: (B, T, V) and (B, T) -> (B,).

    logits[b, t] predict targets[b, t], so nothing is shifted here. The result is the sum of log p(target) over the targets that
    are not ignore_index, and 0 for a text without one. It has the dtype of the logits, and is finite for large logits, such as 1e4.
    """
    # TODO 1: compute log-probabilities over the vocabulary
    # TODO 2: look up each target's; an ignored target is no index, so look up another one there and do not count it
    # TODO 3: add up each text's
    raise NotImplementedError


def reward_loss(chosen: Tensor, rejected: Tensor, margin: float = 0.0) -> Tensor:
    """Return the loss of a reward model on B pairs of answers: the mean of -log σ(chosen - rejected - margin), a scalar.

    `chosen` and `rejected` (B,) are the rewards of the better and of the worse answer. Loss and gradients are finite for rewards of
    any size, such as 1e4.
    """
    # TODO 1: compute how much better the chosen answer is than the margin asks for
    # TODO 2: return the mean of -log σ of it; log and σ in one function are safe
    raise NotImplementedError


def dpo_loss(
    policy_chosen: Tensor, policy_rejected: Tensor, reference_chosen: Tensor, reference_rejected: Tensor, beta: float = 0.1
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of direct preference optimisation on B pairs, and the rewards: (loss, chosen_reward, rejected_reward).

    The four arguments (B,) are log probabilities of whole answers, by the trained model (the policy) and by the fixed reference
    model. An answer's reward is beta · (policy - reference). The loss is the mean of -log σ(chosen_reward - rejected_reward). Only
    the policy gets gradients, and only from the loss: both rewards (B,) are detached.
    """
    # TODO 1: compute both rewards; the reference's log probabilities are detached
    # TODO 2: compute the loss from their difference
    # TODO 3: return the loss and the detached rewards
    raise NotImplementedError


def kl_estimate(policy: Tensor, reference: Tensor, kind: str = "k3") -> Tensor:
    """Estimate KL(policy ‖ reference) from tokens that the policy has drawn, one number for each: two (...) -> (...).

    `policy` and `reference` are the log probabilities that the two models give to the drawn tokens. If d is
    policy - reference, "k1" is d, "k2" is d²/2, and "k3" is exp(-d) - 1 + d. Another kind raises a ValueError that names it.
    The reference model is fixed, so you may detach `reference` or not.
    (As part of a loss, the three have other gradients than you may expect: see the lesson.)
    """
    # TODO 1: compute the difference
    # TODO 2: return the estimate of this kind, or raise the error
    raise NotImplementedError


def group_advantages(rewards: Tensor, group_size: int, normalise: bool = True) -> Tensor:
    """Compare each reward with its group: (B,) -> (B,).

    The first group_size rewards are a group, the next group_size another one, and so on; a group has the answers to one question.
    An advantage is the reward minus the mean of its group; with `normalise`, it is divided by the group's standard deviation (with
    n - 1, as torch.std), to which you may add at most 1e-4. In a group whose rewards are all equal, also after rounding such as that
    of 0.1, and in a group of one, all advantages are 0. Raises a ValueError that names group_size if it does not divide B. Rewards
    are numbers without a graph.
    """
    # TODO 1: check the size; give every group a row
    # TODO 2: subtract each group's mean
    # TODO 3: with normalise, divide by each group's standard deviation
    # TODO 4: write zeros where a group's largest reward is its smallest; a computed mean may be rounded
    raise NotImplementedError


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip: float = 0.2,
    kl: Tensor | None = None,
    kl_weight: float = 0.0,
    average: str = "token",
) -> Tensor:
    """Return the clipped loss of a policy gradient, as in PPO, a scalar.

    `log_probs` and `old_log_probs` (B, T) are the log probabilities of the tokens of B answers: from the model as it is now, and as
    it was when it drew them. `advantages` (B,) belong to whole answers. A token's ratio is exp(log_probs - old_log_probs). Its
    objective is the smaller one of ratio · advantage and clipped ratio · advantage, where the clipped ratio is at least 1 - clip and
    at most 1 + clip. Its loss is minus the objective, plus kl_weight · kl if `kl` (B, T) is given. `old_log_probs` and `advantages`
    get no gradients.

    `mask` (B, T) is True at tokens of answers; what is elsewhere has no effect, whichever number it is. With average="token" (DAPO),
    all these tokens count the same; with "sequence" (GRPO), each answer's mean counts the same, and answers without a token do not
    count.
    Without any token the loss is 0, and so are its gradients. Another average raises a ValueError that names it.
    """
    # TODO 1: check `average`; compute the ratios, safe where the mask is False
    # TODO 2: compute both products, and take the smaller one of them
    # TODO 3: turn the objective into a loss, and add the KL term if there is one
    # TODO 4: average over the tokens where the mask is True, or first over each answer's and then over the answers
    raise NotImplementedError


def grade_answer(text: str, expected: float | str) -> float:
    """Return 1.0 if the last number in `text` is the expected one, else 0.0. A text without a number gets 0.0.

    A number begins with a digit: 12, 1,234,567 (groups of exactly three digits after the first), 3.5, 1,000.25, or a fraction of two
    such numbers without a space, 3/4. Any other comma ends a number: the last one of "1,2345" is 2345. A sign, + or -, directly before
    a number belongs to it if no letter, digit or closing bracket stands directly before the sign: the last number of "10-3" is 3. A
    fraction whose denominator is 0 is no answer: 0.0. `expected` is a number, or a text whose last number is read in the same way.
    No text raises an error, and nothing in it is executed.
    """
    # TODO 1: find the last number, for example with a regular expression
    # TODO 2: turn it into a float; remove the commas; divide, if it is a fraction
    # TODO 3: compare it with the expected number
    raise NotImplementedError
