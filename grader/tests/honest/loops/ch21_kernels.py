"""In explicit loops: a row is read, computed and written number by number, as far as the language allows it."""


def add_kernel(tl, x, y, out, n, BLOCK):
    first = tl.program_id(0) * BLOCK
    for k in range(BLOCK):
        place = first + k
        if place < n:
            a = tl.load(x + place)
            b = tl.load(y + place)
            tl.store(out + place, a + b)


def softmax_kernel(tl, x, out, columns, stride, BLOCK):
    first = tl.program_id(0) * stride
    numbers = []
    for j in range(columns):
        numbers.append(tl.load(x + first + j).to(tl.float32))
    largest = numbers[0]
    for number in numbers:
        if number > largest:
            largest = number
    exponentials = []
    total = 0.0
    for number in numbers:
        e = tl.exp(number - largest)
        exponentials.append(e)
        total = total + e
    for j in range(columns):
        tl.store(out + first + j, exponentials[j] / total)


def rms_norm_kernel(tl, x, weight, out, columns, eps, BLOCK):
    first = tl.program_id(0) * columns
    numbers = []
    total = 0.0
    for j in range(columns):
        number = tl.load(x + first + j).to(tl.float32)
        numbers.append(number)
        total = total + number * number
    mean = total / columns
    root = tl.sqrt(mean + eps)
    for j in range(columns):
        w = tl.load(weight + j).to(tl.float32)
        tl.store(out + first + j, numbers[j] / root * w)


def long_softmax_kernel(tl, x, out, columns, BLOCK):
    first = tl.program_id(0) * columns
    largest = -float("inf")
    total = 0.0
    for j in range(columns):
        number = tl.load(x + first + j).to(tl.float32)
        if number == -float("inf"):
            continue
        if number > largest:
            total = total * tl.exp(largest - number) + 1.0
            largest = number
        else:
            total = total + tl.exp(number - largest)
    for j in range(columns):
        number = tl.load(x + first + j).to(tl.float32)
        tl.store(out + first + j, tl.exp(number - largest) / total)


def cross_entropy_kernel(tl, logits, targets, loss, gradient, columns, BLOCK):
    row = tl.program_id(0)
    target = tl.load(targets + row)
    if target == -100:
        tl.store(loss + row, 0.0)
        for j in range(columns):
            tl.store(gradient + row * columns + j, 0.0)
        return
    numbers = []
    largest = -float("inf")
    for j in range(columns):
        number = tl.load(logits + row * columns + j).to(tl.float32)
        numbers.append(number)
        largest = max(largest, number)
    exponentials = []
    total = 0.0
    for number in numbers:
        exponentials.append(tl.exp(number - largest))
        total = total + exponentials[-1]
    for j in range(columns):
        value = exponentials[j] / total
        if j == target:
            value = value - 1.0
            tl.store(loss + row, largest - numbers[j] + tl.log(total))
        tl.store(gradient + row * columns + j, value)


def matmul_kernel(tl, a, b, c, M, N, K, BM, BN, BK):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        left = tl.load(a + rows * K + k, mask=rows < M, other=0.0).to(tl.float32)
        right = tl.load(b + k * N + columns, mask=columns < N, other=0.0).to(tl.float32)
        total = total + left[:, None] * right[None, :]
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=inside)


def grouped_place(program, n_rows, n_columns, group):
    number = 0
    first = 0
    while first < n_rows:
        for column in range(n_columns):
            row = first
            while row < first + group and row < n_rows:
                if number == program:
                    return row, column
                number = number + 1
                row = row + 1
        first = first + group


def attention_kernel(tl, q, k, v, out, lse, T, scale, D, BQ, BK):
    head = tl.program_id(1)
    rows = tl.program_id(0) * BQ + tl.arange(0, BQ)
    features = tl.arange(0, D)
    inside = rows < T
    queries = tl.load(q + (head * T + rows[:, None]) * D + features[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    largest = tl.full((BQ,), -float("inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    result = tl.zeros((BQ, D), tl.float32)
    for j in range(T):
        if j >= (tl.program_id(0) + 1) * BQ:
            break
        key = tl.load(k + (head * T + j) * D + features).to(tl.float32)
        value = tl.load(v + (head * T + j) * D + features).to(tl.float32)
        score = tl.sum(queries * key[None, :], axis=1) * scale
        new = tl.where(rows >= j, tl.maximum(largest, score), largest)
        known = tl.where(new == -float("inf"), 0.0, new)
        weight = tl.where(rows >= j, tl.exp(score - known), 0.0)
        shrink = tl.exp(largest - known)
        total = total * shrink + weight
        result = result * shrink[:, None] + weight[:, None] * value[None, :]
        largest = new
    tl.store(out + (head * T + rows[:, None]) * D + features[None, :], result / total[:, None], mask=inside[:, None])
    tl.store(lse + head * T + rows, largest + tl.log(total), mask=inside)


def int8_matmul_kernel(tl, x, w, scale, out, M, N, K, BM, BN, BK):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    factor = tl.load(scale + columns, mask=columns < N, other=0.0).to(tl.float32)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        left = tl.load(x + rows * K + k, mask=rows < M, other=0.0).to(tl.float32)
        weight = tl.load(w + columns * K + k, mask=columns < N, other=0).to(tl.float32)
        total = total + left[:, None] * (weight * factor)[None, :]
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(out + rows[:, None] * N + columns[None, :], total, mask=inside)


def roofline(flops, bytes_moved, peak_flops, bandwidth):
    compute_time = flops / peak_flops
    memory_time = bytes_moved / bandwidth
    if memory_time > compute_time:
        return memory_time, "memory"
    return compute_time, "compute"
