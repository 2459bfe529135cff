# variant: pointers moved first, masks from what is left
def add_kernel(tl, x, y, out, n, BLOCK):
    first = tl.program_id(0) * BLOCK
    left = n - first
    places = tl.arange(0, BLOCK)
    x, y, out = x + first, y + first, out + first
    a = tl.load(x + places, mask=places < left, other=0.0)
    b = tl.load(y + places, mask=places < left, other=0.0)
    tl.store(out + places, a + b, mask=places < left)


# variant: number by number, in a loop that ends at n
def add_kernel(tl, x, y, out, n, BLOCK):
    start = tl.program_id(0) * BLOCK
    for i in range(start, min(start + BLOCK, n)):
        tl.store(out + i, tl.load(x + i) + tl.load(y + i))


# variant: a mask of places that are not at the end or behind it
def add_kernel(tl, x, y, out, n, BLOCK):
    i = tl.arange(0, BLOCK) + BLOCK * tl.program_id(axis=0)
    keep = ~(i >= n)
    value = tl.load(x + i, mask=keep)
    value += tl.load(y + i, mask=keep)
    tl.store(out + i, value, mask=keep)
