"""Written in the functional style: losses and updates are pure functions; what must change changes in one place."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
IGNORED = -100


def next_token_pairs(ids: Sequence[int], seq_len: int) -> list[tuple[list[int], list[int]]]:
    if seq_len < 1:
        raise ValueError(f"seq_len is {seq_len}, and should be at least 1")
    inputs, targets = list(ids[:-1]), list(ids[1:])
    return [(inputs[i : i + seq_len], targets[i : i + seq_len]) for i in range(0, len(inputs), seq_len)]


def filled(rows: Sequence[Sequence[int]], length: int, filler: int) -> Tensor:
    table = [[*row, *[filler] * (length - len(row))] for row in rows]
    return torch.tensor(table, dtype=torch.int64).reshape(len(rows), length)


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    length = max((len(inputs) for inputs, _ in pairs), default=0)
    return filled([inputs for inputs, _ in pairs], length, pad_id), filled([targets for _, targets in pairs], length, IGNORED)


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    kept = targets != ignore_index
    surprise = -F.log_softmax(logits[kept], dim=-1).gather(-1, targets[kept].unsqueeze(-1))
    return surprise.mean() if surprise.numel() else surprise.sum()


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    graded = [parameter for parameter in parameters if parameter.grad is not None]
    norm = math.hypot(*(torch.linalg.vector_norm(parameter.grad.double()).item() for parameter in graded))
    if norm > max_norm:
        for parameter in graded:
            parameter.grad = parameter.grad * (max_norm / norm)
    return norm


def logits_of(model: nn.Module, inputs: Tensor) -> Tensor:
    answer = model(inputs)
    return answer[0] if isinstance(answer, tuple) else answer


def count_kept(targets: Tensor) -> int:
    return int(targets.ne(IGNORED).sum())


def backward(model: nn.Module, batch: Batch, share: float) -> float:
    """Add the gradient of `share` times the batch's loss to what is there; give that product."""
    inputs, targets = batch
    loss = share * cross_entropy(logits_of(model, inputs), targets)
    loss.backward()
    return loss.item()


def accumulated_step(
    model: nn.Module, optimizer, micro_batches: Iterable[Batch], max_norm: float | None = None
) -> float:
    pieces = list(micro_batches)
    counts = [count_kept(targets) for _, targets in pieces]
    shares = [count / max(sum(counts), 1) for count in counts]
    model.train()
    model.zero_grad()
    optimizer.zero_grad()
    loss = sum(map(partial(backward, model), pieces, shares), 0.0)
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return loss


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    """A batch is a big batch in one piece."""
    return accumulated_step(model, optimizer, [(inputs, targets)], max_norm)


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    return floor + (peak - floor) * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


Moments = tuple[int, Tensor, Tensor]


def first_moments(parameter: Tensor) -> Moments:
    return 0, torch.zeros_like(parameter), torch.zeros_like(parameter)


def adamw_update(parameter: Tensor, gradient: Tensor, moments: Moments, group: dict) -> tuple[Tensor, Moments]:
    """One step of AdamW as a pure function: the new parameter, and the new t, m and v."""
    lr, (b1, b2) = group["lr"], group["betas"]
    t = moments[0] + 1
    m = b1 * moments[1] + (1 - b1) * gradient
    v = b2 * moments[2] + (1 - b2) * gradient.square()
    move = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + group["eps"])
    return parameter * (1 - lr * group["weight_decay"]) - lr * move, (t, m, v)


class AdamW:
    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        self.param_groups = [{"params": list(params), "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}]
        self.moments: dict[nn.Parameter, Moments] = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in (p for p in group["params"] if p.grad is not None):
                moments = self.moments.get(parameter) or first_moments(parameter)
                new, self.moments[parameter] = adamw_update(parameter, parameter.grad, moments, group)
                parameter.copy_(new)

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def is_validation(text: str, fraction: float = 0.1) -> bool:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big") / 2**64 < fraction


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def surprise_of(model: nn.Module, batch: Batch) -> tuple[float, int]:
    inputs, targets = batch
    count = count_kept(targets)
    return cross_entropy(logits_of(model, inputs), targets).item() * count, count


def add_pairs(left: tuple[float, int], right: tuple[float, int]) -> tuple[float, int]:
    return left[0] + right[0], left[1] + right[1]


def perplexity(model: nn.Module, batches: Iterable[Batch]) -> float:
    with evaluating(model):
        surprise, count = reduce(add_pairs, map(partial(surprise_of, model), batches), (0.0, 0))
    if count == 0:
        raise ValueError("there is no token to predict in any batch")
    return torch.tensor(surprise / count, dtype=torch.float64).exp().item()


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    if val_losses[-1] > 1.05 * min(val_losses) and train_losses[-1] == min(train_losses):
        return "overfitting"
    return "underfitting" if train_losses[-1] > 0.9 * train_losses[0] else "learning"


def learn(model: nn.Module, optimizer, batch: Batch) -> tuple[float, int]:
    """One train_step; its loss times the batch's kept targets, and their count."""
    count = count_kept(batch[1])
    return train_step(model, optimizer, *batch) * count, count


def fit(
    model: nn.Module,
    optimizer,
    make_batches: Callable[[], Iterable[Batch]],
    epochs: int,
    validate: Callable[[nn.Module], float] | None = None,
) -> list[dict[str, float]]:
    def record(epoch: int) -> dict[str, float]:
        loss, count = reduce(add_pairs, map(partial(learn, model, optimizer), make_batches()), (0.0, 0))
        trained = {"epoch": epoch, "train_loss": loss / max(count, 1)}
        return trained if validate is None else trained | {"val_loss": validate(model)}

    return list(map(record, range(1, epochs + 1)))
