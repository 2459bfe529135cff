# variant: gradients by torch.autograd.grad, added by hand
import torch


def run_stage(stage, schedule, group, inputs, loss):
    first, last = group.rank == 0, group.rank == group.size - 1
    own = [p for p in stage.parameters() if p.requires_grad]
    queue, losses = {}, []
    for kind, m in schedule:
        if kind == "forward":
            x = inputs[m].detach() if first else group.receive(list(inputs[m].shape), group.rank - 1)
            x.requires_grad = True
            y = stage(x)
            if last:
                y = loss(y, m)
                losses += [y.detach()]
            else:
                group.send(y, group.rank + 1)
            queue[m] = (x, y)
        else:
            x, y = queue.pop(m)
            g = torch.ones_like(y) if last else group.receive(inputs[m].shape, group.rank + 1)
            gx, *gs = torch.autograd.grad(y, [x, *own], g, allow_unused=True)
            for p, gp in zip(own, gs):
                if gp is not None:
                    p.grad = gp.clone() if p.grad is None else p.grad + gp
            if not first:
                group.send(gx, group.rank - 1)
            del x, y, g, gx, gs
    return losses


# variant: each forward pass leaves a function that goes back
def run_stage(stage, schedule, group, inputs, loss):
    before, after = group.rank - 1, group.rank + 1
    is_last = after == group.size
    losses = {}

    def forward(m):
        x = inputs[m]
        if before >= 0:
            x = group.receive(x.shape, before)
            x.requires_grad_()
        out = stage(x)
        if is_last:
            out = loss(out, m)
            losses[m] = out.detach().clone()
        else:
            group.send(out.detach(), after)

        def back():
            if is_last:
                out.backward()
            else:
                out.backward(group.receive(out.shape, after))
            if before >= 0:
                group.send(x.grad, before)

        return back

    backs = {}
    for what, m in schedule:
        if what == "forward":
            backs[m] = forward(m)
        else:
            backs.pop(m)()
    return [losses[m] for m in sorted(losses)]


# variant: first in, first out; a scalar with the same gradient
from collections import deque


def run_stage(stage, schedule, group, inputs, loss):
    waiting = deque()
    losses = [None] * len(inputs) if group.rank == group.size - 1 else []
    for step in schedule:
        if step[0] == "forward":
            m = step[1]
            if group.rank:
                x = group.receive(inputs[m].shape, group.rank - 1).detach().requires_grad_(True)
            else:
                x = inputs[m]
            y = stage(x)
            if losses:
                y = loss(y, m)
                losses[m] = y.detach()
            else:
                group.send(y.detach(), group.rank + 1)
            waiting.append((x, y))
            del x, y
        elif step[0] == "backward":
            x, y = waiting.popleft()
            if not losses:
                y = (y * group.receive(y.shape, group.rank + 1)).sum()
            y.backward()
            if group.rank:
                group.send(x.grad, group.rank - 1)
            del x, y
    return losses
