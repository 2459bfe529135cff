"""Chapter 9 of the reference against Hugging Face's logits warpers, chained in Hugging Face's order; and frequencies of many draws."""

from __future__ import annotations

import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor

INF = math.inf


@pytest.fixture(scope="module")
def ch09():
    chapter = load_syllabus().chapter("ch09_sampling")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(scope="module")
def warpers():
    return pytest.importorskip("transformers.generation.logits_process")


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(9)


def clear_of_sums(logits: Tensor, p: float) -> float:
    """p or a little more, away from every running sum: if they were equal, rounding would decide, and both answers would be right."""
    sums = torch.softmax(logits.double(), -1).sort(dim=-1, descending=True).values.cumsum(-1)
    return next(q for q in (p + 0.00037 * i for i in range(2000)) if (sums - q).abs().min() > 1e-5)


LOGITS = {
    "words": lambda: torch.randn(7, 31) * 3,
    "hesitant": lambda: torch.randn(5, 400) * 0.3,
    "sure": lambda: torch.randn(5, 13) * 30,
    "one token": lambda: torch.randn(3, 1),
    "impossible tokens": lambda: torch.where(torch.rand(6, 20) < 0.4, -INF, torch.randn(6, 20)).index_fill(1, torch.tensor([3]), 0.7),
    "a thousand words": lambda: torch.randn(2, 1000) * 2.5,
    "far from zero": lambda: (torch.randn(4, 17) * 64).round() / 64 - 300,
}


@pytest.mark.parametrize("kind", LOGITS)
def test_temperature_is_hugging_faces(ch09, warpers, kind):
    logits = LOGITS[kind]()
    for temperature in (0.2, 0.7, 1.0, 1.9, 10.0):
        assert torch.equal(ch09.apply_temperature(logits, temperature), warpers.TemperatureLogitsWarper(temperature)(None, logits))


@pytest.mark.parametrize("kind", LOGITS)
def test_top_k_is_hugging_faces_with_ties_too(ch09, warpers, kind):
    logits = LOGITS[kind]()
    for scores in (logits, logits.round(), torch.zeros_like(logits)):
        for k in (1, 2, 5, scores.size(-1), 10**6):
            assert torch.equal(ch09.top_k_filter(scores, k), warpers.TopKLogitsWarper(k)(None, scores))


@pytest.mark.parametrize("kind", LOGITS)
def test_top_p_is_hugging_faces(ch09, warpers, kind):
    logits = LOGITS[kind]()
    for wanted in (0.01, 0.3, 0.5, 0.9, 0.95):
        p = clear_of_sums(logits, wanted)
        assert torch.equal(ch09.top_p_filter(logits, p), warpers.TopPLogitsWarper(p)(None, logits))
    assert torch.equal(ch09.top_p_filter(logits, 1.0), logits)


@pytest.mark.parametrize("kind", LOGITS)
def test_min_p_is_hugging_faces_with_ties_too(ch09, warpers, kind):
    logits = LOGITS[kind]()
    for scores in (logits, logits.round(), torch.zeros_like(logits)):
        for min_p in (0.0, 0.011, 0.1, 0.37, 0.9, 1.0):
            assert torch.equal(ch09.min_p_filter(scores, min_p), warpers.MinPLogitsWarper(min_p)(None, scores))


def test_in_gpt2s_vocabulary_only_rounding_may_decide_otherwise(ch09, warpers):
    """Of 50,257 tokens some running sum is always about p: the two differ only there."""
    logits = torch.randn(50257) * 2.5
    for p in (0.3, 0.9, 0.99):
        ours, theirs = (f > -INF for f in (ch09.top_p_filter(logits, p), warpers.TopPLogitsWarper(p)(None, logits[None])[0]))
        chances, order = torch.softmax(logits.double(), -1).sort(descending=True)
        before = torch.empty_like(chances).scatter(0, order, chances.cumsum(0) - chances)
        assert ours.sum() > 20 and ((before - p).abs()[ours != theirs] < 1e-4).all() and (ours != theirs).sum() <= 1 + 0.01 * ours.sum()


@pytest.mark.parametrize("p", [0.05, 0.5, 0.75, 0.8, 0.9, 0.999])
def test_with_ties_the_nucleus_is_as_large_as_hugging_faces(ch09, warpers, p):
    scores = torch.randint(0, 4, (50, 11)).float()
    q = clear_of_sums(scores, p)
    ours, theirs = ch09.top_p_filter(scores, q), warpers.TopPLogitsWarper(q)(None, scores)
    assert torch.equal(ours.sort(dim=-1).values, theirs.sort(dim=-1).values)


@pytest.mark.parametrize("kind", ["words", "hesitant", "impossible tokens", "a thousand words"])
@pytest.mark.parametrize("temperature, k, p", [(0.6, 8, 0.8), (1.7, 3, 0.6), (1.0, 12, 0.9), (2.5, None, 0.7), (0.4, 5, None)])
def test_all_three_in_hugging_faces_order(ch09, warpers, monkeypatch, kind, temperature, k, p):
    """sample_next_token draws from what Hugging Face's chain leaves: temperature, then k, then p, as `generate` builds it."""
    logits = LOGITS[kind]()
    chain = warpers.LogitsProcessorList([warpers.TemperatureLogitsWarper(temperature)])
    if k is not None:
        chain.append(warpers.TopKLogitsWarper(k))
    if p is not None:
        p = clear_of_sums(chain(None, logits), p)
        chain.append(warpers.TopPLogitsWarper(p))
    drawn_from = []
    monkeypatch.setattr(ch09.torch, "multinomial", lambda probs, n, generator=None: drawn_from.append(probs) or probs.argmax(-1, keepdim=True))
    ch09.sample_next_token(logits, temperature, k, p)
    assert torch.equal(drawn_from[0], torch.softmax(chain(None, logits), dim=-1))


def test_hugging_face_builds_its_chain_in_this_order(warpers):
    from transformers import GenerationConfig
    from transformers.generation.utils import GenerationMixin

    class Bare(GenerationMixin):
        config = None

    settings = GenerationConfig(do_sample=True, temperature=0.7, top_k=5, top_p=0.8)
    try:
        chain = Bare()._get_logits_processor(settings, input_ids_seq_length=3, device="cpu", logits_processor=warpers.LogitsProcessorList())
    except (AttributeError, TypeError) as changed:  # a private method, which may change
        pytest.skip(str(changed))
    assert [type(link).__name__ for link in chain] == ["TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper"]


@pytest.mark.parametrize("p", [0.1, 0.4, 0.7, 0.95, 0.9999, 1.0])
def test_the_nucleus_is_the_smallest_set_found_by_trying_all(ch09, p):
    """For seven tokens all 127 sets are tried: the smallest set that reaches p, and of those the likeliest, is what stays."""
    logits = torch.randn(7, dtype=torch.float64) * 2
    chances = torch.softmax(logits, -1).tolist()
    sets = [[i for i in range(7) if code >> i & 1] for code in range(1, 128)]
    reach = [s for s in sets if sum(chances[i] for i in s) >= min(p, 1 - 1e-12)]
    best = min(reach, key=lambda s: (len(s), -sum(chances[i] for i in s)))
    assert (ch09.top_p_filter(logits, p) > -INF).nonzero().flatten().tolist() == best


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("temperature, k, p", [(1.0, None, None), (0.6, None, None), (2.0, 4, None), (1.5, 5, 0.8)])
def test_hundreds_of_thousands_of_draws(ch09, dtype, temperature, k, p):
    """Chernoff: a token of probability q is drawn a share f of n times with n KL(f, q) > 20 in less than 2 exp(-20) of all runs.

    About 100 tokens are compared here: the test is wrong in fewer than one of two million runs. Half precision adds its own rounding to q.
    """
    logits = (torch.randn(8) * 1.5).to(dtype)
    n = 300_000 if dtype in (torch.float32, torch.float64) else 30_000
    left = ch09.top_k_filter(logits.double() / temperature, k or 8)
    p = None if p is None else clear_of_sums(left, p)
    chances = torch.softmax(left if p is None else ch09.top_p_filter(left, p), -1)
    ids = ch09.sample_next_token(logits.expand(n, 8), temperature, k, p, torch.Generator().manual_seed(1))
    shares = torch.bincount(ids, minlength=8).double() / n
    assert not shares[chances == 0].any()
    strays = torch.special.xlogy(shares, shares / chances) + torch.special.xlogy(1 - shares, (1 - shares) / (1 - chances))
    assert n * strays[chances > 0].max() < 20


def test_drawing_as_torch_draws(ch09):
    """Without filters, one row is torch.multinomial of its softmax, number by number."""
    logits = torch.randn(6, 9)
    ours = ch09.sample_next_token(logits, generator=torch.Generator().manual_seed(3))
    assert torch.equal(ours, torch.multinomial(torch.softmax(logits, -1), 1, generator=torch.Generator().manual_seed(3))[:, 0])
    assert ch09.sample_next_token(logits[0]).shape == () and ch09.sample_next_token(logits.view(2, 3, 9)).shape == (2, 3)


@pytest.mark.parametrize("n", [300, 2000, 3000])
@pytest.mark.parametrize("q", [0.02, 0.1, 0.45, 0.5, 0.9])
def test_the_bound_of_the_graded_frequencies_holds(n, q):
    """The sum of the binomial distribution itself: counts that a graded test refuses have a probability below 2 exp(-20), and 100 of them one below 1e-6."""
    refused = 0.0
    for count in range(n + 1):
        f = count / n
        strays = n * sum(a * math.log(a / b) for a, b in ((f, q), (1 - f, 1 - q)) if a > 0)
        if strays >= 20:
            refused += math.exp(math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1) + count * math.log(q) + (n - count) * math.log(1 - q))
    assert refused < 2 * math.exp(-20) and 100 * 2 * math.exp(-20) < 1e-6
