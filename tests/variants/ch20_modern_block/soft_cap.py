# variant: by exponentials of negative numbers
def soft_cap(logits, cap):
    if not cap > 0:
        raise ValueError(f"cap is {cap}, and must be above 0")
    size = torch.exp(-2 * (logits / cap).abs())
    return cap * logits.sign() * (1 - size) / (1 + size)


# variant: sigmoid of twice the argument
def soft_cap(logits, cap):
    assert cap > 0, f"cap = {cap}"
    return cap * (2 * torch.sigmoid(2 * logits / cap) - 1)


# variant: out of place methods
def soft_cap(logits, cap):
    if cap <= 0:
        raise ValueError("cap must be positive: " + str(cap))
    return logits.div(cap).tanh().mul(cap)
