"""Chapter 5, second part: LayerNorm and RMSNorm. The rest is in test_ch05_layers.py and test_ch05_layers_feedforward.py."""

import torch
from devices_and_dtypes import check_device_of_result, check_dtype_and_accuracy, dtype_and_accuracy
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, same
from hypothesis import given, settings
from memory_layouts import of_view
from module_pairs import compare_parameter_gradients
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
shapes = distinct("B", "T", "D", D=(3, 8))
ROUGHLY = 1e-3  # mean(x^2) - mean(x)^2 is the variance too, though it loses digits where the mean is large


def pair(learner, reference, kind, n, seed, **options):
    """The learner's norm and the reference's with the same random parameters."""
    model = getattr(reference, kind)(n.D, **options)
    values = randomise(model, seed)
    mine = getattr(learner, kind)(n.D, **options)
    load(mine, values)
    return mine, model


def uneven(seed, n, dtype=torch.float32):
    """Vectors (B, T, D), each with its own mean and spread."""
    middle, spread = tensor(seed + 1, n.B, n.T, 1, scale=2.0), 0.7 + tensor(seed + 2, n.B, n.T, 1).abs()
    return (tensor(seed, n.B, n.T, n.D, dtype=torch.float64) * spread + middle).to(dtype)


def small(seed, n, scale=1e-3):
    """Vectors so small that eps is a good part of what is under the root, with a mean as large as their spread."""
    return tensor(seed, n.B, n.T, n.D, scale=scale) + tensor(seed + 1, n.B, n.T, 1, scale=scale)


def same_gradients(got, expected, when=""):
    with check:
        close(got.output, expected.output, f"the output{when}", tol=ROUGHLY)
    with check:
        close(got.inputs[0], expected.inputs[0], f"the gradient of x{when}", tol=ROUGHLY)
    compare_parameter_gradients(got.parameters, expected.parameters, ROUGHLY, when)


def keeps_dtype_and_device(learner, reference, kind, n, seed):
    """x and parameters in float64, in bfloat16, x alone in bfloat16, and float16, where the square of 300 is infinite: the result has the dtype of x, and is right."""
    mine, model = pair(learner, reference, kind, n, seed)
    ask, x = learner.bring(dtype_and_accuracy), tensor(seed, n.B, n.T, n.D, scale=2.0, dtype=torch.float64)
    half, large = x.bfloat16(), (300.0 * x).half()
    expected = [model.double()(x), model.bfloat16()(half), model.half()(large), model.float()(half)]
    got = [ask(mine.double(), x, expected[0], 1e-9), ask(mine.bfloat16(), half, expected[1], 8e-2), ask(mine.half(), large, expected[2], 2e-2)]
    got.append(ask(mine.float(), half, expected[3], 8e-2))
    words = ["x and parameters in float64", "x and parameters in bfloat16", "numbers in the hundreds in float16, whose squares need float32"]
    words.append("x in bfloat16 and parameters in float32")
    for found, right, what in zip(got, expected, words):
        check_dtype_and_accuracy(found, right, f"the result for {what}")
    check_device_of_result(learner, x.float(), getattr(learner, kind)(n.D), uneven(seed, n))


def alone(learner, reference, kind, n, seed):
    """Each position is independent of its neighbours, for any number of leading axes."""
    mine, model = pair(learner, reference, kind, n, seed)
    x = uneven(seed, n)
    changed = x.clone()
    changed[-1, -1] = 7.0 * tensor(seed + 3, n.D)
    got = mine(x), mine(changed), mine(x[:1]), mine(x[0]), mine(x[0, 0]), mine(x[:, None]), learner.bring(of_view)(mine, x)
    expected = model(x)
    close(got[0], expected, "the result", tol=ROUGHLY)
    close(got[1], model(changed), "the result after the last vector was changed", tol=ROUGHLY)
    close(got[2], expected[:1], "the result for the first text alone", tol=ROUGHLY)
    close(got[3], expected[0], "the result for x of shape (T, D)", tol=ROUGHLY)
    close(got[4], expected[0, 0], "the result for x of shape (D,)", tol=ROUGHLY)
    close(got[5], expected[:, None], "the result for x of shape (B, 1, T, D)", tol=ROUGHLY)
    close(got[6], expected, "the result for a view, such as a transposed tensor,", tol=ROUGHLY)


def remembers_nothing(learner, reference, kind, n, seed):
    """The result is the same in eval mode, regardless of earlier training inputs."""
    mine, model = pair(learner, reference, kind, n, seed)
    x, other = uneven(seed, n), uneven(seed + 5, n) * 4
    before = mine(x)
    mine(other)
    mine.eval()
    got = mine(x)
    close(before, model(x), "the result in training", tol=ROUGHLY)
    close(got, model(x), "the result in eval mode, after another batch in training,", tol=ROUGHLY)


def begins_as(learner, reference, kind, n, seed, start):
    """A new norm's parameters, its state dict and its result."""
    mine, model, x = getattr(learner, kind)(d_model=n.D), getattr(reference, kind)(n.D), uneven(seed, n)
    own, saved, result = parameters(mine), state(mine), mine(x)
    same(sorted(own), sorted(start), f"the list of parameters of {kind}")
    for name, value in start.items():
        close(own[name], torch.full((n.D,), value), f"`{name}` of a new {kind}", tol=0.0)
    same(sorted(saved), sorted(start), "the list of names in the state dict")
    close(result, model(x), f"what a new {kind} gives", tol=ROUGHLY)


# ---- LayerNorm


@exercise("LayerNorm", weight=4)
@given(n=shapes, seed=seeds)
def test_layer_norm_centres_scales_and_then_stretches_and_shifts(learner, reference, n, seed):
    """Each vector loses its mean, is divided by its standard deviation, then each feature is multiplied by its weight and gets its bias."""
    mine, model = pair(learner, reference, "LayerNorm", n, seed)
    x = uneven(seed, n)
    close(mine(x), model(x), "the result", tol=ROUGHLY)


@exercise("LayerNorm", weight=2)
@few
@given(n=distinct("B", "T", D=(2, 4)), seed=seeds)
def test_variance_is_divided_by_d(learner, reference, n, seed):
    """The variance is the mean of the squared deviations, divided by D and not by D - 1: with D = 2 a new norm gives -1 and 1."""
    mine = learner.LayerNorm(n.D)
    x = uneven(seed, n) * 5
    result, two = mine(x), learner.LayerNorm(2)(torch.tensor([3.0, 7.0]))
    close(result, reference.LayerNorm(n.D)(x), "the result of a new LayerNorm", tol=ROUGHLY)
    close(two, torch.tensor([-1.0, 1.0]), "the result of a new LayerNorm for (3, 7)", tol=ROUGHLY)


@exercise("LayerNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_a_new_layer_norm_gives_mean_zero_and_variance_one(learner, reference, n, seed):
    """`weight` starts at ones and `bias` at zeros, both (D,), and there are no other parameters: every vector of the result has mean 0 and variance 1."""
    begins_as(learner, reference, "LayerNorm", n, seed, {"weight": 1.0, "bias": 0.0})


@exercise("LayerNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_shift_and_scale_of_a_vector_do_not_matter(learner, reference, n, seed):
    """A vector times a positive number plus another number gives the same result: (10001, 10002, 10006) gives that of (1, 2, 6)."""
    mine, model = pair(learner, reference, "LayerNorm", n, seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    stretch, move = 2 + tensor(seed + 1, n.B, n.T, 1).abs(), tensor(seed + 2, n.B, n.T, 1, scale=2.0)
    changed = x * stretch, x + move, x * stretch + move
    near = torch.tensor([1.0, 2.0, 6.0])
    far = learner.LayerNorm(3)(near + 10000)
    got = [mine(x), *map(mine, changed)]
    close(got[0], model(x), "the result", tol=ROUGHLY)
    close(far, reference.LayerNorm(3)(near), "the result of a new LayerNorm for (10001, 10002, 10006)", tol=ROUGHLY)
    for result, value, how in zip(got[1:], changed, ("stretched", "moved", "stretched and moved")):
        close(result, model(value), f"the result for x {how}", tol=ROUGHLY)


@exercise("LayerNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_a_constant_vector_gives_the_bias(learner, reference, n, seed):
    """A vector of equal numbers gives `bias`, never NaN, and its gradient is finite."""
    mine, model = pair(learner, reference, "LayerNorm", n, seed)
    x = uneven(seed, n)
    x[0, 0], x[-1, -1], x[0, -1] = 0.0, 2.5, -1.0
    got = mine(x), gradients(mine, x)
    expected = model(x)
    close(got[0], expected, "the result where some vectors are constant", tol=ROUGHLY)
    close(got[0][0, 0], parameters(model)["bias"], "the result for a vector of zeros")
    same_gradients(got[1], gradients(model, x), " where some vectors are constant")


@exercise("LayerNorm", weight=3)
@few
@given(n=shapes, seed=seeds)
def test_eps_is_added_to_the_variance(learner, reference, n, seed):
    """eps is added to the variance under the root; vectors with a spread near 0.001 show it. The default is 1e-5."""
    x = small(seed, n)
    pairs = [pair(learner, reference, "LayerNorm", n, seed, **options) for options in ({}, {"eps": 1e-3}, {"eps": 1e-8})]
    got = [mine(x) for mine, _ in pairs]
    large = pairs[1][0](x * 1e3)
    for result, (_, model), word in zip(got, pairs, ("eps left at 1e-5", "eps=0.001", "eps=1e-8")):
        close(result, model(x), f"the result with {word}", tol=ROUGHLY)
    close(large, pairs[1][1](x * 1e3), "the result with eps=0.001 for vectors of usual size", tol=ROUGHLY)


@exercise("LayerNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_each_vector_is_normalised_alone(learner, reference, n, seed):
    """The result at a position depends on the vector there and on nothing else: not on its neighbours, not on the batch, not on axes in front."""
    alone(learner, reference, "LayerNorm", n, seed)


@exercise("LayerNorm", weight=3)
@few
@given(n=shapes, seed=seeds)
def test_gradients_of_layer_norm(learner, reference, n, seed):
    """x, `weight` and `bias` get the gradient of the whole formula: mean and variance depend on x too."""
    mine, model = pair(learner, reference, "LayerNorm", n, seed)
    x = uneven(seed, n)
    same_gradients(gradients(mine, x), gradients(model, x))


@exercise("LayerNorm")
@few
@given(n=shapes, seed=seeds)
def test_layer_norm_keeps_no_memory_of_batches(learner, reference, n, seed):
    """In training and in eval mode the result is the same, independent of earlier batches."""
    remembers_nothing(learner, reference, "LayerNorm", n, seed)


@exercise("LayerNorm")
@few
@given(n=shapes, seed=seeds)
def test_layer_norm_keeps_dtype_and_device(learner, reference, n, seed):
    """The result has the dtype and device of x; in float64 it has all its digits, and half precision is computed in float32."""
    keeps_dtype_and_device(learner, reference, "LayerNorm", n, seed)


# ---- RMSNorm


@exercise("RMSNorm", weight=4)
@given(n=shapes, seed=seeds)
def test_rms_norm_divides_by_the_root_mean_square(learner, reference, n, seed):
    """Each vector is divided by the root of the mean of its squares, then each feature is multiplied by its weight; no mean is subtracted."""
    mine, model = pair(learner, reference, "RMSNorm", n, seed)
    x = uneven(seed, n)
    close(mine(x), model(x), "the result")


@exercise("RMSNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_a_new_rms_norm_gives_mean_square_one(learner, reference, n, seed):
    """`weight`, (D,), starts at ones, and there is no other parameter: every vector of the result has a mean square of 1."""
    begins_as(learner, reference, "RMSNorm", n, seed, {"weight": 1.0})


@exercise("RMSNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_scale_does_not_matter_and_shift_does(learner, reference, n, seed):
    """A vector times a positive number gives the same result; a vector plus a number does not."""
    mine, model = pair(learner, reference, "RMSNorm", n, seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    stretch = 2 + tensor(seed + 1, n.B, n.T, 1).abs()
    got = mine(x), mine(x * stretch), mine(x + 3)
    close(got[0], model(x), "the result")
    close(got[1], model(x * stretch), "the result for x times a positive number")
    close(got[2], model(x + 3), "the result for x + 3")


@exercise("RMSNorm")
@few
@given(n=shapes, seed=seeds)
def test_a_vector_of_zeros_stays_zeros(learner, reference, n, seed):
    """A vector of zeros gives zeros, never NaN, and its gradient is finite."""
    mine, model = pair(learner, reference, "RMSNorm", n, seed)
    x = uneven(seed, n)
    x[0, 0], x[-1, -1] = 0.0, 0.0
    got = mine(x), gradients(mine, x)
    close(got[0], model(x), "the result where some vectors are zero")
    same_gradients(got[1], gradients(model, x), " where some vectors are zero")


@exercise("RMSNorm", weight=3)
@few
@given(n=shapes, seed=seeds)
def test_eps_is_added_to_the_mean_square(learner, reference, n, seed):
    """eps is added to the mean square under the root; numbers near 0.001 show it. The default is 1e-6."""
    x = small(seed, n)
    pairs = [pair(learner, reference, "RMSNorm", n, seed, **options) for options in ({}, {"eps": 1e-3}, {"eps": 1e-8})]
    got = [mine(x) for mine, _ in pairs]
    large = pairs[1][0](x * 1e3)
    for result, (_, model), word in zip(got, pairs, ("eps left at 1e-6", "eps=0.001", "eps=1e-8")):
        close(result, model(x), f"the result with {word}", tol=ROUGHLY)
    close(large, pairs[1][1](x * 1e3), "the result with eps=0.001 for vectors of usual size", tol=ROUGHLY)


@exercise("RMSNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_each_vector_is_scaled_alone(learner, reference, n, seed):
    """The result at a position depends on the vector there and on nothing else: not on its neighbours, not on the batch, not on axes in front."""
    alone(learner, reference, "RMSNorm", n, seed)


@exercise("RMSNorm", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_gradients_of_rms_norm(learner, reference, n, seed):
    """x and `weight` get the gradient of the whole formula: the mean square depends on x too."""
    mine, model = pair(learner, reference, "RMSNorm", n, seed)
    x = uneven(seed, n)
    same_gradients(gradients(mine, x), gradients(model, x))


@exercise("RMSNorm")
@few
@given(n=shapes, seed=seeds)
def test_rms_norm_keeps_no_memory_of_batches(learner, reference, n, seed):
    """In training and in eval mode the result is the same, independent of earlier batches."""
    remembers_nothing(learner, reference, "RMSNorm", n, seed)


@exercise("RMSNorm")
@few
@given(n=shapes, seed=seeds)
def test_rms_norm_keeps_dtype_and_device(learner, reference, n, seed):
    """The result has the dtype and device of x; in float64 it has all its digits, and half precision is computed in float32."""
    keeps_dtype_and_device(learner, reference, "RMSNorm", n, seed)
