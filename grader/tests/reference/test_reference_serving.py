"""Chapter 15 against Hugging Face's GPT-2 with random weights (beam search, left-padded batches, assisted generation), against torch's quantization,
and its paged cache against chapter 10's cache."""

from __future__ import annotations

import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

V, MAX_LEN, D, H, LAYERS = 37, 32, 24, 4, 2


@pytest.fixture(scope="module")
def package():
    found = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch15_serving"), whole=True), "tested")
    yield found
    found.close()


@pytest.fixture
def serving(package):
    return package.module("ch15_serving")


@pytest.fixture(autouse=True)
def _quiet():
    torch.manual_seed(23)
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(before)


@torch.no_grad()
def fluent(model: nn.Module, scale: float = 1.5) -> nn.Module:
    """Weights with which a greedy text varies: no bias favours one token for ever."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=scale / math.sqrt(D))
        else:
            parameter.fill_(float("ln" in name and name.endswith("weight")))
    return model


def both(package, layers: int = LAYERS) -> tuple[nn.Module, nn.Module]:
    """Hugging Face's GPT-2, and a PaddedGPT with its weights."""
    models = package.module("ch07_models")
    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_positions=MAX_LEN, n_embd=D, n_layer=layers, n_head=H, tie_word_embeddings=False, attn_implementation="eager"))
    theirs = fluent(theirs).double().eval()
    ours = package.module("ch15_serving").PaddedGPT(models.GPTConfig(V, MAX_LEN, D, H, layers, tie_weights=False, activation="gelu_tanh")).double()
    models.load_gpt2(ours, theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("n_beams", [2, 3, 7])
def test_beams_are_hugging_faces(package, serving, n_beams):
    """Without an end of text both keep the n best sums. (With one, Hugging Face sets finished texts aside, where ours lets them compete.)"""
    theirs, ours = both(package)
    different = 0
    for ids in torch.randint(V, (5, 1, 4)):
        found = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, num_beams=n_beams, num_return_sequences=n_beams, do_sample=False, length_penalty=0.0,
            eos_token_id=None, pad_token_id=0, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        beams = serving.beam_search(ours, ids, 9, n_beams)
        assert [text for text, _ in beams] == found.sequences[:, 4:].tolist()
        assert torch.allclose(torch.tensor([score for _, score in beams]), found.sequences_scores.float(), atol=1e-4)
        different += beams[0][0] != serving.beam_search(ours, ids, 9, 1)[0][0]
    assert different, "the best beam should sometimes differ from the greedy text"


def test_logits_of_padded_rows_are_hugging_faces(package):
    theirs, ours = both(package)
    ids, n_pad = torch.randint(V, (4, 9)), torch.tensor([0, 3, 8, 5])
    real = torch.arange(9) >= n_pad[:, None]
    positions = (torch.arange(9) - n_pad[:, None]).clamp(min=0)
    with torch.no_grad():
        expected = theirs(ids, attention_mask=real.long(), position_ids=positions).logits
        assert torch.allclose(ours(ids, n_pad)[real], expected[real], atol=1e-9)


@pytest.mark.parametrize("with_eos", [False, True])
def test_left_padded_batches_are_hugging_faces(package, serving, with_eos):
    theirs, ours = both(package)
    prompts = [torch.randint(1, V, (length,)).tolist() for length in (3, 8, 1, 5)]
    eos = serving.generate_batch(ours, prompts, 12)[0][3 + 4] if with_eos else None
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    real = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    found = theirs.generate(ids, attention_mask=real, max_new_tokens=12, do_sample=False, eos_token_id=eos, pad_token_id=0)[:, width:].tolist()
    expected = [prompt + (new[: new.index(eos) + 1] if eos in new else new) for prompt, new in zip(prompts, found)]
    assert serving.generate_batch(ours, prompts, 12, eos) == expected
    assert len({token for text in expected for token in text}) > 5


def test_assisted_generation_writes_the_same_greedy_text(package, serving):
    """Both let a smaller model draft. Greedy text does not depend on the draft, so it is the same."""
    (theirs, ours), (their_draft, our_draft) = both(package), both(package, 1)
    for ids in torch.randint(V, (4, 1, 5)):
        plain = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=15, do_sample=False, eos_token_id=None, pad_token_id=0)
        options = dict(max_new_tokens=15, do_sample=False, eos_token_id=None, pad_token_id=0)
        assisted = theirs.generate(ids, attention_mask=torch.ones_like(ids), assistant_model=their_draft, **options)
        for n_draft in (1, 4):
            assert torch.equal(serving.generate_speculative(ours, our_draft, ids, 15, n_draft, temperature=0.0), plain)
        assert torch.equal(assisted, plain)


def test_codes_are_those_of_torchs_quantization(serving):
    weight = torch.randn(9, 14) * torch.logspace(-3, 2, 9)[:, None]
    codes, scale = serving.quantize_int8(weight)
    theirs = torch.quantize_per_channel(weight, scale.double(), torch.zeros(9, dtype=torch.long), 0, torch.qint8)
    assert torch.equal(theirs.int_repr(), codes)
    layer = nn.Linear(14, 9)
    with torch.no_grad():
        layer.weight.copy_(weight)
        expected = nn.functional.linear(x := torch.randn(5, 14), theirs.dequantize(), layer.bias)
        assert torch.allclose(serving.QuantizedLinear(layer)(x), expected, atol=1e-4)


def test_the_paged_cache_has_what_chapter_10s_cache_has(package, serving):
    """In chunks of any length, beside another text and with a fork: the same keys and values, also for attention of torch."""
    pool, whole = serving.BlockPool(16, 4, H, 6, dtype=torch.float64), package.module("ch10_kv_cache").KVCache()
    cache, other = serving.PagedKVCache(pool), serving.PagedKVCache(pool)

    def append(T: int) -> tuple[Tensor, Tensor]:
        k, v = torch.randn(2, 1, H, T, 6, dtype=torch.float64)
        cache.append(k[0], v[0])
        other.append(v[0], k[0])
        return whole.append(k, v)

    for T in (3, 1, 7, 2, 4):
        k, v = append(T)
        for mine, theirs in zip(cache.gather(), (k, v)):
            assert torch.equal(mine, theirs[0])
    branch, copy = cache.fork(), whole.copy()
    extra = torch.randn(2, 1, H, 3, 6, dtype=torch.float64)
    branch.append(extra[0, 0], extra[1, 0])
    k, v = copy.append(extra[0], extra[1])
    q = torch.randn(H, 1, 6, dtype=torch.float64)
    attended = nn.functional.scaled_dot_product_attention(q, *branch.gather())
    assert torch.allclose(attended, nn.functional.scaled_dot_product_attention(q, k[0], v[0]))
    assert cache.length == 17 and all(torch.equal(mine, theirs[0]) for mine, theirs in zip(other.gather(), whole_of(other, pool)))


def whole_of(cache, pool) -> list[Tensor]:
    """The keys and values of a cache, read place by place through its table."""
    places = [divmod(position, pool.block_size) for position in range(cache.length)]
    return [torch.stack([store[cache.blocks[block], :, place] for block, place in places], dim=1)[None] for store in (pool.k, pool.v)]
