"""Chapter 12 against Hugging Face's GPT-2, which returns its states and weights."""

from __future__ import annotations

import pytest
import torch
from agreement import same, sharpened
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

V, MAX_LEN, D, H, LAYERS = 29, 11, 12, 3, 4


@pytest.fixture
def both(ours):
    """Hugging Face's GPT-2, and ours with its numbers, in train mode with dropout, which must not have an effect."""
    sizes = dict(vocab_size=V, n_positions=MAX_LEN, n_embd=D, n_head=H, n_layer=LAYERS)
    theirs = sharpened(GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation="eager")), scale=1.5).double()
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
@pytest.mark.parametrize("layer, position", [(0, None), (1, 0), (2, 4), (3, MAX_LEN - 1)])
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
