# variant: plain Python, row by row
def classify_head(pattern):
    rows = pattern.tolist()
    n = len(rows) - 1
    totals = {"previous": 0.0, "first": 0.0, "self": 0.0}
    distance = largest = 0.0
    for i in range(1, n + 1):
        totals["previous"] += rows[i][i - 1]
        totals["first"] += rows[i][0]
        totals["self"] += rows[i][i]
        distance += sum(abs(weight - 1 / (i + 1)) for weight in rows[i][: i + 1]) / 2
        largest += max(rows[i])
    best = max(totals.values())
    if best / n > 0.6:
        return [name for name, total in totals.items() if total == best][0]
    if distance / n < 0.15:
        return "uniform"
    return "sparse" if largest / n > 0.8 else "mixed"


# variant: gather at the three places, in double precision
def classify_head(pattern):
    p = pattern.double()[1:]
    T = p.shape[1]
    i = torch.arange(1, T)
    places = torch.stack([i - 1, torch.zeros_like(i), i], dim=1)
    means = p.gather(1, places).mean(0)
    best = int(means.argmax())
    if float(means[best]) > 0.6:
        return ("previous", "first", "self")[best]
    even = torch.tril(torch.ones(T, T, dtype=torch.float64))[1:]
    even /= even.sum(-1, keepdim=True)
    if float((p - even).clamp(min=0).sum(-1).mean()) < 0.15:  # what is too much is half of all differences
        return "uniform"
    return "sparse" if float(p.max(-1).values.mean()) > 0.8 else "mixed"


# variant: total variation as one minus the common part
def classify_head(pattern):
    T = pattern.size(-1)
    body = pattern[1:]
    named = [("self", torch.diagonal(body, 1).mean()), ("previous", torch.diagonal(body).mean()), ("first", body.select(1, 0).mean())]
    name, weight = max(named, key=lambda pair: pair[1])
    if weight > 0.6:
        return name
    even = torch.ones_like(pattern).tril() / torch.arange(1, T + 1).to(pattern).unsqueeze(1)
    overlap = torch.minimum(body, even[1:]).sum(-1)
    if (1 - overlap).mean() < 0.15:
        return "uniform"
    if body.topk(1, dim=-1).values.mean() > 0.8:
        return "sparse"
    return "mixed"
