# variant: recursion over pairs of positions
def doubling_scan(a, b):
    T = b.size(0)
    if T == 1:
        return b
    half = T // 2
    early_a, late_a, early_b, late_b = a[: 2 * half : 2], a[1::2], b[: 2 * half : 2], b[1::2]
    late = doubling_scan(late_a * early_a, late_a * early_b + late_b)  # x at the odd positions
    before = torch.cat([torch.zeros_like(late[:1]), late])[: (T + 1) // 2]
    even = a[::2] * before + b[::2]
    both = torch.stack([even[:half], late], dim=1).flatten(0, 1)
    return both if T % 2 == 0 else torch.cat([both, even[half:]])


# variant: zeros and ones are moved in at the beginning
def doubling_scan(a, b):
    shift = 1
    while shift < b.shape[0]:
        zeros, ones = torch.zeros_like(b[:shift]), torch.ones_like(a[:shift])
        b = torch.addcmul(b, a, torch.cat((zeros, b[:-shift])))
        a = a * torch.cat((ones, a[:-shift]))
        shift += shift
    return b


# variant: the number of rounds is known, and a clone is changed in place
def doubling_scan(a, b):
    T = b.size(0)
    for i in range(math.ceil(math.log2(T))):
        shift = 2**i
        new_a, new_b = a.clone(), b.clone()
        new_b[shift:] = b[shift:] + a[shift:] * b[:-shift]
        new_a[shift:] = a[shift:] * a[:-shift]
        a, b = new_a, new_b
    return b


# variant: where and roll
def doubling_scan(a, b):
    T, shift = len(b), 1
    at = torch.arange(T, device=b.device).reshape(T, *[1] * (b.dim() - 1))
    while shift < T:
        has = at >= shift
        b = torch.where(has, a * b.roll(shift, 0) + b, b)
        a = torch.where(has, a * a.roll(shift, 0), a)
        shift <<= 1
    return b
