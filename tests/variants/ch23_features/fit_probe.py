# variant: L-BFGS in float64, with the gradient of autograd
def fit_probe(states, labels, l2=1e-2):
    if l2 <= 0:
        raise ValueError(f"l2 must be above 0, and it is {l2}")
    if len(labels) != len(states):
        raise ValueError(f"there are {len(labels)} labels and {len(states)} states")
    if labels.double().min() == labels.double().max():
        raise ValueError("all labels are the same")
    x, y = states.detach().to(torch.float64), labels.to(torch.float64)
    weight = torch.zeros(x.size(1), dtype=x.dtype, requires_grad=True)
    bias = torch.zeros((), dtype=x.dtype, requires_grad=True)
    search = torch.optim.LBFGS(
        [weight, bias], max_iter=1000, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def loss():
        search.zero_grad()
        value = F.binary_cross_entropy_with_logits(x @ weight + bias, y) + l2 / 2 * weight.dot(weight)
        value.backward()
        return value

    search.step(loss)
    return weight.detach().to(states.dtype), bias.detach().to(states.dtype)


# variant: L-BFGS as torch has it, again and again
def fit_probe(states, labels, l2=0.01):
    assert l2 > 0, f"{l2=}"
    assert len(labels) == len(states), f"labels: {len(labels)}, states: {len(states)}"
    assert len(set(labels.tolist())) == 2, f"labels has only {labels[0]}"
    x, sign = states.detach().double(), labels.double() * 2 - 1
    theta = torch.zeros(x.shape[1] + 1).double().requires_grad_()
    search = torch.optim.LBFGS([theta], line_search_fn="strong_wolfe")

    def loss():
        search.zero_grad()
        value = -F.logsigmoid(sign * (x @ theta[:-1] + theta[-1])).mean() + 0.5 * l2 * theta[:-1].square().sum()
        value.backward()
        return value

    for _ in range(10):
        search.step(loss)
    weight, bias = theta.detach().to(states.dtype).tensor_split([-1])
    return weight, bias[0]


# variant: iteratively reweighted least squares
def fit_probe(states, labels, l2=1e-2):
    if not l2 > 0:
        raise ValueError(f"l2 = {l2} is not above 0")
    N, D = states.shape
    if labels.shape != (N,) or not 0 < int(labels.bool().sum()) < N:
        raise ValueError(f"labels must be {N} numbers of both classes")
    x = torch.ones(N, D + 1, dtype=torch.float64)
    x[:, :D] = states.detach()
    y = labels.to(x.dtype)
    ridge = torch.cat([torch.full((D,), N * l2, dtype=x.dtype), torch.zeros(1, dtype=x.dtype)]).diag()
    theta = torch.zeros(D + 1, dtype=x.dtype)
    for _ in range(60):
        score = x @ theta
        p = score.sigmoid()
        importance = (p * (1 - p)).clamp(min=1e-12)
        wanted = score + (y - p) / importance
        theta = torch.linalg.solve(x.T @ (importance[:, None] * x) + ridge, x.T @ (importance * wanted))
    return theta[:D].to(states.dtype), theta[D].to(states.dtype)


# variant: gradient descent until the gradient is nearly 0
def fit_probe(states, labels, l2=1e-2):
    if l2 <= 0:
        raise ValueError(f"l2 is {l2}")
    if len(labels) != len(states) or len(labels.unique()) != 2:
        raise ValueError(f"labels: there should be {len(states)} of both classes")
    x, y = states.detach().double(), labels.double()
    with torch.no_grad():
        w, b = x.new_zeros(x.shape[1]), x.new_zeros(())
        last_w, last_b = w, b
        rate = 1 / ((1 + x.square().sum(1)).mean().item() / 4 + l2)
        for step in range(40000):
            ahead = step / (step + 3)
            w_there, b_there = w + ahead * (w - last_w), b + ahead * (b - last_b)
            off = torch.sigmoid(x @ w_there + b_there) - y
            slope_w, slope_b = off @ x / len(y) + l2 * w_there, off.mean()
            last_w, last_b = w, b
            w, b = w_there - rate * slope_w, b_there - rate * slope_b
            if slope_w.abs().max() < 1e-7 and slope_b.abs() < 1e-7:
                break
    return w.to(states.dtype), b.to(states.dtype)


# variant: plain gradient descent, with a step for every direction of the states
def fit_probe(states, labels, l2=1e-2):
    if l2 <= 0:
        raise ValueError(f"l2 is {l2}")
    if len(labels) != len(states) or len(labels.unique()) != 2:
        raise ValueError(f"labels: there should be {len(states)} of both classes")
    y, N = labels.double(), len(states)
    x = F.pad(states.detach().double(), (0, 1), value=1.0)
    decay = torch.tensor([l2] * states.shape[1] + [0.0], dtype=torch.float64)
    inverse = torch.linalg.inv(x.T @ x / (4 * N) + torch.diag(decay + 1e-9))
    theta = torch.zeros_like(decay)
    while True:
        slope = (torch.sigmoid(x @ theta) - y) @ x / N + decay * theta
        theta = theta - inverse @ slope
        if slope.norm() < 1e-8:
            return theta[:-1].to(states.dtype), theta[-1].to(states.dtype)


# variant: Newton's method with autograd's second derivatives, in the dtype of the states
def fit_probe(states, labels, l2=1e-2):
    if not l2 > 0:
        raise ValueError("l2 has to be above 0")
    if len(labels) != len(states):
        raise ValueError("labels and states differ in number")
    if labels.float().mean() in (0, 1):
        raise ValueError("labels has one class")
    states = states.detach()
    y = labels.to(states.dtype)

    def loss(theta):
        weight, bias = theta[:-1], theta[-1]
        score = states @ weight + bias
        return (F.softplus(score) - y * score).mean() + l2 * weight @ weight / 2

    theta = states.new_zeros(states.shape[1] + 1)
    for _ in range(20):
        g, h = torch.func.grad(loss)(theta), torch.func.hessian(loss)(theta)
        theta = theta - torch.linalg.solve(h, g)
    return theta[:-1].clone(), theta[-1].clone()


# variant: a probe in the span of the states
def fit_probe(states, labels, l2=1e-2):
    if l2 <= 0:
        raise ValueError(f"{l2=}")
    if len(states) != len(labels) or not labels.bool().any() or labels.bool().all():
        raise ValueError(f"labels {labels.tolist()} do not fit")
    x, y = states.detach().double(), labels.double()
    products, N = x @ x.T, len(x)
    alpha, bias = torch.zeros(N, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for _ in range(50):
        p = torch.sigmoid(products @ alpha + bias)
        spread = p * (1 - p) / N
        # weight = x.T @ alpha, and at the minimum alpha is (y - p) / (N l2)
        left = torch.zeros(N + 1, N + 1, dtype=torch.float64)
        left[:N, :N] = spread[:, None] * products + l2 * torch.eye(N)
        left[:N, N], left[N, :N], left[N, N] = spread, spread @ products, spread.sum()
        right = torch.cat([(p - y) / N + l2 * alpha, (p - y).mean()[None]])
        step = torch.linalg.solve(left, right)
        alpha, bias = alpha - step[:N], bias - step[N:]
    return (x.T @ alpha).to(states), bias[0].to(states)
