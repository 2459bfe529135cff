"""Chapter 8: from noise to knowledge.

B batch, T positions, V = vocab_size. A batch is (inputs, targets), both (B, T): targets[b, t] is the token that follows
inputs[b, t], or -100 if it does not count. A target that is not -100 is a kept target.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch08_training.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


def next_token_pairs(ids: Sequence[int], seq_len: int) -> list[tuple[list[int], list[int]]]:
    """Split a text into windows of at most seq_len inputs, each with its targets: the same ids, one position later.

    Windows follow each other, so that every pair of neighbouring ids is an input and its target in exactly one window. The
    last window may be shorter. Fewer than two ids give an empty list. Raises a ValueError that names seq_len if that is
    below 1.
    """
    # TODO 1: check seq_len
    # TODO 2: begin a window at every seq_len-th id that still has a next id
    # TODO 3: take its inputs, and its targets one position later; both are lists of the same length
    raise NotImplementedError


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    """Put windows of different lengths into one batch: (inputs, targets), both (B, T), int64, T the length of the longest.

    Short rows are padded on the right: inputs with pad_id, targets with -100, so that the loss ignores those positions.
    """
    # TODO 1: create a tensor full of pad_id and one full of -100
    # TODO 2: write each pair into the beginning of its row
    raise NotImplementedError


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """The mean surprise, -log p(target), over the targets that are not ignore_index: (..., V) and (...) -> ().

    If all are ignored, the loss is 0. Logits of any size give a finite loss and a finite gradient. The loss has the dtype of
    the logits: float64 logits are computed in float64. For half-precision logits it may be float32.

    Write it yourself, without `F.linear_cross_entropy` and without `F.cross_entropy`, `F.nll_loss` and their `nn`
    classes.
    """
    # TODO 1: compute log-probabilities, with torch.log_softmax over the vocabulary
    # TODO 2: find the kept targets; replace the others by any real id, so that they can be looked up
    # TODO 3: look up each target's log-probability, and return minus the mean of the kept ones; there may be no kept one
    raise NotImplementedError


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients together, in place, so that their joint norm is at most max_norm; return the norm before clipping.

    The norm, a float, is that of all gradients as one long vector; float64 gradients keep their digits. If it is at most
    max_norm, no gradient changes. Parameters without gradient do not count; without any gradient the norm is 0.0.
    `parameters` may be a generator.

    Write it yourself, without `nn.utils.clip_grad_norm_`, `torch.renorm` and torch's other functions that clip.
    """
    # TODO 1: collect the gradients that are not None
    # TODO 2: compute the root of the sum of all their squares
    # TODO 3: if it is above max_norm, multiply every gradient by max_norm / norm, in place
    raise NotImplementedError


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    """Train on one batch with one update of the model. Return the batch's loss from before the update, a float.

    The model is set to train mode. Gradients that it has from before do not count. `model(inputs)` returns logits, or a tuple
    that begins with them. With `max_norm` the model's gradients are clipped before the update. A parameter may be frozen.
    """
    # TODO 1: set the model to train mode, and clear the old gradients
    # TODO 2: compute the logits, and the loss with your `cross_entropy`
    # TODO 3: call backward, clip if max_norm is given, and call the optimizer's step
    # TODO 4: return the loss as a float
    raise NotImplementedError


def accumulated_step(
    model: nn.Module, optimizer, micro_batches: Iterable[Batch], max_norm: float | None = None
) -> float:
    """Train on one large batch that comes in pieces: one update, with the gradient that the whole batch would give.

    The model gets one piece at a time, and its backward pass comes before the next piece, so that the memory for one is enough.
    Returns the loss of the whole batch, a float: the mean over all its kept targets. The pieces may have different numbers of
    kept targets. A piece in which every target is -100 has no effect; if all pieces are like that, the loss is 0.
    `micro_batches` yields (inputs, targets) once each, and may be a generator. Everything else is as in `train_step`.
    """
    # TODO 1: make a list of the pieces, and count the targets that are not -100 in each piece and in all
    # TODO 2: set the model to train mode, and clear the old gradients, once
    # TODO 3: weight each piece's loss by its share of the kept targets, and call backward: gradients add up
    # TODO 4: clip once if max_norm is given, and step once; return the sum of the weighted losses
    raise NotImplementedError


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """The learning rate at a step: a linear warm-up, then down along half a cosine.

    It is peak * step / warmup below `warmup`, `peak` at `warmup`, and `floor` from `total` on. warmup is less than total.
    """
    # TODO 1: the linear warm-up
    # TODO 2: the floor, from `total` on
    # TODO 3: between the two, compute the progress from 0 to 1, and with it half a cosine from peak to floor
    raise NotImplementedError


class AdamW:
    """Adam with decoupled weight decay. A parameter without gradient does not change.

    Step t = 1, 2, ... of a parameter with gradient g: first the parameter is multiplied by 1 - lr * weight_decay; then
    m = b1 m + (1 - b1) g and v = b2 v + (1 - b2) g^2; then it moves by -lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
    `param_groups` is a list of one dict with "params", "lr", "betas", "eps" and "weight_decay". Every step reads "lr" there, so
    that a schedule can set it between steps. Each parameter has its own t, m and v, and a new optimizer starts with new
    ones. A float64 parameter is updated in float64. Gradients do not change.

    Write it yourself, without `torch.optim.Adam`, `torch.optim.AdamW` and the functions they use.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        # TODO 1: create param_groups; params may be a generator
        # TODO 2: prepare a place to store each parameter's own t, m and v
        raise NotImplementedError

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, in place."""
        # TODO 3: read lr, betas, eps and weight_decay from the group
        # TODO 4: for each parameter with gradient: shrink it, update m and v, apply the bias correction to both, move it
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Clear every parameter's gradient."""
        # TODO 5: set each gradient to None
        raise NotImplementedError


def is_validation(text: str, fraction: float = 0.1) -> bool:
    """Whether a text belongs to the validation set, a bool: about `fraction` of all texts do, and always the same ones.

    The result depends on the text alone: it is the same in every process, on every machine, whatever other texts there are.
    """
    # TODO 1: hash the text's UTF-8 bytes with a function of hashlib, which gives the same result everywhere
    # TODO 2: read the first bytes of the digest as a number, and scale it to the range from 0 to 1 (1 not included)
    # TODO 3: return whether it is below fraction
    raise NotImplementedError


def perplexity(model: nn.Module, batches: Iterable[Batch]) -> float:
    """e to the mean cross-entropy over all kept targets of all batches: how many equally likely tokens would give this loss.

    `model(inputs)` returns logits, or a tuple that begins with them. `batches` may be a generator, and a batch may have no kept
    target. The model runs in eval mode, without gradient; then each module's mode is restored, also after an error. Raises
    ValueError if there is no token to predict.
    """
    # TODO 1: store each module's mode, and set the model to eval mode
    # TODO 2: without gradient, add up the losses of all kept targets, and count them, over all batches
    # TODO 3: restore each module's mode, also after an error
    # TODO 4: check that there was a kept target; return e to the mean
    raise NotImplementedError


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    """Judge a training run by its two loss curves: "overfitting", "underfitting" or "learning".

    "overfitting" if the last validation loss is more than 5 % above the lowest one and no earlier training loss is lower than the last;
    else "underfitting" if the last training loss is less than 10 % below the first; else "learning".
    """
    # TODO 1: overfitting: the validation loss has risen from its lowest value, the training loss has not
    # TODO 2: underfitting: the training loss has hardly fallen
    # TODO 3: else learning
    raise NotImplementedError


def fit(
    model: nn.Module,
    optimizer,
    make_batches: Callable[[], Iterable[Batch]],
    epochs: int,
    validate: Callable[[nn.Module], float] | None = None,
) -> list[dict[str, float]]:
    """Train for some epochs; return a record of each: `epoch` (from 1), `train_loss` and, with `validate`, `val_loss`.

    `make_batches()` is called once in each epoch and gives the batches (inputs, targets); each batch is one `train_step`.
    `train_loss` is the mean over the epoch's kept targets of the losses that train_step returned. `validate(model)` is called
    at the end of each epoch; it may leave the model in eval mode.
    """
    # TODO 1: in each epoch, call make_batches, and make one train_step on each batch
    # TODO 2: average the losses, each weighted by its batch's number of kept targets
    # TODO 3: record the epoch, train_loss and, if there is a validate, val_loss
    raise NotImplementedError
