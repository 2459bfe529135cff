# variant: shares in floats, over all labels
def agreement(a, b):
    if len(a) != len(b) or not a:
        raise ValueError(f"a and b need equally many labels, not {len(a)} and {len(b)}")
    n = len(a)
    o = sum(1 for x, y in zip(a, b) if x == y) / n
    e = sum((list(a).count(label) / n) * (list(b).count(label) / n) for label in {*a, *b})
    return 1.0 if e == 1 else (o - e) / (1 - e)


# variant: a table of both judges' labels
def agreement(a, b):
    assert len(a) == len(b) and len(a) > 0, f"labels of a: {len(a)}, of b: {len(b)}"
    number = {label: i for i, label in enumerate(dict.fromkeys([*a, *b]))}
    table = torch.zeros(len(number), len(number), dtype=torch.float64)
    for x, y in zip(a, b):
        table[number[x], number[y]] += 1
    if len(number) == 1:
        return 1.0
    table = table / table.sum()
    o, e = table.trace(), table.sum(0) @ table.sum(1)
    return float((o - e) / (1 - e))


# variant: disagreement, seen and expected
def agreement(a, b):
    n = len(a)
    if n == 0 or n != len(b):
        raise ValueError(f"a: {n} labels, b: {len(b)} labels")
    seen = sum(x != y for x, y in zip(a, b)) / n
    expected = sum(x != y for x in a for y in b) / (n * n)
    if expected == 0:
        return 1.0
    return 1 - seen / expected
