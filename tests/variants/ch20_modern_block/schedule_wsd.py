# variant: the smaller of two lines
def schedule_wsd(step, warmup, decay, total, peak, floor=0.0):
    if warmup + decay > total:
        raise ValueError(f"{warmup} + {decay} > {total}: warmup, decay and total do not fit")
    if step >= total:
        return floor
    if step < warmup:
        return step / warmup * peak
    return peak if step <= total - decay else peak + (floor - peak) * (step - total + decay) / decay


# variant: interpolation between corners
def schedule_wsd(step, warmup, decay, total, peak, floor=0.0):
    assert warmup + decay <= total, f"warmup {warmup}, decay {decay}, total {total}"
    corners = [(0, 0.0 if warmup else peak), (warmup, peak), (total - decay, peak), (total, floor)]
    if step >= total:
        return floor
    for (start, low), (stop, high) in zip(corners, corners[1:]):
        if start <= step < stop:
            return low + (high - low) * (step - start) / (stop - start)
    return floor


# variant: match on the part of the training
def schedule_wsd(step, warmup, decay, total, peak, floor=0.0):
    stable_until = total - decay
    if warmup > stable_until:
        raise ValueError(f"warmup={warmup} decay={decay} total={total}")
    match (step < warmup, step < stable_until, step < total):
        case (True, _, _):
            return peak * step / warmup
        case (_, True, _):
            return peak
        case (_, _, True):
            remaining = (total - step) / decay
            return peak * remaining + floor * (1 - remaining)
        case _:
            return floor
