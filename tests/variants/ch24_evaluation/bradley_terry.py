# variant: the strengths are repeated until nothing changes
import torch


def bradley_terry(wins):
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1]:
        raise ValueError(f"wins is not square: {tuple(wins.shape)}")
    if (wins < 0).any():
        raise ValueError(f"wins has numbers below 0: {wins}")
    P = len(wins)
    w = wins.to(torch.float64) + 0.5
    w = w * (1 - torch.eye(P, dtype=torch.float64, device=wins.device))
    won, n = w.sum(1), w + w.T
    s = torch.ones(P, dtype=torch.float64, device=wins.device)
    while P > 1:
        old = s
        s = won / (n / (s[:, None] + s[None, :])).sum(1)
        s = s / torch.exp(torch.log(s).mean())
        if float(torch.max(torch.abs(torch.log(s / old)))) < 1e-9:
            break
    return torch.log(s).to(torch.float32)


# variant: L-BFGS of torch
def bradley_terry(wins):
    assert wins.dim() == 2 and wins.size(0) == wins.size(1), f"wins {tuple(wins.shape)}"
    assert bool((wins >= 0).all()), "wins below 0"
    count = wins.detach().double() + 0.5
    count.fill_diagonal_(0.0)
    ratings = torch.zeros(len(wins), dtype=torch.float64, device=wins.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([ratings], max_iter=2000, max_eval=10_000, tolerance_grad=1e-12, tolerance_change=1e-16, history_size=20, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = -(count * torch.nn.functional.logsigmoid(ratings[:, None] - ratings[None, :])).sum() / count.sum().clamp(min=1)
        loss.backward()
        return loss

    with torch.enable_grad():
        for _ in range(5):
            optimizer.step(closure)
    found = ratings.detach()
    return (found - found.mean()).float()


# variant: Newton's steps with half of the step again and again until the likelihood grows; the first player is fixed
def bradley_terry(wins):
    size = tuple(wins.shape)
    if len(size) != 2 or size[0] != size[1]:
        raise ValueError(f"wins must be square, not {size}")
    if wins.numel() and wins.min() < 0:
        raise ValueError("wins must not be below 0")
    P = size[0]
    if P == 1:
        return torch.zeros(1, device=wins.device)
    count = wins.double() + 0.5
    count = count - torch.diag(torch.diagonal(count))
    r = torch.zeros(P, dtype=torch.float64, device=wins.device)

    def likelihood(x):
        return (count * torch.nn.functional.logsigmoid(x[:, None] - x)).sum()

    for _ in range(500):
        p = torch.sigmoid(r[:, None] - r)
        expected = (count + count.T) * p
        slope = count.sum(1) - expected.sum(1)
        weight = expected * (1 - p)
        hessian = torch.diag(weight.sum(1)) - weight
        step = torch.zeros_like(r)
        step[1:] = torch.linalg.solve(hessian[1:, 1:], slope[1:])
        size, before = 1.0, likelihood(r)
        while size > 1e-6 and likelihood(r + size * step) < before:
            size /= 2
        r = r + size * step
        if step.abs().max() < 1e-8:
            break
    return (r - r.mean()).to(torch.float32)
