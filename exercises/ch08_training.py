"""Chapter 8: from noise to knowledge.

B batch, T positions, V = vocab_size. A batch is (inputs, targets), both (B, T): targets[b, t] is the token that follows
inputs[b, t], or -100 where there is nothing to learn.

Your turn: write your own code wherever NotImplementedError is raised, from the top down. The TODO steps say what to do,
the lesson ch08_training.md says why, and `headway check` says how far you are.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit: raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
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
    """Cut a text into windows of at most seq_len inputs, each with its targets: the same ids, one place later.

    Windows follow each other, so that every pair of neighbouring ids is an input and its target in exactly one of them; the
    last may be shorter. Fewer than two ids give an empty list. Raises ValueError when seq_len is below 1.
    """
    # TODO 1: check seq_len
    # TODO 2: begin a window at every seq_len-th id that still has a follower
    # TODO 3: take its inputs, and its targets one place later; both are lists of the same length
    raise NotImplementedError


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    """Make one batch of windows of different lengths: (inputs, targets), both (B, T), int64, T the longest.

    Short rows are filled on the right: inputs with pad_id, targets with -100, so that the loss leaves those places out.
    """
    # TODO 1: make a tensor full of pad_id and one full of -100
    # TODO 2: write each pair into the beginning of its row
    raise NotImplementedError


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """The mean surprise, -log p(target), over the targets that are not ignore_index: (..., V) and (...) -> ().

    When all are ignored, the loss is 0. Logits of any size give a finite loss and a finite gradient. The loss has the dtype of
    the logits: float64 logits are computed in float64. For half-precision logits it may be float32.

    Write it yourself, without `F.cross_entropy`, `F.nll_loss` and their `nn` classes.
    """
    # TODO 1: turn logits into log-probabilities, log_softmax over the vocabulary
    # TODO 2: find which targets are kept; put any real id in the place of the others, so that they can be looked up
    # TODO 3: take each target's log-probability, and average the kept ones with a minus sign; mind that there may be none
    raise NotImplementedError


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients together, in place, so that their joint norm is at most max_norm; give the norm from before, a float.

    The norm is that of all gradients as one long vector. Gradients within max_norm stay as they are; parameters without
    gradient do not count, and if none has one the norm is 0.0. `parameters` may be a generator.

    Write it yourself, without `nn.utils.clip_grad_norm_`, `torch.renorm` and torch's other functions that clip.
    """
    # TODO 1: gather the gradients that are there
    # TODO 2: take the root of the sum of all their squares
    # TODO 3: when it is above max_norm, multiply every gradient by max_norm / norm, in place
    raise NotImplementedError


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    """Learn from one batch: one update of the model. Gives the batch's loss from before the update, a float.

    Works in train mode. `model(inputs)` gives logits, or a tuple that begins with them. With `max_norm` the gradients are
    clipped before the update.
    """
    # TODO 1: put the model into train mode, and forget old gradients
    # TODO 2: take the logits, and the loss with your `cross_entropy`
    # TODO 3: go backward, clip if asked, and let the optimizer step
    # TODO 4: give the loss as a float
    raise NotImplementedError


def accumulated_step(
    model: nn.Module, optimizer, micro_batches: Iterable[Batch], max_norm: float | None = None
) -> float:
    """Learn from one big batch that comes in pieces: one update, with the gradient that the whole batch would give.

    Gives the loss of the whole batch, a float: the mean over all its kept targets, however unequally they are spread over the
    pieces. A piece in which every target is -100 changes nothing; when all pieces are like that, the loss is 0.
    `micro_batches` gives (inputs, targets) once each, and may be a generator. Otherwise as `train_step`.
    """
    # TODO 1: keep the pieces, and count the targets that are not -100 in all of them
    # TODO 2: put the model into train mode, and forget old gradients, once
    # TODO 3: weigh each piece's loss by its share of the kept targets, and go backward: gradients add up
    # TODO 4: clip once if asked, and step once; give the weighted losses' sum
    raise NotImplementedError


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """The learning rate at a step: up in a straight line, then down along half a cosine.

    peak * step / warmup below `warmup`; `peak` at `warmup`; `floor` at `total` and from there on; warmup is less than total.
    """
    # TODO 1: the way up
    # TODO 2: the floor, from `total` on
    # TODO 3: between them, how far along step is, from 0 to 1, and half a cosine from peak to floor
    raise NotImplementedError


class AdamW:
    """Adam with decoupled weight decay. A parameter without gradient is left alone.

    Step t of a parameter with gradient g: first the parameter shrinks by lr * weight_decay of itself; then
    m = b1 m + (1 - b1) g and v = b2 v + (1 - b2) g^2; then it moves by -lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
    `param_groups` is a list of one dict with "params", "lr", "betas", "eps" and "weight_decay"; what is written there is used
    from the next step on, so that a schedule may set the "lr". Each parameter has its own t, m and v; a float64 parameter is
    updated in float64.

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
        # TODO 1: make param_groups; params may be a generator
        # TODO 2: keep room for each parameter's own t, m and v
        raise NotImplementedError

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, in place."""
        # TODO 3: read lr, betas, eps and weight_decay from the group
        # TODO 4: for each parameter with gradient: shrink, update m and v, correct both for their start at 0, move
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Forget every parameter's gradient."""
        # TODO 5: set each gradient to None
        raise NotImplementedError


def is_validation(text: str, fraction: float = 0.1) -> bool:
    """Whether a text belongs to the validation set, a bool: about `fraction` of all texts do, and always the same ones.

    The answer depends on the text alone: it is the same in every process, on every machine, whatever other texts there are.
    """
    # TODO 1: hash the text's UTF-8 bytes with a hash that is the same everywhere: one of hashlib's
    # TODO 2: read the first bytes of the digest as a number, scaled to lie from 0 up to 1
    # TODO 3: say whether it lies below fraction
    raise NotImplementedError


def perplexity(model: nn.Module, batches: Iterable[Batch]) -> float:
    """e to the mean surprise over every kept target of every batch: among how many tokens the model hesitates.

    `model(inputs)` gives logits, or a tuple that begins with them. `batches` may be a generator, and a batch may have no kept
    target. Works in eval mode without gradient, and restores each module's mode. Raises ValueError when there is no token to
    predict.
    """
    # TODO 1: remember each module's mode, and go to eval mode
    # TODO 2: without gradient, add up surprise and kept targets over all batches
    # TODO 3: give every module its mode back, whatever happened
    # TODO 4: check that there was a target; give e to the mean
    raise NotImplementedError


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    """Read two loss curves: "overfitting", "underfitting" or "learning".

    "overfitting" when validation ends more than 5 % above its lowest while training is at its lowest; else "underfitting" when
    the last training loss is less than 10 % below the first; else "learning".
    """
    # TODO 1: overfitting: validation has turned upward, training has not
    # TODO 2: underfitting: training has hardly moved
    # TODO 3: else learning
    raise NotImplementedError


def fit(
    model: nn.Module,
    optimizer,
    make_batches: Callable[[], Iterable[Batch]],
    epochs: int,
    validate: Callable[[nn.Module], float] | None = None,
) -> list[dict[str, float]]:
    """Train for some epochs; give a record of each: `epoch` (from 1), `train_loss` and, with `validate`, `val_loss`.

    `make_batches()` is called once an epoch and gives its (inputs, targets); each batch is one `train_step`. `train_loss` is the
    mean over the epoch's kept targets, as measured while training. `validate(model)` is called at the end of each epoch; it may
    leave the model in eval mode.
    """
    # TODO 1: for each epoch, ask for its batches and take a train_step on each
    # TODO 2: average the losses, each weighted by its batch's kept targets
    # TODO 3: record the epoch, and what validate says
    raise NotImplementedError
