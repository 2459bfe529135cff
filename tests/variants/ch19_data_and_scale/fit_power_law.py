# variant: golden section after a coarse search
def fit_power_law(x, y):
    if len(set(x)) < 3:
        raise ValueError(f"{len(set(x))} different points are not enough")
    u = [math.log(value) for value in x]
    middle, height = sum(u) / len(u), sum(y) / len(y)

    def at(c):
        p = [math.exp(-c * (value - middle)) for value in u]
        mean = sum(p) / len(p)
        b = sum((value - mean) * (v - height) for value, v in zip(p, y)) / sum((value - mean) ** 2 for value in p)
        a = height - b * mean
        return sum((a + b * value - v) ** 2 for value, v in zip(p, y)), a, b

    coarse = [0.01 * 300 ** (i / 150) for i in range(151)]
    best = min(range(151), key=lambda i: at(coarse[i])[0])
    low, high = coarse[max(best - 1, 0)], coarse[min(best + 1, 150)]
    share = (5**0.5 - 1) / 2
    while high - low > 1e-9:
        left, right = high - share * (high - low), low + share * (high - low)
        if at(left)[0] < at(right)[0]:
            high = right
        else:
            low = left
    c = (low + high) / 2
    _, a, b = at(c)
    return a, b * math.exp(c * middle), c


# variant: lstsq for each c
def fit_power_law(x, y):
    assert len(set(x)) >= 3, f"only {len(set(x))} different points"
    logs = torch.tensor([math.log(value) for value in x], dtype=torch.float64)
    shift, y = logs.mean(), torch.tensor(y, dtype=torch.float64)[:, None]

    def solve(c):
        columns = torch.stack([torch.ones_like(logs), torch.exp(-c * (logs - shift))], dim=1)
        solution = torch.linalg.lstsq(columns, y).solution
        return float((columns @ solution - y).square().sum()), solution

    low, high = 0.01, 3.0
    for _ in range(9):
        grid = torch.linspace(low, high, 81, dtype=torch.float64).tolist()
        i = min(range(81), key=lambda k: solve(grid[k])[0])
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, 80)]
    c = grid[i]
    (a,), (b,) = solve(c)[1].tolist()
    return a, b * math.exp(c * float(shift)), c


# variant: Gauss-Newton from several starts
def fit_power_law(x, y):
    different = len(set(x))
    if different <= 2:
        raise ValueError(f"a law needs three points, and there are {different}")
    u = torch.tensor(list(x), dtype=torch.float64).log()
    u, shift = u - u.mean(), u.mean().item()
    v = torch.tensor(list(y), dtype=torch.float64)
    found = []
    for start in (0.02, 0.05, 0.15, 0.4, 0.9, 1.6, 2.6):
        c = start
        for _ in range(60):
            p = torch.exp(-c * u)
            b = ((p - p.mean()) * (v - v.mean())).sum() / (p - p.mean()).square().sum()
            a = v.mean() - b * p.mean()
            error = v - a - b * p
            J = torch.stack([torch.ones_like(u), p, -b * u * p], dim=1)
            step = torch.linalg.lstsq(J, error[:, None]).solution[2, 0].item()
            c = min(max(c + max(min(step, 0.3), -0.3), 0.01), 3.0)
        p = torch.exp(-c * u)
        b = ((p - p.mean()) * (v - v.mean())).sum() / (p - p.mean()).square().sum()
        a = v.mean() - b * p.mean()
        found.append(((v - a - b * p).square().sum().item(), c, a.item(), b.item()))
    _, c, a, b = min(found)
    return a, b * math.exp(c * shift), c
