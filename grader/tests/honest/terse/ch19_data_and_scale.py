"""Chapter 19 in the terse style: as short as it can be read."""

import hashlib
import itertools
import math
from collections import Counter, defaultdict
from functools import cache

import torch

from .ch09_sampling import looking_at


@cache
def seeded_hash(text, seed):
    d = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=(seed % 2**64).to_bytes(8, "big"))
    return int(d.hexdigest(), 16)


def jaccard(one, other):
    return len(one & other) / len(one | other) if one | other else 1.0


def shingles(text, n):
    assert n > 0, f"n {n} < 1"
    w = text.lower().split()
    return {" ".join(w[i : i + n]) for i in range(len(w)) if i == 0 or i + n <= len(w)}


def minhash(shingles, seeds):
    return [min([seeded_hash(x, s) for x in shingles] + [2**64]) for s in seeds]


def candidate_pairs(signatures, bands):
    n = len(next(iter(signatures), ()))
    assert bands > 0 and n % bands == 0, f"bands {bands} / {n}"
    groups = defaultdict(list)
    for i, s in enumerate(signatures):
        for b, part in enumerate(torch.arange(n).view(bands, -1).tolist() if n else []):
            groups[b, tuple(s[k] for k in part)].append(i)
    return sorted({p for g in groups.values() for p in itertools.combinations(g, 2)})


def deduplicate(texts, threshold, n=3, seeds=range(64), bands=16):
    sets, kept = [shingles(t, n) for t in texts], []
    pairs = set(candidate_pairs([minhash(s, seeds) for s in sets], bands))
    for j, s in enumerate(sets):
        if not any((i, j) in pairs and jaccard(sets[i], s) >= threshold for i in kept):
            kept += [j]
    return kept


def quality_reasons(text):
    w, lines = text.split(), [x for x in map(str.strip, text.splitlines()) if x]
    n, m, size = len(w) or 1, len(lines) or 1, sum(map(len, w))

    def most(k):
        c = Counter(zip(*(w[i:] for i in range(k)), strict=False))
        top = max(c.values(), default=0)
        return top * max((len("".join(g)) for g, v in c.items() if v == top), default=0) / (size or 1) * (top > 1)

    return [
        name
        for name, bad in [
            ("words", len(w) < 50 or len(w) > 100_000),
            ("word length", size / n < 3 or size / n > 10),
            ("symbols", text.count("#") > n / 10 or text.count("...") + text.count("…") > n / 10),
            ("bullets", sum(x[0] in "-*•" for x in lines) / m > 0.9),
            ("ellipses", sum(x.endswith(("...", "…")) for x in lines) / m > 0.3),
            ("letters", sum(any(c.isalpha() for c in x) for x in w) / n < 0.8),
            ("stop words", len({*text.lower().split()} & {*"the be to of and that have with".split()}) < 2),
            ("repeated lines", (len(lines) - len({*lines})) / m > 0.3),
            ("repeated n-grams", most(2) > 0.2 or most(3) > 0.18 or most(4) > 0.16),
        ]
        if bad
    ]


def mixture(streams, weights, generator):
    p = torch.tensor(weights, dtype=torch.float64)
    if len(p) != len(streams) or (p < 0).any() or p.sum() == 0:
        raise ValueError(f"weights: {weights}")

    def items():
        its, over = [*map(iter, streams)], object()
        while p.sum() > 0:
            i = p.multinomial(1, generator=generator).item()
            if (x := next(its[i], over)) is over:
                p[i] = 0
            else:
                yield x

    return items()


def bits_per_byte(loss_sum, n_bytes):
    assert n_bytes > 0, f"n_bytes {n_bytes}"
    return loss_sum * math.log2(math.e) / n_bytes


def training_flops(config, n_tokens, length):
    D, V, L = config.d_model, config.vocab_size, config.n_layers
    F = config.d_ff or 4 * D
    once = L * (4 * D * D + 2 * D * F + 2 * length * D) + D * V
    N = L * (4 * D * D + 2 * D * F + 9 * D + F) + 2 * D + V * D * (2 - config.tie_weights)
    N += config.max_len * D * (config.positions == "learned")
    return 6 * once * n_tokens, 6 * N * n_tokens


def fit_power_law(x, y):
    x, y = (torch.as_tensor(v, dtype=torch.float64) for v in (x, y))
    assert len(x.unique()) > 2, f"{len(x.unique())} different x"
    z = x.log() - x.log().mean()

    def fit(c):
        A = torch.stack([torch.ones_like(z), (-c * z).exp()], 1)
        ab = torch.linalg.lstsq(A, y[:, None]).solution
        return (A @ ab - y[:, None]).square().sum().item(), c, *ab[:, 0].tolist()

    lo, hi = math.log(0.01), math.log(3)
    for _ in range(8):
        grid = torch.linspace(lo, hi, 61).double()
        _, c, a, b = min(fit(t.exp().item()) for t in grid)
        lo, hi = (max(math.log(0.01), math.log(c) - (hi - lo) / 60), min(math.log(3), math.log(c) + (hi - lo) / 60))
    return a, b * math.exp(c * x.log().mean().item()), c


def _poly(x, y, k):
    X = torch.tensor(x, dtype=torch.float64)
    return torch.linalg.lstsq(X[:, None] ** torch.arange(k + 1.0), torch.tensor(y, dtype=torch.float64)[:, None]).solution[:, 0].tolist()


def compute_optimal(runs):
    budgets = sorted({r[0] for r in runs})
    assert len(budgets) > 1, "two budgets at least"

    def low(C, k):
        x, y = zip(*((math.log(r[k]), r[3]) for r in runs if r[0] == C))
        assert len({*x}) > 2, f"too few runs at {C}"
        m = sum(x) / len(x)
        _, s, q = _poly([v - m for v in x], y, 2)
        assert q > 0, f"no minimum at {C}"
        return m - s / q / 2

    fits = [_poly([math.log(C) for C in budgets], [low(C, k) for C in budgets], 1) for k in (1, 2)]
    return tuple(f[1] for f in fits), lambda C: tuple(math.exp(f[0]) * C ** f[1] for f in fits)


def memorised(model, texts, n_prompt):
    assert n_prompt > 0 and all(len(t) > n_prompt for t in texts), f"n_prompt {n_prompt}"
    found = []
    with looking_at(model):
        for t in texts:
            out = model(torch.tensor(t)[None])
            best = (out[0] if isinstance(out, tuple) else out)[0].argmax(-1).tolist()
            found += [len([*itertools.takewhile(lambda p: p[0] == p[1], zip(best[n_prompt - 1 :], t[n_prompt:]))])]
    return found
