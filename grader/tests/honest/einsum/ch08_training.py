"""Style: einsum. b batch, t position, v vocabulary; n runs through all the numbers of a gradient."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
IGNORED = -100


def next_token_pairs(ids: Sequence[int], seq_len: int) -> list[tuple[list[int], list[int]]]:
    if seq_len < 1:
        raise ValueError(f"seq_len must be at least 1, not {seq_len}")
    inputs, targets = list(ids[:-1]), list(ids[1:])
    return [(inputs[at : at + seq_len], targets[at : at + seq_len]) for at in range(0, len(inputs), seq_len)]


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    def filled(rows: list[Sequence[int]], filling: int) -> Tensor:
        width = max(map(len, rows), default=0)
        return torch.tensor([[*row, *[filling] * (width - len(row))] for row in rows], dtype=torch.int64)

    return filled([inputs for inputs, _ in pairs], pad_id), filled([targets for _, targets in pairs], IGNORED)


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = IGNORED) -> Tensor:
    kept = targets != ignore_index
    log_probs = torch.log_softmax(logits, dim=-1)
    chosen = log_probs.gather(-1, torch.where(kept, targets, 0)[..., None])[..., 0]
    return torch.where(kept, -chosen, 0.0).sum() / kept.sum().clamp(min=1)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = [gradient.detach().flatten().double() for gradient in gradients]
    norm = math.sqrt(sum(torch.einsum("n,n->", numbers, numbers).item() for numbers in flat))
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    answer = model(inputs)
    return cross_entropy(answer[0] if isinstance(answer, tuple) else answer, targets)


def kept_in(targets: Tensor) -> int:
    return int((targets != IGNORED).sum())


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    return accumulated_step(model, optimizer, [(inputs, targets)], max_norm)  # one piece, whose share is all of it


def accumulated_step(
    model: nn.Module, optimizer, micro_batches: Iterable[Batch], max_norm: float | None = None
) -> float:
    pieces = list(micro_batches)
    counts = [kept_in(targets) for _, targets in pieces]
    total = max(sum(counts), 1)
    model.train()
    optimizer.zero_grad()
    loss = 0.0
    for (inputs, targets), count in zip(pieces, counts):
        share = loss_of(model, inputs, targets) * (count / total)
        share.backward()
        loss += share.item()
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return loss


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    left = 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))
    return floor + (peak - floor) * left


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
        self.state: dict[nn.Parameter, tuple[int, Tensor, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            lr, (b1, b2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
            for parameter in group["params"]:
                g = parameter.grad
                if g is None:
                    continue
                t, m, v = self.state.get(parameter, (0, torch.zeros_like(parameter), torch.zeros_like(parameter)))
                t, m, v = t + 1, b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * torch.einsum("...,...->...", g, g)
                self.state[parameter] = (t, m, v)
                parameter.mul_(1 - lr * decay)
                parameter.sub_(lr * (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + eps))

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def is_validation(text: str, fraction: float = 0.1) -> bool:
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")
    return number < fraction * 2**64


def perplexity(model: nn.Module, batches: Iterable[Batch]) -> float:
    modes = [(module, module.training) for module in model.modules()]
    surprise, count = 0.0, 0
    try:
        model.eval()
        with torch.no_grad():
            for inputs, targets in batches:
                kept = kept_in(targets)
                surprise += loss_of(model, inputs, targets).item() * kept
                count += kept
    finally:
        for module, mode in modes:
            module.training = mode
    if count == 0:
        raise ValueError("there is no token to predict: perplexity needs at least one target that is not -100")
    return torch.tensor(surprise / count, dtype=torch.float64).exp().item()


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    if val_losses[-1] > 1.05 * min(val_losses) and train_losses[-1] <= min(train_losses):
        return "overfitting"
    if train_losses[-1] > 0.9 * train_losses[0]:
        return "underfitting"
    return "learning"


def fit(
    model: nn.Module,
    optimizer,
    make_batches: Callable[[], Iterable[Batch]],
    epochs: int,
    validate: Callable[[nn.Module], float] | None = None,
) -> list[dict[str, float]]:
    history = []
    for epoch in range(1, epochs + 1):
        surprise, count = 0.0, 0
        for inputs, targets in make_batches():
            kept = kept_in(targets)
            surprise += train_step(model, optimizer, inputs, targets) * kept
            count += kept
        record = {"epoch": epoch, "train_loss": surprise / max(count, 1)}
        if validate is not None:
            record["val_loss"] = validate(model)
        history.append(record)
    return history
