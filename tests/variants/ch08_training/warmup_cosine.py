# variant: one expression
def warmup_cosine(step, warmup, total, peak, floor=0.0):
    return (
        peak * step / warmup
        if step < warmup
        else floor + (peak - floor) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))
    )


# variant: the square of a cosine of half the angle
def warmup_cosine(step, warmup, total, peak, floor=0.0):
    if step < warmup:
        return step * (peak / warmup)
    progress = min(step, total) - warmup
    return floor + (peak - floor) * math.cos(math.pi / 2 * progress / (total - warmup)) ** 2


# variant: tensors inside, a tensor of one number comes back
def warmup_cosine(step, warmup, total, peak, floor=0.0):
    step = torch.tensor(step, dtype=torch.float64)
    up = peak * step / max(warmup, 1)
    progress = ((step - warmup) / (total - warmup)).clamp(0, 1)
    down = floor + (peak - floor) * (1 + torch.cos(math.pi * progress)) / 2
    return torch.where(step < warmup, up, down)


# variant: the middle of peak and floor, and a swing around it
def warmup_cosine(step, warmup, total, peak, floor=0.0):
    if step > total:
        return floor
    if warmup > step:
        return peak / warmup * step
    middle, swing = (peak + floor) / 2, (peak - floor) / 2
    return middle + swing * math.cos((step - warmup) / (total - warmup) * math.pi)


# variant: the cosine of a float32 tensor, which is right to seven digits
def warmup_cosine(step, warmup, total, peak, floor=0.0):
    if step < warmup:
        return peak * step / warmup
    way = torch.tensor(min(1.0, (step - warmup) / (total - warmup)))
    return (floor + (peak - floor) * (1 + torch.cos(math.pi * way)) / 2).item()
