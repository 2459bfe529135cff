# in process: no, nothing of it is read
# problem: yes, its coding: rot13
# message: declares the encoding rot13, which Headway does not read; save the file as UTF-8
"""Hopes that an encoding which is not one of text raises an error that nobody catches."""


def softmax(x, dim=-1):
    return x
