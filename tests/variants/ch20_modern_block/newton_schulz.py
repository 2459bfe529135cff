# variant: without transposing, the smaller product from the left or from the right
def newton_schulz(m, steps=5):
    x = m / (m.square().sum().sqrt() + 1e-7)
    for _ in range(steps):
        if m.size(0) > m.size(1):
            square = x.T @ x
            x = 3.4445 * x + x @ (-4.7750 * square + 2.0315 * square @ square)
        else:
            square = x @ x.T
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x


# variant: recursion for high matrices, and addmm
def newton_schulz(m, steps=5):
    if m.shape[0] > m.shape[1]:
        return newton_schulz(m.t(), steps).t()
    x = m.div(torch.linalg.norm(m) + 1e-7)
    for _ in range(steps):
        A = x.mm(x.t())
        B = torch.addmm(A, A, A, beta=-4.7750, alpha=2.0315)
        x = torch.addmm(x, B, x, beta=3.4445)
    return x


# variant: in double precision, rounded at the end
def newton_schulz(m, steps=5):
    x = m.to(torch.float64)
    wide = x if x.size(0) <= x.size(1) else x.T
    wide = wide / (wide.norm(p="fro") + 1e-7)
    for _ in range(steps):
        s = wide @ wide.T
        wide = (3.4445 * torch.eye(len(s), dtype=s.dtype, device=s.device) - 4.7750 * s + 2.0315 * s @ s) @ wide
    return (wide if x.size(0) <= x.size(1) else wide.T).to(m.dtype)
