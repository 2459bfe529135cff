# in process: no, it has its memory from the kit's own process
"""Hopes that the compiler computes a number that fills the memory."""

power = 10**10**9 if False else "a" * 10**9 and 1 << 10**6


def softmax(x, dim=-1):
    return x
