# variant: a mask of what is forbidden
import torch


def constrain(logits, allowed):
    V = logits.shape[-1]
    ids = allowed.tolist() if torch.is_tensor(allowed) else list(allowed)
    assert ids, "allowed must not be empty"
    for i in ids:
        assert 0 <= i < V, f"the id {i} is not in a vocabulary of {V}"
    forbidden = torch.ones(V, dtype=torch.bool, device=logits.device)
    forbidden[torch.tensor(ids, device=logits.device)] = False
    return logits.masked_fill(forbidden, float("-inf"))


# variant: 0 for the allowed ids and -inf for the others is added
import torch


def constrain(logits, allowed):
    ids = torch.as_tensor(allowed if isinstance(allowed, torch.Tensor) else sorted(set(allowed)), dtype=torch.long)
    if ids.numel() == 0:
        raise ValueError("nothing is allowed")
    wrong = ids[(ids < 0) | (ids >= logits.shape[-1])]
    if len(wrong):
        raise ValueError(f"there is no id {wrong[0].item()}")
    bias = logits.new_full((logits.shape[-1],), float("-inf")).index_fill(0, ids.to(logits.device), 0.0)
    return logits + bias


# variant: index_copy along the last axis
import torch


def constrain(logits, allowed):
    ids = sorted({int(i) for i in allowed})
    if not ids:
        raise ValueError("allowed has no ids")
    if ids[0] < 0 or ids[-1] >= logits.size(-1):
        raise ValueError(f"ids from {ids[0]} to {ids[-1]} are no ids of {logits.size(-1)} logits")
    where = torch.tensor(ids, device=logits.device)
    return torch.full_like(logits, float("-inf")).index_copy(-1, where, logits.index_select(-1, where))


# variant: torch.where, with a comparison of all ids
import torch


def constrain(logits, allowed):
    ids = allowed if torch.is_tensor(allowed) else torch.tensor([*allowed], dtype=torch.int64)
    if ids.shape[0] < 1:
        raise ValueError("allowed needs at least one id")
    smallest, largest = ids.min().item(), ids.max().item()
    if smallest < 0:
        raise ValueError(f"{smallest} is below 0")
    if largest >= logits.shape[-1]:
        raise ValueError(f"{largest} is not below {logits.shape[-1]}")
    vocabulary = torch.arange(logits.shape[-1], device=logits.device)
    keep = (vocabulary[:, None] == ids.to(logits.device)).any(dim=1)
    return torch.where(keep, logits, torch.tensor(-torch.inf, dtype=logits.dtype, device=logits.device))
