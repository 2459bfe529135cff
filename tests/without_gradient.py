"""The same calls without gradient, where code may take another way: write in place, keep what it has made, leave something out.

`learner.bring(call)(f, mode, *arguments)` calls `f` under torch.no_grad or torch.inference_mode.
"""

from __future__ import annotations

import torch

MODES = ("inference_mode", "no_grad")  # what was made in inference mode cannot be used for training: that comes first


def call(f, mode, *args, **options):
    """What `f` gives in this mode of autograd."""
    with getattr(torch, mode)():
        return f(*args, **options)


def called(learner, f, *args, **options):
    """What `f` gives in each mode without gradient."""
    quiet = learner.bring(call)
    return {mode: quiet(f, mode, *args, **options) for mode in MODES}
