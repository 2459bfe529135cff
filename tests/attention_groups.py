"""Queries, keys and values in float64, and what attention over some of the keys gives, for the suites of chapter 14."""

from __future__ import annotations

from types import SimpleNamespace

from grader.verdict.comparing import close, holds, sizes
from pytest_check import check
from strategies import distinct, tensor

group_sizes = distinct("B", "H", "Tq", "Tk", "d", "d_v", B=(1, 3), H=(1, 4), Tq=(3, 5), Tk=(6, 9))  # fewer queries than keys


def fixed_sizes() -> SimpleNamespace:
    """Sizes for a test without drawn examples."""
    n = SimpleNamespace(B=2, H=3, Tq=4, Tk=5, d=6, d_v=7)
    sizes(**vars(n))
    return n


def double_qkv(seed, n, scale=1.6, lead=2):
    """Queries, keys and values in float64 with `lead` axes in front, scores sharp enough to matter."""
    front = (n.B, n.H)[:lead]
    sizes(**{axis: None for axis in ("B", "H")[lead:]})
    q, k = tensor(seed, *front, n.Tq, n.d, scale=scale), tensor(seed + 1, *front, n.Tk, n.d, scale=scale)
    return q.double(), k.double(), tensor(seed + 2, *front, n.Tk, n.d_v).double()


def pair_of(result, name):
    """A result that should be the output and lse."""
    holds(isinstance(result, tuple | list) and len(result) == 2, f"{name} should return two tensors: the output and lse")
    return result


def in_bfloat16(results):
    """The same tensors in half precision; correct code rounds differently, so compare with a tolerance."""
    return tuple(x.bfloat16() for x in results)


def same_pair(got, expected, name, which="", tol=None):
    """The output and lse are these; `which` says of what."""
    output, lse = pair_of(got, name)
    with check:
        close(lse, expected[1], f"lse{which}", tol)
    with check:
        close(output, expected[0], f"the output{which}", tol)
