# variant: a torch.optim.Optimizer, with its state in dicts and in-place operations
class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                root = (state["exp_avg_sq"].sqrt() / math.sqrt(1 - beta2 ** state["step"])).add_(group["eps"])
                p.addcdiv_(state["exp_avg"], root, value=-group["lr"] / (1 - beta1 ** state["step"]))


# variant: lists side by side, and .data instead of no_grad
class AdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.params = [p for p in params]
        self.param_groups = [{"params": self.params, "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}]
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.m = [torch.zeros_like(p.data) for p in self.params]
        self.v = [torch.zeros_like(p.data) for p in self.params]
        self.t = [0] * len(self.params)

    def step(self):
        lr, (b1, b2) = self.param_groups[0]["lr"], self.betas
        for i, p in enumerate(self.params):
            if p.grad is not None:
                g = p.grad.data
                self.t[i] += 1
                self.m[i] = self.m[i] + (1 - b1) * (g - self.m[i])
                self.v[i] = self.v[i] + (1 - b2) * (g * g - self.v[i])
                m_hat = self.m[i] / (1 - b1 ** self.t[i])
                v_hat = self.v[i] / (1 - b2 ** self.t[i])
                p.data -= lr * (m_hat / (v_hat**0.5 + self.eps) + self.weight_decay * p.data)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


# variant: state in double precision, copied in; gradients set to zero, not to None
class AdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.param_groups = [dict(params=tuple(params), lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)]
        self.states = {}

    def step(self):
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    s = self.states.setdefault(id(p), {"t": 0, "m": 0.0, "v": 0.0})
                    g, (b1, b2) = p.grad.double(), group["betas"]
                    s["t"] += 1
                    s["m"] = torch.lerp(g, s["m"] + torch.zeros_like(g), b1)
                    s["v"] = b2 * s["v"] + (1 - b2) * g**2
                    size = s["m"] / (1 - b1 ** s["t"]) / (torch.sqrt(s["v"] / (1 - b2 ** s["t"])) + group["eps"])
                    p.copy_(p.double() - group["lr"] * group["weight_decay"] * p.double() - group["lr"] * size)

    def zero_grad(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.zero_()


# variant: powers of the betas as running products
class AdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.param_groups = [{"params": list(params), "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}]
        self.kept = [[1.0, 1.0, torch.zeros_like(p), torch.zeros_like(p)] for p in self.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self):
        group = self.param_groups[0]
        (b1, b2), lr = group["betas"], group["lr"]
        for p, kept in zip(group["params"], self.kept):
            if p.grad is None:
                continue
            kept[0] *= b1
            kept[1] *= b2
            kept[2].lerp_(p.grad, 1 - b1)
            kept[3].lerp_(p.grad.square(), 1 - b2)
            p -= lr * group["weight_decay"] * p
            p -= lr / (1 - kept[0]) * kept[2] / ((kept[3] / (1 - kept[1])).sqrt() + group["eps"])

    def zero_grad(self, set_to_none=True):
        for p in self.param_groups[0]["params"]:
            p.grad = None
