# variant: pointers that move along K, scales first
def int8_matmul_kernel(tl, x, w, scale, out, M, N, K, BM, BN, BK):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    factors = tl.load(scale + columns, mask=columns < N, other=0).to(tl.float32)
    at_x, at_w = x + rows[:, None] * K + k[None, :], w + columns[None, :] * K + k[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        a = tl.load(at_x, mask=(rows[:, None] < M) & (k[None, :] < left), other=0)
        b = tl.load(at_w, mask=(k[:, None] < left) & (columns[None, :] < N), other=0)
        total = tl.dot(a.to(tl.float32), b.to(tl.float32) * factors[None, :], total)
        at_x, at_w = at_x + BK, at_w + BK
    tl.store(out + rows[:, None] * N + columns[None, :], total, mask=(rows < M)[:, None] & (columns < N)[None, :])


# variant: a block of w as it lies in memory, then transposed; the integers in the dtype of x
def int8_matmul_kernel(tl, x, w, scale, out, M, N, K, BM, BN, BK):
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(w + j[:, None] * K + k[None, :], mask=(j[:, None] < N) & (k[None, :] < K), other=0)
        total += tl.dot(a, tl.trans(b.to(a.dtype)))
    factors = tl.load(scale + j, mask=j < N)
    tl.store(out + i[:, None] * N + j[None, :], total * factors[None, :], (i[:, None] < M) & (j[None, :] < N))


# variant: the transposed tile, products and a sum instead of tl.dot
def int8_matmul_kernel(tl, x, w, scale, out, M, N, K, BM, BN, BK):
    j, i = tl.program_id(1) * BN + tl.arange(0, BN), tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BN, BM), tl.float32)
    first = 0
    while first < K:
        k = first + tl.arange(0, BK)
        here_x, here_w = (i < M)[:, None] & (k < K)[None, :], (j < N)[:, None] & (k < K)[None, :]
        a = tl.where(here_x, tl.load(x + i[:, None] * K + k[None, :], here_x), 0).to(tl.float32)
        b = tl.where(here_w, tl.load(w + j[:, None] * K + k[None, :], here_w), 0).to(tl.float32)
        total += tl.sum(a[None, :, :] * b[:, None, :], axis=2)
        first += BK
    factors = tl.load(scale + j, mask=j < N, other=1.0).to(tl.float32)
    tl.store(out + i[None, :] * N + j[:, None], factors[:, None] * total, mask=(j < N)[:, None] & (i < M)[None, :])
