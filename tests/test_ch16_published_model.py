"""Chapter 16, first part: what a file of weights contains. The tokenizer is in test_ch16_published_model_tokenizer.py."""

from __future__ import annotations

import struct

import torch
from backward_laws import on_views
from grader.execution.proxy import gradients, load, parameters, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distinct, seeds, tensor


def block_bytes(*halves, numbers):
    """The bytes of one block: float16 numbers, then bytes."""
    return list(struct.pack(f"<{len(halves)}e", *halves)) + [number % 256 for number in numbers]


def random_bytes(seed, rows, columns):
    return torch.randint(0, 256, (rows, columns), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def with_halves(blocks, seed, count):
    """The same blocks, whose first `count` float16 numbers are of usual size."""
    halves = tensor(seed, blocks.shape[0], count, dtype=torch.float16)
    return torch.cat([halves.view(torch.uint8), blocks[:, 2 * count :]], dim=1)


def of_columns(function, wide, start, stop):
    """The function of a slice, made on the far side: what crosses the boundary arrives contiguous."""
    return function(wide[:, start:stop])


# ---- dequantize_q8_0


@exercise("dequantize_q8_0", weight=2)
def test_a_weight_is_the_scale_times_a_signed_byte(learner):
    """The first two bytes are the scale, a float16; each further byte is a number from -128 to 127, and its weight is scale · number, float32."""
    numbers = [0, 1, -1, 127, -128, *range(-20, 7)]
    blocks = torch.tensor([block_bytes(0.5, numbers=numbers), block_bytes(-0.25, numbers=reversed(numbers))], dtype=torch.uint8)
    expected = torch.tensor([[0.5 * n for n in numbers], [-0.25 * n for n in reversed(numbers)]])
    close(learner.dequantize_q8_0(blocks), expected, "the weights")


@exercise("dequantize_q8_0", weight=2)
@given(rows=st.integers(2, 5), seed=seeds)
def test_every_block_has_its_own_scale_of_8_bits(learner, reference, rows, seed):
    """(N, 34) bytes give (N, 32) weights, each row with its own scale, also one block, none, and a slice of a larger tensor."""
    blocks = with_halves(random_bytes(seed, rows, 34), seed, 1)
    wide = torch.cat([blocks, random_bytes(seed + 1, rows, 3)], dim=1)
    got = learner.dequantize_q8_0(blocks), learner.bring(of_columns)(learner.dequantize_q8_0, wide, 0, 34), learner.dequantize_q8_0(blocks[:0]), learner.dequantize_q8_0(blocks[:1])
    expected = blocks[:, :2].clone().view(torch.float16).float() * blocks[:, 2:].clone().view(torch.int8).float()
    close(got[0], expected, "the weights")
    close(got[1], expected, "the weights of a slice")
    close(got[2], torch.zeros(0, 32), "the weights of no blocks")
    close(got[3], expected[:1], "the weights of one block")


@exercise("dequantize_q8_0")
def test_small_scales_keep_their_precision(learner):
    """The scale is converted to float32 before it is multiplied: a product in float16 would be rounded, or overflow."""
    halves = (3e-5, 1000.0, 0.1)
    blocks = torch.tensor([block_bytes(half, numbers=[127, -128, 101, *[3] * 29]) for half in halves], dtype=torch.uint8)
    scales = torch.tensor(halves, dtype=torch.float16).float()
    close(learner.dequantize_q8_0(blocks), scales[:, None] * torch.tensor([127.0, -128.0, 101.0, *[3.0] * 29]), "the weights")


# ---- dequantize_q4_1


@exercise("dequantize_q4_1", weight=3)
def test_low_bits_are_the_first_half_of_the_weights(learner):
    """Byte i has two numbers: its low four bits are number i, its high four bits are number i + 16. A weight is scale · number + minimum."""
    low, high = list(range(16)), [(5 * i + 3) % 16 for i in range(16)]
    blocks = torch.tensor([block_bytes(0.5, -2.0, numbers=[a + 16 * b for a, b in zip(low, high)])], dtype=torch.uint8)
    close(learner.dequantize_q4_1(blocks), torch.tensor([[0.5 * n - 2.0 for n in low + high]]), "the weights")


@exercise("dequantize_q4_1", weight=2)
@given(rows=st.integers(2, 5), seed=seeds)
def test_every_block_has_its_own_scale_and_minimum(learner, rows, seed):
    """(N, 20) bytes give (N, 32) weights, float32; the scale comes before the minimum; also one block, none, and a slice."""
    blocks = with_halves(random_bytes(seed, rows, 20), seed, 2)
    wide = torch.cat([random_bytes(seed + 1, rows, 3), blocks], dim=1)
    got = learner.dequantize_q4_1(blocks), learner.bring(of_columns)(learner.dequantize_q4_1, wide, 3, 23), learner.dequantize_q4_1(blocks[:0]), learner.dequantize_q4_1(blocks[:1])
    halves = blocks[:, :4].clone().view(torch.float16).float()
    numbers = torch.cat([blocks[:, 4:] % 16, blocks[:, 4:] // 16], dim=1).float()
    expected = halves[:, :1] * numbers + halves[:, 1:]
    close(got[0], expected, "the weights")
    close(got[1], expected, "the weights of a slice")
    close(got[2], torch.zeros(0, 32), "the weights of no blocks")
    close(got[3], expected[:1], "the weights of one block")


@exercise("dequantize_q4_1")
def test_all_sixteen_numbers_are_unsigned(learner):
    """The numbers are 0 to 15: the highest bit is no sign, and a scale below 0 counts downwards from the minimum."""
    blocks = torch.tensor([block_bytes(-0.125, 1.0, numbers=[0xFF, 0x80, 0x08, 0x0F, 0xF0, *[0x77] * 11])], dtype=torch.uint8)
    low, high = [15, 0, 8, 15, 0, *[7] * 11], [15, 8, 0, 0, 15, *[7] * 11]
    close(learner.dequantize_q4_1(blocks), torch.tensor([[1.0 - 0.125 * n for n in low + high]]), "the weights")


# ---- interleave_rows


def places_of(n):
    return [head * 2 * n.half + i + part * n.half for head in range(n.H) for i in range(n.half) for part in (0, 1)]


@exercise("interleave_rows", weight=2)
@given(n=distinct("H", "half", "D", H=(2, 4), half=(2, 5), D=(3, 7)), seed=seeds)
def test_row_i_of_a_head_goes_to_2i_and_its_partner_beside_it(learner, n, seed):
    """In each head, row i goes to place 2i and row i + d/2 to place 2i + 1; a bias is reordered in the same way."""
    weight, bias = tensor(seed, 2 * n.H * n.half, n.D), tensor(seed, 2 * n.H * n.half)
    got = learner.interleave_rows(weight, n.H), learner.interleave_rows(bias, n.H)
    view, slope = learner.bring(on_views)(learner.interleave_rows, weight, n.H), gradients(learner.interleave_rows, weight, n.H, cotangent=weight[places_of(n)])
    close(got[0], weight[places_of(n)], "the weight")
    close(got[1], bias[places_of(n)], "the bias")
    close(view, weight[places_of(n)], "the weight, given as a view that is not contiguous,")
    close(slope.inputs[0], weight, "the gradient of the weight")


def input_after(function, weight, heads):
    """The weight after its result was filled with zeros."""
    function(weight, heads).zero_()
    return weight


@exercise("interleave_rows")
def test_one_head_and_heads_of_width_two(learner):
    """With one head all rows are reordered; heads of width 2 stay as they are; the dtype stays, and the result is a new tensor."""
    weight = torch.arange(24.0).view(12, 2)
    got = learner.interleave_rows(weight, 1), learner.interleave_rows(weight, 6), learner.interleave_rows(weight[:, 0].half(), 3)
    kept = learner.bring(input_after)(learner.interleave_rows, weight, 6)
    same(got[0], weight[[0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]], "the weight with one head")
    same(got[1], weight, "the weight with heads of width 2")
    same(kept, weight, "the given weight after the result was changed")
    same(got[2], weight[:, 0].half()[[0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11]], "the bias in float16")


@exercise("interleave_rows")
def test_rows_that_no_heads_of_even_width_fill_are_refused(learner):
    """If n_heads does not divide the rows into heads of even width, a ValueError names n_heads; 4 heads of width 2 are fine."""
    weight = tensor(1, 8, 3)
    close(learner.interleave_rows(weight, 4), weight, "the weight with heads of width 2")
    for heads, rows in ((3, 8), (8, 8), (5, 12)):
        refuses(lambda heads=heads, rows=rows: learner.interleave_rows(torch.ones(rows, 2), heads), naming={"n_heads": heads}, because="heads need an even width")


def rotated_halves(x, base):
    """Hugging Face's rotation: feature i with feature i + d/2, on x (B, H, T, d)."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(half) / half)
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@exercise("interleave_rows", weight=2)
@settings(max_examples=3)
@given(n=distinct("B", "T", "H", "half", B=(1, 3), T=(4, 7), H=(2, 3), half=(2, 5)), seed=seeds)
def test_scores_with_interleaved_rows_are_those_of_rotated_halves(learner, reference, n, seed):
    """Queries and keys of interleaved weights, turned by apply_rope, have the scores of the original weights turned by halves."""
    D = n.H * 2 * n.half
    x, w_q, w_k = tensor(seed, n.B, n.T, D), tensor(seed + 1, D, D) / D**0.5, tensor(seed + 2, D, D) / D**0.5
    where = torch.arange(n.T)
    mine = [x @ learner.interleave_rows(w, n.H).T for w in (w_q, w_k)]
    theirs = [rotated_halves((x @ w.T).view(n.B, n.T, n.H, -1).transpose(1, 2), 10_000.0) for w in (w_q, w_k)]
    q, k = (reference.apply_rope(part.view(n.B, n.T, n.H, -1).transpose(1, 2), where) for part in mine)
    close(q @ k.transpose(-2, -1), theirs[0] @ theirs[1].transpose(-2, -1), "the table of scores", tol=1e-4)


# ---- load_llama


def llama(side, n, seed=None, tied=True):
    model = side.Llama(n.V, n.H * n.d, n.H, n.K, n.N, n.F, 10_000.0, 1e-5, tied)
    if seed is not None:
        randomise(model, seed)
    return model


def published_state(n, seed, tied=True):
    """The tensors of a Llama, under Hugging Face's names."""
    D, kv = n.H * n.d, n.K * n.d
    shapes = {"model.embed_tokens.weight": (n.V, D), "model.norm.weight": (D,)}
    parts = {
        "input_layernorm": (D,), "self_attn.q_proj": (D, D), "self_attn.k_proj": (kv, D), "self_attn.v_proj": (kv, D),
        "self_attn.o_proj": (D, D), "post_attention_layernorm": (D,), "mlp.gate_proj": (n.F, D), "mlp.up_proj": (n.F, D),
        "mlp.down_proj": (D, n.F),
    }  # fmt: skip
    for i in range(n.N):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in parts.items()}
    if not tied:
        shapes["lm_head.weight"] = (n.V, D)
    return {name: tensor(seed + i, *shape) for i, (name, shape) in enumerate(shapes.items())}


OURS = {
    "input_layernorm": "ln1", "self_attn.q_proj": "attn.W_q", "self_attn.k_proj": "attn.W_k", "self_attn.v_proj": "attn.W_v",
    "self_attn.o_proj": "attn.W_out", "post_attention_layernorm": "ln2", "mlp.gate_proj": "ffn.gate", "mlp.up_proj": "ffn.up",
    "mlp.down_proj": "ffn.down",
}  # fmt: skip


def interleaved(weight, heads):
    half = weight.shape[0] // heads // 2
    return weight[[head * 2 * half + i + part * half for head in range(heads) for i in range(half) for part in (0, 1)]]


def expected_values(state, n, tied=True):
    """The same numbers under our names."""
    found = {"token_emb.weight": state["model.embed_tokens.weight"], "ln_f.weight": state["model.norm.weight"]}
    found["lm_head.weight"] = state["model.embed_tokens.weight" if tied else "lm_head.weight"]
    for i in range(n.N):
        for theirs, ours in OURS.items():
            value = state[f"model.layers.{i}.{theirs}.weight"]
            heads = {"self_attn.q_proj": n.H, "self_attn.k_proj": n.K}.get(theirs)
            found[f"blocks.{i}.{ours}.weight"] = interleaved(value, heads) if heads else value
    return found


llama_sizes = distinct(N=(2, 2), H=(4, 4), d=(8, 8), F=(9, 11), V=(13, 17)).map(lambda n: setattr(n, "K", 2) or n)


def compare_values(model, expected, what):
    now = parameters(model)
    for name, value in expected.items():
        close(now.get(name), value, f"{name} {what}", tol=0.0)


@exercise("load_llama", weight=3)
@settings(max_examples=2)
@given(n=llama_sizes, seed=seeds)
def test_every_tensor_goes_to_its_place(learner, n, seed):
    """After loading, each parameter has the numbers of its tensor; the rows of queries and keys are interleaved, by their own numbers of heads."""
    found = []
    for tied in (True, False):
        model, state = llama(learner, n, seed + 5, tied), published_state(n, seed, tied)
        learner.load_llama(model, state)
        found.append((model, expected_values(state, n, tied), "of a tied model" if tied else "of a model with its own head"))
    for model, expected, what in found:
        compare_values(model, expected, what)


@exercise("load_llama")
@settings(max_examples=1)
@given(n=llama_sizes, seed=seeds)
def test_layers_of_two_digits_are_told_apart(learner, n, seed):
    """In a model of 12 layers, `model.layers.1` and `model.layers.11` go to different blocks, in whatever order the file has them."""
    n.N = 12
    state = published_state(n, seed)
    found = [(llama(learner, n, seed + 5), order) for order in (state, dict(reversed(state.items())))]
    for model, order in found:
        learner.load_llama(model, order)
    for model, _ in found:
        compare_values(model, expected_values(state, n), "of a model of 12 layers")


@exercise("load_llama")
@settings(max_examples=2)
@given(n=llama_sizes, seed=seeds)
def test_the_head_of_a_tied_model_may_be_there(learner, n, seed):
    """If the model is tied, a file with a head is fine too: the embedding decides. Without a head, a model that is not tied raises a ValueError."""
    model, state = llama(learner, n, seed + 5), published_state(n, seed)
    learner.load_llama(model, state | {"lm_head.weight": tensor(seed + 99, n.V, n.H * n.d)})
    compare_values(model, expected_values(state, n), "of a tied model")
    untied = llama(learner, n, seed + 5, tied=False)
    refuses(lambda: learner.load_llama(untied, state), naming={"name": "lm_head.weight"}, because="the model has a head of its own")


@exercise("load_llama", weight=2)
@settings(max_examples=2)
@given(n=llama_sizes, seed=seeds)
def test_a_tensor_that_does_not_fit_is_named(learner, n, seed):
    """A tensor that is missing, left over, or of a wrong shape raises a ValueError that names it, also if its number of weights is right."""
    model, state = llama(learner, n, seed + 5), published_state(n, seed)
    down, norm = f"model.layers.{n.N - 1}.mlp.down_proj.weight", "model.norm.weight"
    more = state | {f"model.layers.{n.N}.input_layernorm.weight": state[norm]}
    bias = state | {"model.layers.0.self_attn.q_proj.bias": tensor(seed, n.H * n.d)}
    embedding, query = "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"
    shapes = {
        down: state[down].T.contiguous(), embedding: state[embedding].T.contiguous(), norm: state[norm][:-1],
        "model.layers.0.self_attn.k_proj.weight": state[query],
    }  # fmt: skip
    untied, whole = llama(learner, n, seed + 5, tied=False), published_state(n, seed, tied=False)
    headless = whole | {"lm_head.weight": whole["lm_head.weight"][:-1]}
    positions = state | {"model.embed_positions.weight": state["model.embed_tokens.weight"]}  # as large as the head
    for name in (down, norm, "model.embed_tokens.weight"):
        missing = {other: value for other, value in state.items() if other != name}
        refuses(lambda missing=missing: learner.load_llama(model, missing), naming={"name": name}, because="a tensor is missing")
    refuses(lambda: learner.load_llama(model, positions), naming={"name": "model.embed_positions.weight"}, because="the model has no place for it")
    refuses(lambda: learner.load_llama(model, more), naming={"name": f"model.layers.{n.N}.input_layernorm.weight"}, because="the model has no place for it")
    refuses(lambda: learner.load_llama(model, bias), naming={"name": "model.layers.0.self_attn.q_proj.bias"}, because="the model has no place for it")
    for name, value in shapes.items():
        refuses(lambda name=name, value=value: learner.load_llama(model, state | {name: value}), naming={"name": name}, because="its shape does not fit")
    refuses(lambda: learner.load_llama(untied, headless), naming={"name": "lm_head.weight"}, because="its shape does not fit")
    learner.load_llama(model, state)
    compare_values(model, expected_values(state, n), "after loading what fits")


@exercise("load_llama")
@settings(max_examples=2)
@given(n=llama_sizes, seed=seeds)
def test_a_call_that_is_refused_changes_nothing(learner, n, seed):
    """After a ValueError every number of the model is as before, whichever tensor did not fit."""
    model, state = llama(learner, n), published_state(n, seed)
    before = randomise(model, seed + 5)
    last = f"model.layers.{n.N - 1}.post_attention_layernorm.weight"
    missing = {name: value for name, value in state.items() if name != last}
    for wrong in (missing, state | {last: state[last][:-1]}, state | {"rotary.weight": state[last]}):
        refuses(lambda wrong=wrong: learner.load_llama(model, wrong), because="a tensor does not fit")
    unchanged = parameters(model)
    learner.load_llama(model, state)
    for name, value in before.items():
        close(unchanged.get(name), value, f"{name} after calls that were refused", tol=0.0)
    compare_values(model, expected_values(state, n), "after loading what fits")


@exercise("load_llama")
@settings(max_examples=2)
@given(n=llama_sizes, seed=seeds)
def test_the_model_keeps_its_own_tensors(learner, n, seed):
    """The numbers are copied: the model keeps its dtype and its tied weight, and a later change of the model does not reach the state."""
    model, state = llama(learner, n, seed + 5), published_state(n, seed)
    half = {name: value.half() for name, value in state.items()}
    learner.load_llama(model, half)
    load(model, {"ln_f.weight": torch.zeros(n.H * n.d), "token_emb.weight": torch.ones(n.V, n.H * n.d)})
    now = parameters(model)
    close(now["lm_head.weight"], torch.ones(n.V, n.H * n.d), "the tied weight after the embedding was changed")
    close(now["blocks.0.ffn.up.weight"], half["model.layers.0.mlp.up_proj.weight"].float(), "a weight that was loaded from float16")
    again = llama(learner, n, seed + 6)
    learner.load_llama(again, half)
    close(parameters(again)["ln_f.weight"], half["model.norm.weight"].float(), "the last norm of a second model")


def loaded_and_apart(load_llama, model, state, transposed):
    """The parameters of a model after its state was overwritten, and the state after the parameters were; brought to the far side."""
    state = {name: value.clone() for name, value in state.items()}
    if transposed:
        state = {name: value.transpose(0, -1).contiguous().transpose(0, -1) for name, value in state.items()}
    load_llama(model, state)
    for value in state.values():
        value.fill_(7.0)
    found = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(3.0)
    return found, sorted(name for name, value in state.items() if not bool((value == 7.0).all()))


@exercise("load_llama")
@settings(max_examples=2)
@given(n=llama_sizes, seed=seeds)
def test_the_model_and_the_state_share_no_memory(learner, n, seed):
    """The numbers are copied: what is written into the state's tensors afterwards does not reach the model, nor the other way round. Its tensors may be views."""
    state, apart = published_state(n, seed), learner.bring(loaded_and_apart)
    plain, views = (apart(learner.load_llama, llama(learner, n, seed + 5), state, transposed) for transposed in (False, True))
    expected = expected_values(state, n)
    for (found, changed), which in ((plain, ""), (views, " of transposed tensors")):
        for name, value in expected.items():
            if name != "lm_head.weight":  # it is tied
                close(found.get(name), value, f"{name}, after the tensors of the state{which} were overwritten,", tol=0.0)
        holds(not changed, f"after the model was overwritten, these tensors of the state{which} are not what they were: {', '.join(changed)}")
