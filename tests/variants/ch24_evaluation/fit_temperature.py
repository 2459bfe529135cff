# variant: golden section search of log temperature, and the limits themselves
import math

import torch
import torch.nn.functional as F


def fit_temperature(logits, targets):
    if logits.shape[0] == 0:
        raise ValueError(f"logits {tuple(logits.shape)} has no rows")
    z = logits.to(torch.float64)

    def loss(t):
        return F.cross_entropy(z / math.exp(t), targets).item()

    ratio = (math.sqrt(5) - 1) / 2
    low, high = math.log(0.01), math.log(100)
    ends = [low, high]
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = loss(a), loss(b)
    for _ in range(90):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = loss(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = loss(b)
    return math.exp(min([(low + high) / 2, *ends], key=loss))


# variant: the root of the slope that autograd gives, in temperature
import torch.nn.functional as F


def fit_temperature(logits, targets):
    assert len(logits) > 0, "logits is empty"
    z = logits.detach().double()

    def slope(temperature):
        t = torch.tensor(temperature, dtype=torch.float64, requires_grad=True)
        with torch.enable_grad():
            loss = F.cross_entropy(z / t, targets)
            return torch.autograd.grad(loss, t)[0].item()

    low, high = 0.01, 100.0
    if slope(low) >= 0:
        return low
    if slope(high) <= 0:
        return high
    for _ in range(100):
        middle = math.sqrt(low * high)
        if slope(middle) < 0:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


# variant: Newton's steps in b = 1 / temperature, kept between two limits that close in
def fit_temperature(logits, targets):
    n = logits.size(0)
    if n < 1:
        raise ValueError(f"logits has {n} rows")
    z = logits.double()
    z = z - z.gather(1, targets.unsqueeze(1))  # the target's logit is 0 in each row
    low, high, b = 1 / 100, 1 / 0.01, 1.0
    for _ in range(200):
        p = (b * z).softmax(dim=1)
        mean = (p * z).sum(dim=1)
        slope = mean.mean().item()
        curvature = ((p * z * z).sum(dim=1) - mean * mean).mean().item()
        if slope > 0:
            high = b
        else:
            low = b
        following = b - slope / curvature if curvature > 0 else low - 1
        b = following if low < following < high else math.sqrt(low * high)
        if high / low < 1 + 1e-14:
            break
    return 1 / b
