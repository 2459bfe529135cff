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


# variant: all uniform numbers are drawn first
def write(probabilities, start, n, generator=None):
    cumulative = probabilities.double().cumsum(dim=-1)
    cumulative = cumulative / cumulative[:, -1:]
    ids = [int(start)]
    for u in torch.rand(n, generator=generator, dtype=torch.float64).tolist():
        ids.append(int((cumulative[ids[-1]] <= u).sum()))
    return ids


# variant: the shortest of exponential waiting times
def write(probabilities, start, n, generator=None):
    ids = [start]
    for _ in range(n):
        row = probabilities[ids[-1]].double()
        waiting = torch.empty_like(row).exponential_(generator=generator)
        possible = row > 0
        times = torch.where(possible, waiting / torch.where(possible, row, 1.0), torch.inf)
        ids.append(times.argmin().item())
    return ids


# variant: the generator gives the seed of Python's random module
def write(probabilities, start, n, generator=None):
    from random import Random

    seed = torch.randint(2**62, (1,), generator=generator).item()
    draws = Random(seed)
    rows = probabilities.tolist()
    text = [start]
    for _ in range(n):
        text.extend(draws.choices(range(len(rows)), weights=rows[text[-1]]))
    return text


# variant: the list is full from the beginning, with one multinomial of all rows for each step
def write(probabilities, start, n, generator=None):
    ids = [start] * (n + 1)
    for k in range(1, n + 1):
        everywhere = torch.multinomial(probabilities, 1, generator=generator).flatten()
        ids[k] = everywhere[ids[k - 1]].item()
    return ids


# variant: a Python generator of ids
def write(probabilities, start, n, generator=None):
    from itertools import islice

    def forever(last):
        while True:
            yield last
            last = int(probabilities[last].multinomial(1, generator=generator))

    return list(islice(forever(start), n + 1))
