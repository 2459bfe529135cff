"""Steps, validation and samples of one training, and its state; also of a training that several processes share."""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from grader.chapters.small_models import SideBySide
from grader.execution.simulated_group import GroupProblem
from grader.models.design import Design, parameters_by_name
from grader.models.process_group import ProcessGroup
from grader.models.training.corpora import Batch, Corpus, PairCorpus, count_targets
from grader.models.training.recipes import Recipe
from grader.teaching.walks.parts import hidden_prints
from torch import Tensor, nn

EXERCISES = ("shard_batch", "average_gradients")
NO_PLAN, STOP = 0, -1  # instead of the number of steps of the whole training


class Team:
    """All processes, as one of them sees them."""

    def __init__(self, group: ProcessGroup, parts: Any, why_one_ended: Callable[[], str | None]) -> None:
        self.group, self.parts, self.why_one_ended = group, parts, why_one_ended
        self.share = 1.0  # of the batch's targets: those in this rank's rows

    def own_rows(self, batches: Sequence[Batch]) -> list[Batch]:
        """This rank's rows of each smaller batch. Where it has none, one row without targets, which has no effect."""
        rank, size = self.group.rank, self.group.size
        shards = [[self.parts.shard_batch(t, rank, size) for t in batch] for batch in batches]
        own = [(inputs, targets) for inputs, targets in shards if len(inputs)]
        if not own:
            inputs, targets = batches[0]
            own = [(inputs[:1], torch.full_like(targets[:1], -100))]
        self.share = count_targets(own) / max(count_targets(batches), 1)
        return own

    def average_gradients(self, model: nn.Module) -> None:
        """Make each gradient that of the whole batch's loss. Each rank has the mean over its own targets, so its
        weight in the mean over the ranks is its share of the targets."""
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(self.share * self.group.size)
        self.parts.average_gradients(model, self.group)

    def loss_of_all(self, loss: float) -> float:
        """The loss of the whole batch. The update is made already: if a rank has ended since then, this is this
        rank's own loss, and the next step reports the problem."""
        with contextlib.suppress(GroupProblem):
            return float(self.group.all_reduce(torch.tensor(loss * self.share, dtype=torch.float64)))
        return loss

    def announce_plan(self, total: int | None) -> None:
        """Rank 0, before each step: the number of steps of the whole training, if it is known."""
        self.group.broadcast(torch.tensor(NO_PLAN if total is None else total), 0)

    def receive_plan(self) -> int:
        """The other ranks: what rank 0 announces, NO_PLAN, or STOP."""
        return int(self.group.broadcast(torch.tensor(NO_PLAN), 0))

    def explain(self, problem: GroupProblem) -> str:
        """What a problem means, as a part of a sentence."""
        return self.why_one_ended() or str(problem)


def read_state(optimizer: Any) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def note(value: Any) -> Any:
        tensor = torch.as_tensor(value, dtype=getattr(value, "dtype", torch.float64))
        found[str(len(found))] = tensor.detach().cpu().contiguous().clone()
        return value

    _replace(optimizer, note)
    return found


def restore_state(optimizer: Any, state: Mapping[str, Tensor]) -> bool:
    """Give this state to an optimizer that has the places for it, and so has made an update; return whether it fits."""
    own = read_state(optimizer)
    if {place: value.shape for place, value in own.items()} != {place: value.shape for place, value in state.items()}:
        return False
    stored = (state[place] for place in own)
    with torch.no_grad():
        _replace(optimizer, lambda value: _filled(value, next(stored)))
    return True


def _filled(value: Any, stored: Tensor) -> Any:
    return value.copy_(stored) if isinstance(value, Tensor) else type(value)(stored.item())


def _replace(value: Any, new: Callable[[Any], Any]) -> Any:
    """Replace every number and tensor in this value, except parameters; return what belongs in its place."""
    if isinstance(value, Tensor | int | float) and not isinstance(value, nn.Parameter | bool):
        return new(value)
    if isinstance(value, tuple):
        children = [_replace(child, new) for child in value]
        return value._make(children) if hasattr(value, "_make") else tuple(children)
    if isinstance(value, list):
        value[:] = [_replace(child, new) for child in value]
    elif isinstance(value, dict):
        value.update([(key, _replace(child, new)) for key, child in value.items()])
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, nn.Parameter):
        _replace(vars(value), new)
    return value


SAMPLE_TOKENS = 100
SAMPLE_TEMPERATURE = 0.7
SENTENCE_TOKENS = 16  # of a translation
DECAY_SHARE = 0.2  # of the steps: how long the rate of the schedule wsd falls


class NotANumber(Exception):
    """The loss is infinite or not a number."""


@dataclass
class History:
    """What the curves show, and what a checkpoint records."""

    losses: list[float] = field(default_factory=list)  # of every step, before its update
    norms: list[float] = field(default_factory=list)  # of the gradient, before it is clipped
    validation: list[tuple[int, float]] = field(default_factory=list)  # (steps done, loss)
    samples: list[tuple[int, str]] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    def to_data(self) -> dict[str, Any]:
        return vars(self) | {
            "losses": [round(loss, 6) for loss in self.losses],
            "norms": [round(norm, 4) for norm in self.norms],
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> History:
        validation, samples = ([tuple(pair) for pair in data[name]] for name in ("validation", "samples"))
        return cls(
            list(data["losses"]), list(data["norms"]), validation, samples, int(data["tokens"]), float(data["seconds"])
        )  # type: ignore[arg-type]


class Trainer:
    """A model in training. The same seed gives the same losses on the same machine with the same number of threads."""

    def __init__(
        self, parts: Any, design: Design, model: nn.Module, corpus: Corpus, recipe: Recipe, device: str
    ) -> None:
        self.parts, self.design, self.corpus, self.recipe = parts, design, corpus, recipe
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.parameters = list(self.model.parameters())
        self.whole = self._wrapped()
        choices: dict[str, Any] = dict(lr=recipe.peak, betas=recipe.betas, weight_decay=recipe.weight_decay)
        if recipe.optimizer == "muon":
            self.optimizer: Any = MuonAndAdamW(parts, parameters_by_name(self.model), **choices)
        else:
            self.optimizer = parts.AdamW(self.parameters, **choices)
        self.peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.clipping = ClippingOptimizer(self.optimizer, self.parameters, parts.clip_gradients, recipe.max_norm)
        self.team: Team | None = None  # the processes that train this model, if there are several
        self.steps_done = 0
        self.history = History()
        with hidden_prints():
            self.validation_batches = [self._moved(batch) for batch in corpus.validation()]

    def _wrapped(self) -> nn.Module:
        if self.design.kind == "moe":
            return WithBalanceLoss(self.model)
        return SideBySide(self.model, self.corpus.width) if isinstance(self.corpus, PairCorpus) else self.model

    def _moved(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return batch[0].to(self.device), batch[1].to(self.device)

    def learning_rate(self, total: int | None, peak: float) -> float:
        """The rate of the next step; without a known end of the training, it is still in its warmup."""
        warmup = self.recipe.warmup if total is None else min(self.recipe.warmup, total - 1)
        floor = peak * self.recipe.floor_share
        end = total if total is not None else self.recipe.warmup + 1
        if self.recipe.schedule == "wsd":
            decay = min(int(DECAY_SHARE * end), end - warmup)
            return float(self.parts.schedule_wsd(self.steps_done + 1, warmup, decay, end, peak, floor))
        return float(self.parts.warmup_cosine(self.steps_done + 1, warmup, end, peak, floor))

    def _update(self, batches: Sequence[Batch]) -> float:
        """Train on a batch; return the loss of the next token from before the update."""
        if self.design.predict_tokens == 1:
            return float(self.parts.accumulated_step(self.whole, self.clipping, batches))
        self.model.train()
        self.clipping.zero_grad()
        count, loss = count_targets(batches), 0.0
        for inputs, targets in batches:
            logits = logits_of_all_heads(self.parts, self.design, self.model, inputs)
            share = count_targets([(inputs, targets)]) / max(count, 1)
            (self.parts.multi_token_loss(logits, targets) * share).backward()
            loss += float(self.parts.cross_entropy(logits[0].detach(), targets)) * share
        self.clipping.step()
        return loss

    def go_on_from(self, history: History, state: dict[str, Tensor]) -> bool:
        """Continue a training of this history; return whether AdamW has the state, or begins with new averages."""
        self.history, self.steps_done = history, len(history.losses)
        if not self.steps_done:
            return True
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0  # the update makes the places for the state, and changes no parameter
        batches = [self._moved(batch) for batch in self.corpus.batch(0)]
        with hidden_prints():
            self._update(batches)
        return restore_state(self.optimizer, state)

    def step(self, total: int | None) -> float:
        """One update; returns the loss from before it. NotANumber if there is none."""
        started = time.perf_counter()
        with hidden_prints():
            batches = [self._moved(batch) for batch in self.corpus.batch(self.steps_done)]
            tokens = count_targets(batches)
            if team := self.team:
                batches = team.own_rows(batches)
                self.clipping.before_clipping = lambda: team.average_gradients(self.model)
            for group, peak in zip(self.optimizer.param_groups, self.peaks):
                group["lr"] = self.learning_rate(total, peak)
            if isinstance(self.whole, WithBalanceLoss):
                self.whole.pieces = len(batches)
            loss = self._update(batches)
        if team:
            loss = team.loss_of_all(loss)
        if not math.isfinite(loss):
            raise NotANumber(f"the loss of step {self.steps_done + 1} is {loss}")
        self.steps_done += 1
        self.history.losses.append(loss)
        self.history.norms.append(self.clipping.norm)
        self.history.tokens += tokens
        self.history.seconds += time.perf_counter() - started
        return loss

    def validate(self) -> float:
        """The mean loss of the held-out batches: the logarithm of the learner's perplexity."""
        with hidden_prints():
            loss = math.log(self.parts.perplexity(self.whole, self.validation_batches))
        self.history.validation.append((self.steps_done, loss))
        return loss

    def sample(self) -> None:
        """Record a text that the model writes now; a translator translates a held-out sentence."""
        self.history.samples.append((self.steps_done, self.write(0)))

    def write(self, seed: int) -> str:
        with hidden_prints():
            return (
                self._translation(seed + len(self.history.samples))
                if isinstance(self.corpus, PairCorpus)
                else self._continuation(seed)
            )

    def _continuation(self, seed: int) -> str:
        tokenizer = self.corpus.tokenizer
        ids = tokenizer.encode(self.corpus.prompt) if self.corpus.prompt else list(tokenizer.start_ids)
        generator = torch.Generator(self.device).manual_seed(seed)
        length = min(SAMPLE_TOKENS, self.design.max_len - len(ids))
        prompt = torch.tensor([ids], device=self.device)
        written = self.parts.generate(
            self.model, prompt, length, eos_id=tokenizer.end_id, temperature=SAMPLE_TEMPERATURE, generator=generator
        )
        return tokenizer.decode(written[0].tolist()).strip()

    def _translation(self, number: int) -> str:
        assert isinstance(self.corpus, PairCorpus)
        source, target = self.corpus.held_out[7 * number % len(self.corpus.held_out)]
        written = self.translate(source)
        return f"{source} → {written}" + ("" if written == target else f" (right: {target})")

    def translate(self, source: str) -> str:
        tokenizer = self.corpus.tokenizer
        ids = torch.tensor([tokenizer.encode(source)], device=self.device)
        start, end = tokenizer.start_ids[0], tokenizer.end_id
        return tokenizer.decode(self.parts.translate(self.model, ids, start, end, SENTENCE_TOKENS)[0].tolist())


def prepare_torch(seed: int) -> None:
    """Seed the generators, and let torch add in the same order every time."""
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(default_threads())
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms also imports a compiler, for seconds
    torch.utils.deterministic.fill_uninitialized_memory = False  # it would only cost time: nothing reads such memory


def default_threads() -> int:
    """As many as processors, or as OMP_NUM_THREADS says."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


BALANCE_WEIGHT = 0.01  # of the balance loss beside the cross-entropy


class _AddLoss(torch.autograd.Function):
    """Returns its first argument; going backward, the second one gets the gradient of a loss that is added with a
    weight."""

    @staticmethod
    def forward(context: Any, logits: Tensor, loss: Tensor, weight: float) -> Tensor:
        context.weight, context.loss = weight, (loss.shape, loss.dtype, loss.device)
        return logits.view_as(logits)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        shape, dtype, device = context.loss
        return gradients[0], torch.full(shape, context.weight, dtype=dtype, device=device), None


class WithBalanceLoss(nn.Module):
    """A model with experts whose gradient includes that of the balance loss, whatever loss is computed from the logits.

    A batch in `pieces` parts goes backward once for each part, so each adds its share.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.pieces = model, 1

    def forward(self, ids: Tensor) -> Tensor:
        logits, balance = self.model(ids)
        if not (self.training and torch.is_grad_enabled()):
            return logits
        return _AddLoss.apply(logits, balance, BALANCE_WEIGHT / self.pieces)  # type: ignore[no-any-return]


class ClippingOptimizer:
    """The learner's optimizer, which clips with the learner's `clip_gradients` before each update and records the
    norm."""

    def __init__(
        self, optimizer: Any, parameters: Sequence[nn.Parameter], clip_gradients: Any, max_norm: float
    ) -> None:
        self.optimizer, self.parameters = optimizer, parameters
        self.clip_gradients, self.max_norm = clip_gradients, max_norm
        self.norm = 0.0
        self.before_clipping: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    def step(self, *arguments: Any) -> Any:
        self.before_clipping()
        self.norm = float(self.clip_gradients(self.parameters, self.max_norm))
        return self.optimizer.step(*arguments)


# ---- the parts of chapter 20 in a training

MUON_PEAK = 0.02  # learning rate; AdamW has that of the recipe


def logits_of_all_heads(parts: Any, design: Design, model: Any, ids: Tensor) -> Tensor:
    """The logits of lm_head and of the further heads, which are for training only: (B, T) -> (K, B, T, V)."""
    x = model.token_emb(ids)  # (B, T, D)
    if model.pos_emb is not None:
        x = model.pos_emb(x)
    for block in model.blocks:
        x = block(x)
    x = model.ln_f(x)
    logits = torch.stack([head(x) for head in (model.lm_head, *model.further_heads)])
    return logits if design.soft_cap is None else parts.soft_cap(logits, design.soft_cap)


class MuonAndAdamW:
    """One optimizer for all parameters: Muon for the matrices inside the blocks, AdamW for all others."""

    def __init__(self, parts: Any, parameters: Mapping[str, nn.Parameter], weight_decay: float, **adamw: Any) -> None:
        matrices = [p for name, p in parameters.items() if "blocks." in name and p.dim() == 2]
        chosen = set(map(id, matrices))
        others = [p for p in parameters.values() if id(p) not in chosen]
        muon = parts.Muon(matrices, lr=MUON_PEAK, weight_decay=weight_decay)
        self.both = [muon, parts.AdamW(others, weight_decay=weight_decay, **adamw)]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.both for group in optimizer.param_groups]

    def step(self) -> None:
        for optimizer in self.both:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.both:
            optimizer.zero_grad()
