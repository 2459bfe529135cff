"""Chapter 15, sixth part: the cache of one text in blocks of a pool, and forks that share blocks."""

from types import SimpleNamespace

import torch
from cached_decoding import shuffled
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from pytest_check import check
from strategies import tensor


def drawn(**more):
    """Different sizes, and a seed. Each test has one example: a mistake here shows at every size, and another seed draws other sizes."""
    n = SimpleNamespace(n_blocks=11, size=4, H=2 + int(torch.randint(2, ())), d_head=5)
    sizes(n_blocks=11, block_size=4, H=n.H, d_head=5, **more)
    return n, int(torch.randint(10000, ()))


def pool_of(learner, n, n_blocks=None, dtype=torch.float32):
    return learner.BlockPool(n_blocks or n.n_blocks, n.size, n.H, n.d_head, dtype=dtype)


def positions(n, seed, T, dtype=torch.float32):
    """Random keys and values of T positions."""
    return tuple(tensor(seed + 5000 * j, n.H, T, n.d_head, dtype=dtype) for j in (0, 1))


class Text:
    """A cache and what was appended to it."""

    def __init__(self, cache, n, past=()):
        self.cache, self.n, self.past = cache, n, list(past)

    def append(self, seed, T, dtype=torch.float32):
        k, v = positions(self.n, seed, T, dtype)
        self.cache.append(k, v)
        self.past.append((k, v))

    def fork(self):
        return Text(self.cache.fork(), self.n, self.past)

    def state(self):
        """Everything that can be seen of it now, and what should be seen."""
        return self.cache.gather(), self.cache.length, self.cache.blocks, list(self.past)


def check_text(state, n, what):
    """Keys, values, length and the number of blocks are those of what was appended."""
    gathered, length, blocks, past = state
    holds(isinstance(gathered, tuple | list) and len(gathered) == 2, f"gather should return two tensors, all keys and all values; it returned {type(gathered).__name__}")
    for name, index in (("keys", 0), ("values", 1)):
        expected = torch.cat([torch.zeros(n.H, 0, n.d_head, dtype=gathered[0].dtype), *(pair[index] for pair in past)], dim=1)
        with check:
            close(gathered[index], expected, f"the tensor of {name} {what}", tol=0.0)
    total = sum(k.size(1) for k, _ in past)
    same(length, total, f"the length {what}")
    holds(isinstance(blocks, list), f"blocks should be a list of numbers; it is a {type(blocks).__name__}")
    same(len(blocks), -(-total // n.size), f"the number of blocks {what}, of {n.size} positions each,")
    holds(len(set(blocks)) == len(blocks), f"the table {what} contains a block twice: {blocks}")


def check_room(room, state, n, what):
    """The pool has these positions at the places that the table names."""
    _, length, blocks, past = state
    holds(len(blocks) * n.size >= length, f"the table {what} has {len(blocks)} blocks of {n.size} places, for {length} positions")
    for name, part, index in (("k", room[0], 0), ("v", room[1], 1)):
        found = torch.stack([part[blocks[p // n.size], :, p % n.size] for p in range(length)], dim=1)
        with check:
            close(found, torch.cat([pair[index] for pair in past], dim=1), f"what the pool's {name} has at the places of the table {what}", tol=0.0)


@exercise("PagedKVCache", weight=4)
def test_all_positions_come_back_in_order(learner):
    """Whatever the chunks, gather returns the keys and values of all positions in order, (n_heads, length, d_head), and length counts them."""
    n, seed = drawn()
    schedules = [shuffled(3, 1, 6, 5), [1] * 9, [4, 4, 1], [10, 7], [17, 1, 1]]
    found = []
    for lengths in schedules:
        text = Text(learner.PagedKVCache(pool_of(learner, n)), n)
        states = [text.state()]
        for i, T in enumerate(lengths):
            text.append(seed + i, T)
            states.append(text.state())
        found.append(states)
    for lengths, states in zip(schedules, found):
        for i, state in enumerate(states):
            check_text(state, n, f"after appending {lengths[:i]}" if i else "of a new cache")


@exercise("PagedKVCache", weight=3)
def test_blocks_are_taken_only_when_needed(learner):
    """A cache has ceil(length / block_size) blocks, and the pool the others: a block is filled before the next one is taken, and none is taken ahead."""
    n, seed = drawn()
    pool = pool_of(learner, n)
    cache, counted = learner.PagedKVCache(pool), []
    for i, T in enumerate((1, 2, 1, 1, 7, 4, 1)):
        cache.append(*positions(n, seed + i, T))
        counted.append((cache.length, len(cache.blocks), pool.n_free, [pool.holders(block) for block in cache.blocks]))
    for length, n_blocks, n_free, held in counted:
        need = -(-length // n.size)
        same((n_blocks, n_free), (need, n.n_blocks - need), f"the number of blocks of a cache with {length} positions, and n_free of its pool of {n.n_blocks},")
        same(held, need * [1], "the list of the numbers of holders of its blocks")


@exercise("PagedKVCache", weight=4)
def test_the_block_table_says_where_a_position_is(learner):
    """Position p is in the pool's block blocks[p // block_size], at place p % block_size, also where the blocks are not neighbours."""
    n, seed = drawn()
    pool = pool_of(learner, n)
    first, second = Text(learner.PagedKVCache(pool), n), Text(learner.PagedKVCache(pool), n)
    for i, T in enumerate((3, 2, 5)):
        first.append(seed + i, T)
        second.append(seed + 10 + i, T + 1)
    k, v, states = pool.k, pool.v, [text.state() for text in (first, second)]
    for which, state in zip(("first", "second"), states):
        check_text(state, n, f"of the {which} of two caches")
        for name, room in (("k", k), ("v", v)):
            shaped(room, (n.n_blocks, n.H, n.size, n.d_head), f"the pool's {name}", torch.float32)
        check_room((k, v), state, n, f"of the {which} of two caches")


@exercise("PagedKVCache", weight=3)
def test_gather_reads_the_pool(learner):
    """What is in the pool is what gather gives: after the pool's numbers are doubled, it gives twice the keys and values, in a fork too."""
    n, seed = drawn()
    pool = pool_of(learner, n)
    text = Text(learner.PagedKVCache(pool), n)
    text.append(seed, 7)
    branch = text.fork()
    branch.append(seed + 1, 3)
    before = text.state(), branch.state()
    learner.bring(double_everything)(pool)
    after = text.cache.gather(), branch.cache.gather()
    for state, doubled, what in zip(before, after, ("a cache", "its fork")):
        check_text(state, n, f"of {what}")
        for name, was, now in zip(("keys", "values"), state[0], doubled):
            close(now, 2 * was, f"the tensor of {name} of {what}, after all numbers of the pool were doubled,", tol=0.0)


def double_everything(pool):
    """All numbers of the pool times 2, in place; brought to the far side."""
    for room in (pool.k, pool.v):
        room *= 2


@exercise("PagedKVCache", weight=3)
def test_caches_of_one_pool_do_not_mix(learner):
    """Several caches that grow alternately in one pool, each have their own positions, and no two of them the same block."""
    n, seed = drawn()
    pool = pool_of(learner, n, 14, torch.float64)
    texts = [Text(learner.PagedKVCache(pool), n) for _ in range(3)]
    for step in range(4):
        for i, text in enumerate(texts):
            text.append(seed + 10 * i + step, 1 + (step + i) % 4, torch.float64)
    states, room = [text.state() for text in texts], (pool.k, pool.v)
    for i, state in enumerate(states):
        check_text(state, n, f"of cache {i + 1} of three, in float64")
        check_room(room, state, n, f"of cache {i + 1} of three, in float64")
    blocks = [block for state in states for block in state[2]]
    holds(len(set(blocks)) == len(blocks), f"two caches that share nothing have a block in common: {[state[2] for state in states]}")


@exercise("PagedKVCache", weight=4)
def test_a_fork_shares_until_it_writes(learner):
    """A fork takes no block, also by an append of no position. The first append in mid-block copies the shared block; neither sees the other's appends."""
    n, seed = drawn()
    pool = pool_of(learner, n)
    text = Text(learner.PagedKVCache(pool), n)
    text.append(seed, 10)
    counted = [pool.n_free]
    branch = text.fork()
    branch.append(seed + 9, 0)
    counted.append(pool.n_free)
    table = text.cache.blocks, branch.cache.blocks, [pool.holders(block) for block in text.cache.blocks]
    branch.append(seed + 1, 1)
    counted.append(pool.n_free)
    once = text.state(), branch.state(), [pool.holders(block) for block in text.cache.blocks]
    own = text.cache.blocks
    text.append(seed + 2, 1)
    own = own, text.cache.blocks
    counted.append(pool.n_free)
    text.append(seed + 3, 3)
    branch.append(seed + 4, 4)
    counted.append(pool.n_free)
    ends, room = (text.state(), branch.state()), (pool.k, pool.v)
    same(table[0], table[1], "the fork's block table, compared with the cache's, before any position is appended,")
    same(table[2], [2, 2, 2], "the list of the numbers of holders of the three blocks that a cache and its fork share")
    check_text(once[0], n, "of a cache whose fork has appended one position")
    check_text(once[1], n, "of the fork after it has appended one position")
    same(once[2], [2, 2, 1], "the list of holders of the cache's blocks, after its fork has copied the last one,")
    same(own[1], own[0], "the cache's table after one more position in its last block, which no other cache shares now, compared with the one before,")
    check_text(ends[0], n, "of the cache after both have appended")
    check_text(ends[1], n, "of the fork after both have appended")
    for state, what in zip(ends, ("of the cache", "of the fork")):
        check_room(room, state, n, f"{what} after both have appended")
    same(counted, [8, 8, 7, 7, 5], "the list of n_free of 11 blocks: with 10 positions; forked; one more in the fork; one more in the cache; 3 and 4 more")


@exercise("PagedKVCache", weight=3)
def test_a_full_block_is_never_copied(learner):
    """After a fork at the end of a block nothing is copied: each cache takes new blocks of its own, and the full ones stay shared."""
    n, seed = drawn()
    pool = pool_of(learner, n)
    text = Text(learner.PagedKVCache(pool), n)
    text.append(seed, 2 * n.size)
    branch = text.fork()
    deeper = branch.fork()
    counted = [pool.n_free]
    for i, each in enumerate((branch, text, deeper)):
        each.append(seed + 1 + i, 1 + i)
        counted.append(pool.n_free)
    states, room = [each.state() for each in (text, branch, deeper)], (pool.k, pool.v)
    held = [pool.holders(block) for block in text.cache.blocks]
    for state, what in zip(states, ("of the cache", "of its fork", "of the fork's fork")):
        check_text(state, n, f"{what}, forked when two blocks were just full,")
        check_room(room, state, n, f"{what}, forked when two blocks were just full,")
    same(held, [3, 3, 1], "the list of holders of the cache's blocks: two that are shared by three, and its own")
    same(counted, [9, 8, 7, 6], "the list of n_free of 11 blocks, after the forks and after each of three appends")


@exercise("PagedKVCache", weight=3)
def test_forks_of_forks_do_not_see_each_other(learner):
    """Three generations of forks, in mid-block and at its end, each keep their own text, in whatever order they append."""
    n, seed = drawn()
    pool = pool_of(learner, n, 40)
    family = [Text(learner.PagedKVCache(pool), n)]
    family[0].append(seed, 6)
    for step in range(3):
        family += [text.fork() for text in family]
        for i, text in enumerate(reversed(family)):
            text.append(seed + 100 * step + i, 1 + i % 3 if step != 1 else 2)
    states, room = [text.state() for text in family], (pool.k, pool.v)
    for text in family:
        text.cache.free()
    free_again = pool.n_free
    for i, state in enumerate(states):
        check_text(state, n, f"of cache {i + 1} of a family of eight")
        check_room(room, state, n, f"of cache {i + 1} of a family of eight")
    same(free_again, 40, "n_free of a pool of 40 blocks after all eight caches were freed")


@exercise("PagedKVCache", weight=3)
def test_all_holders_but_the_last_copy_before_they_write(learner):
    """If three caches share a block in its middle, the first two that append take a copy each, in any order, and the last one keeps the block; so after each fork."""
    n, seed = drawn()
    found = []
    for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        pool = pool_of(learner, n)
        text = Text(learner.PagedKVCache(pool), n)
        text.append(seed, 6)
        family = [text, text.fork(), text.fork()]
        shared, counted = text.cache.blocks[-1], [pool.n_free]
        for i in order:
            family[i].append(seed + 1 + i, 1)
            counted.append(pool.n_free)
        states, room = [each.state() for each in family], (pool.k, pool.v)
        writer = family[order[0]]
        later = writer.fork()
        for i, each in enumerate((writer, later)):
            each.append(seed + 5 + i, 1)
            counted.append(pool.n_free)
        found.append((order, states, room, shared, counted, (writer.state(), later.state())))
    names = ("the cache", "its first fork", "its second fork")
    for order, states, room, shared, counted, again in found:
        how = f"where {names[order[0]]} appends first, then {names[order[1]]}, then {names[order[2]]}"
        for state, name in zip(states, names):
            check_text(state, n, f"of {name}, {how},")
            check_room(room, state, n, f"of {name}, {how},")
        same([state[2][-1] == shared for state in states], [i == order[2] for i in range(3)], f"whether the shared block is still the last one of each table, {how},")
        for state, name in zip(again, (names[order[0]], "its new fork")):
            check_text(state, n, f"of {name}, after one more fork, {how},")
        same(counted, [9, 8, 7, 7, 6, 6], f"the list of n_free of 11 blocks after the forks and after each append, {how},")


@exercise("PagedKVCache", weight=2)
def test_the_last_holder_writes_without_a_copy(learner):
    """When the other holders of a shared block are gone, the last one writes into it: no block is taken."""
    n, seed = drawn()
    pool = pool_of(learner, n)
    text = Text(learner.PagedKVCache(pool), n)
    text.append(seed, 6)
    branch, other = text.fork(), text.fork()
    text.cache.free()
    other.cache.free()
    table, before = branch.cache.blocks, pool.n_free
    branch.append(seed + 1, 1)
    state, after = branch.state(), pool.n_free
    check_text(state, n, "of a fork whose cache was freed")
    same((before, after), (9, 9), "n_free of 11 blocks before and after the last holder of two blocks writes one position")
    same(state[2], table, "its block table, compared with the one before,")


@exercise("PagedKVCache", weight=3)
def test_an_append_that_does_not_fit_changes_nothing(learner):
    """If the pool has too few free blocks for the whole append, it raises a RuntimeError; length, table, pool and texts are as before, and it can continue later."""
    n, seed = drawn()
    pool = pool_of(learner, n, 5)
    text, other = Text(learner.PagedKVCache(pool), n), Text(learner.PagedKVCache(pool), n)
    text.append(seed, 6)
    other.append(seed + 1, 7)
    before = text.state(), pool.n_free
    refuses(lambda: text.cache.append(*positions(n, seed + 2, 7)), errors=(RuntimeError,), because="7 positions need two more blocks, and one is free")
    after = text.state(), pool.n_free
    branch = other.fork()
    refuses(lambda: branch.cache.append(*positions(n, seed + 6, 3)), errors=(RuntimeError,), because="a copy and a new block are needed, and one is free")
    half = branch.state(), other.state(), pool.n_free
    text.append(seed + 3, 6)
    full = pool.n_free
    refuses(lambda: branch.cache.append(*positions(n, seed + 4, 1)), errors=(RuntimeError,), because="the shared block must be copied, and none is free")
    shared = branch.state(), other.state(), [pool.holders(block) for block in branch.cache.blocks]
    text.cache.free()
    branch.append(seed + 5, 1)
    last = branch.state(), other.state(), pool.n_free
    check_text(before[0], n, "before an append that does not fit")
    check_text(after[0], n, "after an append that did not fit")
    same((before[1], after[1], full), (1, 1, 0), "n_free of 5 blocks before the error, after it, and when all are taken")
    check_text(half[0], n, "of a fork, after three positions did not fit because the last block must be copied,")
    check_text(half[1], n, "of the cache that the fork shares its blocks with")
    same(half[2], 1, "n_free of 5 blocks after that error")
    check_text(shared[0], n, "of a fork whose append did not fit")
    check_text(shared[1], n, "of the cache that the fork shares its blocks with")
    same(shared[2], [2, 2], "the list of holders of their blocks after the error")
    check_text(last[0], n, "of the fork, after another cache was freed and the append fitted,")
    check_text(last[1], n, "of the cache that the fork was made from")
    same(last[2], 2, "n_free of 5 blocks in the end")


@exercise("PagedKVCache", weight=3)
def test_a_freed_cache_is_empty_and_usable(learner):
    """free gives all blocks back; the cache is empty, freeing it again does nothing, and a new text in it shows nothing of the old one."""
    n, seed = drawn()
    pool = pool_of(learner, n, 4)
    text, branch = Text(learner.PagedKVCache(pool), n), None
    text.append(seed, 11)
    branch = text.fork()
    text.cache.free()
    counted = [pool.n_free]
    text.past.clear()
    empty, kept = text.state(), branch.state()
    text.cache.free()
    counted.append(pool.n_free)
    branch.cache.free()
    counted.append(pool.n_free)
    text.append(seed + 1, 2)
    text.append(seed + 2, 7)
    again, taken = text.state(), pool.n_free
    check_text(empty, n, "of a cache that was freed")
    check_text(kept, n, "of its fork, which was not freed")
    same(counted, [1, 1, 4], "the list of n_free of 4 blocks after the cache is freed, after it is freed again, and after its fork is freed")
    check_text(again, n, "of a new text in the freed cache")
    same(taken, 1, "n_free of 4 blocks with the new text")


@exercise("PagedKVCache", weight=2)
def test_gathered_tensors_do_not_change(learner):
    """What gather returned keeps its values after later appends, and after the blocks are lent to another cache; k and v may be views, as split_heads gives them."""
    n, seed = drawn()
    ask, found = learner.bring(gathered_and_later), []
    for lengths in ((6, 3, 9), (3, 1, 9)):
        found.append((lengths[0], ask(learner.PagedKVCache, pool_of(learner, n, 3), [positions(n, seed + i, T) for i, T in enumerate(lengths)])))
    for T, seen in found:
        for name, index in (("keys", 0), ("values", 1)):
            close(seen[0][index], positions(n, seed, T)[index], f"the tensor of {name} of {T} positions when it was gathered", tol=0.0)
            close(seen[1][index], seen[0][index], f"the same tensor of {name}, compared after more positions were appended,", tol=0.0)
            close(seen[2][index], seen[0][index], f"the same tensor of {name}, compared after another cache got the blocks,", tol=0.0)


def gathered_and_later(make, pool, parts):
    """What gather gives, and the same tensors after another append, and after the blocks belong to another cache; brought to the far side."""
    parts = [[x.transpose(0, 1).contiguous().transpose(0, 1) for x in part] for part in parts]  # not contiguous
    cache, other = make(pool), make(pool)
    cache.append(*parts[0])
    gathered = cache.gather()
    seen = [[x.clone() for x in gathered]]
    cache.append(*parts[1])
    seen.append([x.clone() for x in gathered])
    cache.free()
    other.append(*parts[2])
    return [*seen, [x.clone() for x in gathered]]
