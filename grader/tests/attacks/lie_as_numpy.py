# in process: yes
"""Hopes that a class that says it is numpy's is unwrapped again and again."""


class scalar:
    shape = ()

    def item(self):
        return scalar()


scalar.__module__ = "numpy"


def softmax(x, dim=-1):
    return scalar()
