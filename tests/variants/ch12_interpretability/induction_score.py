# variant: fancy indices
def induction_score(pattern, period):
    rows = torch.arange(period, pattern.size(0))
    return float(pattern[rows, rows - period + 1].mean())


# variant: a loop
def induction_score(pattern, period):
    weights = [pattern[i, i - period + 1].item() for i in range(period, pattern.shape[-1])]
    return sum(weights) / len(weights)


# variant: gather on the rows that count, in double precision
def induction_score(pattern, period):
    later = pattern[period:].to(torch.float64)
    keys = torch.arange(1, len(later) + 1).unsqueeze(1)
    return later.gather(1, keys).mean().item()


# variant: the diagonal of the rows that count, without the first key
def induction_score(pattern, period):
    return pattern[period:, 1:].diagonal().mean().tolist()


# variant: a trace over a corner
def induction_score(pattern, period):
    n = pattern.size(0) - period
    return (torch.trace(pattern[period:, 1 : n + 1]) / n).item()
