# variant: a loop over the bins
import torch


def calibration_error(confidence, correct, bins=10):
    n = len(confidence)
    if n == 0:
        raise ValueError("confidence is empty")
    if not ((0 <= confidence).all() and (confidence <= 1).all()):
        raise ValueError(f"confidence has values outside of [0, 1]: {confidence}")
    if confidence.shape != correct.shape:
        raise ValueError(f"confidence {confidence.shape} and correct {correct.shape}")
    if bins <= 0:
        raise ValueError(f"bins = {bins}")
    right = correct.to(confidence.dtype)
    total = 0.0
    for i in range(bins):
        inside = confidence >= i / bins
        if i < bins - 1:
            inside &= confidence < (i + 1) / bins
        m = int(inside.sum())
        if m > 0:
            total += m / n * abs(confidence[inside].mean().item() - right[inside].mean().item())
    return total


# variant: lists of numbers
from collections import defaultdict


def calibration_error(confidence, correct, bins=10):
    assert bins >= 1, f"bins {bins}"
    assert tuple(correct.shape) == tuple(confidence.shape), f"correct {tuple(correct.shape)}, confidence {tuple(confidence.shape)}"
    pairs = list(zip(confidence.tolist(), correct.tolist()))
    assert pairs and all(0 <= c <= 1 for c, _ in pairs), "confidence must have probabilities"
    members = defaultdict(list)
    for c, right in pairs:
        members[int(c * bins) if c < 1 else bins - 1].append((c, float(right)))
    error = 0.0
    for group in members.values():
        mean = sum(c for c, _ in group) / len(group)
        share = sum(right for _, right in group) / len(group)
        error += len(group) / len(pairs) * abs(mean - share)
    return error


# variant: bucketize, and sums by a matrix of members
def calibration_error(confidence, correct, bins=10):
    if confidence.dim() != 1 or confidence.size(0) < 1:
        raise ValueError(f"confidence needs one axis and a value, but its shape is {tuple(confidence.shape)}")
    if not torch.equal(confidence, confidence.clamp(0, 1)):
        raise ValueError("confidence has a number that is no probability")
    if correct.shape != confidence.shape:
        raise ValueError(f"correct {tuple(correct.shape)} != {tuple(confidence.shape)}")
    if bins < 1:
        raise ValueError(f"bins {bins} < 1")
    edges = torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins
    place = torch.bucketize(confidence.double(), edges, right=True)
    member = torch.nn.functional.one_hot(place, bins).double()
    number = member.sum(0)
    mean = (confidence.double() @ member) / number.clamp(min=1)
    share = (correct.double() @ member) / number.clamp(min=1)
    return ((mean - share).abs() @ number / number.sum()).item()
