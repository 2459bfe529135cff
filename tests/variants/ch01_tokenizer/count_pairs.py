# variant: a Counter
from collections import Counter


def count_pairs(ids):
    return Counter(zip(ids, ids[1:]))


# variant: indices and a defaultdict
from collections import defaultdict


def count_pairs(ids):
    counts = defaultdict(int)
    for i in range(len(ids) - 1):
        counts[ids[i], ids[i + 1]] += 1
    return counts


# variant: pairwise, sorted, most frequent first
from collections import Counter
from itertools import pairwise


def count_pairs(ids):
    return dict(Counter(pairwise(ids)).most_common())


# variant: looking back, with the last id remembered
def count_pairs(ids):
    counts, left = {}, None
    for n, right in enumerate(ids):
        if n:
            counts.setdefault((left, right), 0)
            counts[(left, right)] += 1
        left = right
    return counts


# variant: counted by torch
import torch


def count_pairs(ids):
    if len(ids) < 2:
        return {}
    pairs, counts = torch.tensor(list(zip(ids, ids[1:]))).unique(dim=0, return_counts=True)
    return {(int(left), int(right)): int(n) for (left, right), n in zip(pairs, counts)}
