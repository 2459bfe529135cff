"""What is measured of a training run, as its record keeps it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from grader.chapters.training_runs.records import Record, round_to
from torch import Tensor, nn

LENGTH = 10  # tokens in an attention map
SAMPLES = 12
Look = dict[str, Any]


def state_bytes(optimizer: Any) -> int:
    """The memory of the averages that an optimizer keeps; a parameter that never had a gradient has none."""
    state = [each for entry in optimizer.state.values() for each in entry if isinstance(each, Tensor)]
    return sum(each.numel() * each.element_size() for each in state)


def figures(model: nn.Module, step: Callable[[], float], tokenizer: Any) -> tuple[Look, float]:
    """Count the bytes that a step needs, and return them with the step's loss.

    What is saved for a backward pass counts once, however often it is used; of several passes, the largest counts.
    """
    saved: dict[int, int] = {}
    most, going_back = 0, False

    def pack(tensor: Tensor) -> Tensor:
        nonlocal most, going_back
        if going_back:  # the next micro-batch: the last one's tensors are free
            saved.clear()
            going_back = False
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        most = max(most, sum(saved.values()))
        return tensor

    def unpack(tensor: Tensor) -> Tensor:
        nonlocal going_back
        going_back = True
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = step()
    weights = {id(parameter): parameter.numel() * parameter.element_size() for parameter in model.parameters()}
    found = {
        "weights": sum(weights.values()),
        "activations": most,
        "vocabulary": tokenizer.vocab_size,
    }
    return found, loss


def sizes(model: nn.Module, ids: Tensor) -> Look:
    """The root mean square of what each part of the model returns."""
    found: dict[str, float] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            found[name] = round_to(float(first.detach().float().square().mean().sqrt()))

        return hook

    parts = [("embedding", model.token_emb)]
    for number, block in enumerate(model.blocks, 1):
        parts += [(f"attention {number}", block.attn), (f"block {number}", block)]
    parts += [("last norm", model.ln_f), ("logits", model.lm_head)]
    hooks = [part.register_forward_hook(keep(name)) for name, part in parts]
    mode = model.training
    model.eval()
    with torch.no_grad():
        model(ids)
    model.train(mode)
    for hook in hooks:
        hook.remove()
    return found


def part_norms(model: nn.Module, norms: dict[nn.Parameter, float]) -> Look:
    """The norm of the gradient of each part of the model."""

    def joint(part: nn.Module) -> float:
        return round_to(math.sqrt(sum(norms.get(parameter, 0.0) ** 2 for parameter in part.parameters())))

    named = {"embedding": model.token_emb, "positions": model.pos_emb}
    named |= {f"block {number}": block for number, block in enumerate(model.blocks, 1)}
    with_router = [(number, block) for number, block in enumerate(model.blocks, 1) if hasattr(block, "moe")]
    named |= {f"router {number}": block.moe.router for number, block in with_router}
    return {name: joint(part) for name, part in (named | {"last norm": model.ln_f}).items() if part is not None}


@torch.no_grad()
def end_looks(run: Record, setup: Any, parts: Any, model: nn.Module, tokenizer: Any, data: Any) -> Record:
    """Add to the record what can be looked at when the training has ended."""
    model.eval()
    inputs, targets = data.validation[0]
    run["activations"]["end"] = sizes(model, inputs)
    run["samples"] = _samples(parts, model, tokenizer, data.seed)
    run["attention"] = _attention(model, inputs, tokenizer)
    run["batch"] = _batch(next(data._batches()), tokenizer)
    run["positions"] = _by_position(model, data.validation)
    if setup.experts:
        run["experts"] = _experts(parts, model, inputs)
    else:
        run["cache"] = _cache(parts, model, tokenizer, inputs)
    return run


def _words(tokenizer: Any, ids: Any) -> list[str]:
    words = tokenizer.to_data()["vocab"]
    return [words[i] if i >= 0 else "-" for i in ids]


def _samples(parts: Any, model: nn.Module, tokenizer: Any, seed: int) -> Look:
    """Texts that the model writes, how many of all end, and the model's own loss on them."""
    if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        return {"texts": [], "ended": 0, "loss": math.nan}  # nothing can be drawn from NaN
    generator = torch.Generator().manual_seed(seed)
    prompt = torch.tensor([[*tokenizer.start_ids]] * SAMPLES)
    ids = parts.generate(model, prompt, 40, tokenizer.end_id, temperature=0.7, top_p=0.95, generator=generator)
    logits = model(ids[:, :-1])[0]
    seen = (ids[:, 1:] == tokenizer.end_id).cumsum(dim=1).roll(1, dims=1).index_fill(1, torch.tensor(0), 0) == 0
    losses = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    texts = [" ".join(_words(tokenizer, _until(row.tolist()[1:], tokenizer.end_id))) for row in ids[:3]]
    ended = int((ids == tokenizer.end_id).any(dim=1).sum())
    return {"texts": texts, "ended": ended, "loss": round_to(float(losses[seen].mean()))}


def _until(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end) + 1] if end in ids else ids


def _attention(model: nn.Module, inputs: Tensor, tokenizer: Any) -> Look:
    """The weights of every head in percent, for the first words of a held-out text.

    And of several texts: the greatest weight of a query on average, the weight on later positions, and the smallest and
    largest sum of a row.
    """
    caught: list[Tensor] = []

    def catch(module: nn.Module, inputs: Any) -> None:
        caught.append(inputs[0])

    hooks = [block.attn.register_forward_pre_hook(catch) for block in model.blocks]
    model(inputs)
    for hook in hooks:
        hook.remove()
    whole = [block.attn(x, return_weights=True)[1] for block, x in zip(model.blocks, caught)]
    weights = torch.stack(whole)  # (L, B, H, T, T)
    sums, later = weights.sum(-1), weights.triu(1).sum(-1)
    first = min(4, weights.size(-2) - 1)  # the first queries have few keys
    shown = (100 * weights[:, 0, :, :LENGTH, :LENGTH]).round()
    real = shown.nan_to_num(nan=-1)
    return {
        "words": _words(tokenizer, inputs[0, :LENGTH]),
        "maps": real.int().flatten(0, 1).tolist(),
        "greatest": round_to(float(weights.amax(-1)[..., first:].mean())),
        "later": round_to(float(later.mean())),
        "row sums": [round_to(float(sums.min())), round_to(float(sums.max()))],
    }


def _batch(batch: tuple[Tensor, Tensor], tokenizer: Any) -> Look:
    inputs, targets = batch
    lengths = (inputs != 0).sum(dim=1)
    short = int(lengths.argmin())
    rows = [row for row in ([0, short] if short else [short, 1]) if row < len(inputs)]
    return {
        "shape": list(inputs.shape),
        "rows": [[_words(tokenizer, each[row].tolist()) for each in (inputs, targets)] for row in rows],
    }


def _by_position(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> Look:
    """The mean loss at each position, of those that have a target, and over all positions."""
    width = max(inputs.size(1) for inputs, _ in batches)
    total, count = torch.zeros(width), torch.zeros(width)
    for inputs, targets in batches:
        losses = F.cross_entropy(model(inputs)[0].transpose(1, 2), targets, ignore_index=-100, reduction="none")
        total[: losses.size(1)] += losses.sum(0)
        count[: losses.size(1)] += (targets != -100).sum(0)
    means = (total / count)[count > 0].tolist()
    return {"losses": [*map(round_to, means)], "mean": round_to(float(total.sum() / count.sum()))}


def _cache(parts: Any, model: nn.Module, tokenizer: Any, inputs: Tensor) -> Look:
    """What the model writes greedily without and with a cache, and how far their logits are apart."""
    cached = parts.CachedGPT(model.config)
    cached.load_state_dict(model.state_dict())
    cached.eval()
    ids = inputs[:1, :12]
    whole, caches = model(ids)[0], cached.new_caches()
    pieces = [cached(ids[:, :5], caches), *(cached(ids[:, i : i + 1], caches) for i in range(5, ids.size(1)))]
    apart, again = (torch.cat(pieces, dim=1) - whole).abs().max(), (model(ids)[0] - whole).abs().max()
    prompt = ids[:, :4]
    texts = [
        parts.generate(model, prompt, 14, tokenizer.end_id, temperature=0),
        parts.generate_cached(cached, prompt, 14, tokenizer.end_id, temperature=0),
    ]
    written = [" ".join(_words(tokenizer, _until(text[0, 1:].tolist(), tokenizer.end_id))) for text in texts]
    found = {"apart": round_to(float(apart), 2), "again": round_to(float(again), 2)}
    return found | {"plain": written[0], "cached": written[1]}


def _experts(parts: Any, model: nn.Module, inputs: Tensor) -> list[list[float]]:
    """The share of the tokens that go to each expert, by block."""
    shares: list[list[float]] = []

    def keep(module: nn.Module, args: Any, output: Tensor) -> None:
        _, chosen = parts.route(output, 1)
        shares.append([round_to(float((chosen == i).float().mean()), 2) for i in range(output.size(-1))])

    hooks = [block.moe.router.register_forward_hook(keep) for block in model.blocks]
    model(inputs)
    for hook in hooks:
        hook.remove()
    return shares
