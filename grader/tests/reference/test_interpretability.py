"""Chapter 12 against Hugging Face's GPT-2, which returns its states and weights; and on a model set by hand."""

from __future__ import annotations

import pytest
import torch
from agreement import same
from grader.teaching.circuits import CAPITAL, COUNTRY, WORDS, capitals, ids_of
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

V, MAX_LEN, D, H, LAYERS = 29, 11, 12, 3, 4
CLEAN, CORRUPTED = ids_of("of france the capital is"), ids_of("of italy the capital is")
PARIS, FRANCE = CAPITAL, COUNTRY


@torch.no_grad()
def healthy(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=1.5 * parameter.size(0) ** -0.5)
        else:
            parameter.normal_(mean=0.3)
    return model.double().eval()


@pytest.fixture
def both(ours):
    """Hugging Face's GPT-2, and ours with its numbers, in train mode with dropout, which must not have an effect."""
    sizes = dict(vocab_size=V, n_positions=MAX_LEN, n_embd=D, n_head=H, n_layer=LAYERS)
    theirs = healthy(GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation="eager")))
    mine = ours.GPT(ours.GPTConfig(V, MAX_LEN, D, H, LAYERS, activation="gelu_tanh", dropout=0.3)).double()
    ours.load_gpt2(mine, theirs.state_dict())
    return theirs, mine.train()


@torch.no_grad()
def test_states_and_weights_are_hugging_faces(ours, both):
    """Their hidden_states are ours, except the last: they apply the final norm to it."""
    theirs, mine = both
    ids = torch.randint(V, (3, MAX_LEN - 1))
    shown = theirs(ids, output_hidden_states=True, output_attentions=True)
    stream, patterns = ours.residual_stream(mine, ids), ours.attention_patterns(mine, ids)
    assert len(stream) == len(shown.hidden_states) == LAYERS + 1
    for state, expected in zip(stream[:-1], shown.hidden_states):
        same(state, expected)
    same(mine.ln_f(stream[-1]), shown.hidden_states[-1])
    same(patterns, torch.stack(shown.attentions))
    assert patterns[..., 1:, :].amax() > 0.9  # sharp enough for a wrong scale or a lost norm to show


@torch.no_grad()
def test_the_lens_reads_hugging_faces_states_as_their_own_head_does(ours, both):
    theirs, mine = both
    ids = torch.randint(V, (3, MAX_LEN - 2))
    shown = theirs(ids, output_hidden_states=True)
    lens = ours.logit_lens(mine, ids)
    for row, state in zip(lens[:-1], shown.hidden_states):
        same(row, theirs.lm_head(theirs.transformer.ln_f(state)))
    same(lens[-1], shown.logits)


@torch.no_grad()
@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("position", [None, 0, 4, MAX_LEN - 1])
def test_patching_is_hugging_faces_model_with_a_hook(ours, both, layer, position):
    theirs, mine = both
    clean, corrupted = torch.randint(V, (2, 3, MAX_LEN))
    captured: dict[str, Tensor] = {}

    def first(output):
        return output[0] if isinstance(output, tuple) else output

    def put(block, inputs, output):
        patched = first(output).clone()
        chosen = [position] if position is not None else list(range(MAX_LEN))
        patched[:, chosen] = captured["clean"][:, chosen]
        return (patched, *output[1:]) if isinstance(output, tuple) else patched

    block = theirs.transformer.h[layer]
    with block.register_forward_hook(lambda block, inputs, output: captured.update(clean=first(output).clone())):
        own = theirs(clean).logits
    with block.register_forward_hook(put):
        expected = theirs(corrupted).logits
    got = ours.patch_residual(mine, clean, corrupted, layer, position)
    same(got, expected)
    assert torch.allclose(expected, own) == (position is None)


def test_inspection_leaves_nothing_behind(ours, both):
    _, mine = both
    mine.blocks[1].eval()
    modes = [module.training for module in mine.modules()]
    weights = {name: value.clone() for name, value in mine.state_dict().items()}
    ids = torch.randint(V, (2, 5))
    seen = [*ours.residual_stream(mine, ids), ours.logit_lens(mine, ids), ours.attention_patterns(mine, ids)]
    seen.append(ours.patch_residual(mine, ids, ids.flip(0), 2, 1))
    with pytest.raises(ValueError):
        ours.residual_stream(mine, torch.zeros(1, MAX_LEN + 1, dtype=torch.long))
    assert not any(tensor.requires_grad for tensor in seen)
    assert modes == [module.training for module in mine.modules()]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in mine.modules())
    assert all(torch.equal(value, weights[name]) for name, value in mine.state_dict().items())


# ---- set by hand: block 1 moves the country to the last position, block 2 makes its capital of it


def logits(model: nn.Module, ids: Tensor) -> Tensor:
    return model(ids)[0][0, -1].detach()


@pytest.mark.parametrize("country", range(3))
def test_the_model_predicts_its_capitals(ours, country):
    model, words = capitals(ours), WORDS
    found = logits(model, ids_of(f"of {words[COUNTRY + country]} the capital is"))
    assert words[found.argmax()] == ("paris", "rome", "tokyo")[country]
    assert found.max().item() == pytest.approx(8.0, abs=1e-3)
    assert found.topk(2).values[1].item() == pytest.approx(2 * 2**0.5, abs=1e-3)


def test_the_lens_sees_the_country_arrive_and_then_its_capital(ours):
    lens = ours.logit_lens(capitals(ours), CLEAN)[:, 0]  # (4, T, V)
    said = lens[:, -1]
    expected = torch.zeros(4, len(WORDS))
    expected[2, FRANCE] = 2 * 6**0.5
    expected[3, FRANCE], expected[3, PARIS] = 2 * 2**0.5, 8.0
    torch.testing.assert_close(said, expected, rtol=0, atol=1e-3)
    assert lens[:, :-1].abs().max() < 1e-6  # no prediction anywhere else


def test_its_heads_attend_where_the_weights_were_set(ours):
    patterns = ours.attention_patterns(capitals(ours), CLEAN)[:, 0]  # (3, 2, T, T)
    even = torch.ones(5, 5).tril() / torch.arange(1, 6)[:, None]
    for layer, head in ((0, 0), (0, 1), (1, 1), (2, 0), (2, 1)):
        torch.testing.assert_close(patterns[layer, head], even)
    x = 1 / 3
    mover = torch.tensor([[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [x, 0, x, x, 0], [0, 1, 0, 0, 0]])
    torch.testing.assert_close(patterns[1, 0], mover)


@pytest.mark.parametrize(("layer", "answer_is_at"), [(0, 1), (1, 4), (2, 4)])
def test_patching_finds_where_the_answer_is(ours, layer, answer_is_at):
    """Before block 1, everything depends on the state of the country; afterwards on that of the last position."""
    model = capitals(ours)
    ends = logits(model, CLEAN), logits(model, CORRUPTED)

    def recovered(position):
        return ours.recovery(*ends, ours.patch_residual(model, CLEAN, CORRUPTED, layer, position)[0, -1], PARIS)

    assert recovered(None) == pytest.approx(1.0, abs=1e-6)
    assert [recovered(p) for p in range(5)] == pytest.approx([float(p == answer_is_at) for p in range(5)], abs=1e-6)


def test_corrupted_into_clean_destroys_the_same_places(ours):
    """The other direction measures what is necessary. This model has no redundant part, so the answer is the same."""
    model = capitals(ours)
    for layer, place in ((0, 1), (1, 4), (2, 4)):
        for position in range(5):
            left = ours.patch_residual(model, CORRUPTED, CLEAN, layer, position)[0, -1, PARIS].item()
            assert left == pytest.approx(0.0 if position == place else 8.0, abs=1e-3)
