# variant: pair by pair
def yarn_angles(positions, d_head, factor, trained_length, base=10000.0, fast=32.0, slow=1.0):
    if d_head % 2:
        raise ValueError(f"d_head = {d_head}")
    if factor < 1:
        raise ValueError(f"factor = {factor}")
    i_fast, i_slow = (math.log(trained_length / (turns * 2 * math.pi), base) * d_head / 2 for turns in (fast, slow))
    frequencies = []
    for i in range(d_head // 2):
        share = min(max((i - i_fast) / (i_slow - i_fast), 0.0), 1.0)
        frequencies.append(base ** (-2 * i / d_head) * (1 - share + share / factor))
    return torch.outer(positions.double(), torch.tensor(frequencies, dtype=torch.float64, device=positions.device)), 0.1 * math.log(factor) + 1


# variant: angles of chapter 4, slowed down
from .ch04_positions_in_attention import rope_angles


def yarn_angles(positions, d_head, factor, trained_length, base=10000.0, fast=32.0, slow=1.0):
    assert factor >= 1, f"factor = {factor}"
    angles = rope_angles(positions, d_head, base)
    pairs = torch.arange(d_head // 2, device=positions.device)
    first = d_head / 2 * math.log(trained_length / (2 * math.pi * fast)) / math.log(base)
    last = d_head / 2 * math.log(trained_length / (2 * math.pi * slow)) / math.log(base)
    slower = ((pairs - first) / (last - first)).clamp(min=0.0, max=1.0)
    return angles * (1 - slower * (1 - 1 / factor)), 1.0 + math.log(factor) / 10


# variant: torch.where for the three kinds of pairs
def yarn_angles(positions, d_head, factor, trained_length, base=10000.0, fast=32.0, slow=1.0):
    if factor < 1 or d_head % 2 == 1:
        raise ValueError(f"factor = {factor} should be at least 1, and d_head = {d_head} even")
    i = torch.arange(0, d_head // 2, dtype=torch.float64, device=positions.device)
    usual = torch.tensor(base, dtype=torch.float64, device=positions.device).pow(-2 * i / d_head)
    edge = [d_head * (math.log(trained_length) - math.log(2 * math.pi * n)) / (2 * math.log(base)) for n in (fast, slow)]
    ramp = (i - edge[0]) / (edge[1] - edge[0])
    between = usual * (1 - ramp) + usual * ramp / factor
    mixed = torch.where(i <= edge[0], usual, torch.where(i >= edge[1], usual / factor, between))
    return mixed[None, :] * positions.unsqueeze(-1), 0.1 * math.log(factor) + 1
