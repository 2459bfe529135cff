# variant: a large negative number to start with, so that nothing is subtracted from -inf
def long_softmax_kernel(tl, x, out, columns, BLOCK):
    x, out = x + tl.program_id(0) * columns, out + tl.program_id(0) * columns
    largest, total = -1e30, 0.0
    for n in range(tl.cdiv(columns, BLOCK)):
        j = n * BLOCK + tl.arange(0, BLOCK)
        block = tl.load(x + j, mask=j < columns, other=-float("inf")).to(tl.float32)
        new = tl.maximum(tl.max(block), largest)
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(block - new))
        largest = new
    for n in range(tl.cdiv(columns, BLOCK)):
        j = n * BLOCK + tl.arange(0, BLOCK)
        block = tl.load(x + j, mask=j < columns, other=-float("inf")).to(tl.float32)
        tl.store(out + j, tl.exp(block - largest) / total, mask=j < columns)


# variant: a maximum and a sum for each place of the block, joined after the loop
def long_softmax_kernel(tl, x, out, columns, BLOCK):
    first, places = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -1e30, tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + places < columns
        block = tl.load(x + first + start + places, mask=inside, other=-float("inf")).to(tl.float32)
        new = tl.maximum(largest, block)
        sums = sums * tl.exp(largest - new) + tl.exp(block - new)
        largest = new
    best = tl.max(largest, axis=0)
    total = tl.sum(sums * tl.exp(largest - best), axis=0)
    for start in range(0, columns, BLOCK):
        inside = start + places < columns
        block = tl.load(x + first + start + places, mask=inside).to(tl.float32)
        tl.store(out + first + start + places, tl.exp(block - best) / total, mask=inside)


# variant: the logarithm of the sum, kept up to date
def long_softmax_kernel(tl, x, out, columns, BLOCK):
    first = tl.program_id(0) * columns
    log_sum = -1e30
    start = 0
    while start < columns:
        j = start + tl.arange(0, BLOCK)
        row = tl.load(x + first + j, mask=j < columns).to(tl.float32)
        row = tl.where(j < columns, row, -1e30)
        best = tl.maximum(tl.max(row, axis=0), log_sum)
        log_sum = best + tl.log(tl.exp(log_sum - best) + tl.sum(tl.exp(row - best), axis=0))
        start += BLOCK
    for start in range(0, columns, BLOCK):
        j = start + tl.arange(0, BLOCK)
        row = tl.load(x + first + j, mask=j < columns, other=0.0).to(tl.float32)
        tl.store(out + first + j, tl.exp(row - log_sum), mask=j < columns)


# variant: a branch for a maximum that is still -inf, and the second pass from the end
def long_softmax_kernel(tl, x, out, columns, BLOCK):
    first = tl.program_id(0) * columns
    best, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        j = start + tl.arange(0, BLOCK)
        block = tl.load(x + first + j, mask=j < columns, other=-float("inf")).to(tl.float32)
        new = max(best, tl.max(block, axis=0))
        if new > -float("inf"):
            total = tl.sum(tl.exp(block - new), axis=0) + total * tl.exp(best - new)
            best = new
    scale = 1.0 / total
    for start in reversed(range(0, columns, BLOCK)):
        j = start + tl.arange(0, BLOCK)
        block = tl.load(x + first + j, mask=j < columns, other=-float("inf")).to(tl.float32)
        tl.store(out + first + j, tl.exp(block - best) * scale, mask=j < columns)
