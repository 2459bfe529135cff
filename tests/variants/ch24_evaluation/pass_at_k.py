# variant: a product of k quotients
def pass_at_k(n, correct, k):
    if correct < 0 or correct > n:
        raise ValueError(f"{correct} of {n} answers cannot be correct")
    if k < 1 or k > n:
        raise ValueError(f"k is {k}, with n = {n}")
    nothing_right = 1.0
    for i in range(k):
        nothing_right *= max(n - correct - i, 0) / (n - i)
    return 1.0 - nothing_right


# variant: as in the paper on Codex, over the right answers
def pass_at_k(n, correct, k):
    assert 0 <= correct <= n, f"correct = {correct}"
    assert 1 <= k <= n, f"k = {k}"
    if n - correct < k:
        return 1.0
    return 1.0 - float((1.0 - k / torch.arange(n - correct + 1, n + 1, dtype=torch.float64)).prod())


# variant: logarithms of factorials
def pass_at_k(n, correct, k):
    if not (0 <= correct <= n and 1 <= k <= n):
        raise ValueError(f"correct = {correct} and k = {k} do not fit n = {n}")
    wrong = n - correct
    if wrong < k:
        return 1.0
    log = math.lgamma(wrong + 1) - math.lgamma(wrong - k + 1) - math.lgamma(n + 1) + math.lgamma(n - k + 1)
    return -math.expm1(log)


# variant: fractions
from fractions import Fraction


def pass_at_k(n, correct, k):
    if not 0 <= correct <= n:
        raise ValueError(f"correct = {correct} is not from 0 to n = {n}")
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} is not from 1 to n = {n}")
    return float(1 - Fraction(math.comb(n - correct, k), math.comb(n, k)))
