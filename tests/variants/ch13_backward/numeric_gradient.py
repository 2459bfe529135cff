# variant: all shifted copies first, then one call for each
def numeric_gradient(f, x, eps=1e-5):
    x = x.detach().to(torch.float64)
    n = x.numel()
    shifts = eps * torch.eye(n, dtype=torch.float64).reshape(n, *x.shape)
    up, down = [x + s for s in shifts], [x - s for s in shifts]
    values = [(float(f(a)), float(f(b))) for a, b in zip(up, down)]
    return torch.tensor([(a - b) / (2 * eps) for a, b in values], dtype=torch.float64).reshape(x.shape)


# variant: entry by entry in a clone, through its index, with more calls than needed
def numeric_gradient(f, x, eps=1e-5):
    import itertools

    exact = x.double()
    f(exact.clone())
    grad = torch.zeros(exact.shape, dtype=torch.float64, device=x.device)
    for place in itertools.product(*(range(size) for size in x.shape)):
        high, low = exact.clone(), exact.clone()
        high[place] += eps
        low[place] -= eps
        grad[place] = (f(high) - f(low)) / (2 * eps)
    return grad


# variant: one flat working copy, restored from a saved number, cloned for f
def numeric_gradient(f, x, eps=1e-5):
    work = x.to(torch.float64).flatten().clone()
    out = []
    for i in range(len(work)):
        saved = work[i].item()
        work[i] = saved + eps
        top = f(work.view(x.shape).clone())
        work[i] = saved - eps
        bottom = f(work.view(x.shape).clone())
        work[i] = saved
        out.append((float(top) - float(bottom)) * (0.5 / eps))
    return torch.as_tensor(out, dtype=torch.float64).view(x.shape)


# variant: under no_grad, with numpy
def numeric_gradient(f, x, eps=1e-5):
    import numpy as np

    with torch.no_grad():
        base = np.array(x.detach().cpu().double().numpy(), order="C")
        grad = np.zeros(base.shape)
        for place in np.ndindex(base.shape):
            step = np.zeros(base.shape)
            step[place] = eps
            a, b = f(torch.from_numpy(np.asarray(base + step))), f(torch.from_numpy(np.asarray(base - step)))
            grad[place] = (float(a) - float(b)) / (2 * eps)
    return torch.from_numpy(np.asarray(grad))
