# in process: no, nothing of it is read
# problem: yes, its coding: unicode_escape
# message: declares the encoding unicode_escape, which Headway does not read; save the file as UTF-8
"""Hopes to hide a forbidden name behind escapes that Python decodes before it compiles."""


def softmax(x, dim=-1):
    return x
