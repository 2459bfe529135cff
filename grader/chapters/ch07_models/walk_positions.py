"""Four ways to encode positions: a walk, and the measurement of lesson 4 beyond the trained length.

The language is artificial. Each token is, with equal probability, either the token ECHO places before it (a model must
know distances for that), or a follower of the previous token (a model needs only that token). Nothing depends on
earlier tokens, and a longer text is even a little easier: a higher loss at later places comes from the positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from grader.chapters.small_models import GPT_PARTS
from grader.console.output import ProgressReporter, show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    *GPT_PARTS, "sinusoidal_positions", "SinusoidalPositions", "rope_angles", "apply_rope", "alibi_slopes",
    "alibi_bias", "count_parameters",
)  # fmt: skip

SCHEMES = {
    "learned": "a table of vectors, trained, added to the tokens",
    "sinusoidal": "a table of sines and cosines, added to the tokens",
    "rope": "queries and keys are rotated by their position",
    "alibi": "the scores fall with the distance",
}
VOCABULARY, WIDTH, HEADS = 24, 32, 4
LENGTH, TIMES = 16, (1, 2, 4)  # of the texts for training, and how many times as long the texts for the test are
STEPS = 600
ECHO = 3  # places back
BACK = ECHO - 1  # distance from a query to the token that the next one may repeat
SURE = 0.9  # the probability of a token's two favourite followers; all tokens share the rest
MAX_DISTANCE = 6  # in the table of scores
QUERY_PLACES = (15, 8)
BIN = 8  # places that make one column


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    tables: dict[str, Tensor] = {}
    echo, heads = {}, {}

    def trained(scheme: str, model: nn.Module, texts: Tensor) -> None:
        found = averaged_patterns(model, texts)  # (layers, H, T, T)
        on_echo = found.diagonal(-BACK, dim1=2, dim2=3)  # (layers, H, T - BACK), first for the query at place BACK
        layer, head = divmod(int(on_echo[..., : LENGTH - BACK].mean(-1).argmax()), HEADS)
        heads[scheme], echo[scheme] = (layer, head), on_echo[layer, head].tolist()
        if model.pos_emb is not None:
            with torch.no_grad():
                rows = model.pos_emb(torch.zeros(1, LENGTH, WIDTH))[0]
            tables[scheme] = rows @ rows.T / math.sqrt(WIDTH)

    with report_progress("training four models", len(SCHEMES) * STEPS) as step:
        rows = extrapolate(parts.chapter("ch07"), seed, steps=STEPS, each_step=step, trained=trained)
    turned = parts.apply_rope(torch.ones(LENGTH, WIDTH // HEADS), torch.arange(LENGTH))
    tables["rope"] = turned @ turned.T / math.sqrt(WIDTH // HEADS)
    tables["alibi"] = parts.alibi_bias(HEADS, LENGTH, LENGTH)[0]
    sizes = {"d_model": WIDTH, "n_heads": HEADS, "n_layers": 2}
    small = {one: parts.GPT(parts.GPTConfig(VOCABULARY, LENGTH, positions=one, **sizes)) for one in SCHEMES}

    def scores(scheme: str, place: int) -> list[float]:
        return [tables[scheme][place, place - d].item() for d in range(MAX_DISTANCE + 1)]

    def unequal(scheme: str) -> float:
        lines = [tables[scheme].diagonal(-d) for d in range(LENGTH)]
        return max((line.max() - line.min()).item() for line in lines)

    return SimpleNamespace(
        parameters={scheme: parts.count_parameters(model) for scheme, model in small.items()},
        beyond_table={scheme: _one_too_many(model) for scheme, model in small.items()},
        scores={scheme: {place: scores(scheme, place) for place in QUERY_PLACES} for scheme in SCHEMES},
        unequal={scheme: unequal(scheme) for scheme in SCHEMES},  # how far scores of one distance are apart, at most
        rows=rows,
        echo=echo,  # of the head that attends most to the token to be repeated, its weight there, by position
        heads=heads,  # layer and number of that head
    )


@torch.no_grad()
def averaged_patterns(model: nn.Module, texts: Tensor) -> Tensor:
    x = model.token_emb(texts)
    x = x if model.pos_emb is None else model.pos_emb(x)
    found = []
    for block in model.blocks:
        found.append(block.attn(block.ln1(x), return_weights=True)[1].mean(0))
        x = block(x)
    return torch.stack(found)


@torch.no_grad()
def _one_too_many(model: nn.Module) -> str:
    """Return what happens with a text of one token more than max_len."""
    try:
        model(torch.zeros(1, model.config.max_len + 1, dtype=torch.long))
    except ValueError as problem:
        return f"ValueError: {problem}".split("\n")[0]
    return "no error"


def binned(values: list[float], first: int) -> list[float]:
    """Return means over BIN positions each; `values` starts at position `first`."""
    last = first + len(values)
    edges = [(start, min(start + BIN, last)) for start in range(0, last, BIN)]
    return [sum(values[max(a, first) - first : b - first]) / (b - max(a, first)) for a, b in edges]


def describe(n: SimpleNamespace) -> dict[str, Any]:
    fewest = min(n.parameters.values())
    ways = [[name, way, f"+ {n.parameters[name] - fewest}"] for name, way in SCHEMES.items()]
    lengths = [times * LENGTH for times in TIMES]
    distances = ["distance", *map(str, range(MAX_DISTANCE + 1))]
    scores = [[f"{scheme}, from {place}", *line] for scheme, lines in n.scores.items() for place, line in lines.items()]
    equal = [scheme for scheme in SCHEMES if n.unequal[scheme] < 1e-3]
    unequal = [f"{scheme} by up to {n.unequal[scheme]:.2f}" for scheme in SCHEMES if scheme not in equal]
    columns = [f"{start}-{start + BIN - 1}" for start in range(0, lengths[-1], BIN)]
    labels = [f"{scheme}, layer {layer} head {head}" for scheme, (layer, head) in n.heads.items()]
    losses, names = [[row.name, *row.at.values()] for row in n.rows], [row.name for row in n.rows]
    return {
        "way_table": table(ways, ["", "", "parameters"], left=2),
        "beyond_table": table(n.beyond_table.items(), left=2),
        "score_table": table(scores, distances, ".2f"),
        "equal_schemes": " and ".join(equal) or "none",
        "unequal_schemes": ", ".join(unequal),
        "longer_lengths": " and ".join(map(str, lengths[1:])),
        "loss_table": table(losses, ["", *(f"{length} tokens" for length in lengths)], ".2f"),
        "last_trained": LENGTH - 1,
        "place_grid": grid([binned(row.places, BACK) for row in n.rows], names, columns, width=5),
        "echo_grid": grid([binned(n.echo[scheme], BACK) for scheme in n.heads], labels, columns, width=5),
        "best_near": min(n.rows[2:], key=lambda row: row.at[lengths[0]]).name,
        "best_far": min(n.rows[2:], key=lambda row: row.at[lengths[-1]]).name,
    }


# ---- lesson 4


def extrapolate(
    chapter: ModuleType,
    seed: int = 0,
    length: int = LENGTH,
    steps: int = 1000,
    texts: int = 200,
    each_step: Callable[[], None] = lambda: None,
    trained: Callable[[str, nn.Module, Tensor], None] = lambda scheme, model, texts: None,
) -> list[SimpleNamespace]:
    """Train a model with each scheme on texts of `length` tokens, and test it on longer ones.

    `trained` is called with each model and the test texts. Two rows come first: the language's true probabilities, and
    those of each token after the previous one, counted in the training texts.
    """
    followers = draw_language(seed)
    generator = torch.Generator().manual_seed(seed)
    lessons = draw_texts(followers, 32 * steps, length, generator)[0].view(steps, 32, length + 1)
    exam, chances = draw_texts(followers, texts, TIMES[-1] * length, generator)
    last_alone = -_count_followers(lessons).log()[exam[:, ECHO - 1 : -1], exam[:, ECHO:]].mean(0)
    rows = [_row("best possible", -chances.log().mean(0), length), _row("last token alone", last_alone, length)]
    for scheme in SCHEMES:
        model = train(chapter, scheme, lessons, seed, each_step).eval()
        trained(scheme, model, exam[:, :-1])
        with torch.no_grad():
            logits, _ = model(exam[:, :-1])  # (B, T, V)
        losses = F.cross_entropy(logits.transpose(1, 2), exam[:, 1:], reduction="none").mean(0)  # (T,)
        rows.append(_row(scheme, losses[ECHO - 1 :], length))
    return rows


def train(
    chapter: ModuleType, scheme: str, lessons: Tensor, seed: int, each_step: Callable[[], None] = lambda: None
) -> nn.Module:
    """Train a small GPT on each batch of `lessons` once.

    A table of positions has rows for the longest text, but only the first ones are trained.
    """
    steps, _, length = lessons[:, :, 1:].shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"d_model": WIDTH, "n_heads": HEADS, "n_layers": 2, "positions": scheme}
        model = chapter.GPT(chapter.GPTConfig(VOCABULARY, TIMES[-1] * length, **sizes))
    optimizer = torch.optim.Adam(model.parameters())
    for step, batch in enumerate(lessons):
        targets = batch[:, 1:].clone()
        targets[:, : ECHO - 1] = -100  # their echo lies before the text
        optimizer.param_groups[0]["lr"] = 3e-3 * min((step + 1) / 30, 0.01 + math.cos(math.pi / 2 * step / steps) ** 2)
        optimizer.zero_grad()
        model(batch[:, :-1], targets)[1].backward()
        optimizer.step()
        each_step()
    return model


def draw_language(seed: int) -> Tensor:
    """Draw the language: the probabilities (V, V) of each token's followers without an echo."""
    generator = torch.Generator().manual_seed(seed)
    chances = torch.full((VOCABULARY, VOCABULARY), (1 - SURE) / VOCABULARY)
    for token in range(VOCABULARY):
        chances[token, torch.randperm(VOCABULARY, generator=generator)[:2]] += SURE / 2
    return chances


def draw_texts(followers: Tensor, n: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw texts (n, length + 1), and return the true probability of each token after the first ECHO."""
    tokens, chances = list(torch.randint(VOCABULARY, (ECHO, n), generator=generator)), []
    for _ in range(length + 1 - ECHO):
        chance = (followers[tokens[-1]] + F.one_hot(tokens[-ECHO], VOCABULARY)) / 2  # (n, V)
        tokens.append(torch.multinomial(chance, 1, generator=generator)[:, 0])
        chances.append(chance.gather(1, tokens[-1][:, None])[:, 0])
    return torch.stack(tokens, 1), torch.stack(chances, 1)


def _count_followers(lessons: Tensor) -> Tensor:
    """Estimate the probabilities (V, V) of each token after each token from the texts."""
    pairs = lessons[..., ECHO - 1 : -1].flatten() * VOCABULARY + lessons[..., ECHO:].flatten()
    counts = pairs.bincount(minlength=VOCABULARY**2).view(VOCABULARY, VOCABULARY) + 1.0
    return counts / counts.sum(1, keepdim=True)


def _row(name: str, losses: Tensor, length: int) -> SimpleNamespace:
    """Return the losses of positions BACK and later, and their means over whole texts and beyond `length`."""
    at = {times * length: losses[: times * length - BACK].mean().item() for times in TIMES}
    return SimpleNamespace(name=name, at=at, beyond=losses[length - BACK :].mean().item(), places=losses.tolist())


def report_extrapolation(chapters: ChapterPackage, seed: int, *, length: int = LENGTH, steps: int = 1000) -> Report:
    """Lesson 4: the loss of four GPTs that differ only in their positions, at 1, 2 and 4 times the trained length."""
    with show_progress(f"training {len(SCHEMES)} models", len(SCHEMES) * steps) as step:
        found = extrapolate(chapters.module("ch07_models"), seed, length, steps, each_step=step)
    lengths = [f"{times}x ({times * length})" for times in TIMES]
    columns = ("positions", *lengths, f"only places {length + 1} to {TIMES[-1] * length}")
    rows = [[row.name, *row.at.values(), row.beyond] for row in found]
    yield result_table("mean loss in nats per token, by length of text", columns, rows, ".2f")
