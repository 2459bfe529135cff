# variant: scaled queries, pointers that move, masks by the last query
def attention_kernel(tl, q, k, v, out, lse, T, scale, D, BQ, BK):
    block, head = tl.program_id(0), tl.program_id(1)
    rows, columns, d = block * BQ + tl.arange(0, BQ), tl.arange(0, BK), tl.arange(0, D)
    end = tl.minimum((block + 1) * BQ, T)
    start_of_head = head * T * D
    inside = rows < T
    x = tl.load(q + start_of_head + rows[:, None] * D + d[None, :], mask=inside[:, None], other=0.0).to(tl.float32) * scale
    m = tl.zeros((BQ,), tl.float32) - float("inf")
    total, acc = tl.zeros((BQ,), tl.float32), tl.zeros((BQ, D), tl.float32)
    at_k = k + start_of_head + columns[None, :] * D + d[:, None]
    at_v = v + start_of_head + columns[:, None] * D + d[None, :]
    for step in range(tl.cdiv(end, BK)):
        j = step * BK + columns
        keys = tl.load(at_k, mask=(j < end)[None, :], other=0.0)
        s = tl.dot(x, keys.to(tl.float32))
        s = tl.where(rows[:, None] >= j[None, :], s, float("-inf"))
        bigger = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - bigger[:, None])
        alpha = tl.exp(m - bigger)
        total = alpha * total + tl.sum(p, 1)
        values = tl.load(at_v, mask=(j < end)[:, None], other=0.0).to(tl.float32)
        acc = tl.dot(p, values, acc * alpha[:, None])
        m = bigger
        at_k, at_v = at_k + BK * D, at_v + BK * D
    at_out = out + start_of_head + rows[:, None] * D + d[None, :]
    tl.store(at_out, acc / total[:, None], mask=inside[:, None])
    tl.store(lse + head * T + rows, m + tl.log(total), mask=inside)


# variant: the output is a mean and its log-sum-exp, joined block by block
def attention_kernel(tl, q, k, v, out, lse, T, scale, D, BQ, BK):
    first = tl.program_id(1) * T
    i, d = tl.program_id(0) * BQ + tl.arange(0, BQ)[:, None], tl.arange(0, D)[None, :]
    queries = tl.load(q + (first + i) * D + d, mask=i < T, other=0.0)
    logs, mean = tl.full((BQ, 1), -float("inf"), tl.float32), tl.zeros((BQ, D), tl.float32)
    last = min(int(tl.program_id(0)) * BQ + BQ, T)
    for start in range(0, last, BK):
        j = start + tl.arange(0, BK)[:, None]
        keys = tl.load(k + (first + j) * D + d, mask=j < T, other=0.0)
        values = tl.load(v + (first + j) * D + d, mask=j < T, other=0.0).to(tl.float32)
        scores = tl.dot(keys, tl.trans(queries)) * scale
        scores = tl.trans(tl.where(j <= tl.trans(i), scores, -float("inf")))
        best = tl.max(scores, axis=1)[:, None]
        safe = tl.where(best == -float("inf"), 0.0, best)
        e = tl.exp(scores - safe)
        own = safe + tl.log(tl.sum(e, axis=1))[:, None]
        top = tl.maximum(logs, own)
        both = top + tl.log(tl.exp(logs - top) + tl.exp(own - top))
        mean = mean * tl.exp(logs - both) + tl.dot(tl.exp(scores - both), values)
        logs = both
    tl.store(out + (first + i) * D + d, mean, mask=i < T)
    tl.store(lse + first + i, logs, mask=i < T)


# variant: blocks from the first one, and the diagonal's own loop, with products and sums instead of tl.dot
def attention_kernel(tl, q, k, v, out, lse, T, scale, D, BQ, BK):
    head, begin = tl.program_id(1), tl.program_id(0) * BQ
    i, d = begin + tl.arange(0, BQ), tl.arange(0, D)

    def read(pointer, rows):
        return tl.load(pointer + (head * T + rows[:, None]) * D + d[None, :], mask=rows[:, None] < T, other=0.0).to(tl.float32)

    def add(state, j, masked):
        best, total, result = state
        s = tl.sum(queries[:, None, :] * read(k, j)[None, :, :], axis=2) * scale
        if masked:
            s = tl.where(j[None, :] > i[:, None], -float("inf"), s)
        new = tl.maximum(tl.max(s, axis=1), best)
        e, shrink = tl.exp(s - new[:, None]), tl.exp(best - new)
        return new, total * shrink + tl.sum(e, axis=1), result * shrink[:, None] + tl.sum(e[:, :, None] * read(v, j)[None, :, :], axis=1)

    queries = read(q, i)
    state = tl.full((BQ,), -float("inf"), tl.float32), tl.zeros((BQ,), tl.float32), tl.zeros((BQ, D), tl.float32)
    start = 0
    while start + BK <= begin:
        state = add(state, start + tl.arange(0, BK), masked=False)
        start += BK
    while start < min(begin + BQ, T):
        state = add(state, start + tl.arange(0, BK), masked=True)
        start += BK
    best, total, result = state
    tl.store(out + (head * T + i[:, None]) * D + d[None, :], result / total[:, None], mask=i[:, None] < T)
    tl.store(lse + head * T + i, best + tl.log(total), mask=i < T)


# variant: the blocks of keys from the diagonal back to the first one
def attention_kernel(tl, q, k, v, out, lse, T, scale, D, BQ, BK):
    first, i, d = tl.program_id(1) * T, tl.program_id(0) * BQ + tl.arange(0, BQ), tl.arange(0, D)
    at = (first + i[:, None]) * D + d[None, :]
    queries = tl.load(q + at, mask=i[:, None] < T, other=0.0).to(tl.float32)
    lowest = -1e30
    best, total, result = tl.full((BQ,), lowest, tl.float32), tl.zeros((BQ,), tl.float32), tl.zeros((BQ, D), tl.float32)
    steps = tl.cdiv(min((tl.program_id(0) + 1) * BQ, T), BK)
    for step in range(steps):
        j = (steps - 1 - step) * BK + tl.arange(0, BK)
        places = (first + j[:, None]) * D + d[None, :]
        keys = tl.load(k + places, mask=j[:, None] < T, other=0.0).to(tl.float32)
        values = tl.load(v + places, mask=j[:, None] < T, other=0.0).to(tl.float32)
        seen = j[None, :] <= i[:, None]
        scores = tl.where(seen, tl.dot(queries, keys.T) * scale, lowest)
        new = tl.maximum(best, tl.max(scores, axis=1))
        weights = tl.where(seen, tl.exp(scores - new[:, None]), 0.0)
        shrink = tl.exp(best - new)
        total, result, best = total * shrink + tl.sum(weights, axis=1), result * shrink[:, None] + tl.dot(weights, values), new
    tl.store(out + at, result / total[:, None], mask=i[:, None] < T)
    tl.store(lse + first + i, best + tl.log(total), mask=i < T)
