"""Chapter 12, second part: classifying a head by its pattern."""

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import same, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from strategies import seeds, tensor

# ---- classify_head


def with_row_0(rows):
    """A pattern (T, T) of the rows 1 and later, each as long as the keys it may attend to."""
    pattern = torch.zeros(len(rows) + 1, len(rows) + 1)
    pattern[0, 0] = 1.0
    for i, row in enumerate(rows, start=1):
        pattern[i, : i + 1] = torch.as_tensor(row)
    return pattern


def attending(T, column, mean, seed, spread=0.15):
    """Row i gives key column(i) about `mean`, that exactly on average; its other keys share the rest at random."""
    chance = torch.Generator().manual_seed(seed)
    shares = mean + spread * torch.linspace(-1, 1, T - 1)[torch.randperm(T - 1, generator=chance)]
    rows = []
    for i, share in enumerate(shares.tolist(), start=1):
        others = torch.rand(i + 1, generator=chance) + 0.1
        others[column(i)] = 0.0
        row = others / others.sum() * (1 - share)
        row[column(i)] = share
        rows.append(row)
    return with_row_0(rows)


def previous(i):
    return i - 1


def first(i):
    return 0


def itself(i):
    return i


def elsewhere(i):
    """A key that is not the first, the previous or the own one, if there is one."""
    return 1 + 7 * i % (i - 2) if i > 2 else i % 2


def even(T, seed, distance):
    """Every row just that far from even attention: half of its keys get more, the other half less."""
    rows = []
    for i in range(1, T):
        half = (i + 1) // 2
        signs = torch.tensor([1.0] * half + [-1.0] * half + [0.0] * ((i + 1) % 2))
        order = torch.randperm(i + 1, generator=torch.Generator().manual_seed(seed + i))
        rows.append(1 / (i + 1) + distance / half * signs[order])
    return with_row_0(rows)


def seen(pattern):
    """A head in words: the numbers its name depends on."""
    rows = pattern[1:].double()
    T = len(pattern)
    equal = torch.ones(T, T, dtype=torch.float64).tril()[1:]
    distance = (rows - equal / equal.sum(-1, keepdim=True)).abs().sum(-1).mean() / 2
    places = [rows.diagonal().mean(), rows[:, 0].mean(), rows.diagonal(1).mean()]
    means = " / ".join(f"{value:.2f}" for value in places)
    return f"T = {T}, mean weights on previous / first / self {means}, {distance:.2f} from even, mean largest weight {rows.amax(-1).mean():.2f}"


def named(learner, *cases):
    """Each case: a pattern and its name."""
    got = [learner.classify_head(pattern) for pattern, _ in cases]
    for name, (pattern, right) in zip(got, cases):
        same(name, right, f"the name of a head ({seen(pattern)})")


@exercise("classify_head", weight=3)
@settings(max_examples=3)
@given(T=st.integers(8, 14), seed=seeds)
def test_a_head_is_named_after_the_position_it_attends_to(learner, T, seed):
    """A mean weight above 0.6 on the previous, the first or the own position gives the name; up to 0.6 it does not."""
    sizes(T=T)
    places = {"previous": previous, "first": first, "self": itself}
    cases = [(attending(T, place, 0.68, seed), name) for name, place in places.items()]
    cases += [(attending(T, place, 0.54, seed + 1), "mixed") for place in places.values()]
    named(learner, *cases, (attending(24, previous, 0.4, seed, spread=0.02), "mixed"), (even(T, seed, 0.05), "uniform"))


@exercise("classify_head", weight=2)
def test_row_0_does_not_count(learner):
    """Position 0 can only attend to itself: means are taken over all rows from 1 on, and divided by their number."""
    named(
        learner,
        (with_row_0([[0.3, 0.7], [0.6, 0.35, 0.05], [0.66, 0.04, 0.25, 0.05]]), "mixed"),  # with row 0: first
        (with_row_0([[0.48, 0.52], [0.1, 0.38, 0.52], [0.02, 0.06, 0.4, 0.52]]), "mixed"),  # self
        (with_row_0([[0.28, 0.72], [0.72, 0.2, 0.08]]), "mixed"),  # sparse
        (with_row_0([[0.3, 0.7], [0.53, 0.27, 0.2]]), "mixed"),  # uniform
        (with_row_0([[0.72, 0.28], [0.14, 0.72, 0.14], [0.1, 0.1, 0.72, 0.08]]), "previous"),
        (with_row_0([[0.28, 0.72], [0.04, 0.24, 0.72], [0.12, 0.1, 0.06, 0.72]]), "self"),
        (attending(5, elsewhere, 0.87, 3, spread=0.1), "sparse"),
        (with_row_0([[0.1, 0.9], [0.5, 0.15, 0.35]]), "self"),  # without row 1: mixed
        (with_row_0([[0.5, 0.5], [0.05, 0.9, 0.05], [0.9, 0.04, 0.03, 0.03]]), "mixed"),  # without row 1: sparse
        (with_row_0([[0.0, 1.0], [0.0, 1.0, 0.0], [0.3, 0.2, 0.2, 0.3]]), "mixed"),  # without the last: sparse
    )


@exercise("classify_head", weight=2)
@settings(max_examples=2)
@given(T=st.sampled_from([16, 40, 128]), seed=seeds)
def test_a_uniform_head_gives_equal_weight_to_each_allowed_key(learner, T, seed):
    """Row i has i + 1 keys to spread over; a head near 1 / (i + 1) on each is uniform at any length, and a sharp one never is."""
    sizes(T=T)
    chance = with_row_0([torch.softmax(tensor(seed + i, i + 1, scale=1.5), -1) for i in range(1, T)])
    sharp = attending(T, elsewhere, 0.9, seed, spread=0.05)
    named(learner, (even(T, seed, 0.03), "uniform"), (even(128, seed, 0.03), "uniform"), (sharp, "sparse"), (chance, "mixed"))


@exercise("classify_head", weight=2)
@settings(max_examples=3)
@given(T=st.integers(12, 16), seed=seeds)
def test_the_distance_from_uniform_is_a_mean_over_rows(learner, T, seed):
    """A row's distance is half the sum of its absolute differences; a mean below 0.15 is uniform, even if one row is far off."""
    sizes(T=T)
    one_off = even(T, seed, 0.02)
    one_off[T - 1] = torch.eye(T)[2]
    cases = [(even(T, seed, 0.1), "uniform"), (even(T, seed, 0.24), "mixed"), (one_off, "uniform")]
    named(learner, *cases, (attending(128, elsewhere, 0.7, seed), "mixed"))


@exercise("classify_head", weight=2)
@settings(max_examples=3)
@given(T=st.integers(10, 16), seed=seeds)
def test_a_sparse_head_has_one_large_weight_in_most_rows(learner, T, seed):
    """If no position gives the name, a mean largest weight above 0.8 is sparse, even if single rows have smaller ones; up to 0.8 it is mixed."""
    sizes(T=T)
    sharp, soft = (attending(T, elsewhere, mean, seed, spread=0.02) for mean in (0.95, 0.7))
    softer, one_sharp = sharp.clone(), soft.clone()
    softer[T - 1], one_sharp[T - 1] = torch.full((T,), 1 / T), torch.eye(T)[2]
    now_here_now_there = attending(T, lambda i: (0, i - 1, i)[i % 3], 0.9, seed, spread=0.05)
    cases = [(sharp, "sparse"), (soft, "mixed"), (softer, "sparse"), (one_sharp, "mixed"), (now_here_now_there, "sparse")]
    named(learner, *cases)


@exercise("classify_head", weight=2)
def test_the_greatest_mean_weight_decides(learner):
    """What counts is the mean weight, not how many rows have their largest weight there; of two means above 0.6 the greater one gives the name."""
    often = with_row_0([[0.53, 0.47]] + [[0.45 / (i - 1)] * (i - 1) + [0.55, 0.0] for i in range(2, 12)])
    sometimes = with_row_0([[0.0] * (i - 1) + ([0.98, 0.02] if i % 4 else [0.12, 0.88]) for i in range(1, 13)])
    named(
        learner,
        (with_row_0([[1.0, 0.0], [0.3, 0.7, 0.0]]), "previous"),
        (with_row_0([[1.0, 0.0], [0.7, 0.3, 0.0]]), "first"),
        (with_row_0([[0.1, 0.9], [0.1, 0.0, 0.9]]), "self"),
        (often, "mixed"),
        (sometimes, "previous"),
    )


def at_a_limit(step):
    """A head in float64 whose mean weight on the previous position is 0.6 + step."""
    share = 0.6 + step
    rest = (1 - share) / 2
    return torch.tensor([[1.0, 0.0, 0.0], [share, 1 - share, 0.0], [rest, share, rest]], dtype=torch.float64)


def near_even(distance):
    """A head in float64 that is just that far from even attention in every row."""
    third = 1 / 3
    rows = [[1.0, 0.0, 0.0], [0.5 + distance, 0.5 - distance, 0.0], [third + distance, third - distance, third]]
    return torch.tensor(rows, dtype=torch.float64)


@exercise("classify_head")
def test_patterns_of_any_floating_type(learner):
    """A pattern in float64 or in bfloat16 gets the same names, and so does a view. In float64 a billionth decides at a limit."""
    cases = [(attending(11, place, 0.7, 5), name) for place, name in ((previous, "previous"), (itself, "self"))]
    cases += [(even(11, 5, 0.05), "uniform"), (attending(11, elsewhere, 0.9, 5, spread=0.05), "sparse"), (attending(11, elsewhere, 0.6, 5), "mixed")]
    named(learner, *((pattern.to(dtype), name) for dtype in (torch.float64, torch.bfloat16) for pattern, name in cases))
    views = [learner.bring(of_views)(learner.classify_head, pattern) for pattern, _ in cases]
    for name, (pattern, right) in zip(views, cases):
        same(name, right, f"the name of a head whose pattern is not contiguous ({seen(pattern)})")
    named(learner, *((at_a_limit(step), name) for step, name in ((1e-9, "previous"), (-1e-9, "mixed"))))
    named(learner, *((near_even(0.15 + step), name) for step, name in ((1e-9, "mixed"), (-1e-9, "uniform"))))
