"""Chapter 14, fourth part: a sliding window, as a mask and with work that grows like the length."""

import torch
from attention_groups import double_qkv, fixed_sizes, group_sizes
from backward_laws import on_views
from calls import call_without_gradient
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same, sizes
from grader.verdict.memory import watch_call, watch_growth
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import after_overwriting
from module_pairs import compare_gradient
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
T, D, WINDOW = 256, 4, 8  # where memory and work are measured


def band(q_len, k_len, window):
    """The mask from its definition: the query at position p sees the keys from p - window + 1 to p."""
    positions, keys = torch.arange(k_len - q_len, k_len)[:, None], torch.arange(k_len)
    return (keys > positions - window) & (keys <= positions)


# ---- sliding_window_mask


@exercise("sliding_window_mask", weight=3)
@given(n=distinct("T", "window", T=(4, 8), window=(1, 6)))
def test_each_query_sees_its_window(learner, n):
    """The query at position p sees the keys from p - window + 1 to p, as far as they exist, and no other."""
    same(learner.sliding_window_mask(n.T, n.window), band(n.T, n.T, n.window), "the mask")


@exercise("sliding_window_mask", weight=3)
@given(n=distinct("q_len", "k_len", "window", q_len=(1, 4), k_len=(5, 9), window=(1, 4)))
def test_fewer_queries_than_keys_are_the_last_positions(learner, n):
    """With more keys than queries, query i is at position k_len - q_len + i."""
    same(learner.sliding_window_mask(n.q_len, n.window, n.k_len), band(n.q_len, n.k_len, n.window), "the mask")


@exercise("sliding_window_mask")
@few
@given(n=distinct("q_len", "k_len", q_len=(2, 5), k_len=(6, 9)))
def test_the_smallest_and_the_largest_window(learner, reference, n):
    """A window of 1 leaves each query its own position, and a window as long as the text, or longer, is the causal mask."""
    one, all_keys, longer = (learner.sliding_window_mask(n.q_len, window, n.k_len) for window in (1, n.k_len, n.k_len + 7))
    same(one, band(n.q_len, n.k_len, 1), "the mask with window = 1")
    same(all_keys, reference.causal_mask(n.q_len, n.k_len), "the mask with window = k_len")
    same(longer, reference.causal_mask(n.q_len, n.k_len), "the mask with window = k_len + 7")


@exercise("sliding_window_mask")
def test_the_mask_of_the_lesson(learner):
    """Window 2 over 4 positions: [1,0,0,0], [1,1,0,0], [0,1,1,0], [0,0,1,1], as a bool tensor; each call makes a new one."""
    expected = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], dtype=torch.bool)
    first, again = learner.sliding_window_mask(4, 2), learner.bring(after_overwriting)(learner.sliding_window_mask, 4, 2)
    same(first, expected, "the mask of 4 positions with window = 2")
    same(again, expected, "a second mask of 4 positions with window = 2, after the caller has overwritten the first one,")


@exercise("sliding_window_mask", weight=2)
def test_a_window_has_at_least_one_position(learner):
    """window below 1 raises a ValueError that names it."""
    same(learner.sliding_window_mask(5, 2), band(5, 5, 2), "the mask of 5 positions with window = 2")
    for window in (0, -2):
        refuses(lambda window=window: learner.sliding_window_mask(5, window), naming={"window": window}, because="a query sees at least its own position")


# ---- windowed_attention


def windowed(attention, q, k, v, mask):
    return attention(q, k, v, mask)[0]


def compare_with_masked(learner, reference, q, k, v, window):
    """Output and gradients are those of chapter 3's attention under the mask."""
    got = gradients(learner.windowed_attention, q, k, v, window)
    expected = gradients(reference.bring(windowed), reference.scaled_dot_product_attention, q, k, v, band(q.size(-2), k.size(-2), window))
    with check:
        close(got.output, expected.output, f"the output with window = {window}")
    for i, name in enumerate("qkv"):
        with check:
            compare_gradient(got.inputs[i], expected.inputs[i + 1], f"{name} with window = {window}")


@exercise("windowed_attention", weight=4)
@given(n=distinct("B", "H", "d", "d_v", "window", T=(7, 11), window=(2, 5)), lead=st.integers(0, 2), seed=seeds)
def test_windowed_attention_is_attention_under_the_window_mask(learner, reference, n, lead, seed):
    """Output and gradients are those of attention under sliding_window_mask, whether the window divides the length or not."""
    n.Tq = n.Tk = n.T
    compare_with_masked(learner, reference, *double_qkv(seed, n, lead=lead), n.window)


@exercise("windowed_attention", weight=2)
@given(n=group_sizes, window=st.integers(2, 5), seed=seeds)
def test_windowed_queries_are_the_last_positions(learner, reference, n, window, seed):
    """With fewer queries than keys, query i is at position Tk - Tq + i."""
    compare_with_masked(learner, reference, *double_qkv(seed, n), window)


@exercise("windowed_attention", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_a_window_of_one_and_a_window_over_everything(learner, reference, n, seed):
    """With a window of 1 each query gets the value at its own position; with a window of Tk, or above, the attention is causal."""
    q, k, v = double_qkv(seed, n)
    own, everything, more = (learner.windowed_attention(q, k, v, window) for window in (1, n.Tk, 1000))
    causal = reference.scaled_dot_product_attention(q, k, v, band(n.Tq, n.Tk, n.Tk))[0]
    close(own, v[..., n.Tk - n.Tq :, :], "the output with window = 1")
    close(everything, causal, "the output with window = Tk")
    close(more, causal, "the output with window = 1000")


@exercise("windowed_attention", weight=2)
@few
@given(n=distinct("B", "H", "d", "d_v", T=(7, 11)), seed=seeds)
def test_keys_outside_the_window_change_nothing(learner, reference, n, seed):
    """A different key and value at one position changes the outputs of that position and of the next window - 1, and of no other."""
    n.Tq = n.Tk = n.T
    q, k, v = double_qkv(seed, n)
    window, t = 3, seed % n.T
    before = learner.windowed_attention(q, k, v, window)
    k[:, :, t], v[:, :, t] = 2.0, 3.0
    after = learner.windowed_attention(q, k, v, window)
    outside = [i for i in range(n.T) if not t <= i < t + window]
    close(after, reference.scaled_dot_product_attention(q, k, v, band(n.T, n.T, window))[0], "the output after the change")
    close(after[:, :, outside], before[:, :, outside], f"the output at positions whose window does not contain position {t}, once that token has changed,")


def long_qkv(seed, length=T):
    return tuple(tensor(seed + i, 1, 1, length, D) for i in range(3))


@exercise("windowed_attention", weight=4)
def test_no_tensor_is_as_large_as_all_scores(learner, reference):
    """With 256 positions and a window of 8, no tensor has a quarter of the 256 × 256 scores: neither scores nor a mask."""
    sizes(B=1, H=1, T=T, d=D, window=WINDOW)
    q, k, v = long_qkv(1)
    watched = watch_call(learner, learner.windowed_attention, q, k, v, WINDOW, largest=T * T / 4)
    close(watched.result, reference.scaled_dot_product_attention(q, k, v, band(T, T, WINDOW))[0], "the output")
    watched.check()


@exercise("windowed_attention", weight=16)
def test_the_work_grows_like_the_length(learner, reference):
    """With a window of 8, 256 positions take at most 2.2 times as many multiplications as 128, not 4 times; so too if only the last half are queries."""
    sizes(B=1, H=1, T=T, d=D, window=WINDOW)
    small, large = long_qkv(1, T // 2), long_qkv(2)
    halves = [(q[..., q.size(-2) // 2 :, :], k, v) for q, k, v in (small, large)]
    whole = watch_growth(learner, learner.windowed_attention, small, large, WINDOW, ratio=2.2)
    half = watch_growth(learner, learner.windowed_attention, *halves, WINDOW, ratio=2.2)
    for watched, arguments in ((whole, large), (half, halves[1])):
        close(watched.result, reference.windowed_attention(*arguments, WINDOW), "the output")
        watched.check()


@exercise("windowed_attention")
def test_windowed_attention_trains_after_calls_without_gradient(learner, reference):
    """A call in torch.inference_mode(), or in torch.no_grad(), gives the same output, and leaves nothing behind that a later call with gradient cannot use."""
    T, window = 17, 7  # no other test has these sizes: what is kept for them was made without gradient
    sizes(B=1, H=1, T=T, d=D, window=window)
    q, k, v = (x.double() for x in long_qkv(3, T))
    quiet = call_without_gradient(learner, learner.windowed_attention, q, k, v, window)
    expected = reference.scaled_dot_product_attention(q, k, v, band(T, T, window))[0]
    compare_with_masked(learner, reference, q, k, v, window)
    for mode, got in quiet.items():
        close(got, expected, f"the output in {mode}")


@exercise("windowed_attention")
def test_windowed_attention_needs_a_window(learner, reference):
    """window below 1 raises a ValueError that names it."""
    q, k, v = (x.float() for x in double_qkv(0, fixed_sizes()))
    close(learner.windowed_attention(q, k, v, 2), reference.windowed_attention(q, k, v, 2), "the output with window = 2")
    for window in (0, -2):
        refuses(lambda window=window: learner.windowed_attention(q, k, v, window), naming={"window": window}, because="a query sees at least its own position")


@exercise("windowed_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_windowed_attention_keeps_dtype_and_device(learner, reference, n, seed):
    """The output has the dtype and the device of the queries: float32 gives float32, bfloat16 gives bfloat16. q, k and v may be views."""
    q, k, v = (x.float() for x in double_qkv(seed, n, scale=1.0))
    got, rough = learner.windowed_attention(q, k, v, 3), learner.windowed_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), 3)
    views = learner.bring(on_views)(learner.windowed_attention, q, k, v, 3)
    expected = reference.windowed_attention(q, k, v, 3)
    close(got, expected, "the output")
    close(rough, expected.bfloat16(), "the output in bfloat16", tol=8e-2)
    close(views, expected, "the output of views")
    check_device_of_result(learner, got, learner.windowed_attention, q, k, v, 3)
