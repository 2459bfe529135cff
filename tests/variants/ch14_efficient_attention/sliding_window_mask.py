# variant: two comparisons of positions
def sliding_window_mask(q_len, window, k_len=None):
    if window < 1:
        raise ValueError(f"a window of {window} positions is not possible")
    if k_len is None:
        k_len = q_len
    query = torch.arange(q_len)[:, None] + (k_len - q_len)
    key = torch.arange(k_len)[None, :]
    distance = query - key
    return (distance >= 0) & (distance < window)


# variant: rows of a loop
def sliding_window_mask(q_len, window, k_len=None):
    assert window >= 1, f"window = {window}"
    k_len = k_len if k_len is not None else q_len
    mask = torch.zeros(q_len, k_len, dtype=torch.bool)
    for i in range(q_len):
        p = k_len - q_len + i
        mask[i, max(0, p - window + 1) : p + 1] = True
    return mask


# variant: the causal mask without the one that ends a window earlier
def sliding_window_mask(q_len, window, k_len=None):
    if not window > 0:
        raise ValueError("window is too small: " + str(window))
    k_len = q_len if k_len is None else k_len
    seen = torch.ones((q_len, k_len)).tril(k_len - q_len)
    return (seen - seen.tril(k_len - q_len - window)).bool()
