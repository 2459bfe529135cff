# variant: pointers that move along K
def matmul_kernel(tl, a, b, c, M, N, K, BM, BN, BK):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at_a = a + rows[:, None] * K + k[None, :]
    at_b = b + k[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        x = tl.load(at_a, mask=(rows[:, None] < M) & (k[None, :] < left), other=0)
        y = tl.load(at_b, mask=(k[:, None] < left) & (columns[None, :] < N), other=0)
        total = tl.dot(x, y, total)
        at_a += BK
        at_b += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows < M)[:, None] & (columns < N)[None, :])


# variant: transposed blocks, float32 first, and tl.where for the edges
def matmul_kernel(tl, a, b, c, M, N, K, BM, BN, BK):
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.full((BN, BM), 0.0, tl.float32)
    k = tl.arange(0, BK)
    while k.shape and tl.sum(tl.where(k < K, 1, 0), axis=0) > 0:
        here_a, here_b = (k < K)[:, None] & (i < M)[None, :], (j < N)[:, None] & (k < K)[None, :]
        x = tl.where(here_a, tl.load(a + i[None, :] * K + k[:, None], mask=here_a), 0.0).to(tl.float32)
        y = tl.where(here_b, tl.load(b + k[None, :] * N + j[:, None], mask=here_b), 0.0).to(tl.float32)
        total += tl.dot(y, x)
        k += BK
    tl.store(c + i[None, :] * N + j[:, None], total, (j < N)[:, None] & (i < M)[None, :])


# variant: products and a sum instead of tl.dot
def matmul_kernel(tl, a, b, c, M, N, K, BM, BN, BK):
    i = tl.arange(0, BM)[:, None, None] + tl.program_id(0) * BM
    j = tl.arange(0, BN)[None, None, :] + tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        k = tl.arange(0, BK)[None, :, None] + first
        x = tl.load(a + K * i + k, mask=(i < M) & (k < K), other=0.0).to(tl.float32)
        y = tl.load(b + N * k + j, mask=(j < N) & (k < K), other=0.0).to(tl.float32)
        total = total + tl.sum(x * y, axis=1)
    down, across = tl.arange(0, BM)[:, None] + tl.program_id(0) * BM, tl.arange(0, BN)[None, :] + tl.program_id(1) * BN
    tl.store(c + down * N + across, total, mask=(down < M) & (across < N))
