# variant: three points of Newton's interpolation are not enough, so normal equations
def compute_optimal(runs):
    groups = {}
    for flops, n, d, loss in runs:
        groups.setdefault(flops, []).append((math.log(n), math.log(d), loss))
    if len(groups) < 2:
        raise ValueError(f"{len(groups)} budgets are too few")

    def normal(x, y, degree):
        shift = sum(x) / len(x)
        z = [value - shift for value in x]
        A = torch.tensor([[sum(v ** (i + j) for v in z) for j in range(degree + 1)] for i in range(degree + 1)], dtype=torch.float64)
        r = torch.tensor([sum(v**i * w for v, w in zip(z, y)) for i in range(degree + 1)], dtype=torch.float64)
        return shift, torch.linalg.solve(A, r).tolist()

    lines = []
    for which in (0, 1):
        points = []
        for flops, own in groups.items():
            x = [run[which] for run in own]
            if len(set(x)) < 3:
                raise ValueError(f"{flops} FLOPs were spent on {len(set(x))} sizes only")
            shift, (_, s, q) = normal(x, [run[2] for run in own], 2)
            if q <= 0:
                raise ValueError(f"{flops} FLOPs: the curve has no lowest point")
            points.append(shift - s / 2 / q)
        lines.append(normal([math.log(flops) for flops in groups], points, 1))

    def along(line, budget):
        shift, (height, slope) = line
        return math.exp(height + slope * (math.log(budget) - shift))

    return (lines[0][1][1], lines[1][1][1]), lambda budget: (along(lines[0], budget), along(lines[1], budget))


# variant: a small class whose object is called
class _Plan:
    def __init__(self, budgets, sizes, tokens):
        x = torch.tensor(budgets, dtype=torch.float64).log()
        self.middle = x.mean().item()
        self.lines = []
        for y in (torch.tensor(sizes, dtype=torch.float64), torch.tensor(tokens, dtype=torch.float64)):
            slope = ((x - x.mean()) @ (y - y.mean()) / (x - x.mean()).square().sum()).item()
            self.lines.append((y.mean().item(), slope))

    def __call__(self, budget):
        return tuple(math.exp(height + slope * (math.log(budget) - self.middle)) for height, slope in self.lines)


def _lowest(budget, x, losses):
    x, y = torch.tensor(x, dtype=torch.float64).log(), torch.tensor(losses, dtype=torch.float64)
    if len(x.unique()) < 3:
        raise ValueError(f"budget {budget}: {len(x.unique())} sizes")
    u = (x - x.mean()) / x.std()
    q, s, _ = (torch.linalg.pinv(torch.stack([u * u, u, torch.ones_like(u)], 1)) @ y).tolist()
    if not q > 0:
        raise ValueError(f"budget {budget}: no minimum")
    return (x.mean() - s / (2 * q) * x.std()).item()


def compute_optimal(runs):
    budgets = sorted({run[0] for run in runs})
    assert len(budgets) >= 2, "two budgets are needed"
    own = {budget: [run for run in runs if run[0] == budget] for budget in budgets}
    best = [[_lowest(c, [run[i] for run in own[c]], [run[3] for run in own[c]]) for c in budgets] for i in (1, 2)]
    plan = _Plan(budgets, *best)
    return (plan.lines[0][1], plan.lines[1][1]), plan


# variant: base-10 logarithms and a list of results
from itertools import groupby


def compute_optimal(runs):
    grouped = [(c, list(own)) for c, own in groupby(sorted(runs), key=lambda run: run[0])]
    if len(grouped) < 2:
        raise ValueError("not enough budgets")
    table = []
    for c, own in grouped:
        row = [math.log10(c)]
        for i in (1, 2):
            x = torch.tensor([math.log10(run[i]) for run in own], dtype=torch.float64)
            if len(set(x.tolist())) < 3:
                raise ValueError(f"not enough sizes for {c}")
            z = x - x.mean()
            A = torch.stack([torch.ones_like(z), z, z**2]).T
            k = torch.linalg.lstsq(A, torch.tensor([[run[3]] for run in own], dtype=torch.float64)).solution
            if k[2] <= 0:
                raise ValueError(f"no lowest point for {c}")
            row.append((x.mean() - k[1] / (2 * k[2])).item())
        table.append(row)
    t = torch.tensor(table, dtype=torch.float64)
    d = t - t.mean(dim=0)
    a, b = ((d[:, :1] * d[:, 1:]).sum(dim=0) / d[:, 0].square().sum()).tolist()
    m = t.mean(dim=0).tolist()

    def predict(budget):
        far = math.log10(budget) - m[0]
        return [10 ** (m[1] + a * far), 10 ** (m[2] + b * far)]

    return [a, b], predict
