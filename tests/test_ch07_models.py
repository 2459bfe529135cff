"""Chapter 7: the GPT, and counting what a model learns. Its other models are in test_ch07_models_seq2seq.py and test_ch07_models_gpt2.py."""

import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from elsewhere import meta_is_ready, on_meta
from grader.comparing import close, holds, refuses, same, shaped, sizes
from grader.door.near import gradients, randomise, state
from grader.marks import exercise
from hypothesis import given, settings
from preparing import give
from strategies import distinct, tensor, token_ids
from torch import nn

TABLES, INSIDE = ("learned", "sinusoidal"), ("rope", "alibi")


def drawn():
    """Sizes, no two alike, and a seed. One example a test: what is broken in a whole model is broken at every size, and a run with another seed draws others."""
    T, max_len, V = (low + int(torch.randint(3, ())) for low in (5, 9, 13))
    H = 2 + int(torch.randint(2, ()))
    n = SimpleNamespace(B=4, T=T, H=H, L=5 - H, max_len=max_len, V=V)
    sizes(**vars(n))
    return n, int(torch.randint(10000, ()))


def made(side, n, **options):
    config = {"vocab_size": n.V, "max_len": n.max_len, "d_model": 4 * n.H, "n_heads": n.H, "n_layers": n.L} | options
    return side.GPT(side.GPTConfig(**config))


def pair(learner, reference, n, seed, **options):
    """The learner's GPT and the reference's with the same random parameters."""
    model = made(reference, n, **options)
    values = randomise(model, seed, scale=1.5)
    values.setdefault("lm_head.weight", values["token_emb.weight"])
    mine = made(learner, n, **options)
    give(learner, mine, values, "GPT")
    return mine, model


def ids_of(n, seed, length=None):
    ids = token_ids(seed, n.B, length or n.T, vocab=n.V)
    ids[0, 1], ids[-1, 0] = 0, n.V - 1
    return ids


def targets_of(n, seed):
    """What should follow, with places to leave out at the start of one row, all through another but for one, and at the end."""
    targets = token_ids(seed + 50, n.B, n.T, vocab=n.V)
    targets[0, 2] = 0
    targets[0, :2] = targets[1, 1:] = targets[-1, -1] = -100
    return targets


def two(result):
    """The logits and the loss of what a GPT returned."""
    pair = isinstance(result, tuple | list) and len(result) == 2
    holds(pair, f"a GPT returns two things, (logits, loss), with None for the loss without targets; this one returned a {type(result).__name__}")
    return result[0], result[1]


def logits_of(model, ids):
    return two(model(ids))[0]


def loss_of(result):
    loss = two(result)[1]
    holds(isinstance(loss, torch.Tensor), f"the loss should be a tensor, from which a gradient can flow; it is a {type(loss).__name__}")
    return loss


class LossOf(nn.Module):
    """A model's loss as a module, to ask for its gradients."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, targets):
        return self.model(ids, targets)[1]


def loss_gradients(side, model, ids, targets):
    """By name; a tensor that is embedding and head goes by the embedding's name."""
    found = {name.removeprefix("model."): g for name, g in gradients(side.bring(LossOf)(model), ids, targets).parameters.items()}
    if "token_emb.weight" not in found and "lm_head.weight" in found:
        found["token_emb.weight"] = found.pop("lm_head.weight")
    return found


def moved(before, after):
    """By how much the logits at each position changed, at most."""
    return (after - before).abs().amax((0, 2)).tolist()


# ---- GPT: from ids to logits


@exercise("GPT", weight=3)
def test_ids_become_logits(learner, reference):
    """Token vectors plus positions go through every block in turn, then the last norm, then the head: (B, T) becomes (B, T, V)."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed)
    close(logits_of(mine, ids_of(n, seed)), model(ids_of(n, seed))[0], "the logits")


@exercise("GPT", weight=2)
def test_positions_may_be_waves(learner, reference):
    """With positions="sinusoidal" the fixed table of waves is added, and is no parameter."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed, positions="sinusoidal")
    close(logits_of(mine, ids_of(n, seed)), model(ids_of(n, seed))[0], 'the logits with positions="sinusoidal"')


@exercise("GPT", weight=3)
def test_rope_and_alibi_live_inside_attention(learner, reference):
    """With positions="rope" or "alibi" the blocks' attention tells the order, nothing is added to the tokens, and pos_emb is None."""
    n, seed = drawn()
    models = {positions: pair(learner, reference, n, seed, positions=positions) for positions in INSIDE}
    got = {positions: mine(ids_of(n, seed)) for positions, (mine, _) in models.items()}
    tables = {positions: mine.pos_emb for positions, (mine, _) in models.items()}
    for positions, (_, model) in models.items():
        close(two(got[positions])[0], model(ids_of(n, seed))[0], f'the logits with positions="{positions}"')
        holds(tables[positions] is None, f'with positions="{positions}" pos_emb should be None')


@exercise("GPT", weight=2)
def test_without_targets_there_is_no_loss(learner, reference):
    """model(ids) returns (logits, None), with logits for every position; with targets the logits are the same."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed)
    ids, targets = ids_of(n, seed), targets_of(n, seed)
    without, beside = mine(ids), mine(ids, targets)
    logits, loss = two(without)
    close(logits, model(ids)[0], "the logits without targets")
    holds(loss is None, "without targets the loss should be None")
    close(two(beside)[0], logits, "the logits beside a loss")


@exercise("GPT", weight=2)
def test_the_future_changes_nothing(learner, reference):
    """Another token at position t changes the logits there and later, and none before, whatever the positions are made of."""
    n, seed = drawn()
    t = 2 + seed % (n.T - 3)
    ids = ids_of(n, seed)
    changed = ids.clone()
    changed[:, t] = (ids[:, t] + 1) % n.V
    for positions in TABLES + INSIDE:
        mine, model = pair(learner, reference, n, seed, positions=positions)
        before, after = logits_of(mine, ids), logits_of(mine, changed)
        shaped(before, (n.B, n.T, n.V), "the tensor of logits")
        by = moved(before, shaped(after, (n.B, n.T, n.V), "the tensor of logits"))
        holds(max(by[:t]) < 1e-5, f"with positions={positions!r} another token at position {t} changed the logits before it")
        holds(min(by[t:]) > 1e-5, f"with positions={positions!r} another token at position {t} should change the logits there and at every later position")


@exercise("GPT")
def test_rows_of_a_batch_are_handled_alone(learner, reference):
    """Permuting the rows of a batch permutes the logits, and a row alone gives what it gives among others."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed)
    ids = ids_of(n, seed)
    permuted, alone, expected = mine(ids.flip(0)), mine(ids[:1].clone()), model(ids)[0]
    close(two(permuted)[0], expected.flip(0), "the logits of the permuted rows")
    close(two(alone)[0], expected[:1], "the logits of one row alone")


# ---- GPT: its configuration


@exercise("GPT", weight=2)
def test_the_parts_have_their_names(learner, reference):
    """The state dict holds exactly the names of the parts, and no table or mask; it loads into any other implementation."""
    n, seed = drawn()
    for options in ({}, {"positions": "sinusoidal", "tie_weights": False}, {"positions": "rope"}):
        mine, model = pair(learner, reference, n, seed, **options)
        names, got = learner.bring(saved_names)(mine), mine(ids_of(n, seed))
        close(two(got)[0], model(ids_of(n, seed))[0], "the logits")
        same(names, sorted(state(model)), "the list of names in the state dict")


def saved_names(model):
    return sorted(model.state_dict())


@exercise("GPT", weight=2)
def test_the_blocks_are_made_as_configured(learner, reference):
    """d_ff and activation reach every block, and d_ff is 4 * d_model where it is None."""
    n, seed = drawn()
    ids = ids_of(n, seed)
    for options in ({"d_ff": 2 * n.V}, {"activation": "relu"}, {"activation": "gelu_tanh"}):
        mine, model = pair(learner, reference, n, seed, **options)
        close(logits_of(mine, ids), model(ids)[0], "the logits with " + ", ".join(f"{k}={v!r}" for k, v in options.items()), tol=5e-6)


def keeps(model):
    import dataclasses

    return dataclasses.asdict(model.config)


@exercise("GPT")
def test_the_config_is_kept(learner, reference):
    """The attribute `config` says later how the model was made."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed, positions="alibi", dropout=0.25)
    logits = mine.eval()(ids_of(n, seed))
    close(two(logits)[0], model.eval()(ids_of(n, seed))[0], "the logits")
    same(learner.bring(keeps)(mine), reference.bring(keeps)(model), "what `config` holds")


@exercise("GPT")
def test_unknown_positions_are_refused(learner, reference):
    """Any other value of `positions` is a ValueError that names it, when the model is made."""
    n, seed = drawn()
    mine, model = pair(learner, reference, n, seed)
    close(logits_of(mine, ids_of(n, seed)), model(ids_of(n, seed))[0], "the logits with learned positions")
    for unknown in ("none", "rotary"):
        refuses(lambda unknown=unknown: made(learner, n, positions=unknown), naming=(unknown,), because=f"positions={unknown!r} is none of the four")


@exercise("GPT", weight=2)
def test_where_positions_are_a_table_it_can_run_out(learner, reference):
    """With learned and sinusoidal positions max_len tokens fit, and one more is a ValueError that names max_len."""
    n, seed = drawn()
    ids = ids_of(n, seed, n.max_len + 1)
    for positions in TABLES:
        mine, model = pair(learner, reference, n, seed, positions=positions)
        close(logits_of(mine, ids[:, 1:].clone()), model(ids[:, 1:].clone())[0], f"the logits of max_len tokens with positions={positions!r}")
        refuses(lambda mine=mine: mine(ids), naming=(n.max_len,), because="the table has no row for the last position")


@exercise("GPT", weight=2)
def test_rope_and_alibi_go_on_past_max_len(learner, reference):
    """RoPE and ALiBi have no table that could end: longer input is read like any other."""
    n, seed = drawn()
    ids = ids_of(n, seed, n.max_len + 2)
    for positions in INSIDE:
        mine, model = pair(learner, reference, n, seed, positions=positions)
        close(logits_of(mine, ids), model(ids)[0], f"the logits of max_len + 2 tokens with positions={positions!r}")


def is_random(model, ids):
    """Do two calls in training differ?"""
    return not torch.equal(model(ids)[0], model(ids)[0])


@exercise("GPT", weight=2)
def test_dropout_acts_inside_the_blocks_only(learner, reference):
    """Dropout goes to the blocks, and only there: at dropout=1 in training the embeddings still arrive, and in eval mode nothing is dropped."""
    n, seed = drawn()
    ids = ids_of(n, seed)
    mine, model = pair(learner, reference, n, seed, dropout=1.0)
    all_dropped, expected = mine(ids), model(ids)[0]
    quiet, random = mine.eval()(ids), learner.bring(is_random)(made(learner, n, dropout=0.5), ids)
    close(two(all_dropped)[0], expected, "the logits in training at dropout=1, where the blocks add no more than a bias")
    close(two(quiet)[0], model.eval()(ids)[0], "the logits in eval mode")
    holds(random, "with dropout=0.5 two calls in training should differ")


def makes_nothing_of_its_own(model, ids):
    """Does the model make no tensor on a device of its own choice? Its blocks are left out: they move a mask to where it is needed, which is right."""
    import copy

    if any(isinstance(value, torch.Tensor) for value in vars(model).values()):
        return False
    empty = copy.deepcopy(model)
    empty.blocks = nn.ModuleList()
    try:
        with torch.device("meta"):  # what is made without a word about its device lands there, and does not fit
            return all(answer.device.type == "cpu" for answer in empty(ids, ids))
    except (RuntimeError, NotImplementedError, IndexError):
        return False


def follows_its_input(learner, model, ids):
    """The model works on another device. Torch needs a second for its first operation on `meta`, so it is asked only where nothing else tells."""
    if not learner.bring(makes_nothing_of_its_own)(model, ids):
        meta_is_ready()
        got = learner.bring(on_meta)(model, ids, ids)
        holds(got is None or all(answer.device.type == "meta" for answer in two(got)), "logits and loss should be on the device of the ids")


def logits_and_exact_loss(model, ids, targets):
    """What the model returns, the loss in double precision: it may be wider than the logits."""
    returned = model(ids, targets)
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], torch.Tensor):
        return returned[0], returned[1].double()
    return returned


TO_OTHER_DTYPES = (
    ("sinusoidal", torch.float64, 1e-5),  # the tables are float32, and may be worked out in more than that
    ("learned", torch.float64, 1e-9),
    ("rope", torch.float64, 1e-5),
    ("learned", torch.bfloat16, 0.1),
)


@exercise("GPT", weight=2)
def test_the_model_moves_to_other_dtypes_and_devices(learner, reference):
    """After .double() or .bfloat16() the logits are of that dtype, the loss is right there too, and the model works on any device."""
    n, seed = drawn()
    ids, targets = ids_of(n, seed), targets_of(n, seed)
    for positions, dtype, tol in TO_OTHER_DTYPES:
        mine, model = pair(learner, reference, n, seed, positions=positions)
        got = learner.bring(logits_and_exact_loss)(mine.to(dtype), ids, targets)
        expected = model.to(dtype)(ids, targets)
        close(two(got)[0], expected[0], f"the logits in {str(dtype).removeprefix('torch.')} with positions={positions!r}", tol)
        close(shaped(loss_of(got), (), "the loss").double(), expected[1].double(), f"the loss in {str(dtype).removeprefix('torch.')}", max(tol, 1e-6))
    follows_its_input(learner, mine, ids)


# ---- GPT: the loss


@exercise("GPT", weight=3)
def test_the_loss_is_the_mean_over_the_targets(learner, reference):
    """The loss is the mean of -log p(target) over all targets that are not -100, be it one; targets are shifted already."""
    n, seed = drawn()
    ids, targets, every = ids_of(n, seed), targets_of(n, seed), token_ids(seed + 50, n.B, n.T, vocab=n.V)
    single = torch.full_like(every, -100)
    single[1, 1] = every[1, 1]
    mine, model = pair(learner, reference, n, seed)
    some, whole, one, logits = mine(ids, targets), mine(ids, every), mine(ids, single), model(ids)[0]
    close(loss_of(whole), F.cross_entropy(logits.flatten(0, 1), every.flatten()), "the loss where every target counts")
    close(loss_of(some), F.cross_entropy(logits.flatten(0, 1), targets.flatten()), "the loss where some targets are -100")
    close(loss_of(one), F.cross_entropy(logits[1, 1], every[1, 1]), "the loss where all targets but one are -100")


@exercise("GPT")
def test_nothing_to_learn_is_a_loss_of_zero(learner, reference):
    """When every target is -100 the loss is 0, and so is its gradient: never NaN."""
    n, seed = drawn()
    ids, targets = ids_of(n, seed), targets_of(n, seed)
    mine, model = pair(learner, reference, n, seed)
    ignored = torch.full_like(targets, -100)
    some, none = mine(ids, targets), mine(ids, ignored)
    slopes = loss_gradients(learner, mine, ids, ignored)
    close(loss_of(some), model(ids, targets)[1], "the loss where some targets are -100")
    close(loss_of(none), torch.tensor(0.0), "the loss where all targets are -100")
    for name, slope in slopes.items():
        holds(slope is None or not slope.any(), f"where all targets are -100, the gradient of {name} should be zero")


@exercise("GPT", weight=3)
def test_every_parameter_learns_from_the_loss(learner, reference):
    """The loss sends the right gradient to every parameter; a tied matrix gets the sum of what it did as embedding and as head."""
    n, seed = drawn()
    ids, targets = ids_of(n, seed), targets_of(n, seed)
    for tied in (True, False):
        mine, model = pair(learner, reference, n, seed, tie_weights=tied)
        got, expected = loss_gradients(learner, mine, ids, targets), loss_gradients(reference, model, ids, targets)
        for name, slope in expected.items():
            if not name.endswith("W_k.bias"):  # softmax ignores it, so its gradient is rounding and nothing else
                close(got.get(name), slope, f"the gradient of {name} with tie_weights={tied}", tol=1e-4)


# ---- GPT: one matrix or two, and how everything begins


def how_tied(model):
    """Is it one Parameter, does it have one memory, do both places hold the same numbers?"""
    first, second = model.token_emb.weight, model.lm_head.weight
    return [first is second, first.data_ptr() == second.data_ptr(), torch.equal(first, second)]


@exercise("GPT", weight=3)
def test_a_tied_matrix_is_one_tensor(learner, reference):
    """With tie_weights the head's weight is the embedding's very parameter: when made, after loading, and after .double()."""
    n, seed = drawn()
    mine = made(learner, n)
    new = learner.bring(how_tied)(mine)
    mine, model = pair(learner, reference, n, seed)
    loaded = learner.bring(how_tied)(mine)
    table = {"token_emb.weight": tensor(seed, n.V, 4 * n.H)}
    learner.bring(fill_one)(mine, table)
    reference.bring(fill_one)(model, table)
    got, moved_on = mine(ids_of(n, seed)), learner.bring(how_tied)(mine.double())
    close(two(got)[0], model(ids_of(n, seed))[0], "the logits after other numbers were put into token_emb.weight alone")
    for when, (one, _, equal) in (("when it is made", new), ("after loading", loaded), ("after .double()", moved_on)):
        holds(equal, f"{when}, a tied model's lm_head.weight and token_emb.weight hold different numbers")
        holds(one, f"{when}, a tied model's lm_head.weight and token_emb.weight are two parameters: equal at most until the first step of training")


def fill_one(model, values):
    with torch.no_grad():
        for name, value in values.items():
            dict(model.named_parameters(remove_duplicate=False))[name].copy_(value)


@exercise("GPT", weight=2)
def test_an_untied_model_has_two_matrices(learner, reference):
    """With tie_weights=False embedding and head are two parameters with numbers of their own."""
    n, seed = drawn()
    new = learner.bring(how_tied)(made(learner, n, tie_weights=False))
    mine, model = pair(learner, reference, n, seed, tie_weights=False)
    close(logits_of(mine, ids_of(n, seed)), model(ids_of(n, seed))[0], "the logits with tie_weights=False")
    holds(not any(new), "with tie_weights=False token_emb.weight and lm_head.weight should be two, with different numbers")


def beginnings(model, ids):
    """What is not as it should be in a new model."""
    wrong = []
    for name, p in model.named_parameters():
        is_norm = not {"ln1", "ln2", "ln_f"}.isdisjoint(name.split("."))
        if p.dim() > 1 and not (0.018 < float(p.std()) < 0.022 and abs(float(p.mean())) < 0.002):
            wrong.append(name)
        elif p.dim() == 1 and not torch.equal(p, torch.ones_like(p) if is_norm and name.endswith("weight") else torch.zeros_like(p)):
            wrong.append(name)
    loss = float(model.eval()(ids, ids.roll(1, 0))[1])
    return [sorted(wrong), abs(loss - math.log(model.config.vocab_size)) < 0.2]


@exercise("GPT", weight=3)
def test_everything_begins_small(learner, reference):
    """In a new model every matrix, embeddings and positions too, is N(0, 0.02), biases are 0, norms 1 and 0; its loss is about ln V."""
    ids = token_ids(int(torch.randint(10000, ())), 3, 50, vocab=101)
    found = {}
    for tied in (True, False):
        config = {"vocab_size": 101, "max_len": 50, "d_model": 40, "n_heads": 2, "n_layers": 2, "tie_weights": tied}
        found[tied] = learner.bring(beginnings)(learner.GPT(learner.GPTConfig(**config)), ids)
    for tied, (wrong, near) in found.items():
        rest = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        holds(not wrong, f"in a new model with tie_weights={tied} these do not begin as they should: {', '.join(wrong[:3])}{rest}")
        holds(near, f"with tie_weights={tied} the first loss should be near ln(vocab_size): a new model knows nothing and should guess evenly")


# ---- count_parameters


class Sample(nn.Module):
    """Parameters of every shape, at every depth; two that hold the same numbers; on demand one used twice, and buffers."""

    def __init__(self, a, b, c, tied=False, tables=False):
        super().__init__()
        self.first = nn.Linear(a, b)
        self.deep = nn.Sequential(nn.LayerNorm(b), nn.ModuleList([nn.Linear(b, c, bias=False), nn.LayerNorm(b)]))
        self.cube = nn.Parameter(torch.ones(a, b, c))
        self.one = nn.Parameter(torch.tensor(2.0))
        self.list = nn.ParameterList([torch.zeros(c), torch.zeros(c)])
        self.last = nn.Linear(b, a, bias=False)
        if tied:
            self.again, self.head = self.first, nn.Linear(b, a, bias=False)
            self.head.weight = self.last.weight
        if tables:
            self.register_buffer("saved", torch.zeros(c, a))
            self.register_buffer("unsaved", torch.zeros(b, b), persistent=False)
            self.plain = torch.zeros(a, c)


def by_hand(a, b, c):
    first, norms, deep = a * b + b, 2 * (b + b), b * c
    return first + norms + deep + a * b * c + 1 + 2 * c + b * a


counted = distinct("a", "b", "c", least=3, most=9)


@exercise("count_parameters", weight=2)
@settings(max_examples=2)
@given(n=counted)
def test_every_number_that_learns_is_counted(learner, n):
    """Weights and biases of every shape count, number by number, at whatever depth of the model they are."""
    same(learner.count_parameters(learner.bring(Sample)(n.a, n.b, n.c)), by_hand(n.a, n.b, n.c), "the count")


@exercise("count_parameters", weight=2)
@settings(max_examples=2)
@given(n=counted)
def test_a_tensor_in_two_places_counts_once(learner, n):
    """A tied matrix, or a layer used twice, is one set of numbers; two tensors that happen to hold the same numbers are two."""
    sample = learner.bring(Sample)
    alone, shared = learner.count_parameters(sample(n.a, n.b, n.c)), learner.count_parameters(sample(n.a, n.b, n.c, tied=True))
    same(alone, by_hand(n.a, n.b, n.c), "the count of a model in which nothing is shared")
    same(shared, by_hand(n.a, n.b, n.c), "the count of the model in which one layer and one matrix stand in two places")


@exercise("count_parameters", weight=2)
@settings(max_examples=2)
@given(n=counted)
def test_tables_do_not_count(learner, n):
    """Buffers, saved or not, and plain tensors are no parameters."""
    sample = learner.bring(Sample)
    same(learner.count_parameters(sample(n.a, n.b, n.c, tables=True)), by_hand(n.a, n.b, n.c), "the count of a model with masks and tables")


@exercise("count_parameters")
@settings(max_examples=2)
@given(n=counted)
def test_one_layer_is_a_model_too(learner, n):
    """Any module can be counted: a linear map, and one that has nothing to learn."""
    layer = learner.bring(layers)
    same(learner.count_parameters(layer(n.a, n.b)), n.a * n.b + n.b, "the count of a linear map")
    same(learner.count_parameters(layer(n.a, 0)), 0, "the count of a layer without parameters")


def layers(a, b):
    return nn.Linear(a, b) if b else nn.ReLU()
