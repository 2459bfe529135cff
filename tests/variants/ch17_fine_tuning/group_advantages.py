# variant: group by group
import torch


def group_advantages(rewards, group_size, normalise=True):
    if group_size < 1 or rewards.numel() % group_size:
        raise ValueError(f"group_size = {group_size} does not divide {rewards.numel()}")
    result = torch.zeros_like(rewards)
    for start in range(0, len(rewards), group_size):
        group = rewards[start : start + group_size]
        if bool((group == group[0]).all()):
            continue
        centred = group - group.sum() / group_size
        if normalise:
            centred = centred / (centred.square().sum() / (group_size - 1)).sqrt()
        result[start : start + group_size] = centred
    return result


# variant: split, map and cat
import torch


def group_advantages(rewards, group_size, normalise=True):
    assert group_size > 0 and len(rewards) % group_size == 0, f"group_size = {group_size}, but there are {len(rewards)} rewards"

    def compare(group):
        if group.min() == group.max():
            return group * 0
        std, mean = torch.std_mean(group)
        return (group - mean) / std if normalise else group - mean

    return torch.cat([compare(group) for group in rewards.split(group_size)])


# variant: unflatten, where
import torch


def group_advantages(rewards, group_size, normalise=True):
    n_groups, left = divmod(rewards.shape[0], max(group_size, 1))
    if left or group_size < 1:
        raise ValueError(f"{group_size=} leaves {left} rewards")
    groups = rewards.unflatten(0, (n_groups, group_size))
    equal = (groups == groups[:, :1]).all(1, keepdim=True)
    difference = groups.sub(groups.mean(1, True))
    if normalise:
        spread = groups.var(1, keepdim=True).sqrt() if group_size > 1 else torch.ones_like(difference)
        difference = difference.div(torch.where(equal, 1, spread))
    return torch.where(equal, 0, difference).reshape(-1)


# variant: at most 1e-4 in the divisor
def group_advantages(rewards, group_size, normalise=True):
    if group_size < 1 or len(rewards) % group_size:
        raise ValueError(f"group_size = {group_size} does not fit {len(rewards)} rewards")
    groups = rewards.reshape(-1, group_size)
    centred = groups - groups.mean(dim=1, keepdim=True)
    if not normalise or group_size == 1:
        return centred.flatten()
    return (centred / (groups.std(dim=1, keepdim=True) + 1e-4)).flatten()
