# variant: momenta in a list, lerp
class Muon:
    def __init__(self, params, lr=0.02, momentum=0.95, steps=5, weight_decay=0.0):
        params = [*params]
        for p in params:
            if p.ndim != 2:
                raise ValueError(f"a parameter has the shape {tuple(p.shape)}, and is no matrix")
        self.param_groups = [dict(params=params, lr=lr, momentum=momentum, steps=steps, weight_decay=weight_decay)]
        self.momenta = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self):
        [group] = self.param_groups
        for p, v in zip(group["params"], self.momenta):
            if p.grad is not None:
                v.lerp_(p.grad, 1 - group["momentum"])
                update = newton_schulz(p.grad.lerp(v, group["momentum"]), steps=group["steps"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5)

    def zero_grad(self):
        for p in self.param_groups[0]["params"]:
            p.grad = None


# variant: an optimizer of torch, with its state
class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, steps=5, weight_decay=0.0):
        params = list(params)
        assert all(p.dim() == 2 for p in params), f"shapes {[tuple(p.shape) for p in params if p.dim() != 2]}"
        super().__init__(params, dict(lr=lr, momentum=momentum, steps=steps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["v"] = group["momentum"] * state.get("v", 0) + (1 - group["momentum"]) * p.grad
                mixed = group["momentum"] * state["v"] + (1 - group["momentum"]) * p.grad
                height, width = p.shape
                change = newton_schulz(mixed, group["steps"]) * math.sqrt(max(height / width, 1.0))
                p.copy_((1 - group["lr"] * group["weight_decay"]) * p - group["lr"] * change)

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none=True)


# variant: momenta by number, the decay subtracted
class Muon:
    def __init__(self, params, lr=0.02, momentum=0.95, steps=5, weight_decay=0.0):
        self.param_groups = [{"params": [], "lr": lr, "momentum": momentum, "steps": steps, "weight_decay": weight_decay}]
        for p in params:
            if len(p.shape) != 2:
                raise ValueError(f"the shape {tuple(p.shape)} is not that of a matrix")
            self.param_groups[0]["params"].append(p)
        self.kept = {}

    def step(self):
        with torch.no_grad():
            for group in self.param_groups:
                for number, p in enumerate(group["params"]):
                    if p.grad is None:
                        continue
                    share = 1 - group["momentum"]
                    v = self.kept[number] = self.kept.get(number, torch.zeros_like(p)) * group["momentum"] + p.grad * share
                    way = newton_schulz(v * group["momentum"] + p.grad * share, group["steps"])
                    if p.shape[0] > p.shape[1]:
                        way = way * (p.shape[0] / p.shape[1]) ** 0.5
                    p -= group["lr"] * group["weight_decay"] * p
                    p -= group["lr"] * way

    def zero_grad(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None
