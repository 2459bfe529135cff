# variant: as torch does, with a small number below the line
def clip_gradients(parameters, max_norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    total = torch.norm(torch.stack([torch.norm(g.detach(), 2) for g in grads]), 2)
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for g in grads:
        g.mul_(factor.to(g.dtype))
    return total.item()


# variant: a loop for the norm, and a copy of the scaled numbers into each gradient
def clip_gradients(parameters, max_norm):
    parameters = list(parameters)
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += float((p.grad.double() ** 2).sum())
    norm = total**0.5
    factor = min(1.0, max_norm / norm) if norm > 0 else 1.0
    for p in parameters:
        if p.grad is not None:
            p.grad.copy_(p.grad * factor)
    return norm


# variant: one long vector
def clip_gradients(parameters, max_norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    long = torch.cat([g.reshape(-1) for g in grads]) if grads else torch.zeros(0)
    norm = torch.linalg.vector_norm(long).item()
    with torch.no_grad():
        if norm >= max_norm:
            for g in grads:
                g.copy_(g / norm * max_norm)
    return norm


# variant: a filter, hypot, and .data
def clip_gradients(parameters, max_norm):
    held = [p for p in parameters if p.grad is not None]
    norm = math.hypot(*(p.grad.norm().item() for p in held))
    if norm <= max_norm:
        return norm
    for p in held:
        p.grad.data.div_(norm / max_norm)
    return norm
