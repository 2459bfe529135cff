# variant: the distance to the mean, made larger
def leave_one_out_advantages(rewards, group_size):
    if group_size <= 1 or len(rewards) % group_size:
        raise ValueError(f"group_size={group_size} does not fit {len(rewards)} rewards")
    rows = rewards.reshape(-1, group_size)
    return ((rows - rows.mean(1, keepdim=True)) * group_size / (group_size - 1)).reshape(-1)


# variant: answer by answer
import torch


def leave_one_out_advantages(rewards, group_size):
    assert group_size >= 2, f"a group of {group_size} has no others"
    assert len(rewards) % group_size == 0, f"groups of {group_size} do not fill {len(rewards)} rewards"
    advantages = torch.empty_like(rewards)
    for i in range(len(rewards)):
        start = i - i % group_size
        others = torch.cat([rewards[start:i], rewards[i + 1 : start + group_size]])
        advantages[i] = rewards[i] - others.mean()
    return advantages


# variant: one matrix for all groups
import torch


def leave_one_out_advantages(rewards, group_size):
    n = len(rewards)
    if group_size < 2 or n != n // group_size * group_size:
        raise ValueError(f"group_size must be at least 2 and divide {n}, not {group_size}")
    own = torch.eye(group_size, dtype=rewards.dtype, device=rewards.device)
    compare = own - (1 - own) / (group_size - 1)
    return torch.cat([compare @ group for group in rewards.split(group_size)])


# variant: the mean of all pairs of differences
def leave_one_out_advantages(rewards, group_size):
    if group_size < 2:
        raise ValueError(f"group_size {group_size} is below 2")
    count, rest = divmod(rewards.numel(), group_size)
    if rest:
        raise ValueError(f"{rest} rewards are left after {count} groups of group_size {group_size}")
    groups = rewards.unflatten(0, (count, group_size))
    differences = groups[:, :, None] - groups[:, None, :]
    return (differences.sum(-1) / (group_size - 1)).flatten()
