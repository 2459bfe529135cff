# in process: yes
# exercise: AdamW
"""Hopes that the function for single tensors, under a name joined at run time, is not watched."""

class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=torch.tensor(0.0), m=torch.zeros_like(p), v=torch.zeros_like(p))
                function = getattr(__import__("torch.optim.adam", fromlist=["adam"]), "_single" + "_tensor" + "_adam")
                function(
                    [p], [p.grad], [state["m"]], [state["v"]], [], [state["step"]], None, None, amsgrad=False, has_complex=False, beta1=group["betas"][0],
                    beta2=group["betas"][1], lr=group["lr"], weight_decay=group["weight_decay"], eps=group["eps"], maximize=False, capturable=False,
                    differentiable=False, decoupled_weight_decay=True,
                )
