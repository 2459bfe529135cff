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
