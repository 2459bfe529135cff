"""Chapter 10's caches: any way of cutting a text into chunks gives the logits of one pass, Hugging Face's GPT-2 agrees chunk by chunk, and work is counted."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

POSITIONS = ("learned", "sinusoidal", "rope", "alibi")
D_HEAD, V, MAX_LEN, LAYERS = 4, 17, 24, 2


@pytest.fixture(scope="module")
def ch10():
    chapter = load_syllabus().chapter("ch10_kv_cache")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(10)


@torch.no_grad()
def randomised(model: nn.Module) -> nn.Module:
    """Double precision, every parameter random at a size at which attention is sharp."""
    for parameter in model.double().parameters():
        parameter.normal_(std=1.5 * parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0)
    return model.eval()


def made(ch10, kind: str = "CachedGPT", heads: int = 3, **options) -> nn.Module:
    sizes = dict(vocab_size=V, max_len=MAX_LEN, d_model=D_HEAD * heads, n_heads=heads, n_layers=LAYERS)
    return randomised(getattr(ch10, kind)(ch10.GPTConfig(**sizes | options)))


def with_the_weights_of(cached: nn.Module, plain: nn.Module) -> nn.Module:
    cached.load_state_dict(plain.state_dict())
    return cached


def same(got: Tensor, expected: Tensor, tol: float = 1e-10) -> None:
    torch.testing.assert_close(got, expected, rtol=tol, atol=tol * float(expected.abs().max()))


@torch.no_grad()
def read(model: nn.Module, ids: Tensor, lengths: list[int]) -> Tensor:
    caches = model.new_caches()
    return torch.cat([model(part, caches) for part in ids.split(lengths, dim=1)], dim=1)


every_cutting = st.lists(st.integers(1, 7), min_size=1, max_size=MAX_LEN).filter(lambda lengths: sum(lengths) <= MAX_LEN)


@settings(max_examples=150, deadline=None)
@given(
    positions=st.sampled_from(POSITIONS), B=st.integers(1, 4), heads=st.sampled_from([1, 2, 3, 5, 8]), lengths=every_cutting, seed=st.integers(0, 10**6)
)
def test_every_way_of_cutting_gives_the_logits_of_one_pass(ch10, positions, B, heads, lengths, seed):
    torch.manual_seed(seed)
    plain = made(ch10, "GPT", heads, positions=positions)
    model = with_the_weights_of(made(ch10, heads=heads, positions=positions), plain)
    ids = torch.randint(V, (B, sum(lengths)))
    with torch.no_grad():
        same(read(model, ids, lengths), plain(ids)[0])


@settings(max_examples=60, deadline=None)
@given(positions=st.sampled_from(POSITIONS[2:] + ("none",)), heads=st.integers(1, 6), lengths=every_cutting, rows=st.integers(1, 3), bias=st.booleans())
def test_every_cutting_of_one_attention(ch10, positions, heads, lengths, rows, bias):
    plain = randomised(ch10.CausalSelfAttention(D_HEAD * heads, heads, positions, bias=bias))
    attend = with_the_weights_of(randomised(ch10.CachedSelfAttention(D_HEAD * heads, heads, positions, bias=bias)), plain)
    x, cache = torch.randn(rows, sum(lengths), D_HEAD * heads).double(), ch10.KVCache()
    with torch.no_grad():
        same(torch.cat([attend(part, cache) for part in x.split(lengths, dim=1)], dim=1), plain(x))
    assert cache.length == sum(lengths)


@pytest.mark.parametrize("positions", POSITIONS)
def test_branches_of_one_past(ch10, positions):
    """Three continuations of one prompt, read in turn from copies of its caches, give what each text gives alone."""
    model = made(ch10, positions=positions)
    prompt = torch.randint(V, (2, 7))
    ends = [torch.randint(V, (2, 6)) for _ in range(3)]
    with torch.no_grad():
        caches = model.new_caches()
        model(prompt, caches)
        branches = [[cache.copy() for cache in caches] for _ in ends]
        got: list[list[Tensor]] = [[], [], []]
        for step in range(6):
            for out, end, branch in zip(got, ends, branches):
                out.append(model(end[:, step : step + 1], branch))
        for out, end in zip(got, ends):
            same(torch.cat(out, dim=1), model(torch.cat([prompt, end], dim=1))[:, 7:])
    assert [cache.length for cache in caches] == LAYERS * [7]


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=30), dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_the_cache_is_a_concatenation_to_the_last_bit(ch10, lengths, dtype):
    cache = ch10.KVCache()
    parts = [(torch.randn(2, 3, T, 4, dtype=dtype), torch.randn(2, 3, T, 4, dtype=dtype)) for T in lengths]
    for i, (k, v) in enumerate(parts):
        got = cache.append(k, v)
        for side, tensor in enumerate(got):
            assert torch.equal(tensor, torch.cat([part[side] for part in parts[: i + 1]], dim=2)) and tensor.dtype == dtype


def test_growing_copies_little(ch10):
    """One by one, 1,024 positions: the tensor is allocated again eleven times, and 2,036 positions are copied in all, as the lesson says."""
    cache, made_anew, copied, before = ch10.KVCache(), 0, 0, None
    for length in range(1024):
        cache.append(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
        if cache.k.data_ptr() != before:
            made_anew, copied, before = made_anew + 1, copied + length, cache.k.data_ptr()
    assert (made_anew, copied) == (11, 2036)


def flops(call) -> int:
    with FlopCounterMode(display=False) as counting:
        call()
    return counting.get_total_flops()


@pytest.mark.parametrize("lengths", [[12], 12 * [1], [5, 4, 2, 1], [9, 1, 1, 1]], ids=str)
@pytest.mark.parametrize("positions", POSITIONS)
def test_each_position_goes_through_each_matrix_once(ch10, positions, lengths):
    """Counted: every matrix multiplies every position once, and every query is compared with the keys up to the end of its own chunk."""
    model = made(ch10, positions=positions)
    D, rows = 3 * D_HEAD, 2
    ids = torch.randint(V, (rows, 12))
    maps = 4 * D * D + 2 * D * 4 * D
    scores = sum(T * sum(lengths[: i + 1]) for i, T in enumerate(lengths)) * D  # one product of D numbers for each, over all heads
    # an average costs what the scores cost; scaled_dot_product_attention computes one too, without dropout, which is not used
    expected = rows * (LAYERS * (12 * maps + 3 * scores) + 12 * D * V)
    assert flops(lambda: read(model, ids, lengths)) == 2 * expected  # a multiplication and an addition


def hugging_face(n_head: int, n_layer: int) -> nn.Module:
    config = GPT2Config(vocab_size=31, n_positions=20, n_embd=4 * n_head, n_head=n_head, n_layer=n_layer, attn_implementation="eager")
    theirs = GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=parameter.size(0) ** -0.5 if parameter.dim() > 1 else 0.5)
    return theirs


@pytest.mark.parametrize("lengths", [[20], 20 * [1], [8, 1, 1, 1, 4, 5], [5, 4, 2, 1, 3, 5]], ids=str)
@pytest.mark.parametrize(("n_head", "n_layer"), [(3, 2), (1, 4), (6, 1)])
def test_hugging_face_with_its_own_cache_chunk_by_chunk(ch10, n_head, n_layer, lengths):
    theirs = hugging_face(n_head, n_layer)
    config = ch10.GPTConfig(vocab_size=31, max_len=20, d_model=4 * n_head, n_heads=n_head, n_layers=n_layer, activation="gelu_tanh")
    mine = ch10.CachedGPT(config).double().eval()
    import_module(ch10.GPT.__module__).load_gpt2(mine, theirs.state_dict())
    ids, caches, their_cache = torch.randint(31, (3, 20)), mine.new_caches(), DynamicCache(config=theirs.config)
    with torch.no_grad():
        for part in ids.split(lengths, dim=1):
            expected = theirs(part, past_key_values=their_cache, use_cache=True).logits
            same(mine(part, caches), expected, tol=1e-11)
            assert [cache.length for cache in caches] == n_layer * [their_cache.get_seq_length()]
        k, v = caches[-1].k[:, :, :20], caches[-1].v[:, :, :20]
        same(k, their_cache.layers[-1].keys, tol=1e-11)
        same(v, their_cache.layers[-1].values, tol=1e-11)


def test_a_new_cached_gpt_is_the_gpt_of_the_same_seed(ch10):
    config = ch10.GPTConfig(V, MAX_LEN, 12, 3, 2)
    torch.manual_seed(4)
    plain = ch10.GPT(config)
    torch.manual_seed(4)
    cached = ch10.CachedGPT(config)
    assert list(plain.state_dict()) == list(cached.state_dict())
    assert all(torch.equal(tensor, cached.state_dict()[name]) for name, tensor in plain.state_dict().items())
    assert cached.lm_head.weight is cached.token_emb.weight
