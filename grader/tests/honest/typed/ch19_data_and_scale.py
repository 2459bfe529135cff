# Style: typed and defensive.

from __future__ import annotations

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .ch07_models import GPTConfig

Item = TypeVar("Item")
NO_HASH: Final[int] = 1 << 64
STOP_WORDS: Final[frozenset[str]] = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})


def seeded_hash(text: str, seed: int) -> int:
    salt: bytes = struct.pack(">Q", seed % NO_HASH)
    digest: bytes = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
    (number,) = struct.unpack(">Q", digest)
    return int(number)


def jaccard(one: set[str], other: set[str]) -> float:
    union: int = len(one.union(other))
    return 1.0 if union == 0 else len(one.intersection(other)) / union


def shingles(text: str, n: int) -> set[str]:
    if n < 1:
        raise ValueError(f"n must be positive, got {n}")
    words: list[str] = text.casefold().split() if text.isascii() else text.lower().split()
    if len(words) <= n:
        return {" ".join(words)} if words else set()
    return {" ".join(run) for run in zip(*(words[offset:] for offset in range(n)))}


def minhash(shingles: set[str], seeds: Sequence[int]) -> list[int]:
    def smallest(seed: int) -> int:
        return min((seeded_hash(shingle, seed) for shingle in shingles), default=NO_HASH)

    return list(map(smallest, seeds))


class _Key(NamedTuple):
    band: int
    values: tuple[int, ...]


def candidate_pairs(signatures: Sequence[Sequence[int]], bands: int) -> list[tuple[int, int]]:
    if bands < 1:
        raise ValueError(f"bands must be positive, got {bands}")
    lengths: set[int] = {len(signature) for signature in signatures}
    if any(length % bands for length in lengths):
        raise ValueError(f"bands = {bands} does not divide the signatures' lengths {sorted(lengths)}")
    members: dict[_Key, list[int]] = {}
    for index, signature in enumerate(signatures):
        step: int = len(signature) // bands
        for band in range(bands):
            members.setdefault(_Key(band, tuple(signature[band * step : band * step + step])), []).append(index)
    pairs: set[tuple[int, int]] = set()
    for group in members.values():
        for place, low in enumerate(group):
            pairs.update((low, high) for high in group[place + 1 :])
    return sorted(pairs)


def deduplicate(texts: Sequence[str], threshold: float, n: int = 3, seeds: Sequence[int] = range(64), bands: int = 16) -> list[int]:
    sets: list[set[str]] = [shingles(text, n) for text in texts]
    signatures: list[list[int]] = [minhash(each, seeds) for each in sets]
    dropped: set[int] = set()
    by_later: dict[int, list[int]] = {}
    for low, high in candidate_pairs(signatures, bands):
        by_later.setdefault(high, []).append(low)
    for index in range(len(texts)):
        rivals: list[int] = [low for low in by_later.get(index, []) if low not in dropped]
        if any(jaccard(sets[low], sets[index]) >= threshold for low in rivals):
            dropped.add(index)
    return [index for index in range(len(texts)) if index not in dropped]


@dataclass(frozen=True)
class _Page:
    text: str
    words: tuple[str, ...]
    lines: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> _Page:
        stripped = (line.strip() for line in text.splitlines())
        return cls(text, tuple(text.split()), tuple(line for line in stripped if line))

    @property
    def characters(self) -> int:
        return sum(len(word) for word in self.words)

    def of_words(self, count: float) -> float:
        return count / len(self.words) if self.words else 0.0

    def of_lines(self, count: float) -> float:
        return count / len(self.lines) if self.lines else 0.0

    def is_repetitive(self, n: int, limit: float) -> bool:
        runs: Counter[tuple[str, ...]] = Counter(self.words[start : start + n] for start in range(len(self.words) - n + 1))
        repeated: Mapping[tuple[str, ...], int] = {run: times for run, times in runs.items() if times > 1}
        if not repeated:
            return False
        most: int = max(repeated.values())
        longest: int = max(sum(map(len, run)) for run, times in repeated.items() if times == most)
        return most * longest / self.characters > limit


def quality_reasons(text: str) -> list[str]:
    page: Final = _Page.read(text)
    mean: float = page.of_words(page.characters)
    ellipses: int = text.count("...") + text.count("…")
    checks: list[tuple[str, bool]] = [
        ("words", not (50 <= len(page.words) <= 100_000)),
        ("word length", not (3.0 <= mean <= 10.0)),
        ("symbols", page.of_words(text.count("#")) > 0.1 or page.of_words(ellipses) > 0.1),
        ("bullets", page.of_lines(sum(line.startswith(("-", "*", "•")) for line in page.lines)) > 0.9),
        ("ellipses", page.of_lines(sum(line.endswith(("...", "…")) for line in page.lines)) > 0.3),
        ("letters", page.of_words(sum(any(char.isalpha() for char in word) for word in page.words)) < 0.8),
        ("stop words", len(STOP_WORDS & {word.lower() for word in page.words}) < 2),
        ("repeated lines", page.of_lines(len(page.lines) - len(frozenset(page.lines))) > 0.3),
        ("repeated n-grams", any(page.is_repetitive(n, limit) for n, limit in {2: 0.20, 3: 0.18, 4: 0.16}.items())),
    ]
    return [reason for reason, broken in checks if broken]


class _Mixture(Iterator[Item]):
    """An iterator with a state, instead of a generator function."""

    def __init__(self, streams: Sequence[Iterable[Item]], weights: Sequence[float], generator: torch.Generator) -> None:
        if len(streams) != len(weights):
            raise ValueError(f"there are {len(weights)} weights for {len(streams)} streams")
        if any(weight < 0 for weight in weights):
            raise ValueError(f"weights must not be negative: {list(weights)}")
        if not any(weights):
            raise ValueError("weights must not all be zero")
        self._streams, self._generator = streams, generator
        self._left: dict[int, float] = {index: float(weight) for index, weight in enumerate(weights) if weight > 0}
        self._iterators: dict[int, Iterator[Item]] = {}

    def __next__(self) -> Item:
        while self._left:
            indices: list[int] = list(self._left)
            odds: Tensor = torch.tensor([self._left[index] for index in indices], dtype=torch.float64)
            edges: Tensor = odds.cumsum(0) / odds.sum()
            drawn: Tensor = torch.rand(1, generator=self._generator, dtype=torch.float64)
            index: int = indices[min(int(torch.searchsorted(edges, drawn, right=True)), len(indices) - 1)]
            iterator = self._iterators.setdefault(index, iter(self._streams[index]))
            try:
                return next(iterator)
            except StopIteration:
                del self._left[index]
        raise StopIteration


def mixture(streams: Sequence[Iterable[Item]], weights: Sequence[float], generator: torch.Generator) -> Iterator[Item]:
    return _Mixture(streams, weights, generator)


def bits_per_byte(loss_sum: float, n_bytes: int) -> float:
    if not n_bytes >= 1:
        raise ValueError(f"n_bytes must be at least 1, got {n_bytes}")
    return float(loss_sum) / (n_bytes * math.log(2.0))


def training_flops(config: GPTConfig, n_tokens: int, length: int) -> tuple[int, int]:
    width: int = config.d_model
    hidden: int = 4 * width if config.d_ff is None else config.d_ff
    shapes: list[tuple[int, int]] = [(width, width)] * 4 + [(width, hidden), (hidden, width)]
    per_block: int = sum(2 * n_in * n_out for n_in, n_out in shapes) + 4 * length * width
    forward: int = config.n_layers * per_block + 2 * width * config.vocab_size
    weights: int = sum(n_in * n_out + n_out for n_in, n_out in shapes) + 4 * width
    tables: int = config.vocab_size * width * (1 if config.tie_weights else 2)
    tables += config.max_len * width if config.positions == "learned" else 0
    return 3 * n_tokens * forward, 6 * n_tokens * (config.n_layers * weights + tables + 2 * width)


def fit_power_law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    if len(set(x)) < 3:
        raise ValueError(f"three different points are needed, got {len(set(x))}")
    logs: Tensor = torch.tensor([math.log(value) for value in x], dtype=torch.float64)
    heights: Tensor = torch.tensor([float(value) for value in y], dtype=torch.float64)
    scale: float = logs.mean().item()

    def fit(c: float) -> tuple[float, float, float]:
        powers: Tensor = torch.exp(-c * (logs - scale))
        b: float = (torch.cov(torch.stack([powers, heights]))[0, 1] / powers.var()).item()
        a: float = (heights.mean() - b * powers.mean()).item()
        return (a + b * powers - heights).square().sum().item(), a, b

    grid: list[float] = torch.logspace(-2, math.log10(3.0), 200, dtype=torch.float64).tolist()
    errors: list[float] = [fit(c)[0] for c in grid]
    best: int = errors.index(min(errors))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    ratio: Final[float] = (math.sqrt(5) - 1) / 2
    for _ in range(60):  # golden section
        one, two = high - ratio * (high - low), low + ratio * (high - low)
        if fit(one)[0] < fit(two)[0]:
            high = two
        else:
            low = one
    c: float = (low + high) / 2
    _, a, b = fit(c)
    return a, b * math.exp(c * scale), c


class _Parabola(NamedTuple):
    lowest: float
    bend: float


def _fit_parabola(x: Sequence[float], y: Sequence[float]) -> _Parabola:
    middle: float = sum(x) / len(x)
    u: Tensor = torch.tensor(x, dtype=torch.float64) - middle
    columns: Tensor = torch.stack([torch.ones_like(u), u, u.square()], dim=1)
    solution: Tensor = torch.linalg.pinv(columns) @ torch.tensor(y, dtype=torch.float64)
    return _Parabola(middle - (solution[1] / (2 * solution[2])).item(), solution[2].item())


def compute_optimal(
    runs: Sequence[tuple[float, int, int, float]],
) -> tuple[tuple[float, float], Callable[[float], tuple[float, float]]]:
    budgets: list[float] = list(dict.fromkeys(run[0] for run in runs))
    if len(budgets) < 2:
        raise ValueError(f"at least two budgets are needed, got {len(budgets)}")
    lowest: dict[int, list[float]] = {1: [], 2: []}
    for budget in budgets:
        own = [run for run in runs if run[0] == budget]
        for which, points in lowest.items():
            logs: list[float] = [math.log(run[which]) for run in own]
            if len(set(logs)) < 3:
                raise ValueError(f"the budget of {budget} FLOPs needs three different sizes")
            parabola = _fit_parabola(logs, [run[3] for run in own])
            if parabola.bend <= 0:
                raise ValueError(f"the losses at {budget} FLOPs have no minimum")
            points.append(parabola.lowest)

    def through(points: Sequence[float]) -> tuple[float, float]:
        u: Tensor = torch.tensor([math.log(budget) for budget in budgets], dtype=torch.float64)
        v: Tensor = torch.tensor(points, dtype=torch.float64)
        slope: float = (((u - u.mean()) * (v - v.mean())).sum() / (u - u.mean()).square().sum()).item()
        return v.mean().item() - slope * u.mean().item(), slope

    (size_start, a), (token_start, b) = through(lowest[1]), through(lowest[2])

    def predict(budget: float) -> tuple[float, float]:
        log: float = math.log(budget)
        return math.exp(size_start + a * log), math.exp(token_start + b * log)

    return (a, b), predict


def memorised(model: nn.Module, texts: Sequence[Sequence[int]], n_prompt: int) -> list[int]:
    if n_prompt < 1:
        raise ValueError(f"n_prompt must be positive, got {n_prompt}")
    if any(len(text) <= n_prompt for text in texts):
        raise ValueError(f"n_prompt = {n_prompt} is as long as a text, or longer")
    modes: dict[nn.Module, bool] = {module: module.training for module in model.modules()}
    model.train(False)
    try:
        with torch.inference_mode():
            return [_repeated(model, torch.tensor(text), n_prompt) for text in texts]
    finally:
        for module, mode in modes.items():
            module.training = mode


def _repeated(model: nn.Module, text: Tensor, n_prompt: int) -> int:
    output = model(text[None])
    logits: Tensor = output[0] if isinstance(output, tuple) else output
    right: Tensor = logits[0, n_prompt - 1 : -1].argmax(dim=-1) == text[n_prompt:]
    return int(right.long().cumprod(dim=0).sum())
