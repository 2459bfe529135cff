# variant: log2 of e
def bits_per_byte(loss_sum, n_bytes):
    if n_bytes <= 0:
        raise ValueError(f"there are n_bytes = {n_bytes} bytes")
    return loss_sum * math.log2(math.e) / n_bytes


# variant: the mean first
def bits_per_byte(loss_sum, n_bytes):
    assert n_bytes >= 1, f"n_bytes = {n_bytes}"
    nats = loss_sum / n_bytes
    return nats / math.log(2)


# variant: with torch
def bits_per_byte(loss_sum, n_bytes):
    if not n_bytes > 0:
        raise ValueError("n_bytes must be positive: " + str(n_bytes))
    return (torch.tensor(float(loss_sum), dtype=torch.float64) / torch.tensor(2.0, dtype=torch.float64).log() / n_bytes).item()
