"""The reference's GPT against one made of torch's own parts: the same numbers, the same loss, the same gradients."""

from __future__ import annotations

import math

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import Tensor, nn
from torch.nn import functional as F

B, T, V, D, H, LAYERS, D_FF, MAX_LEN = 3, 7, 19, 12, 2, 3, 20, 10
POSITIONS = ("learned", "sinusoidal", "rope", "alibi")


@pytest.fixture(scope="module")
def ch07():
    chapter = load_syllabus().chapter("ch07_models")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "tested")
    yield package.module(chapter.name)
    package.close()


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(13)


def same(got, expected) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-10)


def made(ch07, **options) -> nn.Module:
    """A GPT in double precision, every parameter random at a healthy scale."""
    model = ch07.GPT(ch07.GPTConfig(V, MAX_LEN, D, H, LAYERS, D_FF, **options)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=1.5 * (parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 1.0))
    return model


def texts(length: int = T) -> tuple[Tensor, Tensor]:
    """Ids, and targets of which some are -100."""
    ids, targets = torch.randint(V, (B, length)), torch.randint(V, (B, length))
    targets[0, :2] = targets[1, 1:] = -100
    return ids, targets


def torchs_blocks(ours: nn.Module, activation: str) -> nn.TransformerEncoder:
    """nn.TransformerEncoder, pre-norm, with the same numbers; torch's layer uses the exact gelu for "gelu"."""
    layer = nn.TransformerEncoderLayer(D, H, D_FF, dropout=0.0, activation=activation, batch_first=True, norm_first=True)
    theirs = nn.TransformerEncoder(layer, LAYERS, norm=nn.LayerNorm(D), enable_nested_tensor=False).double()
    pairs = [(theirs.norm, ours.ln_f)]
    with torch.no_grad():
        for their, our in zip(theirs.layers, ours.blocks):
            maps = (our.attn.W_q, our.attn.W_k, our.attn.W_v)
            their.self_attn.in_proj_weight.copy_(torch.cat([linear.weight for linear in maps]))
            their.self_attn.in_proj_bias.copy_(torch.cat([linear.bias for linear in maps]))
            pairs += [(their.norm1, our.ln1), (their.norm2, our.ln2), (their.self_attn.out_proj, our.attn.W_out)]
            pairs += [(their.linear1, our.ffn.up), (their.linear2, our.ffn.down)]
        for their, our in pairs:
            their.weight.copy_(our.weight)
            their.bias.copy_(our.bias)
    return theirs


def waves() -> Tensor:
    angle = torch.arange(MAX_LEN).double()[:, None] / 10000 ** (torch.arange(D // 2).double() * 2 / D)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("activation", "theirs"), [("gelu", "gelu"), ("relu", "relu"), ("gelu_tanh", nn.GELU(approximate="tanh"))])
def test_a_gpt_of_torchs_own_parts(ch07, activation, theirs, tied):
    model = made(ch07, activation=activation, tie_weights=tied)
    ids, targets = texts()
    blocks = torchs_blocks(model, theirs)
    table = model.token_emb.weight.detach().clone().requires_grad_()
    places = model.pos_emb.weight.detach().clone().requires_grad_()
    head = table if tied else model.lm_head.weight.detach().clone().requires_grad_()
    x = F.embedding(ids, table) + places[:T]
    expected = F.linear(blocks(x, mask=nn.Transformer.generate_square_subsequent_mask(T).double(), is_causal=True), head)
    logits, loss = model(ids, targets)
    same(logits, expected)
    expected_loss = F.cross_entropy(expected.flatten(0, 1), targets.flatten())
    same(loss, expected_loss)
    loss.backward()
    expected_loss.backward()
    same(model.token_emb.weight.grad, table.grad)
    same(model.pos_emb.weight.grad, places.grad)
    same(model.lm_head.weight.grad, head.grad)
    for their, our in zip(blocks.layers, model.blocks):
        same(our.ffn.up.weight.grad, their.linear1.weight.grad)
        same(our.attn.W_v.weight.grad, their.self_attn.in_proj_weight.grad[2 * D :])


def test_sinusoidal_positions_instead_of_a_table(ch07):
    model = made(ch07, positions="sinusoidal")
    ids, _ = texts()
    x = F.embedding(ids, model.token_emb.weight) + waves()[:T].float().double()
    hidden = torchs_blocks(model, "gelu")(x, mask=nn.Transformer.generate_square_subsequent_mask(T).double(), is_causal=True)
    torch.testing.assert_close(model(ids)[0], hidden @ model.lm_head.weight.T, rtol=1e-5, atol=1e-5)


def test_alibi_is_a_bias_in_torchs_attention(ch07):
    model = made(ch07, positions="alibi")
    ids, _ = texts(MAX_LEN + 3)
    distance = torch.arange(len(ids[0]))[:, None] - torch.arange(len(ids[0]))
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)]).double()
    bias = (-slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf).repeat(B, 1, 1)
    hidden = torchs_blocks(model, "gelu")(F.embedding(ids, model.token_emb.weight), mask=bias)
    same(model(ids)[0], hidden @ model.lm_head.weight.T)


def turned(x: Tensor) -> Tensor:
    """RoPE as complex numbers: each pair of features is one, turned by multiplication."""
    angle = torch.arange(x.size(-2)).double()[:, None] / 10000 ** (torch.arange(0, x.size(-1), 2).double() / x.size(-1))
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def test_rope_as_complex_numbers_in_torchs_attention(ch07):
    model = made(ch07, positions="rope")
    ids, _ = texts(MAX_LEN + 3)
    x = F.embedding(ids, model.token_emb.weight)
    for block in model.blocks:
        normed = F.layer_norm(x, (D,), block.ln1.weight, block.ln1.bias)
        q, k, v = (W(normed).unflatten(-1, (H, -1)).transpose(1, 2) for W in (block.attn.W_q, block.attn.W_k, block.attn.W_v))
        attended = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + block.attn.W_out(attended.transpose(1, 2).flatten(2))
        x = x + block.ffn.down(F.gelu(block.ffn.up(F.layer_norm(x, (D,), block.ln2.weight, block.ln2.bias))))
    expected = F.layer_norm(x, (D,), model.ln_f.weight, model.ln_f.bias) @ model.lm_head.weight.T
    torch.testing.assert_close(model(ids)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_logits_depend_on_the_past_and_not_on_the_future(ch07, positions):
    model = made(ch07, positions=positions)
    ids, _ = texts()
    for t in range(T):
        changed = ids.clone()
        changed[:, t] = (ids[:, t] + 1) % V
        moved = (model(changed)[0] - model(ids)[0]).abs().amax((0, 2))
        assert not moved[:t].any()
        assert (moved[t:] > 1e-6).all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_end_of_the_table(ch07, positions):
    model = made(ch07, positions=positions)
    ids, _ = texts(MAX_LEN + 1)
    assert model(ids[:, :MAX_LEN])[0].isfinite().all()
    if positions in ("rope", "alibi"):
        assert model(ids)[0].isfinite().all()
    else:
        with pytest.raises(ValueError, match=str(MAX_LEN)):
            model(ids)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tied", [True, False])
def test_a_new_model_guesses_evenly(ch07, positions, tied):
    vocabulary = 500
    model = ch07.GPT(ch07.GPTConfig(vocabulary, 64, positions=positions, tie_weights=tied))
    ids = torch.randint(vocabulary, (8, 65))
    assert abs(model(ids[:, :-1], ids[:, 1:])[1].item() - math.log(vocabulary)) < 0.05
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            assert abs(parameter.std().item() - 0.02) < 0.001, name
        else:
            assert torch.equal(parameter, torch.full_like(parameter, float("ln" in name and name.endswith("weight")))), name


def test_tied_is_one_parameter_wherever_it_goes(ch07):
    model = made(ch07)
    assert model.lm_head.weight is model.token_emb.weight
    model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})
    model.float()
    assert model.lm_head.weight is model.token_emb.weight
    untied = made(ch07, tie_weights=False)
    assert ch07.count_parameters(untied) - ch07.count_parameters(model) == V * D
    untied.load_state_dict(model.state_dict())
    ids, _ = texts()
    same(untied.float()(ids)[0], model(ids)[0])


def test_a_batch_without_targets_has_loss_0(ch07):
    model = made(ch07)
    ids, targets = texts()
    _, loss = model(ids, torch.full_like(targets, -100))
    loss.backward()
    assert loss == 0
    assert all(not parameter.grad.any() for parameter in model.parameters())


def test_gpt2s_numbers(ch07):
    with torch.device("meta"):
        model = ch07.GPT(ch07.GPTConfig(50257, 1024, 768, 12, 12, activation="gelu_tanh"))
        logits, loss = model(torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long))
    assert ch07.count_parameters(model) == 124_439_808
    assert logits.shape == (2, 5, 50257) and loss.shape == () and logits.device.type == "meta"
