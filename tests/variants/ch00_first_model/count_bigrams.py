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


# variant: einsum over comparisons with all ids
def count_bigrams(ids, vocab_size):
    text = torch.as_tensor(ids, dtype=torch.int64)
    every = torch.arange(vocab_size)
    is_id = text[:, None] == every
    unknown = ~is_id.any(dim=1)
    if unknown.any():
        raise ValueError(f"no token has the id {text[unknown][0].item()}")
    one_hot = is_id.long()
    return torch.einsum("ta,tb->ab", one_hot[:-1], one_hot[1:])


# variant: the entries of a sparse matrix, which adds those of one place
def count_bigrams(ids, vocab_size):
    text = torch.as_tensor(ids, dtype=torch.int64)
    for i in text.tolist():
        if i not in range(vocab_size):
            raise ValueError(f"{i} is outside 0 ... {vocab_size - 1}")
    steps = max(len(text) - 1, 0)
    places = torch.stack([text[:steps], text[len(text) - steps :]])
    one = torch.ones(steps, dtype=torch.int64)
    return torch.sparse_coo_tensor(places, one, (vocab_size, vocab_size)).to_dense()


# variant: Counter of the pairs, and a list for each row
def count_bigrams(ids, vocab_size):
    from collections import Counter
    from itertools import pairwise

    text = [int(i) for i in ids]
    allowed = range(vocab_size)
    for position, i in enumerate(text):
        if i not in allowed:
            raise ValueError(f"position {position} has the id {i}, and vocab_size is {vocab_size}")
    seen = Counter(pairwise(text))
    rows = [[seen[a, b] for b in allowed] for a in allowed]
    return torch.tensor(rows, dtype=torch.int64).view(vocab_size, vocab_size)


# variant: sorted pairs, and the difference of two searches in them
def count_bigrams(ids, vocab_size):
    text = torch.as_tensor(ids, dtype=torch.int64)
    for i in text.tolist():
        if not 0 <= i < vocab_size:
            raise ValueError(f"id {i} is outside 0 ... {vocab_size - 1}")
    places = (text[:-1] * vocab_size + text[1:]).sort().values
    every = torch.arange(vocab_size * vocab_size)
    upper = torch.searchsorted(places, every, right=True)
    lower = torch.searchsorted(places, every)
    return (upper - lower).unflatten(0, (vocab_size, vocab_size))


# variant: filled column by column and returned as a transposed view
def count_bigrams(ids, vocab_size):
    text = [int(i) for i in ids]
    bad = [i for i in text if i < 0 or i >= vocab_size]
    if bad:
        raise ValueError(f"these ids are outside 0 ... {vocab_size - 1}: {bad}")
    by_next = torch.zeros(vocab_size, vocab_size, dtype=torch.int64)
    for k in range(len(text) - 1):
        by_next[text[k + 1], text[k]] += 1
    return by_next.T
