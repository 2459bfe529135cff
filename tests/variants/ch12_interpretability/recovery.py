# variant: plain floats first
def recovery(clean, corrupted, patched, target):
    top, bottom, now = (float(logits[target]) for logits in (clean, corrupted, patched))
    if top == bottom:
        raise ValueError(f"nothing was lost of target {target}")
    return (now - bottom) / (top - bottom)


# variant: what is missing, taken from 1; an assertion
def recovery(clean, corrupted, patched, target):
    c, k, p = torch.stack([clean, corrupted, patched])[:, target].double().tolist()
    assert abs(c - k) > 1e-12, f"logit {c} of {target} in both"
    return 1 - (c - p) / (c - k)


# variant: the division is tried
def recovery(clean, corrupted, patched, target):
    try:
        return (patched[target].item() - corrupted[target].item()) / (clean[target].item() - corrupted[target].item())
    except ZeroDivisionError:
        raise ValueError(f"token {target}: clean and corrupted logits are equal") from None
