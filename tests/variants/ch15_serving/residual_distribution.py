# variant: maximum, and an in-place repair of the equal rows of a new tensor
def residual_distribution(target, draft):
    left = torch.maximum(target - draft, torch.zeros_like(target))
    equal = left.sum(-1) == 0
    left = torch.where(equal[..., None], target, left)
    return left / left.sum(-1, keepdim=True)


# variant: relu and nan_to_num with where
def residual_distribution(target, draft):
    left = torch.relu(target - draft)
    scaled = left / left.sum(dim=-1, keepdim=True)
    return torch.where(scaled.isnan(), target, scaled)


# variant: target minus the smaller of the two
def residual_distribution(target, draft):
    left = target - torch.minimum(target, draft)
    total = left.sum(-1, keepdim=True)
    nothing = total == 0
    return left / total.masked_fill(nothing, 1.0) + target * nothing
