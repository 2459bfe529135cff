"""Chapter 23: what is inside a model: parts that add up, probes, directions, dictionaries.

B texts, T positions, D = d_model, F = n_features, N states of D numbers each. `model` is a GPT (chapter 7) or a Llama (chapter 16).
Both have `token_emb`, `blocks` with `attn` (its `n_heads` and `W_out`) and `ffn`, `ln_f` and `lm_head`. A GPT returns a tuple that
begins with the logits, a Llama returns the logits. Layers and heads are counted from 0; there is no layer -1. What a function
changes in a model it changes back, also after an error: each module's mode, its hooks (those of other code stay), its parameters
and their gradients.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch23_features.md explains why, and `headway check` tests what you have written.

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

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .ch09_sampling import looking_at


@contextmanager
def hooked(*handles: RemovableHandle) -> Iterator[None]:
    """Inside the `with` block, the hooks of these handles act; afterwards, also after an error, they are removed."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def logit_attribution(model: nn.Module, ids: Tensor, target: int) -> dict[str, float]:
    """Return how much each part of the model adds to the last position's logit of `target`, for one text (1, T).

    The keys, in this order: "embedding" (what enters the first block); for each layer i "head i.0", "head i.1", …, "ffn i"; "bias".
    A head adds its own features times their columns of W_out; "ffn i" has its biases. "bias" has those of every W_out, and that of
    the final norm, which is not scaled; it is there, as 0, for a model without biases. The final norm multiplies each part by the
    scale of the whole stream; a LayerNorm first subtracts from each part its own mean. So the parts add up to the logit. Runs in
    eval mode without gradient. Raises a ValueError that names `target` if it is not a token of the model, and one that names the
    number of texts if it is not 1.
    """
    # TODO 1: check the ids and the target
    # TODO 2: register hooks that record, at the last position, what enters the first block and each W_out, what each ffn returns, and
    #         what enters and leaves ln_f; run the model inside looking_at and hooked
    # TODO 3: cut what enters each W_out into heads, and multiply each by its columns of W_out
    # TODO 4: find the scale of the final norm, one number: ‖result - bias‖ / ‖weight · stream‖; for a LayerNorm without the stream's mean
    # TODO 5: multiply each part by scale, weight and the target's row of lm_head; a LayerNorm (it has a bias) subtracts each part's mean
    raise NotImplementedError


@contextmanager
def ablate_head(model: nn.Module, layer: int, head: int, kind: str = "zero") -> Iterator[None]:
    """Inside the `with` block, one head adds nothing of its own; afterwards, also after an error, the model is as before.

    With "zero", the head's features are 0 before they enter W_out. With "mean", at every position they are their mean over all B ·
    T positions of this pass. All other heads and W_out's bias are as they were. Gradients flow as usual, also through the mean. The
    `with` raises a ValueError that names `layer`, `head` or `kind` if there is no such layer, head or kind.
    """
    # TODO 1: check layer, head and kind
    # TODO 2: write a hook for what enters W_out: it returns a copy in which this head's features are replaced
    # TODO 3: register it, and yield; remove it at the end, also after an error
    raise NotImplementedError


def attribution_patching(
    model: nn.Module, clean_ids: Tensor, corrupted_ids: Tensor, metric: Callable[[Tensor], Tensor]
) -> Tensor:
    """Estimate, for every place of the stream, how much the metric of the corrupted run would change with the clean state there.

    The result is (n_layers + 1, T): row 0 is the stream after the embeddings, row i that after i blocks. An estimate is the
    gradient of the metric in the corrupted run, times the difference of the clean and the corrupted state, added up over texts and
    features. `metric` gets the corrupted run's logits (B, T, V) and returns one number, a tensor with a graph. Takes one forward
    pass of each text, and one backward pass. Runs in eval mode; works inside torch.no_grad and for frozen parameters, and no
    parameter's gradient changes. The result has no graph. Raises a ValueError for ids of different shapes, and one that names
    `metric` if what it returns is not one number or has no gradient.
    """
    # TODO 1: check the shapes
    # TODO 2: write a function that runs ids and records the stream: what enters the first block and what each block returns
    # TODO 3: record the clean stream without gradient; in the corrupted run, with gradient, let the state that enters the first block be
    #         a new leaf, so that a graph begins there
    # TODO 4: call metric, check its result, and get the gradient of every state with torch.autograd.grad
    # TODO 5: multiply by the differences, and add up
    raise NotImplementedError


def fit_probe(states: Tensor, labels: Tensor, l2: float = 1e-2) -> tuple[Tensor, Tensor]:
    """Fit a logistic regression: states (N, D) and labels (N,), 0 or 1 -> (weight (D,), bias, a scalar tensor).

    σ(state · weight + bias) is the probability of label 1. The result is the minimum of the mean of -log p(label), plus
    l2/2 · weight · weight; the bias is not penalised. It is computed until it no longer changes, so it does not depend on where the
    search began: at least three digits are right. It is finite for separable classes too. Labels may be bools, ints or floats. The
    result has the dtype of the states and no graph. Raises a ValueError that names `l2` if it is not above 0, and one that names
    `labels` if there are not as many as states or not both classes.
    """
    # TODO 1: check l2 and labels
    # TODO 2: in float64, append a column of ones to the states, for the bias
    # TODO 3: Newton's method: gradient, second derivatives, and the step that torch.linalg.solve gives
    # TODO 4: halve a step until the loss no longer grows; stop when the gradient is nearly 0
    raise NotImplementedError


def probe_score(
    states: Tensor, labels: Tensor, folds: int, generator: torch.Generator | None = None
) -> tuple[float, float]:
    """Return (accuracy, control): the share of held-out states that a probe gets right, with the labels and with shuffled labels.

    States and labels are those of fit_probe. The states of each class are shuffled and dealt to the folds in turn, the second class
    from the fold on where the first one has ended, so that both classes are left when any one fold is held out. Each fold is
    predicted once, by fit_probe on all other folds. The accuracy is the number of right predictions, divided by N. The control is
    the accuracy with the same labels in a random order, dealt again: what a probe gets from N states of D numbers that say nothing
    about their labels. If a generator is given, all randomness comes from it. Raises a ValueError that names `folds` if it is not 2
    to N, and one that names `labels` if a class has fewer than 2 states.
    """
    # TODO 1: check folds and labels
    # TODO 2: write a function that gets labels: it gives each state a fold, class by class, in a shuffled order
    # TODO 3: for each fold, fit a probe on the other folds, and count its right predictions on this one
    # TODO 4: call it with the labels, and with the labels in a random order
    raise NotImplementedError


def mean_direction(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the direction from the mean of the negative states to the mean of the positive ones, of length 1: (N, D), (M, D) -> (D,).

    Raises a ValueError if both means are the same, since there is no direction then.
    """
    # TODO 1: compute the difference of the means, and check that it is not 0
    # TODO 2: divide it by its length
    raise NotImplementedError


@contextmanager
def steer(model: nn.Module, layer: int, direction: Tensor, strength: float) -> Iterator[None]:
    """Inside the `with` block, strength · direction is added to the stream after block `layer`; afterwards the model is as before.

    It is added at every position of every pass, of a prompt as of each new token that is written with a cache. Dtype and device of
    the stream stay. The `with` raises a ValueError that names `layer` if there is no such layer, and one that names `direction` if
    its shape is not (D,).
    """
    # TODO 1: check layer and direction
    # TODO 2: write a hook that returns the block's output plus strength · direction
    # TODO 3: register it, and yield; remove it at the end, also after an error
    raise NotImplementedError


def remove_direction(states: Tensor, direction: Tensor) -> Tensor:
    """Return the states without their part along a direction: (..., D) and (D,) -> (..., D), with projection 0 within rounding.

    The direction may have any length but 0, for which a ValueError names `direction`. What is perpendicular to it stays.
    """
    # TODO 1: check the direction, and make its length 1
    # TODO 2: subtract from each state its projection times the direction
    raise NotImplementedError


class SparseAutoencoder(nn.Module):
    """A dictionary of features: each state is written as a sum of at most k of F directions.

    Parameters: `W_enc` (D, F), `b_enc` (F,), `W_dec` (F, D), `b_dec` (D,). Row f of W_dec is the direction of feature f. It begins
    as a random direction of length 1, W_enc as a copy of W_dec transposed, and both biases as zeros. Raises a ValueError that names
    k if it is not 1 to n_features.
    """

    def __init__(self, d_model: int, n_features: int, k: int) -> None:
        super().__init__()
        # TODO 1: check k, and keep it
        # TODO 2: make the four parameters
        raise NotImplementedError

    def encode(self, x: Tensor) -> Tensor:
        """Return how active each feature is, (..., D) -> (..., F): ReLU((x - b_dec) W_enc + b_enc), of which the k largest stay.

        All others are 0; of equal ones, any may stay. Where fewer than k are above 0, fewer are active. The k active ones carry
        gradient.
        """
        # TODO 3: subtract b_dec, multiply, add b_enc, and apply ReLU
        # TODO 4: keep the k largest of each state: torch.topk gives values and places, scatter writes them into zeros
        raise NotImplementedError

    def decode(self, features: Tensor) -> Tensor:
        """Return the state that the features describe, (..., F) -> (..., D): features W_dec + b_dec."""
        # TODO 5: multiply, and add b_dec
        raise NotImplementedError

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (reconstruction, features): (..., D) -> (..., D), (..., F)."""
        # TODO 6: encode, and decode
        raise NotImplementedError

    def normalise(self) -> None:
        """Give each row of W_dec length 1, in place and without gradient. A row of zeros stays."""
        # TODO 7: divide each row by its length, under torch.no_grad
        raise NotImplementedError

    def project_gradient(self) -> None:
        """Remove from each row of W_dec's gradient its part along that row, in place. Without a gradient, do nothing.

        Then a small step hardly changes a row's length. Rows may have any
        length; a row of zeros keeps its gradient.
        """
        # TODO 8: subtract from each row of the gradient its projection on that row of W_dec
        raise NotImplementedError


def explained_variance(x: Tensor, reconstruction: Tensor) -> float:
    """Return which share of the states' variance a reconstruction explains, for two tensors (..., D): 1 is perfect.

    It is 1 - errors / deviations: the sum of all squared errors, and that of all squared deviations of x from its mean over the
    states. The mean state has 0; what is worse than it is below 0. Raises a ValueError for different shapes, and one that names x
    if all states are equal.
    """
    # TODO 1: check the shapes
    # TODO 2: compute each feature's mean over all states, and the two sums; check that the second one is not 0
    raise NotImplementedError


def dead_features(features_seen: Tensor, window: int) -> Tensor:
    """Return which features are dead: (N, F) -> bools (F,), True for a feature that was not above 0 in the last `window` states.

    Raises a ValueError that names `window` if it is not 1 to N.
    """
    # TODO 1: check the window
    # TODO 2: look at the last states only
    raise NotImplementedError


def top_contexts(features: Tensor, ids: Tensor, n: int, before: int, after: int) -> list[tuple[float, list[int], int]]:
    """Show where a feature is most active: its activations (B, T) and the ids (B, T) -> at most n contexts, the strongest first.

    A context is (activation, tokens, place). Its tokens are at most `before` ids before the token that the feature is most active
    at in its text, this token, and at most `after` ids after it, all of the same text; `place` is where it is among these tokens.
    Each text gives one context at most: at its largest activation, the first of equal ones. Texts without an activation above 0
    give none. Of texts with equal activations, the earlier one comes first.
    """
    # TODO 1: find the largest activation of each text, and where it is
    # TODO 2: sort the texts, and leave out those without an activation
    # TODO 3: cut out the tokens around it, within the text
    raise NotImplementedError
