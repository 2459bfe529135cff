"""Chapter 8 in the terse style: as short as it can be read."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

Batch = tuple[Tensor, Tensor]


def next_token_pairs(ids: Sequence[int], seq_len: int) -> list[tuple[list[int], list[int]]]:
    if seq_len < 1:
        raise ValueError(f"seq_len {seq_len} is below 1")
    return [(list(ids[i : i + len(t)]), t) for i in range(0, len(ids) - 1, seq_len) if (t := list(ids[i + 1 : i + 1 + seq_len]))]


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    return tuple(pad_sequence([torch.tensor(r, dtype=torch.int64) for r in rows], True, fill) for rows, fill in zip(zip(*pairs), (pad_id, -100)))


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    kept = targets != ignore_index
    return -logits[kept].log_softmax(-1).gather(-1, targets[kept][:, None]).sum() / kept.sum().clamp(min=1)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    grads = [p.grad for p in parameters if p.grad is not None]
    if (norm := math.hypot(*(g.double().norm() for g in grads))) > max_norm:
        for g in grads:
            g *= max_norm / norm
    return norm


def head(out: Tensor | tuple) -> Tensor:
    return out[0] if isinstance(out, tuple) else out


def kept(targets: Tensor) -> int:
    return (targets != -100).sum().item()


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    return accumulated_step(model, optimizer, [(inputs, targets)], max_norm)


def accumulated_step(model: nn.Module, optimizer, micro_batches: Iterable[Batch], max_norm: float | None = None) -> float:
    parts, loss = list(micro_batches), 0.0
    n = max(1, sum(kept(y) for _, y in parts))
    model.train()
    optimizer.zero_grad()
    for x, y in parts:
        (part := cross_entropy(head(model(x)), y) * (kept(y) / n)).backward()
        loss += part.item()
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return loss


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    if step < warmup:
        return peak * step / warmup
    return floor if step >= total else floor + (peak - floor) * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


class AdamW:
    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.01
    ):
        self.param_groups, self.state = [dict(params=list(params), lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)], {}

    @torch.no_grad()
    def step(self) -> None:
        ps, lr, (a, b), eps, wd = (self.param_groups[0][k] for k in ("params", "lr", "betas", "eps", "weight_decay"))
        for p in (p for p in ps if p.grad is not None):
            t, m, v = self.state.get(p) or (0, torch.zeros_like(p), torch.zeros_like(p))
            self.state[p] = (t := t + 1), m.lerp_(p.grad, 1 - a), v.mul_(b).addcmul_(p.grad, p.grad, value=1 - b)
            p.mul_(1 - lr * wd).sub_(lr * (m / (1 - a**t)) / ((v / (1 - b**t)).sqrt() + eps))

    def zero_grad(self) -> None:
        for p in self.param_groups[0]["params"]:
            p.grad = None


def is_validation(text: str, fraction: float = 0.1) -> bool:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") < fraction * 2**64


def perplexity(model: nn.Module, batches: Iterable[Batch]) -> float:
    modes = [(m, m.training) for m in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            found = [(cross_entropy(head(model(x)), y).item() * (n := kept(y)), n) for x, y in batches]
    finally:
        for m, mode in modes:
            m.training = mode
    if not (n := sum(n for _, n in found)):
        raise ValueError("there is no token to predict")
    return torch.tensor(sum(s for s, _ in found) / n, dtype=torch.float64).exp().item()


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    if val_losses[-1] > 1.05 * min(val_losses) and train_losses[-1] <= min(train_losses):
        return "overfitting"
    return "underfitting" if train_losses[-1] > 0.9 * train_losses[0] else "learning"


def fit(
    model: nn.Module, optimizer, make_batches: Callable[[], Iterable[Batch]], epochs: int, validate: Callable[[nn.Module], float] | None = None
) -> list[dict[str, float]]:
    log = []
    for epoch in range(1, epochs + 1):
        met = [(train_step(model, optimizer, x, y), kept(y)) for x, y in make_batches()]
        log.append({"epoch": epoch, "train_loss": sum(s * n for s, n in met) / max(1, sum(n for _, n in met))})
        log[-1] |= {"val_loss": validate(model)} if validate else {}
    return log
