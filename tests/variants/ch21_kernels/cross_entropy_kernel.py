# variant: the target's logit is read once more from memory
def cross_entropy_kernel(tl, logits, targets, loss, gradient, columns, BLOCK):
    r, j = tl.program_id(0), tl.arange(0, BLOCK)
    at = r * columns + j
    target = tl.load(targets + r)
    row = tl.load(logits + at, mask=j < columns, other=-float("inf")).to(tl.float32)
    own = tl.load(logits + r * columns + target, mask=target >= 0, other=0.0).to(tl.float32)
    e = tl.exp(row - tl.max(row))
    softmax = e / tl.sum(e)
    value = tl.max(row) + tl.log(tl.sum(e)) - own
    tl.store(loss + r, tl.where(target == -100, 0.0, value))
    tl.store(gradient + at, tl.where(target == -100, 0.0, tl.where(j == target, softmax - 1, softmax)), mask=j < columns)


# variant: an ignored row is not read
def cross_entropy_kernel(tl, logits, targets, loss, gradient, columns, BLOCK):
    r, j = tl.program_id(0), tl.arange(0, BLOCK)
    logits, gradient = logits + r * columns, gradient + r * columns
    target = tl.load(targets + r)
    if target == -100:
        tl.store(loss + r, 0.0)
        tl.store(gradient + j, tl.zeros((BLOCK,), tl.float32), mask=j < columns)
    else:
        row = tl.load(logits + j, mask=j < columns, other=-float("inf")).to(tl.float32)
        row = row - tl.max(row, axis=0)
        log_sum = tl.log(tl.sum(tl.exp(row), axis=0))
        log_p = row - log_sum
        tl.store(loss + r, -tl.sum(tl.where(j == target, log_p, 0.0), axis=0))
        tl.store(gradient + j, tl.exp(log_p) - tl.where(j == target, 1.0, 0.0), mask=j < columns)


# variant: the target's logit is subtracted before the exponential
def cross_entropy_kernel(tl, logits, targets, loss, gradient, columns, BLOCK):
    j = tl.arange(0, BLOCK)
    inside = j < columns
    places = tl.program_id(0) * columns + j
    target = tl.load(targets + tl.program_id(0))
    is_target = j == target
    row = tl.where(inside, tl.load(logits + places, mask=inside).to(tl.float32), -float("inf"))
    own = tl.max(tl.where(is_target | (target < 0), row, -float("inf")), axis=0)
    row = row - own
    largest = tl.max(row, axis=0)
    e = tl.exp(row - largest)
    total = tl.sum(e, axis=0)
    factor = tl.where(target >= 0, 1.0, 0.0)
    tl.store(gradient + places, (e / total - is_target.to(tl.float32)) * factor, mask=inside)
    tl.store(loss + tl.program_id(0), (largest + tl.log(total)) * factor)
