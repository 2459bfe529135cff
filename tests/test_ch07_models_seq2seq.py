"""Chapter 7: the encoder and decoder that translate. The other models are in their own files."""

from types import SimpleNamespace

import torch
from elsewhere import meta_is_ready, on_meta
from grader.comparing import close, holds, refuses, same, shaped, sizes
from grader.door.near import gradients, load, parameters, randomise, state
from grader.marks import exercise
from hypothesis import given, settings
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=2)  # what is broken here is broken at every example
anything = dict(B=(3, 4), H=(2, 3), d_head=(2, 5), S=(5, 9), T=(5, 9), F=(7, 13), V=(14, 18), W=(14, 18), L=(10, 13))


def all_different(n):
    """The width is no other size either."""
    return n.H * n.d_head not in vars(n).values()


some = distinct(**anything).filter(all_different)


def config(learner, n, **others):
    """V and W are the vocabularies, L is max_len, F is d_ff."""
    sizes = dict(src_vocab_size=n.V, tgt_vocab_size=n.W, max_len=n.L, d_model=n.H * n.d_head, n_heads=n.H, d_ff=n.F)
    return learner.Seq2SeqConfig(**sizes, **others)


def pair(learner, reference, n, seed, **others):
    """The learner's model and the reference's with the same random parameters, and those; one of the stacks is higher."""
    blocks = dict(zip(("n_encoder_blocks", "n_decoder_blocks"), ((1, 2), (2, 1))[seed % 2])) | others
    model = reference.Seq2Seq(config(reference, n, **blocks))
    values = randomise(model, seed)
    mine = learner.Seq2Seq(config(learner, n, **blocks))
    load(mine, values)
    return mine, model, values


def words(seed, rows, length, vocab, pad_id=0):
    """Ids without padding."""
    ids = token_ids(seed, rows, length, vocab=vocab - 1)
    return ids + (ids >= pad_id)


def both(n, seed, pad_id=0):
    return words(seed, n.B, n.S, n.V, pad_id), words(seed + 1, n.B, n.T, n.W, pad_id)


def on_the_right(ids, seed, pad_id=0):
    """The same ids with other numbers of pads at the ends of the rows, and where real tokens are."""
    real = torch.ones_like(ids, dtype=torch.bool)
    for row in range(len(ids)):
        real[row, ids.size(1) - (row + seed) % 4 :] = (row + seed) % 4 == 0
    return ids.masked_fill(~real, pad_id), real


def anywhere(ids, seed, pad_id=0):
    """The same ids with pads on the left, inside, and on both sides, and where real tokens are."""
    real = torch.ones_like(ids, dtype=torch.bool)
    for row, places in enumerate([(0,), (1, 3), (0, -1), (0, 1, -2)][: len(ids)]):
        real[(row + seed) % len(ids), list(places)] = False
    return ids.masked_fill(~real, pad_id), real


def only(tensor, real):
    """The rows at real tokens; what stands at padding is nobody's business."""
    return tensor[real] if isinstance(tensor, torch.Tensor) and tensor.shape[:2] == real.shape else tensor


def agree(got, expected, what, real=None, tol=1e-4):
    """The same numbers, at real tokens only where `real` says which these are."""
    if real is None:
        close(got, expected, what, tol=tol)
    else:
        close(only(got, real), only(expected, real), f"{what} at real tokens", tol=tol)


def changed(before, after, axis=1):
    """By how much each entry along `axis` changed, at most."""
    difference = shaped(after, tuple(before.shape)) - before
    return [float(d.abs().max()) for d in difference.unbind(axis)]


def alive(logits, *shape):
    """Logits of this shape that differ from each other. Laws ask no more than that, so that a wrong number costs the points of the numbers only."""
    shaped(logits, shape, "the tensor of logits")
    holds(float(logits.float().std()) > 1e-3, "all logits are alike: they do not depend on the tokens")
    return logits


# ---- the numbers


@exercise("Seq2Seq", weight=3)
@few
@given(n=some, seed=seeds)
def test_a_translator_scores_the_next_token(learner, reference, n, seed):
    """The logits are those of the formula: scaled embeddings, positions, encoder blocks, decoder blocks, head."""
    mine, model, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    agree(mine(src, tgt), model(src, tgt), "the tensor of logits")


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_encode_gives_the_memory(learner, reference, n, seed):
    """encode(src) is what the last encoder block gives, (B, S, D): embeddings times sqrt(D), plus positions, through all blocks, and no further norm."""
    mine, model, _ = pair(learner, reference, n, seed)
    src, _ = both(n, seed)
    padded, real = on_the_right(src, seed)
    got = mine.encode(src), mine.encode(padded)
    agree(got[0], model.encode(src), "the memory")
    agree(got[1], model.encode(padded), "the memory of a padded source", real)


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_decode_reads_the_memory_it_is_given(learner, reference, n, seed):
    """decode(tgt, memory, src) attends to that memory, whatever it is; src only says where its padding is."""
    mine, model, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    padded, real = on_the_right(tgt, seed)
    memory = tensor(seed, n.B, n.S, n.H * n.d_head)
    got = mine.decode(tgt, memory, src), mine.decode(padded, memory, src)
    agree(got[0], model.decode(tgt, memory, src), "the logits beside a memory of random numbers")
    agree(got[1], model.decode(padded, memory, src), "the logits of a padded target beside a memory of random numbers", real)


@exercise("Seq2Seq")
@few
@given(n=some, seed=seeds)
def test_forward_is_encode_then_decode(learner, reference, n, seed):
    """model(src, tgt) is decode(tgt, encode(src), src)."""
    mine, _, _ = pair(learner, reference, n, seed)
    (src, _), (tgt, real) = on_the_right(both(n, seed)[0], seed), on_the_right(both(n, seed)[1], seed + 1)
    whole, steps = mine(src, tgt), mine.decode(tgt, mine.encode(src), src)
    alive(steps, n.B, n.T, n.W)
    agree(whole, steps, "the tensor of logits that model(src, tgt) gives", real)


@exercise("Seq2Seq")
@few
@given(n=some, seed=seeds)
def test_sources_and_targets_of_any_length(learner, reference, n, seed):
    """A source of max_len, or a target of max_len, or one of a single token: all of them work."""
    mine, _, _ = pair(learner, reference, n, seed)
    long, short = words(seed, n.B, n.L, n.V), words(seed + 1, n.B, 1, n.W)
    other_way = words(seed, n.B, 1, n.V), words(seed + 1, n.B, n.L, n.W)
    got = mine(long, short), mine(*other_way)
    alive(got[0], n.B, 1, n.W)
    alive(got[1], n.B, n.L, n.W)


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_gradients_of_the_translator(learner, reference, n, seed):
    """Every parameter of encoder, decoder, embeddings and head gets the gradient that the formula gives it."""
    mine, model, _ = pair(learner, reference, n, seed)
    mine, model = mine.double(), model.double()  # in float32 the rounding of many layers is as large as the smallest gradients
    (src, _), (tgt, real) = on_the_right(both(n, seed)[0], seed), on_the_right(both(n, seed)[1], seed + 1)
    cotangent = tensor(seed, n.B, n.T, n.W).double() * real[..., None]
    got, expected = gradients(mine, src, tgt, cotangent=cotangent), gradients(model, src, tgt, cotangent=cotangent)
    for name, gradient in expected.parameters.items():
        if not name.endswith("W_k.bias"):  # softmax ignores it: its gradient is rounding and nothing else
            holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: it will never learn")
            close(got.parameters[name], gradient, f"the gradient of {name}", tol=5e-4)


# ---- padding


@exercise("Seq2Seq", weight=3)
@few
@given(n=some, seed=seeds)
def test_padding_on_the_right_changes_no_real_logit(learner, reference, n, seed):
    """A sentence gets the same logits alone as in a batch where it is filled up, in the source, in the target, or in both."""
    mine, _, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    (padded_src, real_src), (padded_tgt, real_tgt) = on_the_right(src, seed), on_the_right(tgt, seed + 1)
    got = mine(padded_src, tgt), mine(src, padded_tgt), mine(padded_src, padded_tgt)
    cases = "the source is padded", "the target is padded", "both are padded"
    pairs = []
    for row in range(n.B):
        one, other = src[row : row + 1, real_src[row]], tgt[row : row + 1, real_tgt[row]]
        alone = mine(one, tgt[row : row + 1]), mine(src[row : row + 1], other), mine(one, other)
        pairs += [(row, *found) for found in zip(got, alone, (n.T, other.size(1), other.size(1)), cases)]
    for row, logits, expected, length, where in pairs:
        alive(logits, n.B, n.T, n.W)
        shaped(expected, (1, length, n.W), "the tensor of logits")
        agree(logits[row, :length], expected[0], f"row {row} of the logits where {where}, held against the logits of that sentence alone,")


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_padding_anywhere_is_never_attended_to(learner, reference, n, seed):
    """Wherever the padding stands, the vector of its id reaches no real token's logits."""
    mine, _, values = pair(learner, reference, n, seed)
    (src, _), (tgt, real) = anywhere(both(n, seed)[0], seed), anywhere(both(n, seed)[1], seed + 1)
    before = alive(mine(src, tgt), n.B, n.T, n.W)
    others = {}
    for name in ("src_emb.weight", "tgt_emb.weight"):
        others[name] = values[name].clone()
        others[name][0] = tensor(seed + 2, n.H * n.d_head)
    load(mine, others)
    after = mine(src, tgt)
    agree(after, before, "the tensor of logits, after the embedding of the pad id was changed,", real)


@exercise("Seq2Seq")
@few
@given(n=some, seed=seeds)
def test_any_id_may_be_the_padding(learner, reference, n, seed):
    """Padding is where the id is config.pad_id; with another pad_id, 0 is a word like any other."""
    pad_id = 1 + seed % 12
    mine, _, values = pair(learner, reference, n, seed, pad_id=pad_id)
    src, tgt = both(n, seed, pad_id)
    src[:, 1], tgt[:, 1] = 0, 0
    (src, _), (tgt, real) = anywhere(src, seed, pad_id), on_the_right(tgt, seed + 1, pad_id)
    before, after = mine(src, tgt), {}
    for row in (pad_id, 0):
        others = {name: values[name].clone() for name in ("src_emb.weight", "tgt_emb.weight")}
        for number, table in enumerate(others.values()):
            table[row] = tensor(seed + number, n.H * n.d_head)
        load(mine, others)
        after[row] = mine(src, tgt)
    alive(before, n.B, n.T, n.W)
    agree(after[pad_id], before, f"the tensor of logits, after the embedding of pad_id = {pad_id} was changed,", real)
    by = changed(before, after[0], axis=0)
    holds(min(by) > 1e-5, f"with pad_id = {pad_id}, 0 is a word, and another embedding of it should be heard")


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_every_real_place_of_the_memory_is_heard(learner, reference, n, seed):
    """The logits at each target position depend on every real place of the memory, and on none where the source is padding."""
    mine, _, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    src, real = anywhere(src, seed)
    memory, position = tensor(seed, n.B, n.S, n.H * n.d_head), seed % n.T
    cotangent = torch.zeros(n.B, n.T, n.W)
    cotangent[:, position] = tensor(seed + 1, n.B, n.W)
    got = gradients(mine.decode, tgt, memory, src, cotangent=cotangent)
    alive(got.output, n.B, n.T, n.W)
    heard = got.inputs[1]
    holds(heard is not None, "the logits do not depend on the memory")
    by = heard.abs().amax(-1)
    holds(float(by[~real].max()) == 0, "the logits depend on a place of the memory where the source is padding")
    holds(float(by[real].min()) > 0, f"the logits at target position {position} should depend on every real place of the memory")


# ---- who sees what


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_the_decoder_never_looks_ahead(learner, n, reference, seed):
    """Another token at position t of the target changes the logits from t on, and none before, in padded rows too."""
    mine, _, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    t = 1 + seed % (n.T - 3)
    tgt[0, -1] = 0
    other = tgt.clone()
    other[:, t] = 1 + other[:, t] % (n.W - 1)
    before, after = mine(src, tgt), mine(src, other)
    by = changed(before, after)
    holds(max(by[:t]) < 1e-5, f"another token at position {t} of the target changed the logits at position {by.index(max(by[:t]))}, which comes before it")
    holds(min(by[t:-1]) > 1e-5, f"another token at position {t} of the target should be heard there and at every later position")


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_the_encoder_sees_the_whole_source(learner, n, reference, seed):
    """Another last token of the source changes the memory at every position, and the logits of every target position."""
    mine, _, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    other = src.clone()
    other[:, -1] = 1 + other[:, -1] % (n.V - 1)
    memories, logits = (mine.encode(src), mine.encode(other)), (mine(src, tgt), mine(other, tgt))
    by = changed(*memories)
    holds(min(by) > 1e-5, f"another last token of the source should be heard at every place of the memory; at {by.index(min(by))} it is not")
    by = changed(*logits)
    holds(min(by) > 1e-5, f"another last token of the source should change the logits at every position of the target; at {by.index(min(by))} it does not")


@exercise("Seq2Seq")
@few
@given(n=some, seed=seeds)
def test_order_matters_in_source_and_target(learner, reference, n, seed):
    """The same tokens in another order give other logits: positions are added in the encoder and in the decoder."""
    mine, _, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    src[:, :2], tgt[:, :3] = torch.tensor([1, 2]), torch.tensor([1, 2, 3])
    one, other = src.clone(), tgt.clone()
    one[:, :2], other[:, :2] = torch.tensor([2, 1]), torch.tensor([2, 1])
    plain, turned_src, turned_tgt = mine(src, tgt), mine(one, tgt), mine(src, other)
    holds(min(changed(plain, turned_src)) > 1e-5, "two tokens of the source changed places, and the logits are the same: the encoder does not know positions")
    holds(changed(plain, turned_tgt)[2] > 1e-5, "two earlier tokens of the target changed places, and the logits are the same: the decoder does not know positions")


# ---- dropout, names, sizes, dtypes, devices


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_dropout_reaches_the_blocks_and_nothing_else(learner, reference, n, seed):
    """In training every block drops with chance config.dropout, and the embeddings stay whole; in eval mode nothing is dropped."""
    mine, model, _ = pair(learner, reference, n, seed, dropout=1.0)  # with chance 1 there is no chance in it
    src, tgt = both(n, seed)
    everything_dropped, memory = mine(src, tgt), mine.encode(src)
    mine.eval()
    quiet = mine(src, tgt)
    agree(memory, model.encode(src), "the memory in training with dropout=1.0")
    agree(everything_dropped, model(src, tgt), "the logits in training with dropout=1.0")
    agree(quiet, model.eval()(src, tgt), "the logits in eval mode")


def kept_max_len(model):
    return model.config.max_len


@exercise("Seq2Seq", weight=2)
@few
@given(n=some, seed=seeds)
def test_the_names_of_the_parts(learner, reference, n, seed):
    """The parameters and the state dict have the names of the parts; positions are no parameter and are not saved; config is kept."""
    for blocks in ((2, 1), (1, 3)):
        mine, _, values = pair(learner, reference, n, seed, n_encoder_blocks=blocks[0], n_decoder_blocks=blocks[1])
        src, tgt = both(n, seed)
        got, names, saved = mine(src, tgt), sorted(parameters(mine)), sorted(state(mine))
        alive(got, n.B, n.T, n.W)
        same(names, sorted(values), "the list of parameters")
        same(saved, sorted(values), "the list of names in the state dict")
        same([len(mine.encoder_blocks), len(mine.decoder_blocks), learner.bring(kept_max_len)(mine)], [*blocks, n.L], "the numbers of blocks, and config.max_len")


@exercise("Seq2Seq")
@few
@given(n=some, seed=seeds)
def test_a_sentence_longer_than_max_len_is_refused(learner, reference, n, seed):
    """A source or a target with more than max_len tokens raises a ValueError that names max_len."""
    mine, _, _ = pair(learner, reference, n, seed)
    src, tgt = both(n, seed)
    alive(mine(src, tgt), n.B, n.T, n.W)
    because = f"{n.L + 1} tokens do not fit into max_len = {n.L}"
    refuses(lambda: mine(words(seed, n.B, n.L + 1, n.V), tgt), naming=(n.L,), because=f"as a source, {because}")
    refuses(lambda: mine(src, words(seed, n.B, n.L + 1, n.W)), naming=(n.L,), because=f"as a target, {because}")


@exercise("Seq2Seq")
@few
@given(n=some, seed=seeds)
def test_the_model_keeps_its_dtype(learner, reference, n, seed):
    """In float64 the memory and the logits are float64, in bfloat16 they are bfloat16."""
    mine, _, _ = pair(learner, reference, n, seed)
    (src, _), (tgt, real) = on_the_right(both(n, seed)[0], seed), on_the_right(both(n, seed)[1], seed + 1)
    single = mine(src, tgt)
    mine.double()
    memory, double = mine.encode(src), mine(src, tgt)
    half = mine.bfloat16()(src, tgt)
    alive(single, n.B, n.T, n.W)
    shaped(memory, (n.B, n.S, n.H * n.d_head), "the memory in float64", dtype=torch.float64)
    agree(double, single.double(), "the tensor of logits in float64", real)
    agree(half, single.bfloat16(), "the tensor of logits in bfloat16", real, tol=0.3)


@exercise("Seq2Seq")
def test_the_masks_follow_the_model_to_another_device(learner, reference):
    """On another device than the CPU the masks are made, or brought, where the ids are."""
    meta_is_ready()
    n = SimpleNamespace(B=2, S=5, T=4, H=3, d_head=2, F=7, V=11, W=9, L=8)
    sizes(**vars(n))
    mine, _, _ = pair(learner, reference, n, 1)
    src, tgt = both(n, 1)
    alive(mine(src, tgt), n.B, n.T, n.W)
    logits = learner.bring(on_meta)(mine, src, tgt)
    if logits is not None:
        close(logits, torch.empty(n.B, n.T, n.W, device="meta"), "the tensor of logits on the device `meta`")
