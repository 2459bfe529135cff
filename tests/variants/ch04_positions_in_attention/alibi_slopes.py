# variant: the recursion of the paper's own code
def alibi_slopes(n_heads):
    import math

    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n_heads).is_integer():
        return torch.tensor(of_power(n_heads))
    closest = 2 ** math.floor(math.log2(n_heads))
    return torch.tensor(of_power(closest) + of_power(2 * closest)[0::2][: n_heads - closest])


# variant: tensors from the start, in double precision inside
def alibi_slopes(n_heads: int) -> Tensor:
    power = 1
    while power * 2 <= n_heads:
        power *= 2
    slopes = torch.pow(2.0, -8.0 * torch.arange(1, power + 1, dtype=torch.float64) / power)
    odd = torch.pow(2.0, -4.0 * torch.arange(1, 2 * power, 2, dtype=torch.float64) / power)
    return torch.cat([slopes, odd])[:n_heads].float()


# variant: calls itself for the powers on both sides
def alibi_slopes(n_heads):
    power = 1 << (n_heads.bit_length() - 1)
    if power == n_heads:
        return (2.0 ** (-8.0 / n_heads)) ** torch.arange(1, n_heads + 1).float()
    return torch.cat((alibi_slopes(power), alibi_slopes(2 * power)[::2][: n_heads - power]))


# variant: head after head
def alibi_slopes(n_heads):
    power = max(p for p in (2**e for e in range(20)) if p <= n_heads)
    slopes = torch.zeros(n_heads)
    for h in range(n_heads):
        exponent = (h + 1) / power if h < power else (2 * (h - power) + 1) / (2 * power)
        slopes[h] = 256.0**-exponent
    return slopes
