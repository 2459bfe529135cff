# variant: with struct, block by block
import struct

import torch


def dequantize_q8_0(blocks):
    rows = []
    for block in blocks.tolist():
        scale, *numbers = struct.unpack("<e32b", bytes(block))
        rows.append([scale * number for number in numbers])
    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), 32)


# variant: signed numbers by arithmetic
import torch


def dequantize_q8_0(blocks):
    scale = blocks[..., 0:2].clone().view(torch.half).to(torch.float32)
    numbers = blocks[..., 2:].to(torch.int16)
    numbers = torch.where(numbers > 127, numbers - 256, numbers)
    return numbers.to(torch.float32) * scale


# variant: split, and a product in float64
import torch


def dequantize_q8_0(blocks):
    head, tail = blocks.split([2, 32], dim=1)
    scale = head.contiguous().view(dtype=torch.float16).double()
    return (tail.contiguous().view(dtype=torch.int8).double() * scale).float()
