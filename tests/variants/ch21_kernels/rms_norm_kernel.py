# variant: times the reciprocal of the root, weights first
def rms_norm_kernel(tl, x, weight, out, columns, eps, BLOCK):
    j = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + j
    w = tl.load(weight + j, mask=j < columns).to(tl.float32)
    row = tl.load(x + at, mask=j < columns, other=0.0).to(tl.float32)
    factor = 1 / tl.sqrt(tl.sum(row * row) / columns + eps)
    tl.store(out + at, w * (row * factor), mask=j < columns)


# variant: tl.where in place of `other`, the weights read at the end
def rms_norm_kernel(tl, x, weight, out, columns, eps, BLOCK):
    j = tl.arange(0, BLOCK)
    inside = j < columns
    x, out = x + tl.program_id(0) * columns, out + tl.program_id(0) * columns
    row = tl.load(x + j, mask=inside).to(tl.float32)
    squares = tl.where(inside, row * row, 0.0)
    root = tl.sqrt(eps + tl.sum(squares, axis=0) / columns)
    tl.store(out + j, row / root * tl.load(weight + j, mask=inside), mask=inside)


# variant: scaled by the largest number first
def rms_norm_kernel(tl, x, weight, out, columns, eps, BLOCK):
    first, j = tl.program_id(0) * columns, tl.arange(0, BLOCK)
    row = tl.load(x + first + j, mask=j < columns, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(row), axis=0), 1e-6)
    part = row / largest
    root = tl.sqrt(tl.sum(part * part, axis=0) / columns + eps / (largest * largest))
    w = tl.load(weight + j, mask=j < columns, other=1.0).to(tl.float32)
    tl.store(out + first + j, part / root * w, mask=j < columns)


# variant: the sum of squares as a product of matrices
def rms_norm_kernel(tl, x, weight, out, columns, eps, BLOCK):
    j = tl.arange(0, BLOCK)[None, :]
    at = tl.program_id(0) * columns + j
    row = tl.load(x + at, mask=j < columns, other=0.0).to(tl.float32)
    mean = tl.dot(row, tl.trans(row)) / columns
    w = tl.load(weight + j, mask=j < columns, other=0.0).to(tl.float32)
    tl.store(out + at, row / tl.sqrt(mean + eps) * w, mask=j < columns)
