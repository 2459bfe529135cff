# variant: one branch for each kind, with sum
def choice_score(log_probs, n_bytes, kind="byte"):
    if len(log_probs) == 0:
        raise ValueError("log_probs has no numbers")
    if n_bytes < 1:
        raise ValueError(f"n_bytes = {n_bytes} is below 1")
    total = sum(log_probs)
    if kind == "sum":
        return total
    if kind == "token":
        return total / len(log_probs)
    if kind == "byte":
        return total / n_bytes
    raise ValueError(f"unknown kind: {kind}")


# variant: tensors in float64, and a match statement
def choice_score(log_probs, n_bytes, kind="byte"):
    assert n_bytes >= 1, f"n_bytes is {n_bytes}"
    assert log_probs, "log_probs is empty"
    values = torch.tensor(log_probs, dtype=torch.float64)
    match kind:
        case "sum":
            return values.sum().item()
        case "token":
            return values.mean().item()
        case "byte":
            return (values.sum() / n_bytes).item()
    raise ValueError(f"kind = {kind!r}")


# variant: a function for each kind, in float32
def choice_score(log_probs, n_bytes, kind="byte"):
    lengths = {"sum": lambda: 1, "token": lambda: len(log_probs), "byte": lambda: n_bytes}
    if kind not in lengths:
        raise ValueError(f"kind must be one of {sorted(lengths)}, not {kind!r}")
    if not log_probs or n_bytes < 1:
        raise ValueError(f"log_probs = {list(log_probs)} and n_bytes = {n_bytes} do not make a choice")
    return float(torch.tensor(log_probs).sum() / lengths[kind]())
