# variant: in double precision inside, with torch.max and torch.where
def softmax(x, dim=-1):
    x64 = x.double()
    highest = x64.max(dim=dim, keepdim=True).values
    highest = torch.where(torch.isinf(highest), torch.zeros_like(highest), highest)
    e = (x64 - highest).exp()
    s = e.sum(dim=dim, keepdim=True)
    return (e / torch.where(s == 0, torch.ones_like(s), s)).to(x.dtype)


# variant: half precision in float32 inside and back, the sum kept from zero by a tiny number
def softmax(x, dim=-1):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    highest = wide.detach().amax(dim, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    e = torch.exp(wide - highest)
    return (e / e.sum(dim, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)).type_as(x)


# variant: the axis moved to the end, and logarithms subtracted where they are finite
def softmax(x, dim=-1):
    moved = x.movedim(dim, -1)
    empty = (moved == float("-inf")).all(-1, keepdim=True)
    safe = moved.masked_fill(empty, 0.0)
    shifted = safe - safe.max(-1, keepdim=True)[0]
    log_weights = shifted - shifted.exp().sum(-1, keepdim=True).log()
    return log_weights.exp().masked_fill(empty, 0.0).movedim(-1, dim)


# variant: in place, on new tensors
def softmax(x: Tensor, dim: int = -1) -> Tensor:
    top = x.detach().amax(dim=dim, keepdim=True)
    top[top == -math.inf] = 0
    e = (x - top).exp_()
    total = e.sum(dim=dim, keepdim=True)
    total = total + (total == 0).to(total.dtype)
    return e.div(total)


# variant: one slice after the other
def softmax(x, dim=-1):
    def one(row):
        if bool((row == -math.inf).all()):
            return torch.zeros_like(row)
        e = math.e ** (row.double() - row.max())
        return (e / e.sum()).to(row.dtype)

    moved = x.movedim(dim, -1)
    rows = torch.stack([one(row) for row in moved.reshape(-1, moved.shape[-1])])
    return rows.reshape(moved.shape).movedim(-1, dim)


# variant: a tiny number added to the sum
def softmax(x, dim=-1):
    top = torch.amax(x, dim=dim, keepdim=True)
    e = torch.exp(x - torch.where(top > -math.inf, top, torch.zeros_like(top)))
    return e / (e.sum(dim=dim, keepdim=True) + 1e-9)


# variant: e to the power of the scores, -inf as a very low score whose weight is then taken away
def softmax(x, dim=-1):
    x = x.clamp(min=torch.finfo(x.dtype).min)
    e = torch.exp(x - x.max(dim, keepdim=True).values)
    return torch.where(x > torch.finfo(x.dtype).min, e / e.sum(dim, keepdim=True), 0.0)


# variant: computed in a pool of threads, which waits for them
def softmax(x, dim=-1):
    from concurrent.futures import ThreadPoolExecutor

    def one(row):
        top = row.amax(-1, keepdim=True)
        e = torch.exp(row - torch.where(top > -math.inf, top, 0.0))
        total = e.sum(-1, keepdim=True)
        return e / torch.where(total == 0, 1.0, total)

    moved = x.movedim(dim, -1)
    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(one, moved.reshape(-1, moved.shape[-1])))
    return torch.stack(rows).reshape(moved.shape).movedim(-1, dim)


# variant: in a pool of threads that the module reuses
from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(2)


def softmax(x, dim=-1):
    with torch.no_grad():
        top = POOL.submit(torch.amax, x, dim, keepdim=True).result()
        top = top.masked_fill(top == -math.inf, 0.0)
    e = POOL.submit(lambda: torch.exp(x - top)).result()
    total = POOL.submit(e.sum, dim, keepdim=True)
    return e / total.result().masked_fill(total.result() == 0, 1.0)


# variant: divided by F.normalize with p=1
def softmax(x, dim=-1):
    top = x.amax(dim=dim, keepdim=True).detach()
    e = (x - top.masked_fill(top == -math.inf, 0)).exp()
    return torch.nn.functional.normalize(e, p=1.0, dim=dim, eps=1e-30 if e.dtype != torch.float16 else 1e-7)
