# variant: one position after the other, after a check; the copy is made when it is needed
class PagedKVCache:
    def __init__(self, pool):
        self.pool, self.length, self.blocks = pool, 0, []

    def append(self, k, v):
        size = self.pool.block_size
        room = len(self.blocks) * size - self.length
        shared = room > 0 and self.pool.holders(self.blocks[-1]) > 1
        needed = -(-max(0, k.shape[1] - room) // size) + (1 if shared and k.shape[1] else 0)
        if needed > self.pool.n_free:
            raise RuntimeError(f"{needed} blocks are needed, {self.pool.n_free} are free")
        for t in range(k.shape[1]):
            place = self.length % size
            if place == 0:
                self.blocks.append(self.pool.allocate())
            elif self.pool.holders(self.blocks[-1]) > 1:
                old = self.blocks.pop()
                self.blocks.append(self.pool.allocate())
                self.pool.k[self.blocks[-1]] = self.pool.k[old].clone()
                self.pool.v[self.blocks[-1]] = self.pool.v[old].clone()
                self.pool.free(old)
            self.pool.k[self.blocks[-1]][:, place] = k[:, t]
            self.pool.v[self.blocks[-1]][:, place] = v[:, t]
            self.length += 1

    def gather(self):
        size, H, d = self.pool.block_size, self.pool.k.shape[1], self.pool.k.shape[3]
        where = [(self.blocks[p // size], p % size) for p in range(self.length)]
        if not where:
            return self.pool.k.new_zeros(H, 0, d), self.pool.v.new_zeros(H, 0, d)
        return torch.stack([self.pool.k[b, :, i] for b, i in where], 1), torch.stack([self.pool.v[b, :, i] for b, i in where], 1)

    def fork(self):
        other = type(self)(self.pool)
        other.length = self.length
        for block in self.blocks:
            self.pool.share(block)
            other.blocks.append(block)
        return other

    def free(self):
        while self.blocks:
            self.pool.free(self.blocks.pop())
        self.length = 0


# variant: whole pieces at once, and blocks that are taken are given back if there are too few
class PagedKVCache:
    def __init__(self, pool):
        self.pool = pool
        self.blocks = []
        self.length = 0

    def append(self, k, v):
        size, T = self.pool.block_size, k.size(1)
        end = self.length + T
        taken = []
        try:
            own = None
            if T and self.length % size and self.pool.holders(self.blocks[-1]) > 1:
                own = self.pool.allocate()
                taken.append(own)
            new = []
            while (len(self.blocks) + len(new)) * size < end:
                new.append(self.pool.allocate())
                taken.append(new[-1])
        except RuntimeError:
            for block in taken:
                self.pool.free(block)
            raise
        if own is not None:
            for store in (self.pool.k, self.pool.v):
                store[own].copy_(store[self.blocks[-1]])
            self.pool.free(self.blocks[-1])
            self.blocks[-1] = own
        self.blocks.extend(new)
        done = 0
        while done < T:
            index, place = divmod(self.length + done, size)
            piece = min(size - place, T - done)
            self.pool.k[self.blocks[index], :, place : place + piece] = k[:, done : done + piece]
            self.pool.v[self.blocks[index], :, place : place + piece] = v[:, done : done + piece]
            done += piece
        self.length = end

    def gather(self):
        if not self.blocks:
            empty = self.pool.k[:0].transpose(0, 1).flatten(1, 2)
            return empty.clone(), empty.clone()
        found = []
        for store in (self.pool.k, self.pool.v):
            found.append(torch.cat([store[block] for block in self.blocks], dim=1)[:, : self.length].clone())
        return found[0], found[1]

    def fork(self):
        twin = PagedKVCache(self.pool)
        twin.blocks, twin.length = self.blocks[:], self.length
        for block in twin.blocks:
            twin.pool.share(block)
        return twin

    def free(self):
        blocks, self.blocks, self.length = self.blocks, [], 0
        for block in reversed(blocks):
            self.pool.free(block)


# variant: index tensors for blocks and places
class PagedKVCache:
    def __init__(self, pool):
        self.pool = pool
        self.table = ()
        self.length = 0

    @property
    def blocks(self):
        return list(self.table)

    def append(self, k, v):
        T, size = k.shape[1], self.pool.block_size
        if T == 0:
            return
        whole, rest = divmod(self.length, size)
        must_copy = rest != 0 and self.pool.holders(self.table[-1]) != 1
        more = (self.length + T + size - 1) // size - len(self.table)
        if more + must_copy > self.pool.n_free:
            raise RuntimeError(f"the pool has too few free blocks for {T} positions")
        if must_copy:
            new = self.pool.allocate()
            self.pool.k[new, :, :rest] = self.pool.k[self.table[-1], :, :rest]
            self.pool.v[new, :, :rest] = self.pool.v[self.table[-1], :, :rest]
            self.pool.free(self.table[-1])
            self.table = self.table[:-1] + (new,)
        self.table += tuple(self.pool.allocate() for _ in range(more))
        where = torch.arange(self.length, self.length + T)
        rows, places = torch.tensor(self.table)[where // size], where % size
        self.pool.k[rows, :, places] = k.transpose(0, 1)
        self.pool.v[rows, :, places] = v.transpose(0, 1)
        self.length += T

    def gather(self):
        where = torch.arange(self.length)
        rows = torch.tensor(self.table, dtype=torch.int64)[where // self.pool.block_size]
        return tuple(store[rows, :, where % self.pool.block_size].transpose(0, 1) for store in (self.pool.k, self.pool.v))

    def fork(self):
        branch = PagedKVCache(self.pool)
        branch.table, branch.length = self.table, self.length
        [self.pool.share(block) for block in self.table]
        return branch

    def free(self):
        [self.pool.free(block) for block in self.table]
        self.table, self.length = (), 0
