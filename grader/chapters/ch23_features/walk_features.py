"""Features: a walk through the parts of a small GPT that has learned the twenty sentences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import SENTENCE_GPT, sentence_gpt
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    *SENTENCE_GPT,
    "count_parameters",
    "residual_stream",
    "patch_residual",
    "logit_attribution",
    "ablate_head",
    "attribution_patching",
    "mean_direction",
    "steer",
    "remove_direction",
    "SparseAutoencoder",
    "explained_variance",
    "dead_features",
    "top_contexts",
)

LAYERS, HEADS, STEPS = 2, 2, 150
CLEAN, CORRUPTED = "the king sat on the", "the bird sat on the"
ANSWER = "sofa"
NEXT_WORD, STEER_PROMPT = "on", "the boy kicked"
STRENGTHS = (0.0, 1.0, 2.0, 4.0, 32.0)
FEATURES, K, DICTIONARY_STEPS, RATE, SHOWN, CONTEXTS = 64, 4, 200, 1e-2, 6, 3


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    sizes = {"n_layers": LAYERS, "n_heads": HEADS}
    model, tokenizer, (ids, targets), losses = sentence_gpt(parts, seed, STEPS, report_progress, 5e-3, **sizes)
    clean, corrupted = (torch.tensor([tokenizer.encode(text)]) for text in (CLEAN, CORRUPTED))
    [target] = tokenizer.encode(ANSWER)
    logits = last_logits(model, clean)
    ablated = {}
    for layer in range(LAYERS):
        for head in range(HEADS):
            for kind in ("zero", "mean"):
                with parts.ablate_head(model, layer, head, kind), torch.no_grad():
                    ablated[layer, head, kind] = model(ids, targets)[1].item()
    estimates = parts.attribution_patching(model, clean, corrupted, lambda logits: logits[0, -1, target])
    before = last_logits(model, corrupted)[target].item()
    real = torch.zeros(LAYERS, clean.size(1))
    for layer in range(LAYERS):
        for place in range(clean.size(1)):
            patched = parts.patch_residual(model, clean, corrupted, layer, place)
            real[layer, place] = patched[0, -1, target].item() - before
    stream = parts.residual_stream(model, ids)[1]  # after block 0, (B, T, D)
    read = targets != -100  # padding is not a target, and nothing else is left out of these texts
    [following] = tokenizer.encode(NEXT_WORD)
    groups = [stream[read & here] for here in (targets == following, targets != following)]
    direction = parts.mean_direction(*groups)
    steered, steer_ids = [], torch.tensor([tokenizer.encode(STEER_PROMPT)])
    for strength in STRENGTHS:
        with parts.steer(model, 0, direction, strength):
            steered.append(last_logits(model, steer_ids).softmax(-1)[following].item())
    without = [parts.remove_direction(group, direction) for group in groups]
    dictionary = learn(parts, stream[read], seed, report_progress)
    with torch.no_grad():
        reconstruction, features = dictionary(stream[read])
        everywhere = dictionary.encode(stream) * read[..., None]
    strongest = features.amax(dim=0).topk(SHOWN).indices.tolist()
    texts = {number: parts.top_contexts(everywhere[..., number], ids, CONTEXTS, 3, 0) for number in strongest}
    return SimpleNamespace(
        parameters=parts.count_parameters(model),
        losses=losses,
        chance=logits.softmax(-1)[target].item(),
        logit=logits[target].item(),
        attribution=parts.logit_attribution(model, clean, target),
        ablated=ablated,
        effects_shape=tuple(estimates.shape),
        estimates=estimates[1:].tolist(),  # after each block, as the real changes
        real=real.tolist(),
        words=CLEAN.split(),
        direction_length=direction.norm().item(),
        steered=steered,
        distance=(groups[0].mean(0) - groups[1].mean(0)).norm().item(),
        erased=(without[0].mean(0) - without[1].mean(0)).norm().item(),
        states=int(read.sum()),
        explained=parts.explained_variance(stream[read], reconstruction),
        dead=int(parts.dead_features(features, len(features)).sum()),
        texts={number: [show(tokenizer, *context) for context in found] for number, found in texts.items()},
        strengths={number: features[:, number].amax().item() for number in strongest},
    )


def last_logits(model: nn.Module, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return model(ids)[0][0, -1]


def learn(parts: MixedChapters, states: Tensor, seed: int, report_progress: ProgressReporter) -> nn.Module:
    torch.manual_seed(seed)
    dictionary = parts.SparseAutoencoder(states.size(1), FEATURES, K)
    optimizer = torch.optim.Adam(dictionary.parameters(), lr=RATE)
    with report_progress("training a dictionary", DICTIONARY_STEPS) as step:
        for _ in range(DICTIONARY_STEPS):
            optimizer.zero_grad()
            reconstruction, _ = dictionary(states)
            (states - reconstruction).square().sum(dim=-1).mean().backward()
            dictionary.project_gradient()
            optimizer.step()
            dictionary.normalise()
            step()
    return dictionary


def show(tokenizer: Any, activation: float, tokens: list[int], place: int) -> str:
    words = [tokenizer.decode([token]) for token in tokens]
    words[place] = f"[{words[place]}]"
    return " ".join(words)


def describe(n: SimpleNamespace) -> dict[str, Any]:
    heads = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    rows = [
        [f"head {layer}.{head}", *(n.ablated[layer, head, kind] for kind in ("zero", "mean"))] for layer, head in heads
    ]
    worst = max(heads, key=lambda head: float(n.ablated[head[0], head[1], "zero"]))
    places = [(layer, place) for layer in range(LAYERS) for place in range(len(n.words))]
    best = []
    for effects in (n.estimates, n.real):
        by_place = {(layer, place): float(effects[layer][place]) for layer, place in places}
        best.append(max(by_place, key=by_place.__getitem__))
    names = [f"{what}, after block {layer}" for what in ("estimate", "real") for layer in range(LAYERS)]
    signed = sorted(n.attribution.items(), key=lambda part: -abs(part[1]))
    return {
        "prompt": CLEAN,
        "corrupted": CORRUPTED,
        "answer": ANSWER,
        "attribution_bars": table([[name, value] for name, value in signed], ["part", "logit"], ".2f"),
        "total": sum(n.attribution.values()),
        "ablation_table": table(rows, ["", '"zero"', '"mean"'], ".3f"),
        "worst": f"{worst[0]}.{worst[1]}",
        "patches": len(places),
        "effect_grids": grid([*n.estimates, *n.real], names, n.words),
        "alike": best[0] == best[1],
        "steering_table": table([["probability", *n.steered]], ["strength", *(f"{s:g}" for s in STRENGTHS)], ".3f"),
        "feature_table": table(
            [[str(number), f"{n.strengths[number]:.2f}", "; ".join(texts)] for number, texts in n.texts.items()],
            ["feature", "most", "texts"],
            left=3,
        ),
    }
