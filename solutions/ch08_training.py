"""Chapter 8: from noise to knowledge.

B batch, T positions, V = vocab_size. A batch is (inputs, targets), both (B, T): targets[b, t] is the token that follows
inputs[b, t], or -100 where there is nothing to learn.
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
    """Make one batch of windows of different lengths: (inputs, targets), both (B, T), int64, T the longest.

    Short rows are filled on the right: inputs with pad_id, targets with -100, so that the loss leaves those places out.
    """
    # TODO 1: make a tensor full of pad_id and one full of -100
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

    When all are ignored, the loss is 0. Logits of any size give a finite loss and a finite gradient. The loss has the dtype of
    the logits: float64 logits are computed in float64. For half-precision logits it may be float32.
    """
    # TODO 1: turn logits into log-probabilities, log_softmax over the vocabulary
    # TODO 2: find which targets are kept; put any real id in the place of the others, so that they can be looked up
    # TODO 3: take each target's log-probability, and average the kept ones with a minus sign; mind that there may be none
    ### BEGIN SOLUTION
    kept = targets != ignore_index  # (...)
    log_probs = torch.log_softmax(logits, dim=-1)  # (..., V)
    surprise = -log_probs.gather(-1, targets.masked_fill(~kept, 0)[..., None])[..., 0]  # (...)
    return surprise.masked_fill(~kept, 0.0).sum() / kept.sum().clamp(min=1)
    ### END SOLUTION


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients together, in place, so that their joint norm is at most max_norm; give the norm from before, a float.

    The norm is that of all gradients as one long vector. Gradients within max_norm stay as they are; parameters without
    gradient do not count, and if none has one the norm is 0.0. `parameters` may be a generator.
    """
    # TODO 1: gather the gradients that are there
    # TODO 2: take the root of the sum of all their squares
    # TODO 3: when it is above max_norm, multiply every gradient by max_norm / norm, in place
    ### BEGIN SOLUTION
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
    ### END SOLUTION


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    """Learn from one batch: one update of the model. Gives the batch's loss from before the update, a float.

    Works in train mode. `model(inputs)` gives logits, or a tuple that begins with them. With `max_norm` the gradients are
    clipped before the update.
    """
    # TODO 1: put the model into train mode, and forget old gradients
    # TODO 2: take the logits, and the loss with your `cross_entropy`
    # TODO 3: go backward, clip if asked, and let the optimizer step
    # TODO 4: give the loss as a float
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
    """Learn from one big batch that comes in pieces: one update, with the gradient that the whole batch would give.

    Gives the loss of the whole batch, a float: the mean over all its kept targets, however unequally they are spread over the
    pieces. A piece in which every target is -100 changes nothing; when all pieces are like that, the loss is 0.
    `micro_batches` gives (inputs, targets) once each, and may be a generator. Otherwise as `train_step`.
    """
    # TODO 1: keep the pieces, and count the targets that are not -100 in all of them
    # TODO 2: put the model into train mode, and forget old gradients, once
    # TODO 3: weigh each piece's loss by its share of the kept targets, and go backward: gradients add up
    # TODO 4: clip once if asked, and step once; give the weighted losses' sum
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
    """The learning rate at a step: up in a straight line, then down along half a cosine.

    peak * step / warmup below `warmup`; `peak` at `warmup`; `floor` at `total` and from there on; warmup is less than total.
    """
    # TODO 1: the way up
    # TODO 2: the floor, from `total` on
    # TODO 3: between them, how far along step is, from 0 to 1, and half a cosine from peak to floor
    ### BEGIN SOLUTION
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    progress = (step - warmup) / (total - warmup)
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2
    ### END SOLUTION


class AdamW:
    """Adam with decoupled weight decay. A parameter without gradient is left alone.

    Step t of a parameter with gradient g: first the parameter shrinks by lr * weight_decay of itself; then
    m = b1 m + (1 - b1) g and v = b2 v + (1 - b2) g^2; then it moves by -lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
    `param_groups` is a list of one dict with "params", "lr", "betas", "eps" and "weight_decay"; what is written there is used
    from the next step on, so that a schedule may set the "lr". Each parameter has its own t, m and v; a float64 parameter is
    updated in float64.
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
        ### BEGIN SOLUTION
        group = {"params": list(params), "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups = [group]
        self.state: dict[nn.Parameter, tuple[int, Tensor, Tensor]] = {}
        ### END SOLUTION

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, in place."""
        # TODO 3: read lr, betas, eps and weight_decay from the group
        # TODO 4: for each parameter with gradient: shrink, update m and v, correct both for their start at 0, move
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
        """Forget every parameter's gradient."""
        # TODO 5: set each gradient to None
        ### BEGIN SOLUTION
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        ### END SOLUTION


def is_validation(text: str, fraction: float = 0.1) -> bool:
    """Whether a text belongs to the validation set, a bool: about `fraction` of all texts do, and always the same ones.

    The answer depends on the text alone: it is the same in every process, on every machine, whatever other texts there are.
    """
    # TODO 1: hash the text's UTF-8 bytes with a hash that is the same everywhere: one of hashlib's
    # TODO 2: read the first bytes of the digest as a number, scaled to lie from 0 up to 1
    # TODO 3: say whether it lies below fraction
    ### BEGIN SOLUTION
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < fraction
    ### END SOLUTION


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
    """Read two loss curves: "overfitting", "underfitting" or "learning".

    "overfitting" when validation ends more than 5 % above its lowest while training is at its lowest; else "underfitting" when
    the last training loss is less than 10 % below the first; else "learning".
    """
    # TODO 1: overfitting: validation has turned upward, training has not
    # TODO 2: underfitting: training has hardly moved
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
    """Train for some epochs; give a record of each: `epoch` (from 1), `train_loss` and, with `validate`, `val_loss`.

    `make_batches()` is called once an epoch and gives its (inputs, targets); each batch is one `train_step`. `train_loss` is the
    mean over the epoch's kept targets, as measured while training. `validate(model)` is called at the end of each epoch; it may
    leave the model in eval mode.
    """
    # TODO 1: for each epoch, ask for its batches and take a train_step on each
    # TODO 2: average the losses, each weighted by its batch's kept targets
    # TODO 3: record the epoch, and what validate says
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
