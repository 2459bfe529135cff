# variant: any reward that is not the first one
def informative_groups(rewards, group_size):
    if group_size <= 0 or len(rewards) % group_size:
        raise ValueError(f"group_size={group_size} does not fit {len(rewards)} rewards")
    rows = rewards.reshape(-1, group_size)
    return (rows != rows[:, :1]).any(1, keepdim=True).expand(rows.shape).reshape(-1)


# variant: group by group, as sets
import torch


def informative_groups(rewards, group_size):
    assert group_size > 0, f"a group has at least one answer, not {group_size}"
    assert rewards.shape[0] % group_size == 0, f"groups of {group_size} do not fill {rewards.shape[0]} rewards"
    found = []
    values = rewards.tolist()
    for start in range(0, len(values), group_size):
        found += [len(set(values[start : start + group_size])) > 1] * group_size
    return torch.tensor(found, dtype=torch.bool, device=rewards.device)


# variant: in a result of its own
import torch


def informative_groups(rewards, group_size):
    if group_size < 1 or divmod(len(rewards), group_size)[1] != 0:
        raise ValueError(f"cannot make groups of size {group_size}")
    result = torch.zeros_like(rewards, dtype=torch.bool)
    for group, part in zip(rewards.split(group_size), result.split(group_size)):
        part.fill_(bool(group.max() != group.min()))
    return result


# variant: neighbours that differ
import torch


def informative_groups(rewards, group_size):
    if group_size < 1:
        raise ValueError(f"group_size = {group_size}")
    n = len(rewards)
    if n // group_size * group_size != n:
        raise ValueError(f"group_size = {group_size} does not divide {n}")
    steps = rewards.reshape(-1, group_size).diff(dim=1) != 0
    row = torch.arange(n, device=rewards.device) // group_size
    return steps.any(dim=1)[row]
