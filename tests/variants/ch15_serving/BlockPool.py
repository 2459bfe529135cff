# variant: a tensor of counts; the lowest free number is lent
class BlockPool:
    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        self.k = torch.zeros((n_blocks, n_heads, block_size, d_head), dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.block_size = block_size
        self.counts = torch.zeros(n_blocks, dtype=torch.int64)

    @property
    def n_free(self):
        return int((self.counts == 0).sum())

    def allocate(self):
        free = (self.counts == 0).nonzero().flatten()
        if len(free) == 0:
            raise RuntimeError("no free block is left")
        self.counts[free[0]] = 1
        return int(free[0])

    def _check(self, block):
        if block not in range(len(self.counts)) or self.counts[block] == 0:
            raise ValueError(f"{block} is not a block in use")

    def share(self, block):
        self._check(block)
        self.counts[block] += 1

    def free(self, block):
        self._check(block)
        self.counts[block] -= 1

    def holders(self, block):
        return int(self.counts[block])


# variant: a deque, first in first out; n_free is an attribute that is kept up to date
class BlockPool:
    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        from collections import deque

        self.k, self.v = (torch.empty(n_blocks, n_heads, block_size, d_head, dtype=dtype) for _ in range(2))
        self.block_size, self.n_free = block_size, n_blocks
        self._waiting, self._count = deque(range(n_blocks)), [0 for _ in range(n_blocks)]

    def allocate(self):
        if self.n_free == 0:
            raise RuntimeError(f"the pool of {len(self._count)} blocks is empty")
        self.n_free -= 1
        block = self._waiting.popleft()
        self._count[block] = 1
        return block

    def share(self, block):
        if block < 0 or block >= len(self._count) or not self._count[block]:
            raise ValueError(f"cannot share block {block}")
        self._count[block] += 1

    def free(self, block):
        assert 0 <= block < len(self._count) and self._count[block] > 0, f"cannot free block {block}"
        self._count[block] -= 1
        if not self._count[block]:
            self.n_free += 1
            self._waiting.append(block)

    def holders(self, block):
        return self._count[block]


# variant: a set of free numbers, and one buffer of which k and v are the halves
class BlockPool:
    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        self.both = torch.full((2, n_blocks, n_heads, block_size, d_head), -7.0, dtype=dtype)
        self.block_size = block_size
        self.available = set(range(n_blocks))
        self.users = {}

    k = property(lambda self: self.both[0])
    v = property(lambda self: self.both[1])
    n_free = property(lambda self: len(self.available))

    def allocate(self):
        try:
            block = self.available.pop()
        except KeyError:
            raise RuntimeError("every block is in use") from None
        self.users[block] = 1
        return block

    def share(self, block):
        if block not in self.users:
            raise ValueError(f"block {block} is free or does not exist")
        self.users[block] += 1

    def free(self, block):
        if block not in self.users:
            raise ValueError(f"block {block} is free or does not exist")
        self.users[block] -= 1
        if self.users[block] < 1:
            self.users.pop(block)
            self.available.add(block)

    def holders(self, block):
        return self.users.get(block, 0)
