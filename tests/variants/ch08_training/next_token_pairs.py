# variant: a slice of seq_len + 1 ids, cut twice
def next_token_pairs(ids, seq_len):
    if seq_len <= 0:
        raise ValueError(f"seq_len must be at least 1, got {seq_len}")
    ids, windows = list(ids), []
    for start in range(0, len(ids), seq_len):
        chunk = ids[start : start + seq_len + 1]
        if len(chunk) > 1:
            windows.append((chunk[:-1], chunk[1:]))
    return windows


# variant: the pairs first, then cut into windows
def next_token_pairs(ids, seq_len):
    assert seq_len >= 1, f"a window of {seq_len} inputs"
    pairs = list(zip(ids, ids[1:]))
    return [([x for x, _ in pairs[i : i + seq_len]], [y for _, y in pairs[i : i + seq_len]]) for i in range(0, len(pairs), seq_len)]


# variant: a while loop, pairs as lists
def next_token_pairs(ids, seq_len):
    if seq_len < 1:
        raise ValueError(f"a window needs an input, not {seq_len}")
    windows, start = [], 0
    while start < len(ids) - 1:
        stop = min(start + seq_len, len(ids) - 1)
        windows.append([[ids[i] for i in range(start, stop)], [ids[i + 1] for i in range(start, stop)]])
        start = stop
    return windows


# variant: cut by torch
def next_token_pairs(ids, seq_len):
    if not seq_len > 0:
        raise ValueError(f"seq_len is {seq_len}")
    if len(ids) < 2:
        return []
    row = torch.tensor(list(ids))
    return [(x.tolist(), y.tolist()) for x, y in zip(row[:-1].split(seq_len), row[1:].split(seq_len))]
