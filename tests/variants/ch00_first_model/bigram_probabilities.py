# variant: row by row
import torch


def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0:
        raise ValueError(f"{smoothing=}")
    rows = []
    for row in counts:
        row = row.to(torch.float32) + smoothing
        total = row.sum()
        rows.append(row / total if total else torch.full(row.shape, 1 / len(row)))
    return torch.stack(rows)


# variant: NaN replaced afterwards, computed in float64
import torch


def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0.0:
        raise ValueError(f"smoothing must not be below 0, and it is {smoothing}")
    n = counts.double() + smoothing
    return (n / n.sum(1, keepdim=True)).nan_to_num(1 / counts.shape[1]).float()


# variant: empty rows filled with ones first
import torch


def bigram_probabilities(counts, smoothing=1.0):
    if not smoothing >= 0:
        raise ValueError(smoothing)
    table = counts.clone().to(torch.float32)
    table += smoothing
    table[table.sum(dim=1) == 0] = 1.0
    return table / table.sum(dim=1).unsqueeze(1)


# variant: torch's normalize, and the transposed table divided by the sums
import torch


def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0:
        raise ValueError(f"a smoothing of {smoothing} would make counts negative")
    vocab = counts.size(0)
    total = counts.sum(1).float() + smoothing * vocab
    found = ((counts.float() + smoothing).T / total).T
    return torch.where(torch.isnan(found), torch.tensor(1.0 / vocab), found)


# variant: normalize with the 1-norm, after rows of zeros became rows of ones
def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0:
        raise ValueError(f"smoothing = {smoothing} is negative")
    smoothed = counts.float() + smoothing
    nothing = smoothed.sum(dim=-1) == 0
    smoothed[nothing] = 1.0
    return torch.nn.functional.normalize(smoothed, p=1.0, dim=-1, eps=0.0)


# variant: softmax of the logarithms
def bigram_probabilities(counts, smoothing=1.0):
    assert smoothing >= 0, f"smoothing = {smoothing} is below 0"
    logits = (counts.to(torch.float64) + smoothing).log()
    logits[logits.isinf().all(dim=-1)] = 0.0
    return logits.softmax(dim=-1).float()


# variant: a diagonal matrix of reciprocal sums, multiplied from the left
def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0:
        raise ValueError(f"smoothing = {smoothing} is negative")
    smoothed = counts.double() + smoothing
    sums = torch.einsum("ab->a", smoothed)
    smoothed = smoothed.masked_fill((sums == 0)[:, None], 1.0)
    scale = torch.diag(smoothed.sum(dim=1).reciprocal())
    return (scale @ smoothed).to(torch.float32)


# variant: rows of Python floats
def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0:
        raise ValueError(f"{smoothing} is negative")
    V = counts.shape[0]
    rows = []
    for row in counts.tolist():
        total = sum(row) + V * smoothing
        rows.append([(count + smoothing) / total if total > 0 else 1 / V for count in row])
    return torch.tensor(rows, dtype=torch.float32).reshape(V, V)


# variant: columns of the transposed table, returned as a transposed view
def bigram_probabilities(counts, smoothing=1.0):
    if not smoothing >= 0:
        raise ValueError(f"smoothing = {smoothing!r}, but it cannot be negative")
    by_next = counts.T.float().clone() + smoothing
    sums = by_next.sum(dim=0)
    uniform = torch.full_like(by_next, 1.0 / len(counts))
    return torch.where(sums != 0, by_next / sums, uniform).T


# variant: the shares of the counts and of uniform, mixed
def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0:
        raise ValueError(f"smoothing = {smoothing} is negative")
    V = counts.shape[-1]
    sums = counts.sum(dim=-1, keepdim=True).double()
    shares = counts / sums.clamp(min=1)
    added = V * smoothing
    weight = torch.where(sums > 0, sums / (sums + added).clamp(min=1e-300), 0.0)
    return (weight * shares + (1 - weight) / V).float()


# variant: in place, on the copy of the whole numbers that float() makes
def bigram_probabilities(counts, smoothing=1.0):
    if smoothing < 0:
        raise ValueError(f"smoothing = {smoothing} is negative")
    p = counts.float()
    p += smoothing
    sums = p.sum(dim=-1, keepdim=True)
    p /= sums
    p[(sums == 0).squeeze(1)] = 1 / p.shape[-1]
    return p
