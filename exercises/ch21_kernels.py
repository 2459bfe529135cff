"""Chapter 21: programs for a GPU, written and checked without one.

A kernel is a function that a GPU runs many times at once, as programs that differ in their place in a grid. It has no tensors. A tensor
arrives as a pointer to its first number, whose rows lie one after the other in memory, and a program reads and writes blocks of numbers:

    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)     the places of this program's block
    block = tl.load(x + at, mask=at < n, other=0.0)         reads them; where the mask is False it reads nothing and gives `other`
    tl.store(out + at, block * 2, mask=at < n)              writes them

The first parameter, tl, has what a kernel may use. The names and meanings are those of triton.language:

    tl.program_id(axis), tl.num_programs(axis)              this program's place in the grid, and the size of the grid
    tl.arange(0, n), tl.zeros(shape, dtype), tl.full(shape, value, dtype)   new blocks; every size is a power of two
    tl.load(pointer, mask=None, other=None), tl.store(pointer, value, mask=None)
    tl.dot(a, b)                                            matrix product of two blocks of one dtype; float16 gives float32
    tl.trans(a), tl.max(a, axis), tl.sum(a, axis), tl.where(condition, a, b), tl.maximum(a, b), tl.minimum(a, b)
    tl.exp(a), tl.log(a), tl.sqrt(a), tl.abs(a)             of float32
    tl.cdiv(a, b)                                           a / b, rounded up
    tl.float32, tl.float16, tl.int32; a.to(dtype), a.dtype, a.shape; + - * / // % < <= > >= == != & | ~; a[:, None], a[None, :]

Without `other`, what a mask leaves out is not defined. tl.store converts to the dtype of the tensor. Parameters in CAPITALS are constants,
and so are the sizes of blocks. Python's if, for, while, range, min and max work with single numbers, such as program_id. The programs run
in no fixed order. The tests run kernels on a simulated GPU. It reports a program that reads or writes outside of a tensor, or that reads or
writes what another one writes, and it counts bytes. A number that is read twice, by one program or by two, counts twice. Masked numbers do
not count.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch21_kernels.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

from __future__ import annotations


def add_kernel(tl, x, y, out, n: int, BLOCK: int) -> None:
    """Write x + y to out. The three have n numbers each; what lies behind them in memory is neither read nor written.

    The grid is (⌈n / BLOCK⌉,): program p adds the BLOCK numbers from p * BLOCK on, and the last one those that are left. Each number of x
    and y is read once, and each number of out is written once.
    """
    # TODO 1: compute the places of this program's block, and a mask that is True where they are below n
    # TODO 2: read both blocks, add them, and write the sum
    raise NotImplementedError


def softmax_kernel(tl, x, out, columns: int, stride: int, BLOCK: int) -> None:
    """Write the softmax of each row of x to out.

    The grid is (rows,): one program a row. A row has `columns` numbers, at most BLOCK. Row r begins at place r * stride, in x and in out;
    what lies between two rows is neither read nor written. Each number of x is read once, and each number of out is written once. Compute
    in float32, also where x and out are float16. Numbers of x may be large, and some of a row may be -inf.
    """
    # TODO 1: find the first place of this program's row, and read the row; what is beyond it must not change the maximum or the sum
    # TODO 2: convert to float32, subtract the row's maximum, take exp, and divide by the sum
    # TODO 3: write the row
    raise NotImplementedError


def rms_norm_kernel(tl, x, weight, out, columns: int, eps: float, BLOCK: int) -> None:
    """Write the RMSNorm of each row of x to out: row / sqrt(mean(row²) + eps) * weight.

    The grid is (rows,): one program a row of `columns` numbers, at most BLOCK. The rows of x and out lie one after the other; weight has
    `columns` numbers. Each number of x is read once, and each number of out is written once. Compute in float32, also where x, weight and
    out are float16.
    """
    # TODO 1: read the row and the weights as float32; what is beyond the row must not change the mean
    # TODO 2: divide by the root of the mean of squares (of `columns` numbers, not of BLOCK) plus eps, and multiply by weight
    # TODO 3: write the row
    raise NotImplementedError


def long_softmax_kernel(tl, x, out, columns: int, BLOCK: int) -> None:
    """Write the softmax of each row of x to out. A row may have many more numbers than a block.

    The grid is (rows,): one program a row of `columns` numbers, and the rows lie one after the other. The program goes over its row twice:
    first for the maximum and the sum, which it keeps up to date block by block, then for the result. So each number of x is read twice, and
    not three times, and each number of out is written once. Compute in float32, also where x and out are float16. Numbers may be large, and
    some may be -inf, also all numbers of a block, as long as the row has another one.
    """
    # TODO 1: for each block of the row: find the new maximum, multiply the sum by exp(old maximum - new maximum), and add the block's part.
    #         A maximum that is still -inf must not be subtracted: -inf - -inf is nan
    # TODO 2: for each block of the row: read it again, and write exp(number - maximum) / sum
    raise NotImplementedError


def matmul_kernel(tl, a, b, c, M: int, N: int, K: int, BM: int, BN: int, BK: int) -> None:
    """Write the matrix product of a (M, K) and b (K, N) to c (M, N). The rows of each lie one after the other.

    Memory behind a matrix may hold anything, and stays as it is.
    The grid is (⌈M / BM⌉, ⌈N / BN⌉): program (i, j) computes the tile of c that begins at row i * BM and column j * BN. It goes along K in
    steps of BK, and reads the rows of a and the columns of b that its tile needs once: all programs together read
    M * K * ⌈N / BN⌉ + K * N * ⌈M / BM⌉ numbers. Each number of c is written once. The sum is kept in float32, also where a, b and c are
    float16.
    """
    # TODO 1: compute the rows and the columns of this program's tile
    # TODO 2: for each step along K: read a block of a (BM, BK) and one of b (BK, BN), with 0 at the edges, and add their product
    # TODO 3: write the tile, without what is beyond the edges of c
    raise NotImplementedError


def grouped_place(program: int, n_rows: int, n_columns: int, group: int) -> tuple[int, int]:
    """Return the tile (row, column) that program number `program` computes, of n_rows * n_columns tiles.

    Row by row, the programs that run at the same time read one row of a, and all columns of b. In this order they share more: the tiles are
    taken in bands of `group` rows. Within a band they go column by column, and within a column from the top down. The last band has the rows
    that are left, if `group` does not divide n_rows. With group 1 this is row by row. Each tile is computed by one program. With n_rows = 3,
    n_columns = 2 and group = 2, the programs 0 to 5 compute (0, 0), (1, 0), (0, 1), (1, 1), (2, 0) and (2, 1).
    """
    # TODO 1: find the band: how many programs does a full one have?
    # TODO 2: find how many rows this band has, and the place within it
    raise NotImplementedError


def attention_kernel(tl, q, k, v, out, lse, T: int, scale: float, D: int, BQ: int, BK: int) -> None:
    """Write causal attention to out, and to lse the logarithm of each query's sum of exp(score).

    q, k, v and out are (heads, T, D), and lse is (heads, T); the rows lie one after the other. D is a power of two. A score is
    scale * (query · key), and a query attends to the keys up to its own position. The grid is (⌈T / BQ⌉, heads): program (i, head) has the
    queries from i * BQ on, and reads each of them once. It goes over keys and values once, in blocks of BK, with the maximum, the sum and the
    output kept up to date. It stops at its last query: blocks of keys that no query of it attends to are not read. It writes its numbers of
    out and lse once, and nothing else. Scores may be large. Compute in float32, also where q, k, v, out and lse are float16.
    """
    # TODO 1: find the places of this program's queries, and read them as float32
    # TODO 2: for each block of keys up to the last query: compute the scores, with -inf where a key is later than the query
    # TODO 3: find the new maximum; multiply the sum and the output by exp(old - new), and add the block's parts
    # TODO 4: divide by the sum, and write the output and maximum + log(sum)
    raise NotImplementedError


def cross_entropy_kernel(tl, logits, targets, loss, gradient, columns: int, BLOCK: int) -> None:
    """Write the cross-entropy of each row of logits to loss, and its gradient with respect to the row to gradient.

    The grid is (rows,): one program a row of `columns` logits, at most BLOCK. The rows of logits and gradient lie one after the other;
    targets and loss have one number a row. The loss is log(sum of exp) minus the target's logit, and the gradient is softmax minus 1 at the
    target. Both come from one pass: each logit is read once, only the target's own logit may be read once more, and each number of loss and
    gradient is written once. A target of -100 is ignored: loss 0 and a gradient of zeros. Compute in float32, also where logits, loss and
    gradient are float16. Logits may be large, and some of a row may be -inf.
    """
    # TODO 1: read the target and the row
    # TODO 2: compute maximum, exp and sum; pick the target's logit out of the block, with tl.where and tl.sum
    # TODO 3: write the loss and the gradient, both 0 where the target is -100
    raise NotImplementedError


def int8_matmul_kernel(tl, x, w, scale, out, M: int, N: int, K: int, BM: int, BN: int, BK: int) -> None:
    """Write x (M, K) times the transpose of a matrix (N, K) of 8-bit integers to out (M, N), as a linear layer of chapter 15 needs it.

    w (N, K) has the integers, int8, and scale (N,) one factor a row of w: the matrix is w * scale[:, None]. The rows of each lie one after
    the other, and memory behind a tensor may hold anything, and stays as it is. The grid and the tiles are those of matmul_kernel. The
    integers are read as they are, a quarter of the bytes of float32, and converted in the program: all programs together read
    M * K * ⌈N / BN⌉ numbers of x and N * K * ⌈M / BM⌉ of w. Each program reads the scales of its columns once, and writes each number of its
    tile once. Compute in float32, also where x, scale and out are float16.
    """
    # TODO 1: compute the rows and the columns of this program's tile; column j of the result is row j of w
    # TODO 2: for each step along K: read a block of x and one of w, convert both to float32, and add their product
    # TODO 3: multiply each column by its scale once, after the sum, and write the tile
    raise NotImplementedError


def roofline(flops: float, bytes_moved: float, peak_flops: float, bandwidth: float) -> tuple[float, str]:
    """Return how long a GPU needs at best for a computation, in seconds, and what it waits for: "compute" or "memory".

    The computation has `flops` operations and moves `bytes_moved` bytes between memory and the processors; either may be 0. The GPU does at most peak_flops
    operations and moves at most `bandwidth` bytes a second, and can do both at the same time. So the time is that of the slower of the two;
    if both take equally long, it is "compute".
    """
    # TODO 1: compute both times, and return the longer one with its name
    raise NotImplementedError
