"""Chapter 15, fifth part: a pool of blocks. Which free block is lent is open, so pools are compared by n_free and holders."""

import torch
from calls import recorded_call
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same, shaped, sizes


def drawn():
    """Different sizes, and a seed. Each test has one example: a mistake here shows at every size, and another seed draws other sizes."""
    n_blocks, block_size, H, d_head = 6 + int(torch.randint(2, ())), 4 + int(torch.randint(2, ())), 2, 3
    sizes(n_blocks=n_blocks, block_size=block_size, H=H, d_head=d_head)
    return n_blocks, block_size, H, d_head


def take_all(pool, n):
    return [pool.allocate() for _ in range(n)]


def check_numbers(blocks, n, what):
    """These are n different numbers of blocks."""
    whole = all(isinstance(block, int) and 0 <= block < n for block in blocks)
    holds(whole and len(set(blocks)) == len(blocks), f"{what} should be different numbers from 0 to {n - 1}; they are {blocks!r:.90}")


def written(pool):
    """What is in k and in v after other numbers were written to each block of k and of v."""
    for i in range(len(pool.k)):
        pool.v[i] = -1.0 - i
        pool.k[i] = 1.0 + i
    return pool.k[:, 0, 0, 0].tolist(), pool.v[:, 0, 0, 0].tolist()


@exercise("BlockPool", weight=2)
def test_a_pool_has_room_for_keys_and_values(learner):
    """k and v are two tensors (n_blocks, n_heads, block_size, d_head) in the dtype, float32 by default; each block has its own memory, and all are free."""
    n, size, H, d_head = drawn()
    pool, double = learner.BlockPool(n, size, H, d_head), learner.BlockPool(n, size, H, d_head, dtype=torch.float64)
    room = {name: getattr(pool, name) for name in ("k", "v")}
    wide = {name: getattr(double, name) for name in ("k", "v")}
    numbers = pool.block_size, pool.n_free, double.n_free
    lent = take_all(pool, n)
    numbers_of_k, numbers_of_v = learner.bring(written)(double)
    for name in room:
        shaped(room[name], (n, H, size, d_head), f"the pool's {name}", torch.float32)
        shaped(wide[name], (n, H, size, d_head), f"the {name} of a pool with dtype=torch.float64", torch.float64)
    same(numbers, (size, n, n), "block_size, and n_free of two new pools")
    check_numbers(lent, n, "the blocks of a pool")
    own = "what the first place of each block has after the number of each block, counted from"
    same(numbers_of_k, [1.0 + i for i in range(n)], f"the list of {own} 1, was written to the block of k,")
    same(numbers_of_v, [-1.0 - i for i in range(n)], f"the list of {own} -1 downwards, was written to the block of v,")


@exercise("BlockPool", weight=3)
def test_each_block_is_lent_once(learner):
    """allocate returns a free block's number, with one holder; n_free falls by one each time, and with no block free it raises a RuntimeError."""
    n, *others = drawn()
    pool = learner.BlockPool(n, *others)
    lent, counted = [], [pool.n_free]
    for _ in range(n):
        lent.append(pool.allocate())
        counted.append(pool.n_free)
    held = [pool.holders(block) for block in lent]
    check_numbers(lent, n, f"the {n} blocks that allocate has lent")
    same(counted, list(range(n, -1, -1)), "the list of n_free before and after each allocate")
    same(held, n * [1], "the list of the numbers of holders of all blocks")
    refuses(lambda: pool.allocate(), errors=(RuntimeError,), because="no block is free")
    same((pool.n_free, [pool.holders(block) for block in lent]), (0, n * [1]), "n_free and the numbers of holders after the error")


@exercise("BlockPool", weight=3)
def test_a_freed_block_can_be_lent_again(learner):
    """A block that its only holder frees has no holder, counts as free, and is lent again."""
    n, *others = drawn()
    pool = learner.BlockPool(n, *others)
    lent = take_all(pool, n)
    back = [lent[2], lent[0], lent[-1]]
    counted = []
    for block in back:
        pool.free(block)
        counted.append((pool.n_free, pool.holders(block)))
    again = take_all(pool, 3)
    after = pool.n_free, [pool.holders(block) for block in lent]
    same(counted, [(1, 0), (2, 0), (3, 0)], "the list of n_free and holders after each of three blocks is freed")
    same(sorted(again), sorted(back), "the blocks that are lent when only these three are free, in ascending order,")
    same(after, (0, n * [1]), "n_free and the numbers of holders after all blocks are lent again")


@exercise("BlockPool", weight=3)
def test_a_shared_block_is_free_after_its_last_holder(learner):
    """share adds a holder, and takes no block; the block is free only when each of its holders has freed it."""
    n, *others = drawn()
    pool = learner.BlockPool(n, *others)
    lent = take_all(pool, n - 1)
    block, other = lent[1], lent[3]
    pool.share(block)
    pool.share(block)
    pool.share(other)
    shared = pool.n_free, pool.holders(block), pool.holders(other), pool.holders(lent[0])
    counted = []
    for _ in range(3):
        pool.free(block)
        counted.append((pool.holders(block), pool.n_free))
    new = take_all(pool, 2)
    same(shared, (1, 3, 2, 1), "n_free, and the holders of a block shared twice, of one shared once, and of one not shared")
    same(counted, [(2, 1), (1, 1), (0, 2)], "the list of holders and n_free each time one of three holders frees the block")
    holds(block in new and len(set(new)) == 2, f"the two free blocks are the freed one, {block}, and one that was never lent; allocate gave {new}")
    same(pool.holders(other), 2, "the number of holders of the other shared block in the end")


@exercise("BlockPool", weight=3)
def test_what_is_free_cannot_be_freed_or_shared(learner):
    """Freeing or sharing a block that is free raises a ValueError that names it, and changes nothing: no block is ever on the list twice."""
    n, *others = drawn()
    pool = learner.BlockPool(n, *others)
    lent = take_all(pool, 4)
    block = lent[2]
    pool.free(block)
    counted, calls = [pool.n_free], []
    for call, why in ((pool.free, "it is free already"), (pool.share, "it is free: it has no holder")):
        calls.append((recorded_call(lambda call=call: call(block)), why))
        counted += [pool.n_free, pool.holders(block)]
    rest = take_all(pool, min(n - 3, pool.n_free))
    for call, why in calls:
        refuses(call, naming={"block": block}, because=why)
    same(counted, [n - 3, n - 3, 0, n - 3, 0], "n_free before the errors; n_free, and the holders of the free block, after each of the two")
    check_numbers([lent[0], lent[1], lent[3], *rest], n, "all blocks that are lent after two refused calls")
    refuses(lambda: pool.allocate(), errors=(RuntimeError,), because="all blocks are lent")


@exercise("BlockPool", weight=2)
def test_numbers_that_are_no_blocks(learner):
    """Freeing or sharing a negative number, or one past the last block, raises a ValueError that names it, and changes nothing."""
    n, *others = drawn()
    pool = learner.BlockPool(n, *others)
    lent = take_all(pool, n)
    found = []
    for block in (-1, -n, n, n + 7):
        for call in (pool.share, pool.free):
            refused = recorded_call(lambda call=call, block=block: call(block))
            found.append((block, refused, (pool.n_free, [pool.holders(each) for each in lent])))
    for block, refused, _ in found:
        refuses(refused, naming={"block": block}, because="no block has this number")
    for i, (_, _, counted) in enumerate(found):
        same(counted, (0, n * [1]), f"n_free and the numbers of holders after {i + 1} refused calls")


@exercise("BlockPool", weight=2)
def test_any_order_of_calls_keeps_the_count(learner):
    """After any order of allocate, share and free, every block has the right number of holders, and the free ones are those without."""
    n, *others = drawn()
    pool, bystander = learner.BlockPool(n, *others), learner.BlockPool(n, *others)
    held: dict[int, int] = {}
    counted = []
    for call, number in enumerate(torch.randint(10**6, (60,)).tolist(), 1):
        used = sorted(held)
        if (number % 5 < 2 or not used) and len(used) < n:
            block = pool.allocate()
            holds(isinstance(block, int) and block not in held, f"allocate gave block {block!r}, which is in use")
            held[block] = 1
        elif number % 5 == 2 and used:
            held[used[number % len(used)]] += 1
            pool.share(used[number % len(used)])
        else:
            block = used[number % len(used)]
            pool.free(block)
            held[block] -= 1
            held = {block: count for block, count in held.items() if count}
        if call % 6 == 0:
            expected = n - len(held), [held.get(block, 0) for block in range(n)]
            counted.append((call, (pool.n_free, [pool.holders(block) for block in range(n)]), expected))
    for call, got, expected in counted:
        same(got, expected, f"n_free, and the number of holders of each block, after {call} calls")
    same(bystander.n_free, n, "n_free of another pool that was not used")
