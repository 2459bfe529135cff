# in process: yes
"""Hopes that the message of an error is kept, however long it is."""


def softmax(x, dim=-1):
    raise ValueError("x" * 50_000_000)
