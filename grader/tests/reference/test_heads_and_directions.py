"""Chapter 23 against Hugging Face's GPT-2 and Llama, with hooks of their own."""

from __future__ import annotations

import pytest
import torch
from agreement import same, sharpened
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

V, MAX_LEN, D, H, LAYERS = 29, 11, 12, 3, 3


@pytest.fixture
def gpts(ours):
    """Hugging Face's GPT-2, and ours with its numbers, in train mode with dropout, which must not have an effect."""
    sizes = dict(vocab_size=V, n_positions=MAX_LEN, n_embd=D, n_head=H, n_layer=LAYERS)
    theirs = sharpened(GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation="eager")), scale=1.5).double().eval()
    mine = ours.GPT(ours.GPTConfig(V, MAX_LEN, D, H, LAYERS, activation="gelu_tanh", dropout=0.3)).double()
    ours.load_gpt2(mine, theirs.state_dict())
    return theirs, mine.train()


@pytest.fixture
def llamas(ours):
    """Hugging Face's Llama with two query heads for each key head, and ours with its numbers."""
    config = LlamaConfig(
        vocab_size=V, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=LAYERS,
        intermediate_size=19, rms_norm_eps=0.1, tie_word_embeddings=False, max_position_embeddings=64,
        attn_implementation="eager",
    )  # fmt: skip
    theirs = sharpened(LlamaForCausalLM(config), scale=1.5).double().eval()
    mine = ours.Llama(V, 32, 4, 2, LAYERS, 19, 10_000.0, 0.1, tied=False).double()
    ours.load_llama(mine, theirs.state_dict())
    return theirs, mine


def first(output):
    return output[0] if isinstance(output, tuple) else output


def without_head(features: Tensor, heads: int, head: int, kind: str) -> Tensor:
    width = features.size(-1) // heads
    features = features.clone()
    own = features[..., head * width : (head + 1) * width]
    own[:] = 0 if kind == "zero" else own.flatten(0, 1).mean(0)
    return features


@torch.no_grad()
@pytest.mark.parametrize("kind", ["zero", "mean"])
@pytest.mark.parametrize("layer, head", [(0, 2), (2, 0)])
def test_ablation_is_a_hook_on_hugging_faces_projection(ours, gpts, llamas, kind, layer, head):
    ids = torch.randint(V, (3, MAX_LEN - 1))
    places = (gpts[0].transformer.h[layer].attn.c_proj, H), (llamas[0].model.layers[layer].self_attn.o_proj, 4)
    for (theirs, mine), (projection, heads) in zip((gpts, llamas), places):
        whole = theirs(ids).logits
        with projection.register_forward_pre_hook(
            lambda module, inputs, heads=heads: (without_head(inputs[0], heads, head, kind),)
        ):
            expected = theirs(ids).logits
        with ours.ablate_head(mine.eval(), layer, head, kind):
            got = first(mine(ids))
        same(got, expected, tol=1e-5)
        assert not torch.allclose(expected, whole, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("layer", range(LAYERS))
def test_steering_is_a_hook_on_hugging_faces_layer_with_its_own_cache(ours, llamas, layer):
    """The prompt, and then each token that Hugging Face's Llama writes with its cache."""
    theirs, mine = llamas
    ids, direction = torch.randint(V, (2, 6)), torch.randn(32, dtype=torch.float64)

    def push(module: nn.Module, inputs: tuple, output):
        moved = first(output) - 1.5 * direction
        return (moved, *output[1:]) if isinstance(output, tuple) else moved

    with theirs.model.layers[layer].register_forward_hook(push):
        options = dict(max_new_tokens=5, do_sample=False, return_dict_in_generate=True, output_logits=True)
        expected = theirs.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, eos_token_id=-1, **options)
    caches, new, found = mine.new_caches(), ids, []
    with ours.steer(mine, layer, direction, -1.5):
        for _ in range(5):
            found.append(mine(new, caches)[:, -1])
            new = found[-1].argmax(dim=-1, keepdim=True)
            ids = torch.cat([ids, new], dim=1)
    assert torch.equal(ids, expected.sequences)
    same(torch.stack(found), torch.stack(expected.logits).double(), tol=1e-5)


def test_estimates_are_gradients_of_hugging_faces_hidden_states(ours, gpts):
    """Their hidden_states are the stream, except the last, which the final norm has already changed."""
    theirs, mine = gpts
    clean, corrupted = torch.randint(V, (2, 3, MAX_LEN))

    def metric(logits: Tensor) -> Tensor:
        return logits[:, -1].log_softmax(-1)[:, 5].sum()

    with torch.no_grad():
        before = theirs(clean, output_hidden_states=True).hidden_states
    shown = theirs(corrupted, output_hidden_states=True)
    gradients = torch.autograd.grad(metric(shown.logits), shown.hidden_states[:-1])
    rows = [(g * (a - b)).sum(dim=(0, 2)) for g, a, b in zip(gradients, before, shown.hidden_states)]
    same(ours.attribution_patching(mine, clean, corrupted, metric)[:-1], torch.stack(rows).detach())


@torch.no_grad()
@pytest.mark.parametrize("target", [0, 17])
def test_parts_are_what_hugging_faces_layers_add(ours, gpts, target):
    """Feed-forward layers one by one, and each layer's heads together with the bias of its projection."""
    theirs, mine = gpts
    ids, added = torch.randint(V, (1, MAX_LEN)), {}

    def keep(name: str):
        return lambda module, inputs, output: added.update({name: first(output)[0, -1]})

    layers = theirs.transformer.h
    handles = [layer.attn.register_forward_hook(keep(f"attn {i}")) for i, layer in enumerate(layers)]
    handles += [layer.mlp.register_forward_hook(keep(f"ffn {i}")) for i, layer in enumerate(layers)]
    shown = theirs(ids, output_hidden_states=True)
    for handle in handles:
        handle.remove()
    norm, row = theirs.transformer.ln_f, theirs.lm_head.weight[target]
    added["embedding"] = shown.hidden_states[0][0, -1]
    last = sum(added.values())
    scale = norm.weight / torch.sqrt(last.var(correction=0) + norm.eps)
    expected = {name: ((part - part.mean()) * scale @ row).item() for name, part in added.items()}
    got = ours.logit_attribution(mine, ids, target)
    assert sum(got.values()) == pytest.approx(shown.logits[0, -1, target].item(), abs=1e-9)
    for name in ("embedding", *(f"ffn {i}" for i in range(LAYERS))):
        assert got[name] == pytest.approx(expected[name], abs=1e-9), name
    heads = sum(value for name, value in got.items() if name.startswith("head"))
    attended = sum(value for name, value in expected.items() if name.startswith("attn"))
    assert heads + got["bias"] == pytest.approx(attended + (norm.bias @ row).item(), abs=1e-9)


def test_removing_a_direction_is_a_projection(ours):
    """With the plane that torch's QR decomposition finds perpendicular to it."""
    states, direction = torch.randn(5, 4, D, dtype=torch.float64), torch.randn(D, dtype=torch.float64)
    plane = torch.linalg.qr(direction[:, None], mode="complete").Q[:, 1:]  # (D, D - 1)
    same(ours.remove_direction(states, direction), states @ plane @ plane.T)
