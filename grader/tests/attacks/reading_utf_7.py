# in process: no, nothing of it is read
# problem: yes, its coding: utf-7
# message: declares the encoding utf-7, which Headway does not read; save the file as UTF-8
"""Hopes to hide a forbidden name in base64 that Python decodes before it compiles."""


def softmax(x, dim=-1):
    return x
