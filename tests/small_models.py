"""Small GPTs and Seq2Seqs with random weights, the ids and batches they read, and comparing what they return."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from grader.execution.proxy import load, randomise
from grader.verdict.comparing import close, holds, same, shaped, sizes
from module_pairs import set_parameters
from strategies import at, distinct, token_ids, width_is_unique

TABLE_POSITIONS, ATTENTION_POSITIONS = ("learned", "sinusoidal"), ("rope", "alibi")


def make_gpt(side, n, kind="GPT", **options):
    """A GPT, or another kind of it, as wide as four features a head."""
    config = {"vocab_size": n.V, "max_len": n.max_len, "d_model": 4 * n.H, "n_heads": n.H, "n_layers": n.L} | options
    return getattr(side, kind)(side.GPTConfig(**config))


def make_llama(side, n):
    """A Llama with a head of its own, and twice as many query heads, of width 8, as key heads. The eps of its norms shows."""
    return side.Llama(n.V, 16 * n.H, 2 * n.H, n.H, n.L, 19, 100.0, 0.1, tied=False)


def gpt_ids(n, seed, length=None):
    """Ids (B, T) with the first and the last of the vocabulary."""
    ids = token_ids(seed, n.B, length or n.T, vocab=n.V)
    ids[0, 1], ids[-1, 0] = 0, n.V - 1
    return ids


def draw_gpt_sizes():
    """Different sizes, and a seed. Each test has one example: a mistake in a whole model shows at every size, and another seed draws other sizes."""
    T, max_len, V = (low + int(torch.randint(3, ())) for low in (5, 9, 13))
    H = 2 + int(torch.randint(2, ()))
    n = SimpleNamespace(B=4, T=T, H=H, L=5 - H, max_len=max_len, V=V)
    sizes(**vars(n))
    return n, int(torch.randint(10000, ()))


def gpt_pair(learner, reference, n, seed, **options):
    """The learner's GPT and the reference's with the same random parameters."""
    model = make_gpt(reference, n, **options)
    values = randomise(model, seed, scale=1.5)
    values.setdefault("lm_head.weight", values["token_emb.weight"])
    mine = make_gpt(learner, n, **options)
    set_parameters(learner, mine, values, "GPT")
    return mine, model


def gpt_targets(n, seed):
    """Targets, of which some are to be ignored: at the start of one row, all but one of another row, and at the end."""
    targets = token_ids(seed + 50, n.B, n.T, vocab=n.V)
    targets[0, 2] = 0
    targets[0, :2] = targets[1, 1:] = targets[-1, -1] = -100
    return targets


def logits_and_loss(result):
    """The logits and the loss of what a GPT returned."""
    is_pair = isinstance(result, tuple | list) and len(result) == 2
    holds(is_pair, f"a GPT returns two results, (logits, loss), with None for the loss without targets; this one returned a {type(result).__name__}")
    return result[0], result[1]


def logits_of(model, ids):
    return logits_and_loss(model(ids))[0]


def loss_of(result):
    loss = logits_and_loss(result)[1]
    holds(isinstance(loss, torch.Tensor), f"the loss should be a tensor, through which a gradient can flow; it is a {type(loss).__name__}")
    return loss


def randomise_for_text(model, seed, scale=1.5):
    """Random weights with plain norms and no biases, so that a greedy text does not repeat one word for ever."""
    values = randomise(model, seed, scale=scale)
    flat = {name: torch.full_like(value, float(".ln" in f".{name}" and name.endswith("weight"))) for name, value in values.items() if value.dim() < 2}
    load(model, flat)
    return values | flat


def compare_text(answer, what):
    """Compare the text with the expected one. If it differs, the call is repeated, so that the failure shows this call and not another one."""
    got, expected, _, again = answer
    if not isinstance(got, torch.Tensor) or got.dtype != expected.dtype or not torch.equal(got, expected):
        again()
    same(got, expected, what)


SEQ2SEQ_RANGES = dict(B=(3, 4), H=(2, 3), d_head=(2, 5), S=(5, 9), T=(5, 9), F=(7, 13), V=(14, 18), W=(14, 18), L=(10, 13))


seq2seq_sizes = distinct(**SEQ2SEQ_RANGES).filter(width_is_unique)
smallest_sizes = at(B=3, H=2, d_head=4, S=5, T=6, F=7, V=14, W=15, L=10)
equal_vocabularies = at(B=3, H=2, d_head=4, S=5, T=6, F=7, V=14, W=14, L=10)


def seq2seq_config(learner, n, **others):
    """V and W are the vocabularies, L is max_len, F is d_ff."""
    sizes = dict(src_vocab_size=n.V, tgt_vocab_size=n.W, max_len=n.L, d_model=n.H * n.d_head, n_heads=n.H, d_ff=n.F)
    return learner.Seq2SeqConfig(**sizes, **others)


def seq2seq_pair(learner, reference, n, seed, **others):
    """The learner's model and the reference's with the same random parameters, and these parameters; one of the stacks has more layers."""
    blocks = dict(zip(("n_encoder_blocks", "n_decoder_blocks"), ((1, 2), (2, 1))[seed % 2])) | others
    model = reference.Seq2Seq(seq2seq_config(reference, n, **blocks))
    values = randomise(model, seed)
    mine = learner.Seq2Seq(seq2seq_config(learner, n, **blocks))
    load(mine, values)
    return mine, model, values


def ids_without_padding(seed, rows, length, vocab, pad_id=0):
    """Ids without padding."""
    ids = token_ids(seed, rows, length, vocab=vocab - 1)
    return ids + (ids >= pad_id)


def source_and_target(n, seed, pad_id=0):
    return ids_without_padding(seed, n.B, n.S, n.V, pad_id), ids_without_padding(seed + 1, n.B, n.T, n.W, pad_id)


def padded_right(ids, seed, pad_id=0):
    """The same ids with other numbers of pads at the ends of the rows, and where real tokens are."""
    real = torch.ones_like(ids, dtype=torch.bool)
    for row in range(len(ids)):
        real[row, ids.size(1) - (row + seed) % 4 :] = (row + seed) % 4 == 0
    return ids.masked_fill(~real, pad_id), real


def at_real_tokens(tensor, real):
    """The rows at real tokens; what is at padding does not count."""
    return tensor[real] if isinstance(tensor, torch.Tensor) and tensor.shape[:2] == real.shape else tensor


def compare_logits(got, expected, what, real=None, tol=1e-4):
    """Compare the numbers, only at real tokens if `real` marks these."""
    if real is None:
        close(got, expected, what, tol=tol)
    else:
        close(at_real_tokens(got, real), at_real_tokens(expected, real), f"{what} at real tokens", tol=tol)


def check_logits_differ(logits, *shape):
    """Logits of this shape that differ from each other. Tests use no more than that, so that a wrong number costs only the points of the numbers."""
    shaped(logits, shape, "the tensor of logits")
    holds(float(logits.float().std()) > 1e-3, "all logits are equal: they do not depend on the tokens")
    return logits


def uneven_batches(seed, n, counts):
    """Batches (B, T), (B, T + 1), ... with unequal numbers of tokens: targets of -100 on the left and on the right."""
    batches = []
    for i, (rows, kept) in enumerate(counts):
        inputs, targets = (token_ids(seed + 2 * i + which, rows, n.T + i, vocab=n.V) for which in (0, 1))
        for row in range(rows):
            targets[row, kept + row % 2 :] = -100
            targets[row, : row % 2] = -100
        batches.append((inputs, targets))
    return batches


TOKEN_COUNTS = ((2, 1), (3, 3), (1, 2))  # 2, 9 and 2 tokens
language_sizes = distinct(T=(5, 6), V=(9, 12))
