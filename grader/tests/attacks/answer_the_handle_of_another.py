# in process: yes
"""Hopes to be taken for the reference: answers with a function, and gives it the reference's name."""


def softmax(x, dim=-1):
    def reference(*_, **__):
        return x

    reference.__module__, reference.__qualname__ = "solutions.ch03_attention", "softmax"
    return reference
