"""Chapter 24 in the terse style: as short as it can be read."""

import math
import string
from collections import Counter
from os.path import commonprefix
from statistics import NormalDist

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from .ch09_sampling import looking_at
from .ch19_data_and_scale import shingles


def choice_score(log_probs, n_bytes, kind="byte"):
    assert len(log_probs), "no log_probs"
    assert n_bytes > 0, f"n_bytes {n_bytes}"
    by = {"sum": 1, "token": len(log_probs), "byte": n_bytes}
    assert kind in by, f"no kind {kind}"
    return sum(log_probs) / by[kind]


def score_choices(model, tokenizer, question, choices, kind="byte"):
    assert choices, "no choices"
    q, texts = tokenizer.encode(question), [tokenizer.encode(question + c) for c in choices]
    starts = [len(commonprefix([q, t])) for t in texts]
    assert all(starts), f"no token of the question {question!r} is left"
    assert all(s < len(t) for s, t in zip(starts, texts)), f"choices without a token: {choices}"
    device = next(model.parameters()).device
    ids = pad_sequence([torch.tensor(t) for t in texts], batch_first=True).to(device)
    with looking_at(model):
        out = model(ids)
    p = (out[0] if isinstance(out, tuple) else out)[:, :-1].float().log_softmax(-1)
    p = p.gather(2, ids[:, 1:, None]).squeeze(2).tolist()
    return [
        choice_score(r[s - 1 : len(t) - 1], len(c.encode()), kind) for r, s, t, c in zip(p, starts, texts, choices)
    ]


def normalise_answer(text):
    words = text.lower().translate({ord(c): None for c in string.punctuation}).split()
    return " ".join(w for w in words if w not in ("a", "an", "the"))


def exact_match(text, answers):
    assert answers, "no answers"
    return any(normalise_answer(text) == normalise_answer(a) for a in answers)


def token_f1(text, answers):
    assert answers, "no answers"
    x = normalise_answer(text).split()
    ys = [normalise_answer(a).split() for a in answers]
    return max(2 * sum((Counter(x) & Counter(y)).values()) / (len(x) + len(y)) if x or y else 1.0 for y in ys)


def pass_at_k(n, correct, k):
    assert 0 <= correct <= n, f"correct {correct}"
    assert 1 <= k <= n, f"k {k}"
    return 1 - math.prod(max(n - correct - i, 0) / (n - i) for i in range(k))


def bootstrap_interval(values, level=0.95, resamples=2000, generator=None, clusters=None):
    n, names = len(values), range(len(values)) if clusters is None else clusters
    assert n, "no values"
    assert 0 < level < 1, f"level {level}"
    assert resamples > 0, f"resamples {resamples}"
    assert len(names) == n, f"{len(names)} clusters, {n} values"
    ids = {name: i for i, name in enumerate(dict.fromkeys(names))}
    at, k = torch.tensor([ids[name] for name in names]), len(ids)
    x = torch.tensor(values, dtype=torch.float64)
    both = torch.zeros(k, 2, dtype=torch.float64).index_add_(0, at, torch.stack([x, torch.ones_like(x)], 1))
    total, count = both[torch.randint(k, (resamples, k), generator=generator)].sum(1).unbind(1)
    return tuple((total / count).quantile(q).item() for q in ((1 - level) / 2, (1 + level) / 2))


def paired_test(a, b, generator=None):
    assert len(a) == len(b) > 0, f"a {len(a)}, b {len(b)}"
    d = torch.tensor(a, dtype=torch.float64) - torch.tensor(b, dtype=torch.float64)
    d = d[d != 0]
    seen = d.sum().abs() - 1e-12 * d.abs().sum() * len(d)
    if len(d) > 20:
        sums = torch.randint(2, (10**4, len(d)), generator=generator).double().mul(2).sub(1) @ d
        return (1 + (sums.abs() >= seen).sum().item()) / (1 + 10**4)
    sums = torch.zeros(1, dtype=torch.float64)
    for x in d.tolist():
        sums = (sums[:, None] + torch.tensor([x, -x], dtype=torch.float64)).flatten()
    return (sums.abs() >= seen).double().mean().item()


def questions_needed(accuracy, difference, power=0.8):
    p, q, z = accuracy, accuracy + difference, NormalDist().inv_cdf
    assert 0 <= p <= 1, f"accuracy {p}"
    assert difference > 0 and q < 1 + 1e-9, f"difference {difference}"
    assert 0.5 < power < 1, f"power {power}"
    return max(1, math.ceil(((z(0.975) + z(power)) / difference) ** 2 * (p * (1 - p) + q * (1 - q))))


def calibration_error(confidence, correct, bins=10):
    c = confidence.double()
    assert len(c) and (c >= 0).all() and (c <= 1).all(), "confidence"
    assert c.shape == correct.shape, f"correct {tuple(correct.shape)}, not {tuple(c.shape)}"
    assert bins > 0, f"bins {bins}"
    at = (c * bins).floor().clamp(max=bins - 1).long()
    return (torch.bincount(at, c - correct.double()).abs().sum() / len(c)).item()


def fit_temperature(logits, targets):
    assert len(logits), "no logits"
    z = logits.double()
    z, lo, hi = z - z.gather(1, targets[:, None]), -math.log(100), math.log(100)
    for _ in range(99):
        x = (lo + hi) / 2
        up = (F.softmax(z / math.exp(x), 1) * z).sum() > 0
        lo, hi = (x, hi) if up else (lo, x)
    return math.exp(lo)


def contaminated(example, corpus_ngrams, n):
    return not shingles(normalise_answer(example), n).isdisjoint(corpus_ngrams)


def bradley_terry(wins):
    P = len(wins)
    assert wins.shape == (P, P) and wins.min() >= 0, f"wins {tuple(wins.shape)}"
    w = (wins.double() + 0.5).tril(-1) + (wins.double() + 0.5).triu(1)
    r = w[0] * 0
    for _ in range(999):
        p = (r[:, None] - r).sigmoid()
        h = (w + w.T) * p * (1 - p)
        step = torch.linalg.pinv(h.sum(1).diag() - h, rcond=1e-14, hermitian=True) @ (w - (w + w.T) * p).sum(1)
        r = r + step / max(1, 2 * step.abs().max().item())
    return (r - r.mean()).float()


def agreement(a, b):
    assert len(a) == len(b) > 0, f"a: {len(a)}, b: {len(b)}"
    o = sum(x == y for x, y in zip(a, b)) * len(a)
    e = sum(x == y for x in a for y in b)
    return (o - e) / (len(a) ** 2 - e) if e < len(a) ** 2 else 1.0


def judge_both_orders(judge, a, b):
    said = judge(a, b), judge(b, a)
    assert {*said} <= {"first", "second", "tie"}, f"the judge said {said}"
    return {("first", "second"): "a", ("second", "first"): "b"}.get(said, "tie")
