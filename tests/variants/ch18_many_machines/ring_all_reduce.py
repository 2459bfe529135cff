# variant: part i has every n-th number, from i on
import torch


def ring_all_reduce(t, group):
    n, rank = group.size, group.rank
    result = t.clone().reshape(-1)
    for step in range(2 * (n - 1)):
        out, into = (rank - step) % n, (rank - step - 1) % n
        group.send(result[out::n], (rank + 1) % n)
        arrived = group.receive(result[into::n].shape, (rank - 1) % n)
        result[into::n] = arrived + result[into::n] if step < n - 1 else arrived
    return result.reshape(t.shape)


# variant: what travels is carried along; the last part to arrive finished is the next rank's
import torch


def ring_all_reduce(t, group):
    n, me = group.size, group.rank
    bounds = [i * t.numel() // n for i in range(n + 1)]
    mine = [t.reshape(-1)[a:b] for a, b in zip(bounds, bounds[1:])]
    done = {}
    carried = mine[me - 1]
    for step in range(1, n):
        group.send(carried, (me + 1) % n)
        part = mine[(me - 1 - step) % n]
        carried = part + group.receive(tuple(part.shape), (me - 1) % n)
    done[me] = carried
    for step in range(1, n):
        group.send(carried, (me + 1) % n)
        carried = group.receive(tuple(mine[(me - step) % n].shape), (me - 1) % n)
        done[(me - step) % n] = carried
    return torch.cat([done[i] for i in range(n)]).reshape(t.shape)


# variant: two functions, torch.where of positions
import torch


def ring_all_reduce(t, group):
    n, rank = group.size, group.rank
    owner = torch.arange(t.numel()) * n // max(t.numel(), 1)
    places = [torch.where(owner == part)[0] for part in range(n)]
    total = torch.clone(t).flatten()

    def travel(first, combine):
        for step in range(n - 1):
            sent, got = places[(first - step) % n], places[(first - step - 1) % n]
            group.send(total.index_select(0, sent), (rank + 1) % n)
            arrived = group.receive([len(got)], (rank + n - 1) % n)
            total.index_copy_(0, got, combine(total[got], arrived))

    travel(rank, torch.add)
    travel(rank + 1, lambda own, arrived: arrived)
    return total.unflatten(0, t.shape) if t.dim() else total[0]
