"""Four ways to encode the positions of tokens, compared, and how well each works beyond the length it was trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from grader.teaching.drawing.charts import Map, curves, draw_maps
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.measurements.extrapolation import ECHO, LENGTH, SCHEMES, TIMES, VOCABULARY, Row
from grader.teaching.measurements.extrapolation import measure as extrapolate
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS
from grader.teaching.walks.walk_page import WalkPage
from torch import Tensor, nn

REQUIRED_EXERCISES = (*GPT_PARTS, "sinusoidal_positions", "SinusoidalPositions", "rope_angles", "apply_rope", "alibi_slopes", "alibi_bias", "count_parameters")
NEXT_STEP = "Next: `headway measure extrapolation --length 32` trains on longer texts and tests on even longer ones."

STEPS = 600
WIDTH, HEADS = 32, 4  # of the models that grader/teaching/measurements/extrapolation.py trains
BACK = ECHO - 1  # distance from a query to the token that the next one may repeat
FAR = 6  # distances shown
FROM = (15, 8)  # places of the query
BIN = 8  # places that make one column
SHOWN = 40  # places in the picture
WAYS = {
    "learned": "a table of vectors, trained, added to the tokens",
    "sinusoidal": "a table of sines and cosines, added to the tokens",
    "rope": "queries and keys are rotated by their position",
    "alibi": "the scores fall with the distance",
}


@dataclass(frozen=True)
class Numbers:
    parameters: dict[str, int]  # of a GPT with each scheme
    beyond_table: dict[str, str]  # what happens to a text longer than max_len: an error, or no error
    scores: dict[str, dict[int, list[float]]]  # the score from position alone of a key at each distance, by the query's position
    unequal: dict[str, float]  # how far scores of the same distance are apart, at most
    rows: list[Row]
    echo: dict[str, list[float]]  # of the head that attends most to the token to be repeated, its weight there, by the query's position
    heads: dict[str, tuple[int, int]]  # layer and number of that head
    patterns: dict[str, list[list[float]]]  # its first SHOWN rows, averaged over texts


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Compute the scores of each scheme, train a GPT with each, and record where their heads attend."""
    tables: dict[str, Tensor] = {}
    echo, heads, patterns = {}, {}, {}

    def trained(scheme: str, model: nn.Module, texts: Tensor) -> None:
        found = averaged(model, texts)  # (layers, H, T, T)
        on_echo = found.diagonal(-BACK, dim1=2, dim2=3)  # (layers, H, T - BACK), first for the query at place BACK
        layer, head = divmod(int(on_echo[..., : LENGTH - BACK].mean(-1).argmax()), HEADS)
        heads[scheme], echo[scheme] = (layer, head), on_echo[layer, head].tolist()
        patterns[scheme] = found[layer, head, :SHOWN, :SHOWN].tolist()
        if model.pos_emb is not None:
            with torch.no_grad():
                rows = model.pos_emb(torch.zeros(1, LENGTH, WIDTH))[0]
            tables[scheme] = rows @ rows.T / math.sqrt(WIDTH)

    with report_progress("training four models", len(SCHEMES) * STEPS) as step:
        rows = extrapolate(parts.chapter("ch07"), seed, steps=STEPS, each_step=step, trained=trained)
    word = torch.ones(LENGTH, WIDTH // HEADS)
    turned = parts.apply_rope(word, torch.arange(LENGTH))
    tables["rope"] = turned @ turned.T / math.sqrt(WIDTH // HEADS)
    tables["alibi"] = parts.alibi_bias(HEADS, LENGTH, LENGTH)[0]
    small = {scheme: parts.GPT(parts.GPTConfig(VOCABULARY, LENGTH, d_model=WIDTH, n_heads=HEADS, n_layers=2, positions=scheme)) for scheme in SCHEMES}
    return Numbers(
        parameters={scheme: parts.count_parameters(model) for scheme, model in small.items()},
        beyond_table={scheme: _one_too_many(model) for scheme, model in small.items()},
        scores={scheme: {place: [tables[scheme][place, place - d].item() for d in range(FAR + 1)] for place in FROM} for scheme in SCHEMES},
        unequal={scheme: max((line.max() - line.min()).item() for d in range(LENGTH) for line in [tables[scheme].diagonal(-d)]) for scheme in SCHEMES},
        rows=rows,
        echo=echo,
        heads=heads,
        patterns=patterns,
    )


@torch.no_grad()
def averaged(model: nn.Module, texts: Tensor) -> Tensor:
    """Return the attention patterns of every head, averaged over the texts, (layers, H, T, T)."""
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


def print_walk(page: WalkPage, n: Numbers) -> None:
    length, longest = LENGTH, TIMES[-1] * LENGTH
    fewest = min(n.parameters.values())
    page.step("Four ways to encode a position")
    page.table([[scheme, way, f"+ {n.parameters[scheme] - fewest}"] for scheme, way in WAYS.items()], ["", "", "parameters"], left=2)
    page.say(f"What a GPT with each does with one token more than its max_len of {length}:")
    page.table([[scheme, outcome] for scheme, outcome in n.beyond_table.items()], left=2)

    page.step("The same word at other positions")
    page.say("If query and key are the same word, the score depends on their positions alone. Scores by distance, from the last position and from an earlier one:")
    rows = [[f"{scheme}, from {place}", *(f"{score:.2f}" for score in line)] for scheme, lines in n.scores.items() for place, line in lines.items()]
    page.table(rows, ["distance", *(str(d) for d in range(FAR + 1))])
    same = [scheme for scheme in SCHEMES if n.unequal[scheme] < 1e-3]
    others = [f"{scheme} by up to {n.unequal[scheme]:.2f}" for scheme in SCHEMES if scheme not in same]
    page.say(f"Schemes with equal scores at equal distance, at every position: {' and '.join(same) or 'none'}.")
    if others:
        page.say(f"Schemes with different scores at equal distance: {', '.join(others)}.")
    page.say("These are scores without W_q and W_k; trained maps use this information.")

    page.step("A language with an echo")
    longer = " and ".join(str(times * length) for times in TIMES[1:])
    page.say(
        f"In an artificial language each token is, with equal probability, the token {ECHO} places before it or one of the usual followers of the last token. "
        f"Four small GPTs that differ only in their positions were trained on texts of {length} tokens. Their loss on such texts, and on texts of {longer} tokens, "
        "where the lowest possible loss is no higher:"
    )
    page.table([[row.name, *(f"{row.at[t * length]:.2f}" for t in TIMES)] for row in n.rows], ["", *(f"{t * length} tokens" for t in TIMES)])
    page.say(
        "The first row uses the true probabilities. The second uses only the last token and ignores the echo. "
        "A model with a higher loss than this has lost more than the echo."
    )

    columns = [f"{start}-{start + BIN - 1}" for start in range(0, longest, BIN)]
    page.step("Where it fails")
    page.say(f"The same loss by position, {BIN} positions to a column. In training no position was later than {length - 1}.")
    page.grid([binned(list(row.places), ECHO - 1) for row in n.rows], [row.name for row in n.rows], columns, width=5)

    page.step("Why it fails there")
    page.say(
        f"To predict the echo, a head must attend {BACK} places back. In each model, one head does this more than the others. "
        "Its weight there, by its own position:"
    )
    labels = [f"{scheme}, layer {layer} head {head}" for scheme, (layer, head) in n.heads.items()]
    page.grid([binned(n.echo[scheme], BACK) for scheme in n.heads], labels, columns, width=5)
    models = n.rows[2:]
    near, far = (min(models, key=lambda row: row.at[t * length]).name for t in (TIMES[0], TIMES[-1]))
    page.say(
        f"At the trained length {near} is best, at {TIMES[-1]} times that length {far}. Rows of a table that were never trained contain no information. An angle or "
        "a sine of a new position can be computed, but the weights were never trained on it. A bias that falls with the distance works at any length."
    )


def draw(n: Numbers) -> str:
    """The loss by position, and the head that finds the echo, beyond the trained length."""
    lines = {row.name: [(BIN * (i + 0.5), loss) for i, loss in enumerate(binned(list(row.places), ECHO - 1))] for row in n.rows}
    ticks = [str(i) if i % BIN == 0 else "" for i in range(SHOWN)]
    panels = [Map(f"{scheme}, layer {layer} head {head}", n.patterns[scheme], ticks, ticks) for scheme, (layer, head) in n.heads.items()]
    return stack_pictures(
        [
            curves(lines, f"Loss by position; trained up to position {LENGTH - 1}", x_name="position in the text", y_name="loss"),
            draw_maps(panels, f"The head that attends {BACK} places back", columns=2, row_name="this position", column_name="attends to", cell=8),
        ],
        "Four position schemes beyond the length they were trained on",
    )
