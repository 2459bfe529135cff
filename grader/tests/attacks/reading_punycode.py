# in process: no, nothing of it is read
# problem: yes, its coding: punycode
# message: declares the encoding punycode, which Headway does not read; save the file as UTF-8
"""Hopes that decoding takes time with the square of the length."""


def softmax(x, dim=-1):
    return x
