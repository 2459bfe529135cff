# variant: a number for each part, and the mask from equal numbers
import torch


def pack(sequences, length, pad_id):
    if length <= 0:
        raise ValueError(f"length = {length} is too short")
    used, cells = [], []  # of each token: row, column, id, target, position, number of its part
    n_parts = 0
    for text in sequences:
        for start in range(0, len(text), length):
            size = min(length, len(text) - start)
            fitting = [row for row, n in enumerate(used) if n + size <= length]
            if not fitting:
                fitting = [len(used)]
                used.append(0)
            row, n_parts = fitting[0], n_parts + 1
            for i in range(size):
                place = start + i
                following = text[place + 1] if place + 1 < len(text) else -100
                cells.append((row, used[row] + i, text[place], following, i, n_parts))
            used[row] += size
    table = torch.tensor([pad_id, -100, 0, 0]).repeat(len(used), length, 1)
    for row, column, *numbers in cells:
        table[row, column] = torch.tensor(numbers)
    ids, targets, positions, part = table.unbind(dim=-1)
    same = (part[:, :, None] == part[:, None, :]) & (part > 0)[:, None, :]
    return ids, targets, positions, same.tril()


# variant: rows as objects
from dataclasses import dataclass, field

import torch


@dataclass
class PackedRow:
    ids: list = field(default_factory=list)
    targets: list = field(default_factory=list)
    positions: list = field(default_factory=list)
    parts: list = field(default_factory=list)

    def add(self, ids, targets):
        self.parts.append(len(ids))
        self.ids += ids
        self.targets += targets
        self.positions += range(len(ids))


def pack(sequences, length, pad_id):
    assert length > 0, f"length = {length}"
    rows = []
    for sequence in sequences:
        left, targets = list(sequence), [*sequence[1:], -100]
        while left:
            part, left = left[:length], left[length:]
            labels, targets = targets[:length], targets[length:]
            for row in rows:
                if len(row.ids) + len(part) <= length:
                    break
            else:
                row = PackedRow()
                rows.append(row)
            row.add(part, labels)

    def filled(name, value):
        padded = [getattr(row, name) + [value] * (length - len(row.ids)) for row in rows]
        return torch.tensor(padded, dtype=torch.int64).reshape(-1, length)

    mask = torch.zeros(len(rows), length, length).bool()
    for r, row in enumerate(rows):
        blocks = torch.block_diag(*(torch.ones(n, n).tril() for n in row.parts)).bool()
        mask[r, : len(blocks), : len(blocks)] = blocks
    return filled("ids", pad_id), filled("targets", -100), filled("positions", 0), mask


# variant: where each part begins, then one gather
import torch


def pack(sequences, length, pad_id):
    if length < 1:
        raise ValueError(f"a length of {length} holds no token")
    flat = [token for sequence in sequences for token in sequence]
    ends = {sum(map(len, sequences[: n + 1])) - 1 for n in range(len(sequences))}
    after = [-100 if i in ends else flat[i + 1] for i in range(len(flat))]
    parts, begin = [], 0
    for sequence in sequences:
        stop = begin + len(sequence)
        parts += [range(first, min(first + length, stop)) for first in range(begin, stop, length)]
        begin = stop
    rows = []
    for part in parts:
        row = next((row for row in rows if len(row) + len(part) <= length), None)
        if row is None:
            rows.append(row := [])
        row += [(i, part.start) for i in part]
    padding = (len(flat), len(flat))
    where = torch.tensor([row + [padding] * (length - len(row)) for row in rows], dtype=torch.long).view(-1, length, 2)
    index, first = where[..., 0], where[..., 1]
    real = index < len(flat)
    ids = torch.tensor([*flat, pad_id])[index]
    targets = torch.tensor([*after, -100])[index]
    earlier = index.unsqueeze(-1) >= index.unsqueeze(-2)
    mask = earlier & first.unsqueeze(-1).eq(first.unsqueeze(-2)) & real.unsqueeze(-1)
    return ids, targets, index - first, mask
