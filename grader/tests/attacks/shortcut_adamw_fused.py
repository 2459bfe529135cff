# in process: yes
# exercise: AdamW
"""Hopes that the fused operator is not on anybody's list."""

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
                state["step"] += 1
                getattr(torch, "_wmada_desuf_"[::-1])(
                    [p], [p.grad], [state["m"]], [state["v"]], [], [state["step"]], amsgrad=False, lr=group["lr"], beta1=group["betas"][0],
                    beta2=group["betas"][1], weight_decay=group["weight_decay"], eps=group["eps"], maximize=False,
                )
