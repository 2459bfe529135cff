"""Chapter 19: what to train on, and how much.

The first half cleans and mixes texts; the second half counts what a training costs, and predicts what a larger one brings.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from .ch07_models import GPTConfig
from .ch09_sampling import looking_at
from .ch15_serving import logits_of

Run = tuple[float, int, int, float]  # (FLOPs, parameters, tokens, loss) of one training


def seeded_hash(text: str, seed: int) -> int:
    """Return a number from 0 to 2^64 - 1 that looks random, but is the same for the same text and seed in every process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=(seed % 2**64).to_bytes(8, "big"))
    return int.from_bytes(digest.digest(), "big")


def jaccard(one: set[str], other: set[str]) -> float:
    """Return how alike two sets are: the size of what they share, divided by the size of both together; 1.0 for two empty sets."""
    return len(one & other) / len(one | other) if one or other else 1.0


def shingles(text: str, n: int) -> set[str]:
    """Return every run of n words that follow each other in the text, each as words with one space between them.

    Words are what white space separates, in lower case. A text of fewer than n words, but at least one, has one shingle: all of
    its words. A text without words has none. An n below 1 raises a ValueError that names n.
    """
    # TODO 1: check n; cut the lower-case text into words
    # TODO 2: join every run of n words; a shorter text gives one run
    ### BEGIN SOLUTION
    if n < 1:
        raise ValueError(f"n = {n}, but a shingle needs at least one word")
    words = text.lower().split()
    if not words:
        return set()
    return {" ".join(words[i : i + n]) for i in range(max(len(words) - n, 0) + 1)}
    ### END SOLUTION


def minhash(shingles: set[str], seeds: Sequence[int]) -> list[int]:
    """Return the signature of a set: for each seed, the smallest seeded_hash of its shingles.

    The share of seeds at which two signatures agree estimates the Jaccard similarity of the two sets. An empty set has 2^64 at
    every seed, which is larger than any hash.
    """
    # TODO 1: for each seed, hash every shingle, and keep the smallest number
    ### BEGIN SOLUTION
    return [min((seeded_hash(shingle, seed) for shingle in shingles), default=2**64) for seed in seeds]
    ### END SOLUTION


def candidate_pairs(signatures: Sequence[Sequence[int]], bands: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), with i < j, of signatures that agree in at least one whole band. Each pair is there once, in order.

    A signature of k numbers is cut into `bands` bands of k / bands numbers each. Pairs are found by putting equal bands together,
    not by comparing all signatures. Raises a ValueError that names bands if it is below 1 or does not divide the length of the
    signatures.
    """
    # TODO 1: check that the bands divide a signature
    # TODO 2: for each band, group the signatures by its numbers; the same numbers in another band mean nothing
    # TODO 3: collect all pairs within a group, each once, and sort them
    ### BEGIN SOLUTION
    length = len(signatures[0]) if signatures else bands
    if bands < 1 or length % bands != 0:
        raise ValueError(f"a signature of {length} numbers cannot be cut into bands = {bands} equal parts")
    rows = length // bands
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, signature in enumerate(signatures):
        for band in range(bands):
            groups[(band, *signature[band * rows : (band + 1) * rows])].append(i)
    return sorted({pair for group in groups.values() for pair in combinations(group, 2)})
    ### END SOLUTION


def deduplicate(texts: Sequence[str], threshold: float, n: int = 3, seeds: Sequence[int] = range(64), bands: int = 16) -> list[int]:
    """Return the indices of the texts that stay, in order: of texts that are nearly the same, the first one stays.

    Only candidate pairs of the texts' signatures (their shingles of n words, these seeds and bands) are looked at. Going through
    the texts in order, a text is left out if the exact Jaccard similarity of its shingles with those of an earlier text that stays
    is at least `threshold`; an earlier text that was left out itself decides nothing.
    """
    # TODO 1: make shingles and signatures, and find the candidates
    # TODO 2: for each text in order, compare its shingles with those of its earlier candidates that stay
    ### BEGIN SOLUTION
    sets = [shingles(text, n) for text in texts]
    earlier: dict[int, list[int]] = defaultdict(list)
    for i, j in candidate_pairs([minhash(each, seeds) for each in sets], bands):
        earlier[j].append(i)
    staying: dict[int, None] = {}  # as an ordered set
    for j in range(len(texts)):
        if not any(i in staying and jaccard(sets[i], sets[j]) >= threshold for i in earlier[j]):
            staying[j] = None
    return list(staying)
    ### END SOLUTION


def quality_reasons(text: str) -> list[str]:
    """Return why a web page is not good enough to train on, by rules published with the model Gopher; [] if it is.

    Words are what white space separates; lines are those of text.splitlines() that are not blank, without white space at both ends.
    The reasons, in this order:
    - "words": fewer than 50 words, or more than 100,000
    - "word length": the mean number of characters of a word is below 3 or above 10
    - "symbols": "#" occurs more than 0.1 times per word, or the ellipses, "..." and "…" counted together, do
    - "bullets": more than 90 % of the lines begin with "-", "*" or "•"
    - "ellipses": more than 30 % of the lines end with "..." or "…"
    - "letters": fewer than 80 % of the words contain a letter (str.isalpha of a character)
    - "stop words": fewer than two different ones of the, be, to, of, and, that, have, with are words of the page, in capital or small
      letters; for all other rules, capital and small letters differ
    - "repeated lines": more than 30 % of the lines are equal to an earlier line
    - "repeated n-grams": the n words in a row that occur most often hold too large a part of all characters of words: more than 20 %
      for n = 2, 18 % for n = 3, or 16 % for n = 4. A run begins at every word, so runs overlap. It holds its characters (without
      spaces) times how often it occurs; of several that occur equally often, the longest counts. What occurs once is not repeated.
    A share of nothing is 0; the mean word length of a text without words is 0.
    """
    # TODO 1: cut the text into words and into lines
    # TODO 2: check every rule; `more than` does not include the limit itself
    # TODO 3: for n-grams, count every run of n words, and find the most frequent one
    ### BEGIN SOLUTION
    words, lines = text.split(), [line.strip() for line in text.splitlines() if line.strip()]
    characters = sum(map(len, words))

    def share(count: float, whole: float) -> float:
        return count / whole if whole else 0.0

    def held_by_most_frequent(n: int) -> float:
        counts = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        often, length = max(((often, sum(map(len, gram))) for gram, often in counts.items()), default=(0, 0))
        return share(often * length, characters) if often > 1 else 0.0

    stop_words = {"the", "be", "to", "of", "and", "that", "have", "with"}
    ellipses = text.count("...") + text.count("…")
    rules = {
        "words": not 50 <= len(words) <= 100_000,
        "word length": not 3 <= share(characters, len(words)) <= 10,
        "symbols": max(share(text.count("#"), len(words)), share(ellipses, len(words))) > 0.1,
        "bullets": share(sum(line.startswith(("-", "*", "•")) for line in lines), len(lines)) > 0.9,
        "ellipses": share(sum(line.endswith(("...", "…")) for line in lines), len(lines)) > 0.3,
        "letters": share(sum(any(map(str.isalpha, word)) for word in words), len(words)) < 0.8,
        "stop words": len(stop_words.intersection(text.lower().split())) < 2,
        "repeated lines": share(len(lines) - len(set(lines)), len(lines)) > 0.3,
        "repeated n-grams": any(held_by_most_frequent(n) > limit for n, limit in ((2, 0.2), (3, 0.18), (4, 0.16))),
    }
    return [reason for reason, broken in rules.items() if broken]
    ### END SOLUTION


def mixture(streams: Sequence[Iterable], weights: Sequence[float], generator: torch.Generator) -> Iterator:
    """Yield the items of several streams, mixed: each next item comes from a stream drawn with a probability proportional to its weight.

    Within a stream, items stay in order, and each is yielded once. A stream that has ended is not drawn any more; the others keep
    their weights. The mixture ends when all streams of positive weight have ended; a stream of weight 0 is never read. Streams may
    be endless: an item is taken from its stream only when it is to be yielded. Draws use `generator`, and no other random numbers.
    Before anything is read, a ValueError that names weights is raised if there is not one weight for each stream, if one is
    negative, or if none is above 0.
    """
    # TODO 1: check the weights, in the call itself: code of a function with `yield` runs only when the first item is asked for
    # TODO 2: draw a stream by its weight, and yield its next item
    # TODO 3: when a stream has ended, set its weight to 0, and draw again
    ### BEGIN SOLUTION
    if len(weights) != len(streams) or min(weights, default=0) < 0 or not sum(weights):
        raise ValueError(f"weights = {list(weights)} should have one number from 0 on for each of {len(streams)} streams, and not only zeros")

    def mixed() -> Iterator:
        iterators, left = [iter(stream) for stream in streams], torch.tensor(list(weights), dtype=torch.float64)
        while left.any():
            drawn = int(torch.multinomial(left, 1, generator=generator))
            try:
                item = next(iterators[drawn])
            except StopIteration:
                left[drawn] = 0
            else:
                yield item

    return mixed()
    ### END SOLUTION


def bits_per_byte(loss_sum: float, n_bytes: int) -> float:
    """Turn a loss into a measure that does not depend on the tokenizer: the bits that the model needs for a byte of the text.

    `loss_sum` is the sum of the cross-entropy (natural logarithm) of all tokens of a text, which has n_bytes bytes in UTF-8. An
    n_bytes below 1 raises a ValueError that names n_bytes.
    """
    # TODO 1: check n_bytes
    # TODO 2: turn nats into bits, and divide by the bytes
    ### BEGIN SOLUTION
    if n_bytes < 1:
        raise ValueError(f"n_bytes = {n_bytes}, but a text has at least one byte")
    return loss_sum / math.log(2) / n_bytes
    ### END SOLUTION


def training_flops(config: GPTConfig, n_tokens: int, length: int) -> tuple[int, int]:
    """Return what it costs to train this GPT on n_tokens tokens, in rows of `length` tokens: (exact, 6 N D), in FLOPs.

    `exact` counts all matrix products of your GPT, and nothing else: (m, k) @ (k, n) costs 2mkn. Forward, a token goes through the
    linear layers of every block and through the head, and each head compares it with all `length` positions (the mask saves
    nothing) and averages their values. Backward, every product costs twice as much as forward. 6 N D is the usual estimate, with
    N parameters (as count_parameters counts them) and D tokens.
    """
    # TODO 1: count the FLOPs of one token through the linear layers of a block, and through its attention
    # TODO 2: add the blocks and the head; add the backward pass
    # TODO 3: count the parameters: tables, matrices, biases and norms (or import GPT and count_parameters, and make a model)
    ### BEGIN SOLUTION
    D, V = config.d_model, config.vocab_size
    d_ff = config.d_ff if config.d_ff is not None else 4 * D
    matrices = 4 * D * D + 2 * D * d_ff  # of a block
    forward = config.n_layers * (2 * matrices + 2 * 2 * length * D) + 2 * D * V  # attention: scores and averages
    biases_and_norms = 4 * D + (d_ff + D) + 4 * D
    n_parameters = config.n_layers * (matrices + biases_and_norms) + 2 * D  # with the last norm
    n_parameters += V * D * (1 if config.tie_weights else 2)
    if config.positions == "learned":
        n_parameters += config.max_len * D
    return 3 * forward * n_tokens, 6 * n_parameters * n_tokens
    ### END SOLUTION


def fit_power_law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Fit y = a + b · x^(-c) by least squares in y: return (a, b, c), with c from 0.01 to 3.

    The x are positive, of any size, such as 1e18. Raises a ValueError that names the number of different x if it is below
    three: a law with three numbers needs as many points.
    """
    # TODO 1: check the points; compute in float64, with x divided by their geometric mean, so that no power is too small
    # TODO 2: for one c, find the best a and b: a straight line through the points (x^(-c), y)
    # TODO 3: find the best c: try many, and look closer around the best one
    # TODO 4: turn b back to x as it was
    ### BEGIN SOLUTION
    if len(set(x)) < 3:
        raise ValueError(f"{len(set(x))} different points cannot determine a law with three numbers")
    logs = torch.tensor([math.log(value) for value in x], dtype=torch.float64)
    middle = logs.mean()
    wanted = torch.tensor(y, dtype=torch.float64)

    def line(c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        powers = torch.exp(-c[:, None] * (logs - middle))  # (number of c, points)
        centred = powers - powers.mean(dim=1, keepdim=True)
        b = (centred * (wanted - wanted.mean())).sum(dim=1) / centred.square().sum(dim=1)
        a = wanted.mean() - b * powers.mean(dim=1)
        error = (a[:, None] + b[:, None] * powers - wanted).square().sum(dim=1)
        return a, b, error

    low, high = math.log(0.01), math.log(3.0)
    for _ in range(12):
        c = torch.linspace(low, high, 101, dtype=torch.float64).exp()
        best = int(line(c)[2].argmin())
        low, high = math.log(c[max(best - 1, 0)]), math.log(c[min(best + 1, 100)])
    a, b, _ = line(c)
    return a[best].item(), (b[best] * torch.exp(c[best] * middle)).item(), c[best].item()
    ### END SOLUTION


def compute_optimal(runs: Sequence[Run]) -> tuple[tuple[float, float], Callable[[float], tuple[float, float]]]:
    """From trainings at several budgets, find how model and data should grow: return ((a, b), predict).

    A run is (FLOPs, parameters, tokens, loss); runs with equal FLOPs are one budget. At each budget, fit a parabola to the loss over
    log(parameters), by least squares: its lowest point is the best size. A second parabola over log(tokens) gives the best number
    of tokens in the same way. Over the budgets C, fit straight lines to the logarithms: parameters = k · C^a and tokens = k' · C^b.
    predict(C) returns (parameters, tokens) for a budget C, as floats.

    Raises a ValueError if there are fewer than two budgets. If a budget has fewer than three different sizes, or a parabola that
    has no lowest point, raises a ValueError that names the budget's FLOPs as they were given.
    """
    # TODO 1: group the runs by budget, and check that there are enough
    # TODO 2: fit both parabolas of each budget, and find their lowest points
    # TODO 3: fit a straight line to the logarithms of the best sizes over those of the budgets, and another one for the tokens
    # TODO 4: return the slopes, and a function that goes along both lines
    ### BEGIN SOLUTION
    budgets: dict[float, list[Run]] = defaultdict(list)
    for run in runs:
        budgets[run[0]].append(run)
    if len(budgets) < 2:
        raise ValueError(f"{len(budgets)} budgets cannot show how the best size grows; at least two can")

    def polynomial(x: Sequence[float], y: Sequence[float], degree: int) -> list[float]:
        """Coefficients, the constant first."""
        columns = torch.tensor(x, dtype=torch.float64)[:, None] ** torch.arange(degree + 1)
        return torch.linalg.lstsq(columns, torch.tensor(y, dtype=torch.float64)[:, None]).solution[:, 0].tolist()

    def best(budget: float, which: int) -> float:
        """The logarithm of the best number of parameters (which = 1) or tokens (2)."""
        logs = [math.log(run[which]) for run in budgets[budget]]
        if len(set(logs)) < 3:
            raise ValueError(f"the budget {budget} has {len(set(logs))} different sizes; a parabola needs three")
        middle = sum(logs) / len(logs)
        _, slope, bend = polynomial([value - middle for value in logs], [run[3] for run in budgets[budget]], 2)
        if bend <= 0:
            raise ValueError(f"the losses of the budget {budget} have no lowest point")
        return middle - slope / (2 * bend)

    lines = [polynomial([math.log(c) for c in budgets], [best(c, which) for c in budgets], 1) for which in (1, 2)]

    def predict(budget: float) -> tuple[float, float]:
        n_parameters, n_tokens = (math.exp(start + slope * math.log(budget)) for start, slope in lines)
        return n_parameters, n_tokens

    return (lines[0][1], lines[1][1]), predict
    ### END SOLUTION


def memorised(model: nn.Module, texts: Sequence[Sequence[int]], n_prompt: int) -> list[int]:
    """Return, for each text, how many tokens the model repeats word for word after the first n_prompt tokens of it.

    The model is given the first n_prompt ids, and then always chooses the most probable token; what counts are its tokens before the
    first one that differs from the text. The model returns logits or a tuple that begins with them. It is looked at in eval mode
    without gradient, and each module's mode is restored. Raises a ValueError that names n_prompt if it is below 1, or if a text
    is not longer than it.
    """
    # TODO 1: check n_prompt
    # TODO 2: one pass over a text is enough: as long as the model repeats it, what it has read is the text itself
    # TODO 3: count how many tokens in a row it would have chosen
    ### BEGIN SOLUTION
    shortest = min(map(len, texts), default=n_prompt + 1)
    if n_prompt < 1 or shortest <= n_prompt:
        raise ValueError(f"n_prompt = {n_prompt} should be at least 1 and leave something of the shortest text, which has {shortest} tokens")
    counts = []
    with looking_at(model):
        for text in texts:
            ids = torch.tensor([list(text)])
            chosen = logits_of(model, ids[:, :-1])[0, n_prompt - 1 :].argmax(dim=-1)
            wrong = chosen != ids[0, n_prompt:]
            counts.append(int(wrong.int().argmax()) if wrong.any() else len(wrong))
    return counts
    ### END SOLUTION
