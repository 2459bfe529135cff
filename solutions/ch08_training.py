"""Chapter 8: from noise to knowledge.

B batch, T positions, V = vocab_size. A batch is (inputs, targets), both (B, T): targets[b, t] is the token that follows
inputs[b, t], or -100 if it does not count. A target that is not -100 is a kept target.
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
    ### BEGIN SOLUTION
    if seq_len < 1:
        raise ValueError(f"seq_len = {seq_len}, but a window needs at least one input")
    windows = []
    for start in range(0, len(ids) - 1, seq_len):
        targets = list(ids[start + 1 : start + 1 + seq_len])
        windows.append((list(ids[start : start + len(targets)]), targets))
    return windows
    ### END SOLUTION


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    """Put windows of different lengths into one batch: (inputs, targets), both (B, T), int64, T the length of the longest.

    Short rows are padded on the right: inputs with pad_id, targets with -100, so that the loss ignores those positions.
    """
    # TODO 1: create a tensor full of pad_id and one full of -100
    # TODO 2: write each pair into the beginning of its row
    ### BEGIN SOLUTION
    T = max((len(inputs) for inputs, _ in pairs), default=0)
    all_inputs = torch.full((len(pairs), T), pad_id)
    all_targets = torch.full((len(pairs), T), -100)
    for b, (inputs, targets) in enumerate(pairs):
        all_inputs[b, : len(inputs)] = torch.tensor(inputs)
        all_targets[b, : len(targets)] = torch.tensor(targets)
    return all_inputs, all_targets
    ### END SOLUTION


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """The mean surprise, -log p(target), over the targets that are not ignore_index: (..., V) and (...) -> ().

    If all are ignored, the loss is 0. Logits of any size give a finite loss and a finite gradient. The loss has the dtype of
    the logits: float64 logits are computed in float64. For half-precision logits it may be float32.
    """
    # TODO 1: compute log-probabilities, with torch.log_softmax over the vocabulary
    # TODO 2: find the kept targets; replace the others by any real id, so that they can be looked up
    # TODO 3: look up each target's log-probability, and return minus the mean of the kept ones; there may be no kept one
    ### BEGIN SOLUTION
    kept = targets != ignore_index  # (...)
    log_probs = torch.log_softmax(logits, dim=-1)  # (..., V)
    surprise = -log_probs.gather(-1, targets.masked_fill(~kept, 0)[..., None])[..., 0]  # (...)
    return surprise.masked_fill(~kept, 0.0).sum() / kept.sum().clamp(min=1)
    ### END SOLUTION


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients together, in place, so that their joint norm is at most max_norm; return the norm before clipping.

    The norm, a float, is that of all gradients as one long vector; float64 gradients keep their digits. If it is at most
    max_norm, no gradient changes. Parameters without gradient do not count; without any gradient the norm is 0.0.
    `parameters` may be a generator.
    """
    # TODO 1: collect the gradients that are not None
    # TODO 2: compute the root of the sum of all their squares
    # TODO 3: if it is above max_norm, multiply every gradient by max_norm / norm, in place
    ### BEGIN SOLUTION
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
    ### END SOLUTION


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    """Train on one batch with one update of the model. Return the batch's loss from before the update, a float.

    The model is set to train mode. Gradients that it has from before do not count. `model(inputs)` returns logits, or a tuple
    that begins with them. With `max_norm` the model's gradients are clipped before the update. A parameter may be frozen.
    """
    # TODO 1: set the model to train mode, and clear the old gradients
    # TODO 2: compute the logits, and the loss with your `cross_entropy`
    # TODO 3: call backward, clip if max_norm is given, and call the optimizer's step
    # TODO 4: return the loss as a float
    ### BEGIN SOLUTION
    model.train()
    optimizer.zero_grad()
    logits = model(inputs)
    logits = logits[0] if isinstance(logits, tuple) else logits
    loss = cross_entropy(logits, targets)
    loss.backward()
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    pieces = list(micro_batches)
    counts = [int((targets != -100).sum()) for _, targets in pieces]
    model.train()
    optimizer.zero_grad()
    whole = 0.0
    for (inputs, targets), count in zip(pieces, counts):
        logits = model(inputs)
        logits = logits[0] if isinstance(logits, tuple) else logits
        loss = cross_entropy(logits, targets) * (count / max(sum(counts), 1))
        loss.backward()
        whole += loss.item()
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return whole
    ### END SOLUTION


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    """The learning rate at a step: a linear warm-up, then down along half a cosine.

    It is peak * step / warmup below `warmup`, `peak` at `warmup`, and `floor` from `total` on. warmup is less than total.
    """
    # TODO 1: the linear warm-up
    # TODO 2: the floor, from `total` on
    # TODO 3: between the two, compute the progress from 0 to 1, and with it half a cosine from peak to floor
    ### BEGIN SOLUTION
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    progress = (step - warmup) / (total - warmup)
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2
    ### END SOLUTION


class AdamW:
    """Adam with decoupled weight decay. A parameter without gradient does not change.

    Step t = 1, 2, ... of a parameter with gradient g: first the parameter is multiplied by 1 - lr * weight_decay; then
    m = b1 m + (1 - b1) g and v = b2 v + (1 - b2) g^2; then it moves by -lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
    `param_groups` is a list of one dict with "params", "lr", "betas", "eps" and "weight_decay". Every step reads "lr" there, so
    that a schedule can set it between steps. Each parameter has its own t, m and v, and a new optimizer starts with new
    ones. A float64 parameter is updated in float64. Gradients do not change.
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
        ### BEGIN SOLUTION
        group = {"params": list(params), "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups = [group]
        self.state: dict[nn.Parameter, tuple[int, Tensor, Tensor]] = {}
        ### END SOLUTION

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, in place."""
        # TODO 3: read lr, betas, eps and weight_decay from the group
        # TODO 4: for each parameter with gradient: shrink it, update m and v, apply the bias correction to both, move it
        ### BEGIN SOLUTION
        for group in self.param_groups:
            lr, (b1, b2) = group["lr"], group["betas"]
            for parameter in group["params"]:
                g = parameter.grad
                if g is None:
                    continue
                t, m, v = self.state.get(parameter) or (0, torch.zeros_like(g), torch.zeros_like(g))
                t, m, v = t + 1, b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g.square()
                self.state[parameter] = t, m, v
                parameter.mul_(1 - lr * group["weight_decay"])
                parameter.sub_(lr * (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + group["eps"]))
        ### END SOLUTION

    def zero_grad(self) -> None:
        """Clear every parameter's gradient."""
        # TODO 5: set each gradient to None
        ### BEGIN SOLUTION
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        ### END SOLUTION


def is_validation(text: str, fraction: float = 0.1) -> bool:
    """Whether a text belongs to the validation set, a bool: about `fraction` of all texts do, and always the same ones.

    The result depends on the text alone: it is the same in every process, on every machine, whatever other texts there are.
    """
    # TODO 1: hash the text's UTF-8 bytes with a function of hashlib, which gives the same result everywhere
    # TODO 2: read the first bytes of the digest as a number, and scale it to the range from 0 to 1 (1 not included)
    # TODO 3: return whether it is below fraction
    ### BEGIN SOLUTION
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < fraction
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    total, count = 0.0, 0
    try:
        with torch.no_grad():
            for inputs, targets in batches:
                logits = model(inputs)
                logits = logits[0] if isinstance(logits, tuple) else logits
                kept = int((targets != -100).sum())
                total += cross_entropy(logits, targets).item() * kept
                count += kept
    finally:
        for module, mode in modes:
            module.training = mode
    if count == 0:
        raise ValueError("there is no token to predict in these batches")
    return math.exp(total / count)
    ### END SOLUTION


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    """Judge a training run by its two loss curves: "overfitting", "underfitting" or "learning".

    "overfitting" if the last validation loss is more than 5 % above the lowest one and no earlier training loss is lower than the last;
    else "underfitting" if the last training loss is less than 10 % below the first; else "learning".
    """
    # TODO 1: overfitting: the validation loss has risen from its lowest value, the training loss has not
    # TODO 2: underfitting: the training loss has hardly fallen
    # TODO 3: else learning
    ### BEGIN SOLUTION
    if val_losses[-1] > 1.05 * min(val_losses) and train_losses[-1] == min(train_losses):
        return "overfitting"
    if train_losses[-1] > 0.9 * train_losses[0]:
        return "underfitting"
    return "learning"
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    records = []
    for epoch in range(1, epochs + 1):
        total, count = 0.0, 0
        for inputs, targets in make_batches():
            kept = int((targets != -100).sum())
            total += train_step(model, optimizer, inputs, targets) * kept
            count += kept
        record = {"epoch": epoch, "train_loss": total / max(count, 1)}
        if validate is not None:
            record["val_loss"] = validate(model)
        records.append(record)
    return records
    ### END SOLUTION
