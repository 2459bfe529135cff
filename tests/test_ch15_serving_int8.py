"""Chapter 15, seventh part: a matrix in 8 bits, and the linear layer that computes with it."""

import torch
from backward_laws import on_views
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import buffers, gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same, shaped
from hypothesis import given, settings
from strategies import distinct, seeds, tensor
from torch import nn
from torch.nn import functional as F

matrices = distinct("m", "n", m=(4, 6), n=(5, 9))
few = settings(max_examples=2)


def quantized(result, weight):
    """The codes and the scale of what quantize_int8 returned, with the right shapes and dtypes."""
    holds(isinstance(result, tuple | list) and len(result) == 2, f"quantize_int8 should return two tensors, codes and scale; it returned {type(result).__name__}")
    codes = shaped(result[0], tuple(weight.shape), "the tensor of codes", torch.int8)
    return codes, shaped(result[1], (weight.size(0),), "the tensor of scales", weight.dtype)


def check_within_half_a_step(result, weight, what):
    """codes * scale differs from the weight by at most half a scale (and rounding)."""
    codes, scale = quantized(result, weight)
    holds(int(codes.min()) >= -127, f"the codes {what} should be from -127 to 127; one is {int(codes.min())}")
    off = (weight - codes.to(weight.dtype) * scale[:, None]).abs()
    row, column = divmod(int((off - 0.5001 * scale[:, None]).argmax()), weight.size(1))
    worst = float(off[row, column])
    sentence = f"{what}, entry ({row}, {column}) is {float(weight[row, column]):.6g}; its code {int(codes[row, column])} with scale {float(scale[row]):.6g}"
    holds(bool((off <= 0.5001 * scale[:, None]).all()), f"{sentence} is off by {worst:.3g}, which is more than half a step")


def greatest_codes(codes):
    """The greatest absolute code of each row."""
    return codes.short().abs().amax(1).tolist()


# ---- quantize_int8


@exercise("quantize_int8", weight=4)
@given(n=matrices, seed=seeds)
def test_no_entry_is_off_by_more_than_half_a_step(learner, reference, n, seed):
    """Each row's scale is its greatest absolute value / 127, and codes * scale differs from the row by at most half a scale."""
    weight = tensor(seed, n.m, n.n, dtype=torch.float64)
    weight[1] = -weight[1].abs()  # the greatest absolute value is that of a negative number
    got = learner.quantize_int8(weight)
    close(quantized(got, weight)[1], weight.abs().amax(1) / 127, "the tensor of scales", tol=1e-6)  # it may be computed in float32
    check_within_half_a_step(got, weight, "of a random matrix")
    same(got[0], reference.quantize_int8(weight)[0], "the tensor of codes")


@exercise("quantize_int8", weight=3)
@few
@given(n=matrices, seed=seeds)
def test_each_row_has_its_own_scale(learner, n, seed):
    """Rows of very different sizes each use the whole range: in each row that is not zero a code is 127 or -127, in a square matrix too."""
    magnitudes = torch.logspace(-12, 6, n.n, dtype=torch.float64).roll(seed % n.n)
    weight = tensor(seed, n.n, n.n, dtype=torch.float64) * magnitudes[:, None]
    got = learner.quantize_int8(weight)
    same(greatest_codes(quantized(got, weight)[0]), n.n * [127], "the greatest absolute code of each row")
    check_within_half_a_step(got, weight, "of a matrix with small and large rows")


@exercise("quantize_int8", weight=2)
@few
@given(n=matrices, seed=seeds)
def test_a_row_of_zeros_stays_zero(learner, n, seed):
    """A row of zeros has codes of 0 and a finite scale; the other rows are not affected."""
    weight = tensor(seed, n.m, n.n, dtype=torch.float64)
    weight[seed % n.m] = 0.0
    nothing = torch.zeros(2, n.n, dtype=torch.float64)
    found = [(each, learner.quantize_int8(each)) for each in (weight, nothing)]
    for each, result in found:
        codes, scale = quantized(result, each)
        expected = [127 if bool(row.any()) else 0 for row in each]
        holds(bool(scale.isfinite().all()), f"the scales of a matrix with rows of zeros should be finite; they are {scale.tolist()}")
        same(greatest_codes(codes), expected, "the greatest absolute code of each row, in a matrix with rows of zeros,")


@exercise("quantize_int8", weight=2)
@few
@given(n=matrices, seed=seeds)
def test_quantizing_is_symmetric_and_stable(learner, n, seed):
    """-weight has the negative codes and the same scale, and quantizing codes * scale again gives the same codes."""
    weight = tensor(seed, n.m, n.n, dtype=torch.float64)
    got, negative = learner.quantize_int8(weight), learner.quantize_int8(-weight)
    codes, scale = quantized(got, weight)
    again = learner.quantize_int8(codes.double() * scale[:, None])
    check_within_half_a_step(got, weight, "of a random matrix")
    same(quantized(negative, weight)[0], -codes, "the tensor of codes of -weight")
    close(quantized(negative, weight)[1], scale, "the tensor of scales of -weight", tol=1e-9)
    same(quantized(again, weight)[0], codes, "the tensor of codes of codes * scale, quantized again,")


class CodesOf:
    """The codes alone; brought to the far side."""

    def __init__(self, quantize):
        self.quantize = quantize

    def __call__(self, weight):
        return self.quantize(weight)[0]


@exercise("quantize_int8")
@few
@given(n=matrices, seed=seeds)
def test_codes_and_scale_follow_dtype_and_device(learner, n, seed):
    """The codes are int8, the scale has the weight's dtype, and both are on its device; a single row or column works too, and a transposed matrix."""
    weight = tensor(seed, n.m, n.n)
    found = [(each, learner.quantize_int8(each)) for each in (weight, weight[:1], weight[:, :1], weight.double())]
    found.append((weight, learner.bring(on_views)(learner.quantize_int8, weight)))
    for each, result in found:
        check_within_half_a_step(result, each, f"of a matrix {tuple(each.shape)} in {str(each.dtype).removeprefix('torch.')}")
    holds(bool((found[0][1][0] != 0).any()), "all codes are 0")
    check_device_of_result(learner, torch.empty(n.m, n.n, dtype=torch.int8), learner.bring(CodesOf)(learner.quantize_int8), weight)


# ---- QuantizedLinear


def linear_of(weight, bias):
    """A linear layer with these numbers; brought to the far side."""
    linear = nn.Linear(weight.size(1), weight.size(0), bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def numbers(seed, m, n, bias=True, dtype=torch.float64):
    """A weight whose rows have different sizes, and a bias."""
    weight = tensor(seed, m, n, dtype=dtype) * torch.logspace(-1, 1, m, dtype=dtype)[:, None]
    return weight, tensor(seed + 1, m, dtype=dtype) if bias else None


def rounded(weight):
    """codes * scale, calculated by the test."""
    scale = weight.abs().amax(1, keepdim=True) / 127
    return (weight / scale).round() * scale


def stored_matrix(layer, weight):
    """codes * scale, as the layer has them: the scale may have been computed in float32."""
    kept = buffers(layer)
    codes, scale = shaped(kept.get("weight"), tuple(weight.shape), "the buffer weight", torch.int8), shaped(kept.get("scale"), (weight.size(0),), "the buffer scale")
    matrix = codes.to(weight.dtype) * scale[:, None]
    close(matrix, rounded(weight), "weight * scale", tol=1e-6)
    return matrix


@exercise("QuantizedLinear", weight=4)
@settings(max_examples=3)
@given(n=distinct("B", "T", m=(5, 7), n=(6, 9)), seed=seeds)
def test_the_output_is_that_of_the_rounded_matrix(learner, n, seed):
    """x (..., n) -> (..., m): the linear map with the matrix weight * scale, and the bias if there is one, in square layers too."""
    found = []
    for m, bias in ((n.m, True), (n.n, True), (n.m, False)):
        weight, shift = numbers(seed, m, n.n, bias)
        mine = learner.QuantizedLinear(learner.bring(linear_of)(weight, shift))
        for shape in ((n.n,), (n.B, n.n), (n.B, n.T, n.n)):
            x = tensor(seed + 7, *shape, dtype=torch.float64)
            found.append((mine, mine(x), x, weight, shift))
        found.append((mine, learner.bring(on_views)(mine, x), x, weight, shift))
    for mine, got, x, weight, shift in found:
        what = f"the output of a layer {'without' if shift is None else 'with'} bias"
        close(got, F.linear(x, rounded(weight), shift), what, tol=1e-6)
        close(got, F.linear(x, stored_matrix(mine, weight), shift), f"{what}, in float64,", tol=1e-9)


@exercise("QuantizedLinear", weight=2)
@few
@given(n=matrices, seed=seeds)
def test_the_error_is_at_most_half_a_step_times_the_input(learner, n, seed):
    """Each output differs from that of the linear layer by at most half a step of its row times the sum of |x|."""
    weight, shift = numbers(seed, n.m, n.n)
    linear = learner.bring(linear_of)(weight, shift)
    x = tensor(seed + 3, 20, n.n, dtype=torch.float64)
    got = shaped(learner.QuantizedLinear(linear)(x), (20, n.m), "the output", torch.float64)
    most = 0.5001 * (weight.abs().amax(1) / 127) * x.abs().sum(1, keepdim=True)
    excess = (got - F.linear(x, weight, shift)).abs() - most
    holds(bool((excess <= 0).all()), f"an output is off by {float(excess.max()):.3g} more than half a step times the sum of |x| allows")


@exercise("QuantizedLinear", weight=3)
@few
@given(n=matrices, seed=seeds)
def test_it_stores_codes_scale_and_bias_as_buffers(learner, n, seed):
    """weight (int8), scale and bias are buffers and in the state dict, there is no parameter, and no matrix of floats is kept; without a bias, bias is None."""
    weight, shift = numbers(seed, n.m, n.n, dtype=torch.float32)
    mine, bare = (learner.QuantizedLinear(learner.bring(linear_of)(weight, b)) for b in (shift, None))
    stored, kept, trained = state(mine), buffers(mine), parameters(mine)
    without, missing = state(bare), bare.bias
    x = tensor(seed + 3, 4, n.n)
    outputs = mine(x), bare(x)
    floats = learner.bring(float_matrices)(mine)
    same(sorted(stored), ["bias", "scale", "weight"], "the names in the state dict")
    same(sorted(kept), ["bias", "scale", "weight"], "the names of the buffers")
    same(sorted(trained), [], "the names of the parameters")
    same((sorted(without), missing), (["scale", "weight"], None), "the names in the state dict, and bias, of a layer without bias")
    shaped(stored["weight"], (n.m, n.n), "the buffer weight", torch.int8)
    close(shaped(stored["scale"], (n.m,), "the buffer scale", torch.float32), weight.abs().amax(1) / 127, "the buffer scale")
    close(stored["weight"].float() * stored["scale"][:, None], rounded(weight), "weight * scale")
    close(stored["bias"], shift, "the buffer bias")
    close(outputs[0], F.linear(x, rounded(weight), shift), "the output")
    close(outputs[1], F.linear(x, rounded(weight)), "the output of a layer without bias")
    holds(not floats, f"the layer keeps a matrix of floats ({', '.join(floats)}), so it needs more memory than before")


def float_matrices(layer):
    """The names of all floating matrices that the layer can reach; brought to the far side."""
    found = []
    for module in layer.modules():
        things = {**vars(module), **module._parameters, **module._buffers}
        found += [name for name, value in things.items() if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 1]
        found += [name for name, value in vars(module).items() if any(isinstance(each, nn.Linear) for each in (value if isinstance(value, list | tuple) else [value]))]
        found += [name for name, value in module._modules.items() if isinstance(value, nn.Linear)]
    return found


@exercise("QuantizedLinear", weight=2)
@few
@given(n=matrices, seed=seeds)
def test_it_shares_nothing_with_the_linear_layer(learner, n, seed):
    """Training the linear layer afterwards does not change the quantized one, nor the other way round, and no buffer is part of the linear layer's graph."""
    weight, shift = numbers(seed, n.m, n.n)
    linear = learner.bring(linear_of)(weight, shift)
    mine, x = learner.QuantizedLinear(linear), tensor(seed + 3, 4, n.n, dtype=torch.float64)
    unchanged, graph, frozen = parameters(linear), learner.bring(keeps_a_graph)(mine), learner.bring(frozen_parameters)(linear)
    load(linear, {"weight": weight + 1.0, "bias": shift - 1.0})
    got = mine(x)
    close(unchanged["weight"], weight, "the linear layer's weight after it was quantized", tol=0.0)
    same(frozen, [], "the list of the linear layer's parameters that it can no longer train")
    close(got, F.linear(x, rounded(weight), shift), "the output after the linear layer has changed", tol=1e-6)
    found = f"{' and '.join(graph)} of the quantized layer"
    holds(not graph, f"{found} should not carry gradient to the linear layer: detach its weight and bias before you store what is made of them")


def keeps_a_graph(layer):
    """The names of buffers that require gradient; brought to the far side."""
    return sorted(name for name, value in layer._buffers.items() if value is not None and value.requires_grad)


def frozen_parameters(linear):
    """The names of parameters without gradient; brought to the far side."""
    return [name for name, value in linear.named_parameters() if not value.requires_grad]


@exercise("QuantizedLinear", weight=2)
@few
@given(n=matrices, seed=seeds)
def test_gradient_reaches_the_input(learner, n, seed):
    """The gradient reaches x, through the matrix weight * scale."""
    weight, shift = numbers(seed, n.m, n.n)
    mine = learner.QuantizedLinear(learner.bring(linear_of)(weight, shift))
    x, cotangent = tensor(seed + 3, 4, n.n, dtype=torch.float64), tensor(seed + 4, 4, n.m, dtype=torch.float64)
    got = gradients(mine, x, cotangent=cotangent)
    close(got.output, F.linear(x, rounded(weight), shift), "the output", tol=1e-6)
    holds(got.inputs[0] is not None, "no gradient reaches x: somewhere the output is cut off from it")
    close(got.inputs[0], cotangent @ rounded(weight), "the gradient of x", tol=1e-6)


def restored(make, linear, other, x):
    """The output of a layer made from `other` that was used, has loaded the state dict of one made from `linear`, and then computes in float64; brought."""
    layer = make(other)
    layer(x)
    layer.load_state_dict(make(linear).state_dict())
    return layer.double()(x.double())


@exercise("QuantizedLinear")
@few
@given(n=matrices, seed=seeds)
def test_it_follows_dtype_and_state_dict(learner, n, seed):
    """The output has the dtype of x, whatever the linear layer had; a state dict that is loaded, also into a layer that was used, brings codes, scale and bias along."""
    weight, shift = numbers(seed, n.m, n.n, dtype=torch.float32)
    make = learner.bring(linear_of)
    mine, x = learner.QuantizedLinear(make(weight, shift)), tensor(seed + 3, 4, n.n)
    double = learner.QuantizedLinear(make(weight.double(), shift.double()))
    results = mine(x), mine(x.double()), double(x)
    loaded = learner.bring(restored)(learner.QuantizedLinear, make(weight, shift), make(*numbers(seed + 5, n.m, n.n, dtype=torch.float32)), x)
    expected = F.linear(x.double(), rounded(weight.double()), shift.double())
    close(results[0], expected.float(), "the output for float32")
    close(results[1], expected, "the output of a float32 layer for float64", tol=1e-5)
    close(results[2], expected.float(), "the output of a float64 layer for float32")
    close(loaded, expected, "the output of another layer with the state dict of the first one, converted with .double(),", tol=1e-5)
