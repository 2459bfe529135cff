"""Chapter 19, third part: what a training costs, the laws behind losses, and what a model repeats."""

from __future__ import annotations

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import seeds
from table_models import MODES_AT_FIRST, TableModel

few = settings(max_examples=3)


# ---- bits_per_byte


@exercise("bits_per_byte", weight=2)
@few
@given(loss=st.floats(0.5, 900), n_bytes=st.integers(2, 500))
def test_nats_become_bits_and_are_divided_by_the_bytes(learner, loss, n_bytes):
    """The sum of the losses, in nats, divided by log 2 and by the number of bytes."""
    sizes(n_bytes=n_bytes)
    close(learner.bits_per_byte(loss, n_bytes), loss / math.log(2) / n_bytes, f"the bits per byte of a loss of {loss:.3f} over {n_bytes} bytes")


@exercise("bits_per_byte", weight=2)
def test_a_coin_flip_for_each_byte_is_one_bit(learner):
    """A model that gives every byte the probability 1/2 needs 1 bit per byte, one with 1/256 needs 8; a perfect one needs 0."""
    got = [learner.bits_per_byte(10 * math.log(ways), 10) for ways in (2, 256, 1)]
    for mine, expected in zip(got, (1.0, 8.0, 0.0)):
        close(mine, expected, f"the bits per byte of a model that needs {expected:g} bits")


@exercise("bits_per_byte")
def test_a_text_without_bytes_is_refused(learner):
    """An n_bytes below 1 raises a ValueError that names n_bytes; 1 byte is fine."""
    one = learner.bits_per_byte(3.0, 1)
    for n_bytes in (0, -4):
        refuses(lambda n_bytes=n_bytes: learner.bits_per_byte(3.0, n_bytes), naming={"n_bytes": n_bytes}, because="a text has at least one byte")
    close(one, 3 / math.log(2), "the bits per byte of a loss of 3 over 1 byte")


# ---- training_flops


def exact_flops(V, D, L, F, n_tokens, length):
    """By going through the matrix products of one row of tokens forward; backward costs twice as much."""
    products = L * [(length, D, D)] * 4 + L * [(length, D, F), (length, F, D)] + L * [(length, D, length), (length, length, D)] + [(length, D, V)]
    return 3 * sum(2 * m * k * n for m, k, n in products) * n_tokens // length


def flops(learner, n_tokens, length, **options):
    config = {"vocab_size": 50, "max_len": 40, "d_model": 12, "n_heads": 3, "n_layers": 2} | options
    return learner.training_flops(learner.GPTConfig(**config), n_tokens, length), config


def check_pair(got, exact, estimate, what):
    is_pair = isinstance(got, (tuple, list)) and len(got) == 2 and all(isinstance(number, int) for number in got)
    holds(is_pair, f"training_flops should return two ints, (exact, 6 N D); it returned {got!r:.60}")
    close(float(got[0]), float(exact), f"the exact FLOPs {what}", tol=1e-9)
    close(float(got[1]), float(estimate), f"6 N D {what}", tol=1e-9)


def parameters_of(V, D, L, F, max_len, tied=True, table=True):
    """N: the head only if it is not tied, and positions only if they are a learned table."""
    block = 4 * (D * D + D) + (D * F + F) + (F * D + D) + 4 * D
    return V * D * (1 if tied else 2) + (max_len * D if table else 0) + L * block + 2 * D


@exercise("training_flops", weight=3)
@few
@given(heads=st.integers(2, 4), layers=st.integers(3, 4), d_ff=st.integers(17, 40), length=st.integers(5, 16), rows=st.integers(2, 9))
def test_every_matrix_product_is_counted(learner, heads, layers, d_ff, length, rows):
    """Forward: all linear layers of the blocks, scores and averages with all positions of a row, and the head; backward twice as much. The second number is 6 N D."""
    sizes(heads=heads, layers=layers, d_ff=d_ff, length=length)
    D = 4 * heads
    got, _ = flops(learner, rows * length, length, d_model=D, n_heads=heads, n_layers=layers, d_ff=d_ff)
    expected = exact_flops(50, D, layers, d_ff, rows * length, length), 6 * parameters_of(50, D, layers, d_ff, 40) * rows * length
    check_pair(got, *expected, f"of {rows} rows of {length} tokens")


@exercise("training_flops", weight=2)
def test_without_d_ff_it_is_four_times_the_width(learner):
    """If d_ff is None, the feed-forward layers are 4 · d_model wide."""
    got = flops(learner, 80, 8)[0], flops(learner, 80, 8, d_ff=48)[0]
    for mine in got:
        check_pair(mine, exact_flops(50, 12, 2, 48, 80, 8), 6 * parameters_of(50, 12, 2, 48, 40) * 80, "with d_model = 12")


@exercise("training_flops", weight=2)
def test_heads_and_positions_cost_no_products(learner):
    """More heads, another max_len and other positions do not change the exact FLOPs; N counts a learned table of positions, and an untied head once more."""
    changes = {
        "with 1 head": dict(n_heads=1), "with max_len = 90": dict(max_len=90), "with RoPE": dict(positions="rope", n_heads=2),
        "with sinusoidal positions": dict(positions="sinusoidal"), "with an untied head": dict(tie_weights=False), "with ALiBi": dict(positions="alibi"),
    }  # fmt: skip
    got = {what: flops(learner, 60, 6, **options) for what, options in changes.items()}
    for what, (mine, config) in got.items():
        N = parameters_of(50, 12, 2, 48, config["max_len"], config.get("tie_weights", True), config.get("positions", "learned") == "learned")
        check_pair(mine, exact_flops(50, 12, 2, 48, 60, 6), 6 * N * 60, what)


@exercise("training_flops", weight=2)
def test_long_rows_cost_more_for_each_token(learner):
    """The same tokens in rows twice as long cost more, because each is compared with twice as many positions; twice as many tokens cost exactly twice as much."""
    got = [flops(learner, tokens, length)[0] for tokens, length in ((160, 8), (160, 16), (320, 16), (7, 7), (2 * 10**13, 8))]
    for mine, (tokens, length) in zip(got, ((160, 8), (160, 16), (320, 16), (7, 7), (2 * 10**13, 8))):
        check_pair(mine, exact_flops(50, 12, 2, 48, tokens * length, length) // length, 6 * parameters_of(50, 12, 2, 48, 40) * tokens, f"of {tokens} tokens in rows of {length}")


# ---- fit_power_law


def law(a, b, c, x):
    return a + b * x**-c


def check_fit(fitted, a, b, c, x, what, share=0.002):
    """The fitted curve is the planted one at the points, and nearly so at ten times the largest x; a, b and c are near those planted."""
    fine = isinstance(fitted, (tuple, list)) and len(fitted) == 3 and all(isinstance(float(value), float) for value in fitted)
    holds(fine, f"fit_power_law should return three numbers, (a, b, c); it returned {fitted!r:.60}")
    A, B, C = map(float, fitted)
    spread = abs(law(a, b, c, min(x)) - law(a, b, c, max(x)))
    for place in (*x, 10 * max(x)):
        got, expected = law(A, B, C, place), law(a, b, c, place)
        limit = share * spread * (1 if place <= max(x) else 5)
        holds(abs(got - expected) <= limit, f"{what}: at x = {place:g} the fitted law gives {got:.5f}, and the true one {expected:.5f}; the fitted one is a = {A:.4g}, b = {B:.4g}, c = {C:.4g}")
    holds(abs(C - c) <= 0.05 * c + 5 * share * c, f"{what}: the fitted c is {C:.4f}; it should be {c:g}")


@exercise("fit_power_law", weight=3)
@few
@example(a=1.7, b=12.0, c=0.3, seed=1)
@given(a=st.floats(0.5, 3), b=st.floats(2, 40), c=st.floats(0.1, 1.2), seed=seeds)
def test_a_planted_law_is_found(learner, a, b, c, seed):
    """From points that lie exactly on y = a + b · x^(-c), the fit finds this law, at the points and beyond; the points may be in any order."""
    x = [1.0, 3.0, 9.0, 20.0, 55.0, 130.0, 400.0]
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).tolist()
    fitted = learner.fit_power_law([x[i] for i in order], [law(a, b, c, x[i]) for i in order])
    check_fit(fitted, a, b, c, x, f"from exact points of a = {a:.3f}, b = {b:.3f}, c = {c:.3f}")


@exercise("fit_power_law", weight=2)
def test_the_size_of_x_makes_no_difference(learner):
    """x may be as large as 10^18 FLOPs or as small as 10^-3: only b changes with it."""
    plants = ((1.7, 400.0, 0.15, [1e15, 3e15, 1e16, 4e16, 1e17, 1e18]), (2.0, 0.5, 0.8, [0.001, 0.004, 0.02, 0.1, 0.7]), (0.9, 3e20, 1.5, [2e13, 9e13, 4e14, 1e16]))
    fits = [learner.fit_power_law(x, [law(a, b, c, value) for value in x]) for a, b, c, x in plants]
    for fitted, (a, b, c, x) in zip(fits, plants):
        check_fit(fitted, a, b, c, x, f"from x = {x[0]:g} to {x[-1]:g}")


@exercise("fit_power_law", weight=2)
def test_a_may_be_zero_or_negative_and_b_too(learner):
    """What no training removes may be 0: then it is a pure power law. A curve that rises towards a has a negative b, and b may be small."""
    x = [1.0, 2.0, 5.0, 12.0, 30.0, 80.0]
    plants = ((0.0, 5.0, 0.4), (-2.0, 6.0, 0.25), (4.0, -3.0, 0.5), (1.0, 8.0, 0.05), (1.0, 9.0, 2.2), (3.0, 1e-4, 0.5))
    fits = [learner.fit_power_law(x, [law(*plant, value) for value in x]) for plant in plants]
    for fitted, plant in zip(fits, plants):
        check_fit(fitted, *plant, x, f"from exact points of a = {plant[0]:g}, b = {plant[1]:g}, c = {plant[2]:g}")


def squares(fitted, x, y):
    return sum((law(*map(float, fitted), u) - v) ** 2 for u, v in zip(x, y))


@exercise("fit_power_law", weight=3)
@few
@given(seed=seeds)
def test_noisy_points_are_fitted_by_least_squares(learner, seed):
    """With noise, no law has a smaller sum of squared errors in y; all points count the same, also two with the same x."""
    generator = torch.Generator().manual_seed(seed)
    x = [1.0, 1.0, 2.0, 4.0, 4.0, 9.0, 20.0, 50.0, 120.0]
    noise = (0.05 * torch.randn(len(x), generator=generator, dtype=torch.float64)).clamp(-0.1, 0.1).tolist()
    true = (1.5, 6.0, 0.5)
    y = [law(*true, value) + error for value, error in zip(x, noise)]
    fitted = learner.fit_power_law(x, y)
    check_fit(fitted, *true, x, f"from points with noise around a = {true[0]}, b = {true[1]}, c = {true[2]}", share=0.06)
    mine, least = squares(fitted, x, y), least_squares(x, y)
    holds(mine <= least * 1.003 + 1e-9, f"the sum of squared errors of the fitted law is {mine:.6f}; the best law has {least:.6f}")


def least_squares(x, y):
    """The smallest sum of squared errors of any law, by trying many c and solving for a and b."""
    u, v = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    c = torch.linspace(math.log(0.01), math.log(3), 6000, dtype=torch.float64).exp()
    powers = u ** -c[:, None]
    powers, centred = powers - powers.mean(1, keepdim=True), v - v.mean()
    b = (powers * centred).sum(1) / powers.square().sum(1)
    return (centred - b[:, None] * powers).square().sum(1).min().item()


@exercise("fit_power_law", weight=2)
def test_three_different_points_are_needed(learner):
    """Fewer than three different x raise a ValueError that says how many there are; three are enough."""
    three = learner.fit_power_law([1, 4, 16], [5, 3, 2])
    for x, y in (([2.0], [1.0]), ([1, 4], [5, 3]), ([1, 4, 4, 1, 4], [5, 3, 3.1, 5.2, 2.9]), ([], [])):
        refuses(lambda x=x, y=y: learner.fit_power_law(x, y), naming=(len(set(x)),), because=f"{len(set(x))} different points do not determine a law with three numbers")
    check_fit(three, 1.0, 4.0, 0.5, [1.0, 4.0, 16.0], "from the points (1, 5), (4, 3) and (16, 2)")


# ---- compute_optimal


def planted_runs(a=0.45, b=0.55, k=0.3, h=2.0, budgets=(1e15, 1e16, 1e17), ratios=(0.25, 0.5, 1.0, 2.0, 4.0), noise=0.0, seed=0):
    """Runs around the best size k · C^a and the best number of tokens h · C^b of each budget, whose losses lie on a parabola over both logarithms."""
    generator, runs = torch.Generator().manual_seed(seed), []
    for number, C in enumerate(budgets):
        for ratio in ratios:
            error = noise * float(torch.rand((), generator=generator) * 2 - 1)
            loss = 3 - 0.2 * number + 0.08 * math.log(ratio) ** 2 + error
            runs.append((C, round(k * C**a * ratio), round(h * C**b / ratio), loss))
    order = torch.randperm(len(runs), generator=generator).tolist()
    return [runs[i] for i in order]


def check_plan(result, budgets):
    """The exponents, and what is predicted for each budget."""
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    holds(is_pair, f"compute_optimal should return two results, (exponents, predict); it returned {result!r:.60}")
    exponents, predict = result
    holds(isinstance(exponents, (tuple, list)) and len(exponents) == 2, f"the exponents should be two numbers, (a, b); they are {exponents!r:.60}")
    predicted = [predict(budget) for budget in budgets]
    for pair in predicted:
        fine = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(value, float) for value in pair)
        holds(fine, f"predict should return two floats, (parameters, tokens); it returned {pair!r:.60}")
    return [float(value) for value in exponents], [tuple(pair) for pair in predicted]


@exercise("compute_optimal", weight=3)
@few
@given(a=st.floats(0.35, 0.65), seed=seeds)
def test_planted_exponents_are_found(learner, a, seed):
    """From exact parabolas, the best sizes k · C^a and the best numbers of tokens h · C^b are found; runs may be in any order."""
    plan = check_plan(learner.compute_optimal(planted_runs(a=a, b=1 - a, seed=seed)), [])[0]
    close(plan, [a, 1 - a], "the exponents", tol=1e-4)


@exercise("compute_optimal", weight=2)
def test_predictions_go_along_both_lines(learner):
    """predict gives the best number of parameters and of tokens, also far beyond the budgets tried and between them; only runs with equal FLOPs are one budget."""
    a, b, k, h = 0.5, 0.47, 0.4, 3.0
    budgets = [1e15, 3e16, 1e20]
    exponents, got = check_plan(learner.compute_optimal(planted_runs(a, b, k, h, budgets=(1e15, 1.3e15, 1e17))), budgets)
    close(exponents, [a, b], "the exponents", tol=1e-4)
    for C, mine in zip(budgets, got):
        close(list(mine), [k * C**a, h * C**b], f"what is predicted for {C:g} FLOPs, parameters and tokens", tol=2e-3)


@exercise("compute_optimal", weight=2)
def test_tokens_have_a_law_of_their_own(learner):
    """The exponent of the tokens comes from the tokens of the runs: it need not be 1 minus that of the parameters, and tokens need not be C / 6N."""
    plan = check_plan(learner.compute_optimal(planted_runs(a=0.4, b=0.45, h=50.0)), [])[0]
    close(plan, [0.4, 0.45], "the exponents", tol=1e-4)


@exercise("compute_optimal", weight=2)
def test_the_lowest_point_is_that_of_the_parabola(learner):
    """The best size is where the parabola is lowest, not the best run: it may lie between two runs, at unequal distances; budgets may have different numbers of runs, and sizes may be close together."""
    runs = planted_runs(ratios=(0.3, 0.45, 0.9, 2.6), budgets=(1e15, 1e16, 1e17)) + planted_runs(ratios=(0.9, 0.97, 1.2), budgets=(1e18,))
    exponents, (mine,) = check_plan(learner.compute_optimal(runs), [1e19])
    close(exponents, [0.45, 0.55], "the exponents", tol=1e-4)
    close(list(mine), [0.3 * 1e19**0.45, 2.0 * 1e19**0.55], "what is predicted for 1e+19 FLOPs", tol=2e-3)


def shape_of_losses(runs):
    """(a, b) and the line's values at 1e18, by least squares written out."""
    points = {1: [], 2: []}
    for C in sorted({run[0] for run in runs}):
        for which in (1, 2):
            x = torch.tensor([math.log(run[which]) for run in runs if run[0] == C], dtype=torch.float64)
            y = torch.tensor([run[3] for run in runs if run[0] == C], dtype=torch.float64)
            z = x - x.mean()
            coefficients = torch.linalg.solve(torch.stack([torch.stack([(z ** (i + j)).sum() for j in range(3)]) for i in range(3)]), torch.stack([(z**i * y).sum() for i in range(3)]))
            points[which].append((math.log(C), float(x.mean() - coefficients[1] / (2 * coefficients[2]))))
    slopes, far = [], []
    for which in (1, 2):
        u, v = (torch.tensor(column, dtype=torch.float64) for column in zip(*points[which]))
        slope = float(((u - u.mean()) * (v - v.mean())).sum() / (u - u.mean()).square().sum())
        slopes.append(slope)
        far.append(math.exp(float(v.mean()) + slope * (math.log(1e18) - float(u.mean()))))
    return slopes, far


@exercise("compute_optimal", weight=3)
@few
@given(seed=seeds)
def test_noisy_losses_are_fitted_by_least_squares(learner, seed):
    """With noise in the losses, parabolas and lines are those of least squares, and the exponents stay near those planted."""
    runs = planted_runs(noise=0.01, seed=seed, budgets=(1e15, 5e15, 1e17, 1e18), ratios=(0.2, 0.5, 1.0, 1.9, 4.0, 6.0))
    exponents, (mine,) = check_plan(learner.compute_optimal(runs), [1e18])
    slopes, far = shape_of_losses(runs)
    close(exponents, slopes, "the exponents", tol=1e-4)
    close(list(mine), far, "what is predicted for 1e+18 FLOPs", tol=2e-3)
    holds(abs(exponents[0] - 0.45) < 0.05, f"the exponent of the parameters is {exponents[0]:.3f}; planted is 0.45, with little noise")


@exercise("compute_optimal", weight=2)
def test_too_few_runs_are_refused(learner):
    """Fewer than two budgets, or a budget with fewer than three different sizes, raise a ValueError; the second names the budget's FLOPs."""
    good = planted_runs(budgets=(1e15, 1e16))
    enough = check_plan(learner.compute_optimal(good), [])[0]
    thin = [run for run in good if run[0] == 1e15] + [(54321098765432109, 1000, 5000, 2.5), (54321098765432109, 2000, 2500, 2.4)]
    repeated = [run for run in good if run[0] == 1e15] + [(3e16, 1000, 5000, 2.5), (3e16, 2000, 2500, 2.4), (3e16, 2000, 2500, 2.41)]
    refuses(lambda: learner.compute_optimal(thin), naming={"budget": 54321098765432109}, because="a parabola needs three different sizes")
    refuses(lambda: learner.compute_optimal(repeated), naming={"budget": 3e16}, because="two runs of one size are one point of a parabola")
    refuses(lambda: learner.compute_optimal(planted_runs(budgets=(1e15,))), because="one budget does not show how the best size grows")
    refuses(lambda: learner.compute_optimal([]), because="there are no runs")
    close(enough, [0.45, 0.55], "the exponents of two budgets", tol=1e-4)


@exercise("compute_optimal", weight=2)
def test_a_budget_without_a_lowest_point_is_refused(learner):
    """If the losses of a budget lie on a parabola that opens downwards, over the parameters or over the tokens, a ValueError names the budget's FLOPs."""
    good = planted_runs(budgets=(1e15, 1e16))
    bent = [(76543210987654321, round(1e6 * ratio), round(1e10 / ratio), 3 - 0.08 * math.log(ratio) ** 2) for ratio in (0.25, 0.5, 1, 2, 4)]
    fine = check_plan(learner.compute_optimal(good), [])[0]
    sizes_only = [(9e16, 10**6 * 2**i, 10**10 * 2**j, loss) for i, j, loss in ((0, 2, 2.9), (1, 0, 2.8), (2, 3, 2.85), (3, 1, 3.1))]
    refuses(lambda: learner.compute_optimal(good + bent), naming={"budget": 76543210987654321}, because="these losses have no lowest point")
    refuses(lambda: learner.compute_optimal(good + sizes_only), naming={"budget": 9e16}, because="over the tokens, these losses have no lowest point")
    close(fine, [0.45, 0.55], "the exponents without this budget", tol=1e-4)


# ---- memorised


def next_token_table(seed, vocab):
    """Logits (V, V, V) with a clear winner after each pair of tokens."""
    return torch.randn(vocab, vocab, vocab, generator=torch.Generator().manual_seed(seed)) * 3


def recited(table, text, n_prompt):
    """How many tokens greedy writing repeats, by writing them."""
    written = list(text[:n_prompt])
    while len(written) < len(text):
        before = written[-2] if len(written) > 1 else 0
        written.append(int(table[before, written[-1]].argmax()))
    right = [a == b for a, b in zip(written[n_prompt:], text[n_prompt:])]
    return right.index(False) if False in right else len(right)


def greedy_text(table, start, length):
    text = list(start)
    while len(text) < length:
        text.append(int(table[text[-2] if len(text) > 1 else 0, text[-1]].argmax()))
    return text


def count_with(memorised, make, table, texts, n_prompt, kind="tuple"):
    """The counts of a model with this table, and the state of the model afterwards."""
    model = make(table, kind)
    found = memorised(model, texts, n_prompt)
    modes_after = model.modes()
    model.eval()
    again = memorised(model, texts, n_prompt)
    seen = {"modes": modes_after, "eval": not any(model.modes()), "graph": model.graph, "grad": torch.is_grad_enabled()}
    return {"counts": list(found), "again": list(again), **seen}


def counts(learner, table, texts, n_prompt, kind="tuple"):
    found = learner.bring(count_with)(learner.memorised, learner.bring(TableModel), table, texts, n_prompt, kind)
    holds(all(isinstance(count, int) for count in found["counts"]), f"memorised should return a list of ints; it returned {found['counts']!r:.60}")
    return found


@exercise("memorised", weight=3)
@few
@example(n_prompt=1, seed=2)
@given(n_prompt=st.integers(1, 3), seed=seeds)
def test_tokens_are_counted_up_to_the_first_that_differs(learner, n_prompt, seed):
    """After the first n_prompt tokens, the model always chooses the most probable token; what counts is how many are the text's before the first that is not."""
    table = next_token_table(seed, 7)
    whole = greedy_text(table, [seed % 7, (seed + 1) % 7, (seed + 3) % 7][:n_prompt], 9)
    texts = [whole]
    for place in (n_prompt, n_prompt + 2, 8, 5):
        changed = list(whole)
        changed[place] = (changed[place] + 1) % 7
        texts.append(changed)
    got = counts(learner, table, texts, n_prompt)["counts"]
    same(got, [recited(table, text, n_prompt) for text in texts], f"the counts with n_prompt = {n_prompt}")


@exercise("memorised", weight=2)
def test_right_tokens_after_a_mistake_do_not_count(learner):
    """A text whose third new token is not the model's choice has 2, however many of the later tokens the model would choose."""
    table = torch.zeros(6, 6, 6)
    for token in range(6):
        table[:, token, (token + 1) % 6] = 5.0  # always one more
    texts = [[0, 1, 2, 3, 4, 5, 0, 1], [0, 1, 2, 3, 3, 4, 5, 0], [0, 2, 3, 4, 5, 0, 1, 2], [0, 1, 2, 3, 4, 5, 0, 0]]
    got = counts(learner, table, texts, 2)["counts"]
    same(got, [6, 2, 6, 5], "the counts of four texts with n_prompt = 2, for a model that always says one more")


@exercise("memorised", weight=2)
def test_the_prompt_itself_does_not_count(learner):
    """What the model would have chosen within the prompt makes no difference, and a prompt may be one token or all but one."""
    table = torch.zeros(5, 5, 5)
    for token in range(5):
        table[:, token, (token + 1) % 5] = 5.0
    got = counts(learner, table, [[3, 3, 1, 2, 3], [4, 2, 0, 1, 2]], 3)["counts"]
    one, last = counts(learner, table, [[3, 4, 0, 2], [1, 2]], 1)["counts"], counts(learner, table, [[0, 1, 2, 3], [4, 4, 4, 4]], 3)["counts"]
    same(got, [2, 2], "the counts with n_prompt = 3")
    same(one, [2, 1], "the counts with n_prompt = 1")
    same(last, [1, 0], "the counts of texts with one token after the prompt")


@exercise("memorised")
def test_texts_have_their_own_lengths(learner):
    """Texts of different lengths are counted each for itself, also as tuples; without texts the result is []."""
    table = next_token_table(4, 6)
    texts = [greedy_text(table, [1, 2], 4), tuple(greedy_text(table, [3, 0], 11)), greedy_text(table, [5, 5], 3)]
    got, none = counts(learner, table, texts, 2)["counts"], counts(learner, table, [], 2)["counts"]
    same(got, [2, 9, 1], "the counts of texts of 4, 11 and 3 tokens with n_prompt = 2")
    same(none, [], "the counts of no texts")


@exercise("memorised", weight=2)
def test_the_model_is_looked_at_in_eval_mode_without_gradient(learner):
    """Dropout does not act, no gradient is recorded, and each module is in its own mode afterwards; a model may return logits or a tuple."""
    table = next_token_table(9, 7)
    texts = [greedy_text(table, [i, 6 - i], 12) for i in range(7)]
    found = {kind: counts(learner, table, texts, 2, kind) for kind in ("tuple", "logits")}
    for kind, got in found.items():
        same(got["counts"], [10] * 7, f"the counts for a model that returns {'a tuple' if kind == 'tuple' else 'logits'}")
        same(got["again"], [10] * 7, "the counts for a model in eval mode")
        holds(got["modes"] == MODES_AT_FIRST, f"which modules are in train mode has changed from {MODES_AT_FIRST} to {got['modes']}")
        holds(got["eval"], "a model in eval mode is not in eval mode afterwards")
        holds(not got["graph"], "gradients are recorded while the model is looked at")
        holds(got["grad"], "gradients stay switched off after the call")


@exercise("memorised", weight=2)
def test_something_must_be_left_after_the_prompt(learner):
    """An n_prompt below 1, or as long as the shortest text, raises a ValueError that names n_prompt."""
    table = next_token_table(2, 5)
    text = greedy_text(table, [1, 2], 6)
    fine = counts(learner, table, [text], 5)["counts"]
    for n_prompt in (-1, 0, 9, 6):
        refuses(lambda n_prompt=n_prompt: counts(learner, table, [text, text + [1, 1, 1]], n_prompt), naming={"n_prompt": n_prompt}, because="a prompt should leave something of every text")
    same(fine, [1], "the count of a text of 6 tokens with n_prompt = 5")
