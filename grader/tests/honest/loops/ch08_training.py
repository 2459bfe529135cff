"""In explicit loops: window by window, target by target, piece by piece, parameter by parameter."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


def next_token_pairs(ids: Sequence[int], seq_len: int) -> list[tuple[list[int], list[int]]]:
    if seq_len < 1:
        raise ValueError(f"seq_len is {seq_len}, and a window has at least one input")
    windows = []
    inputs = []
    targets = []
    for i in range(len(ids) - 1):
        inputs.append(ids[i])
        targets.append(ids[i + 1])
        if len(inputs) == seq_len:
            windows.append((inputs, targets))
            inputs = []
            targets = []
    if inputs:
        windows.append((inputs, targets))
    return windows


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    longest = 0
    for inputs, _ in pairs:
        longest = max(longest, len(inputs))
    all_inputs = []
    all_targets = []
    for inputs, targets in pairs:
        row = list(inputs)
        while len(row) < longest:
            row.append(pad_id)
        all_inputs.append(row)
        row = list(targets)
        while len(row) < longest:
            row.append(-100)
        all_targets.append(row)
    return torch.tensor(all_inputs, dtype=torch.int64), torch.tensor(all_targets, dtype=torch.int64)


def count_kept(targets: Tensor, ignore_index: int = -100) -> int:
    kept = 0
    for target in targets.reshape(-1).tolist():
        if target != ignore_index:
            kept += 1
    return kept


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    log_probs = torch.log_softmax(logits, dim=-1).reshape(-1, logits.size(-1))
    surprises = []
    for row, target in zip(log_probs, targets.reshape(-1).tolist()):
        if target != ignore_index:
            surprises.append(-row[target])
    if not surprises:
        # A sum over nothing: it is 0, and one can still go backward from it.
        return log_probs[:0].sum()
    return torch.stack(surprises).mean()


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    gradients = []
    total = 0.0
    for parameter in parameters:
        if parameter.grad is not None:
            gradients.append(parameter.grad)
            total += float((parameter.grad.double() ** 2).sum())
    norm = math.sqrt(total)
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm


def logits_of(model: nn.Module, inputs: Tensor) -> Tensor:
    answer = model(inputs)
    if isinstance(answer, tuple):
        answer = answer[0]
    return answer


def train_step(model: nn.Module, optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    return accumulated_step(model, optimizer, [(inputs, targets)], max_norm)


def accumulated_step(
    model: nn.Module, optimizer, micro_batches: Iterable[Batch], max_norm: float | None = None
) -> float:
    pieces = []
    all_kept = 0
    for inputs, targets in micro_batches:
        kept = count_kept(targets)
        pieces.append((inputs, targets, kept))
        all_kept += kept
    model.train()
    optimizer.zero_grad()
    whole = 0.0
    for inputs, targets, kept in pieces:
        loss = cross_entropy(logits_of(model, inputs), targets) * (kept / max(all_kept, 1))
        loss.backward()
        whole += loss.item()
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return whole


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    along = (step - warmup) / (total - warmup)
    return floor + (peak - floor) * (1 + math.cos(math.pi * along)) / 2


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
        self.memory = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            lr = group["lr"]
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p not in self.memory:
                    self.memory[p] = {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
                own = self.memory[p]
                own["t"] += 1
                own["m"] = b1 * own["m"] + (1 - b1) * p.grad
                own["v"] = b2 * own["v"] + (1 - b2) * p.grad**2
                first = own["m"] / (1 - b1 ** own["t"])
                second = own["v"] / (1 - b2 ** own["t"])
                p.mul_(1 - lr * group["weight_decay"])
                p.sub_(lr * first / (torch.sqrt(second) + group["eps"]))

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None


def is_validation(text: str, fraction: float = 0.1) -> bool:
    number = 0
    size = 1
    for byte in hashlib.md5(text.encode("utf-8")).digest()[:7]:
        number = number * 256 + byte
        size *= 256
    return number < fraction * size


def perplexity(model: nn.Module, batches: Iterable[Batch]) -> float:
    modes = []
    for module in model.modules():
        modes.append((module, module.training))
    surprise = 0.0
    tokens = 0
    try:
        model.eval()
        with torch.no_grad():
            for inputs, targets in batches:
                kept = count_kept(targets)
                surprise += cross_entropy(logits_of(model, inputs), targets).item() * kept
                tokens += kept
    finally:
        for module, training in modes:
            module.training = training
    if tokens == 0:
        raise ValueError("there is no token to predict in any of the batches")
    return torch.tensor(surprise / tokens, dtype=torch.float64).exp().item()


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    lowest_train = train_losses[0]
    for loss in train_losses:
        lowest_train = min(lowest_train, loss)
    lowest_val = val_losses[0]
    for loss in val_losses:
        lowest_val = min(lowest_val, loss)
    if val_losses[-1] > 1.05 * lowest_val and train_losses[-1] == lowest_train:
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
    records = []
    for epoch in range(1, epochs + 1):
        surprise = 0.0
        tokens = 0
        for inputs, targets in make_batches():
            kept = count_kept(targets)
            surprise += train_step(model, optimizer, inputs, targets) * kept
            tokens += kept
        record = {"epoch": epoch, "train_loss": surprise / max(tokens, 1)}
        if validate is not None:
            record["val_loss"] = validate(model)
        records.append(record)
    return records
