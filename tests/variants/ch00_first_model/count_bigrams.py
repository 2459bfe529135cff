# variant: one number per pair, counted by bincount
import torch


def count_bigrams(ids, vocab_size):
    ids = torch.as_tensor(ids, dtype=torch.int64)
    outside = ids[(ids < 0) | (ids >= vocab_size)]
    if len(outside):
        raise ValueError(f"the vocabulary has no id {outside[0].item()}")
    return torch.bincount(ids[:-1] * vocab_size + ids[1:], minlength=vocab_size**2).view(vocab_size, vocab_size)


# variant: a list of lists and indices
import torch


def count_bigrams(ids, vocab_size):
    table = [[0] * vocab_size for _ in range(vocab_size)]
    ids = list(ids)
    for i, each in enumerate(ids):
        each = int(each)
        if each < 0 or each >= vocab_size:
            raise ValueError("not in the vocabulary: " + str(each))
        if i > 0:
            table[int(ids[i - 1])][each] += 1
    return torch.tensor(table)


# variant: index_put_ that accumulates, with an assertion's message in a ValueError
import torch


def count_bigrams(ids, vocab_size):
    ids = torch.tensor([int(i) for i in ids], dtype=torch.long)
    for i in ids.tolist():
        if i not in range(vocab_size):
            raise ValueError(i)
    counts = torch.zeros((vocab_size, vocab_size), dtype=torch.long)
    ones = torch.ones(max(len(ids) - 1, 0), dtype=torch.long)
    return counts.index_put_((ids[:-1], ids[1:]), ones, accumulate=True)


# variant: one-hot vectors and a matrix product
import torch


def count_bigrams(ids, vocab_size):
    numbers = [int(i) for i in ids]
    wrong = [i for i in numbers if i < 0 or i >= vocab_size]
    if wrong:
        raise ValueError(f"unknown id {wrong[0]}")
    hot = torch.eye(vocab_size, dtype=torch.float64)[numbers]
    return (hot[:-1].T @ hot[1:]).round().long()
