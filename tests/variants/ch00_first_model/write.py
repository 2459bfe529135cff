# variant: a uniform number and the cumulative sums of the row
import torch


def write(probabilities, start, n, generator=None):
    sums = probabilities.double().cumsum(dim=-1)
    text = [start]
    while len(text) <= n:
        u = torch.rand(1, generator=generator, dtype=torch.float64) * sums[text[-1], -1]
        text.append(int(torch.searchsorted(sums[text[-1]], u, right=True)))
    return text


# variant: recursion without the last id
import torch


def write(probabilities, start, n, generator=None):
    text, here = [start], start
    for _ in range(n):
        here = torch.multinomial(probabilities[here], num_samples=1, generator=generator).item()
        text += [here]
    return text


# variant: a table of ids, filled place by place
import torch


def write(probabilities, start, n, generator=None):
    ids = torch.full((n + 1,), start, dtype=torch.long)
    for t in range(1, n + 1):
        ids[t] = torch.multinomial(probabilities[ids[t - 1]], 1, generator=generator)[0]
    return ids.tolist()


# variant: Gumbel noise
import torch


def write(probabilities, start, n, generator=None):
    text = [int(start)]
    for _ in range(n):
        noise = -torch.log(-torch.log(torch.rand(probabilities.shape[1], generator=generator, dtype=torch.float64)))
        text.append((probabilities[text[-1]].log() + noise).argmax().item())
    return text
