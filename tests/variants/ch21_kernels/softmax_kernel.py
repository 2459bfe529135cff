# variant: tl.where in place of `other`
def softmax_kernel(tl, x, out, columns, stride, BLOCK):
    r, j = tl.program_id(0), tl.arange(0, BLOCK)
    row = tl.where(j < columns, tl.load(x + r * stride + j, mask=j < columns).to(tl.float32), float("-inf"))
    row = row - tl.max(row)
    e = tl.exp(row)
    tl.store(out + r * stride + j, e / tl.sum(e), mask=j < columns)


# variant: a very small finite number beyond the row, and exp set to 0 there
def softmax_kernel(tl, x, out, columns, stride, BLOCK):
    j = tl.arange(0, BLOCK)
    inside = j < columns
    x, out = x + tl.program_id(0) * stride, out + tl.program_id(0) * stride
    row = tl.load(x + j, inside, other=-65000.0).to(tl.float32)
    row = tl.where(inside, row, -3e38)
    e = tl.where(inside, tl.exp(row - tl.max(row, 0)), 0.0)
    tl.store(out + j, e * (1.0 / tl.sum(e, 0)), inside)


# variant: the logarithm of the sum, and one exp at the end
def softmax_kernel(tl, x, out, columns, stride, BLOCK):
    places = tl.arange(0, BLOCK)
    at = tl.program_id(0) * stride + places
    row = tl.load(x + at, mask=places < columns, other=-float("inf")).to(tl.float32)
    largest = tl.max(row, axis=0)
    log_sum = largest + tl.log(tl.sum(tl.exp(row - largest), axis=0))
    tl.store(out + at, tl.exp(row - log_sum), mask=places < columns)


# variant: a row as a block of two axes
def softmax_kernel(tl, x, out, columns, stride, BLOCK):
    j = tl.arange(0, BLOCK)[None, :]
    at = tl.program_id(0) * stride + j
    row = tl.load(x + at, mask=j < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(row - tl.max(row, axis=1)[:, None])
    tl.store(out + at, e / tl.sum(e, axis=1)[:, None], mask=j < columns)
