# variant: a table of functions
import torch


def kl_estimate(policy, reference, kind="k3"):
    estimates = {
        "k1": lambda d: d,
        "k2": lambda d: d**2 / 2,
        "k3": lambda d: torch.exp(-d) - 1 + d,
    }
    if kind not in estimates:
        raise ValueError(f"no estimate {kind}")
    return estimates[kind](policy - reference.detach())


# variant: the ratio of reference and policy
def kl_estimate(policy, reference, kind="k3"):
    assert kind in ("k1", "k2", "k3"), f"{kind} is unknown"
    log_ratio = reference - policy
    if kind == "k3":
        return log_ratio.expm1() - log_ratio
    return -log_ratio if kind == "k1" else 0.5 * log_ratio * log_ratio


# variant: match
import torch


def kl_estimate(policy, reference, kind="k3"):
    d = torch.sub(policy, reference)
    match kind:
        case "k1":
            return d.clone()
        case "k2":
            return torch.square(d).mul(0.5)
        case "k3":
            return d + torch.special.expm1(-d)
        case _:
            raise ValueError("kind=" + repr(kind))
