# variant: z by bisection of math.erf
import math


def questions_needed(accuracy, difference, power=0.8):
    if accuracy < 0 or accuracy > 1:
        raise ValueError(f"accuracy must be from 0 to 1, not {accuracy}")
    second = accuracy + difference
    if difference <= 0:
        raise ValueError(f"difference must be above 0, not {difference}")
    if second > 1 + 1e-12:
        raise ValueError(f"accuracy + difference = {second} for difference = {difference}")
    if power <= 0.5 or power >= 1:
        raise ValueError(f"power must be between 0.5 and 1, not {power}")

    def z(p):
        low, high = -10.0, 10.0
        while high - low > 1e-14:
            middle = (low + high) / 2
            if (1 + math.erf(middle / math.sqrt(2))) / 2 < p:
                low = middle
            else:
                high = middle
            if middle in (low, high) and high - low < 1e-13:
                break
        return (low + high) / 2

    second = min(second, 1.0)
    per_answer = accuracy - accuracy**2 + second - second**2
    n = math.ceil(per_answer * ((z(0.975) + z(power)) / difference) ** 2)
    return n if n > 1 else 1


# variant: torch's inverse, and whole numbers
import torch


def questions_needed(accuracy, difference, power=0.8):
    assert 0 <= accuracy <= 1, f"accuracy {accuracy}"
    p = [accuracy, accuracy + difference]
    assert difference > 0 and p[1] < 1 + 1e-6, f"difference {difference}"
    assert 0.5 < power < 1, f"power {power}"
    z = torch.special.ndtri(torch.tensor([0.975, power], dtype=torch.float64)).sum()
    p = torch.tensor(p, dtype=torch.float64).clamp(max=1)
    n = z**2 * (p * (1 - p)).sum() / difference**2
    return max(1, int(n.ceil()))


# variant: the standard error of a difference for one question each
from statistics import NormalDist


def questions_needed(accuracy, difference, power=0.8):
    if not (0 <= accuracy <= 1):
        raise ValueError(f"accuracy = {accuracy}")
    other = accuracy + difference
    if 1 < other < 1 + 1e-9:
        other = 1
    if difference <= 0 or other > 1:
        raise ValueError(f"difference = {difference}")
    if not (0.5 < power < 1):
        raise ValueError(f"power = {power}")
    error = math.sqrt(accuracy * (1 - accuracy) + other * (1 - other))
    normal = NormalDist(0, error)
    # the threshold and the mean are so far apart if n = 1; both errors shrink with the root of n
    apart = normal.inv_cdf(0.975) + normal.inv_cdf(power) if error > 0 else 0.0
    return max(math.ceil((apart / difference) ** 2), 1)
