"""Chapter 21 in the terse style: as short as it can be read."""

INF = float("inf")


def add_kernel(tl, x, y, out, n, BLOCK):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


def softmax_kernel(tl, x, out, columns, stride, BLOCK):
    j = tl.arange(0, BLOCK)
    i, m = tl.program_id(0) * stride + j, j < columns
    a = tl.load(x + i, m, -INF).to(tl.float32)
    e = tl.exp(a - tl.max(a, 0))
    tl.store(out + i, e / tl.sum(e, 0), m)


def rms_norm_kernel(tl, x, weight, out, columns, eps, BLOCK):
    j = tl.arange(0, BLOCK)
    i, m = tl.program_id(0) * columns + j, j < columns
    a, w = tl.load(x + i, m, 0).to(tl.float32), tl.load(weight + j, m, 0).to(tl.float32)
    tl.store(out + i, a / tl.sqrt(tl.sum(a * a, 0) / columns + eps) * w, m)


def long_softmax_kernel(tl, x, out, columns, BLOCK):
    r, places = tl.program_id(0) * columns, [s + tl.arange(0, BLOCK) for s in range(0, columns, BLOCK)]

    def read(j):
        return tl.load(x + r + j, j < columns, -INF).to(tl.float32)

    m, z = -1e38, 0.0
    for a in map(read, places):
        m, old = tl.maximum(m, tl.max(a, 0)), m
        z = z * tl.exp(old - m) + tl.sum(tl.exp(a - m), 0)
    for j in places:
        tl.store(out + r + j, tl.exp(read(j) - m) / z, j < columns)


def cross_entropy_kernel(tl, logits, targets, loss, gradient, columns, BLOCK):
    r, j = tl.program_id(0), tl.arange(0, BLOCK)
    i, m, t = r * columns + j, j < columns, tl.load(targets + r)
    a = tl.load(logits + i, m, -INF).to(tl.float32)
    a -= tl.max(a, 0)
    lse = tl.log(tl.sum(tl.exp(a), 0))
    hit, used = j == t, t != -100
    tl.store(loss + r, tl.where(used, lse - tl.sum(tl.where(hit, a, 0.0), 0), 0.0))
    tl.store(gradient + i, tl.where(used, tl.exp(a - lse) - hit.to(tl.float32), 0.0), m)
