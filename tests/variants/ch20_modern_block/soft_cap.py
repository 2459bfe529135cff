# variant: by a softmax of the logit and its opposite
def soft_cap(logits, cap):
    if not cap > 0:
        raise ValueError(f"cap is {cap}, and must be above 0")
    up, down = torch.stack([logits / cap, -logits / cap]).softmax(dim=0)
    return cap * (up - down)


# variant: sigmoid of twice the argument
def soft_cap(logits, cap):
    assert cap > 0, f"cap = {cap}"
    return cap * (2 * torch.sigmoid(2 * logits / cap) - 1)


# variant: out of place methods
def soft_cap(logits, cap):
    if cap <= 0:
        raise ValueError("cap must be positive: " + str(cap))
    return logits.div(cap).tanh().mul(cap)
