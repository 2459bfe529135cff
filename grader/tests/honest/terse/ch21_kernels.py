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


def matmul_kernel(tl, a, b, c, M, N, K, BM, BN, BK):
    i, j, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    i, j, t = i[:, None], j[None, :], tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        r, d = (s + k)[None, :], (s + k)[:, None]
        t = tl.dot(tl.load(a + i * K + r, (i < M) & (r < K), 0), tl.load(b + d * N + j, (d < K) & (j < N), 0), t)
    tl.store(c + i * N + j, t, (i < M) & (j < N))


def grouped_place(program, n_rows, n_columns, group):
    band, place = divmod(program, group * n_columns)
    return (
        band * group + place % (r := min(group, n_rows - band * group)),
        place // r,
    )


def attention_kernel(tl, q, k, v, out, lse, T, scale, D, BQ, BK):
    h, i, d = tl.program_id(1) * T, tl.program_id(0) * BQ + tl.arange(0, BQ), tl.arange(0, D)

    def read(x, r):
        return tl.load(x + (h + r)[:, None] * D + d, (r < T)[:, None], 0).to(tl.float32)

    x, m, z, o = read(q, i) * scale, tl.full((BQ,), -INF, tl.float32), tl.zeros((BQ,), tl.float32), tl.zeros((BQ, D), tl.float32)
    for s in range(0, min(T, tl.program_id(0) * BQ + BQ), BK):
        j = s + tl.arange(0, BK)
        a = tl.where(j > i[:, None], -INF, tl.dot(x, read(k, j).T))
        old, m = m, tl.maximum(m, tl.max(a, 1))
        e, f = tl.exp(a - m[:, None]), tl.exp(old - m)
        z, o = z * f + tl.sum(e, 1), tl.dot(e, read(v, j), o * f[:, None])
    tl.store(out + (h + i)[:, None] * D + d, o / z[:, None], (i < T)[:, None])
    tl.store(lse + h + i, m + tl.log(z), i < T)


def int8_matmul_kernel(tl, x, w, scale, out, M, N, K, BM, BN, BK):
    i, j, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)

    def read(p, r, n, s):
        return tl.load(p + r[:, None] * K + s + k, (r < n)[:, None] & (k < K - s), 0).to(tl.float32)

    t = sum((tl.dot(read(x, i, M, s), read(w, j, N, s).T) for s in range(0, K, BK)), tl.zeros((BM, BN), tl.float32))
    tl.store(out + i[:, None] * N + j, t * tl.load(scale + j, j < N, 0), (i < M)[:, None] & (j < N))


def roofline(flops, bytes_moved, peak_flops, bandwidth):
    return max((flops / peak_flops, "compute"), (bytes_moved / bandwidth, "memory"), key=lambda t: t[0])
