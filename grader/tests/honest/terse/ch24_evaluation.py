"""Chapter 24 in the terse style: as short as it can be read."""

import math
import string
from collections import Counter
from os.path import commonprefix

import torch
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


def contaminated(example, corpus_ngrams, n):
    return not shingles(normalise_answer(example), n).isdisjoint(corpus_ngrams)


def agreement(a, b):
    assert len(a) == len(b) > 0, f"a: {len(a)}, b: {len(b)}"
    o = sum(x == y for x, y in zip(a, b)) * len(a)
    e = sum(x == y for x in a for y in b)
    return (o - e) / (len(a) ** 2 - e) if e < len(a) ** 2 else 1.0


def judge_both_orders(judge, a, b):
    said = judge(a, b), judge(b, a)
    assert {*said} <= {"first", "second", "tie"}, f"the judge said {said}"
    return {("first", "second"): "a", ("second", "first"): "b"}.get(said, "tie")
