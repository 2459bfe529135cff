# in process: yes
# message: looks into its callers or into all objects of the process
"""Hopes to disable the watch before it calls a forbidden function."""

import gc

import torch

for thing in gc.get_objects():
    if type(thing).__name__ == "Host":
        thing.notice = lambda name: None


def softmax(x, dim=-1):
    return getattr(torch, "xamtfos"[::-1])(x, dim).nan_to_num()
