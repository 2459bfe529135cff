# variant: with struct, block by block
import struct

import torch


def dequantize_q4_1(blocks):
    rows = []
    for block in blocks.tolist():
        scale, minimum, *packed = struct.unpack("<ee16B", bytes(block))
        numbers = [byte % 16 for byte in packed] + [byte // 16 for byte in packed]
        rows.append([scale * number + minimum for number in numbers])
    return torch.tensor(rows, dtype=torch.float32).reshape(len(rows), 32)


# variant: two halves written into a table
import torch


def dequantize_q4_1(blocks):
    scale = blocks[:, 0:2].clone().view(torch.float16).float()
    low = blocks[:, 2:4].clone().view(torch.float16).float()
    found = torch.empty(len(blocks), 32)
    found[:, :16] = blocks[:, 4:] & 0x0F
    found[:, 16:] = torch.bitwise_right_shift(blocks[:, 4:], 4)
    return found * scale + low


# variant: remainder and division, stacked
import torch


def dequantize_q4_1(blocks):
    halves = blocks[:, :4].contiguous().view(torch.float16).to(torch.float32)
    packed = blocks[:, 4:].int()
    numbers = torch.stack([packed % 16, packed // 16], dim=1).flatten(1)
    return torch.addcmul(halves[:, 1:2], numbers.float(), halves[:, 0:1])
