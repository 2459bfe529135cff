"""Chapter 15, fourth part: texts of different lengths in one batch. Models are compared in float64; only RoPE's angles are float32."""

from types import SimpleNamespace

import module_pairs
import torch
from backward_laws import on_views
from calls import recorded_call
from changing_models import Additions
from grader.execution.proxy import gradients, load, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from mode_orders import compare_in_every_order, results_in_every_order
from pytest_check import check
from small_models import ATTENTION_POSITIONS, TABLE_POSITIONS, make_gpt, randomise_for_text
from strategies import tensor, token_ids
from torch import nn

ALL_POSITIONS = TABLE_POSITIONS + ATTENTION_POSITIONS


def drawn():
    """Different sizes, and a seed. Each test has one example: a mistake in a whole model shows at every size, and another seed draws other sizes."""
    n = SimpleNamespace(L=2, H=3, max_len=9, V=13 + int(torch.randint(3, ())))
    sizes(**vars(n))
    return n, int(torch.randint(10000, ()))


def pair(learner, reference, n, seed, **options):
    """The learner's PaddedGPT and the reference's GPT with the same random parameters, in float64."""
    model = make_gpt(reference, n, "GPT", **options)
    values = randomise(model, seed, scale=1.5)
    values.setdefault("lm_head.weight", values["token_emb.weight"])
    mine = make_gpt(learner, n, "PaddedGPT", **options)
    module_pairs.set_parameters(learner, mine, values, "PaddedGPT", "the names that GPT's have")
    return mine.double(), model.double()


def texts_of(seed, n, lengths):
    """Texts of these lengths, with the first and the last id of the vocabulary."""
    texts = [token_ids(seed + i, length, vocab=n.V) for i, length in enumerate(lengths)]
    texts[0][0], texts[-1][-1] = 0, n.V - 1
    return texts


def padded(texts, pad):
    """Ids (B, T), with `pad` (an id, or a function of the number of pads) on the left, and n_pad (B,)."""
    T = max(len(text) for text in texts)
    fill = pad if callable(pad) else lambda k: torch.full((k,), pad)
    return torch.stack([torch.cat([fill(T - len(text)), text]) for text in texts]), torch.tensor([T - len(text) for text in texts])


def compare_with_texts_alone(got, texts, model, what, tol=1e-6):
    """At each text's real tokens the logits are those of the text alone; at padding they are finite."""
    holds(isinstance(got, torch.Tensor), f"a PaddedGPT should return only its logits, a tensor; this one returned a {type(got).__name__}")
    T = max(len(text) for text in texts)
    same(tuple(got.shape[:2]), (len(texts), T), f"the first two sizes of the logits {what}")
    for row, text in enumerate(texts):
        close(got[row, T - len(text) :], model(text[None])[0][0], f"the tensor of logits at the {len(text)} real tokens of row {row} {what}", tol=tol)
    holds(bool(got.isfinite().all()), f"the logits {what} should be finite at padding too: NaN there can spread")


@exercise("PaddedGPT", weight=2)
def test_without_padding_it_is_a_gpt(learner, reference):
    """Without n_pad, or with zeros, the logits are those of GPT, (B, T) -> (B, T, V), with each kind of positions; names and shapes of the state dict are GPT's."""
    n, seed = drawn()
    ids = token_ids(seed, 3, 5, vocab=n.V)
    models = {positions: pair(learner, reference, n, seed, positions=positions) for positions in ALL_POSITIONS}
    results = {positions: [mine(ids), mine(ids, None), mine(ids, torch.zeros(3, dtype=torch.int64))] for positions, (mine, _) in models.items()}
    stored = {positions: (sorted(state(mine)), sorted(state(model))) for positions, (mine, model) in models.items()}
    for positions, (_, model) in models.items():
        for got, how in zip(results[positions], ("without n_pad", "with n_pad=None", "with n_pad of zeros")):
            compare_with_texts_alone(got, list(ids), model, f"with {positions} positions, {how}")
    for positions, names in stored.items():
        same(*names, f"the names in the state dict after these calls, with {positions} positions")


@exercise("PaddedGPT", weight=5)
def test_each_text_has_the_logits_that_it_has_alone(learner, reference):
    """In a batch of texts with 3, 7, 1, 5 and 7 tokens each real token has the logits of its text alone, with each kind of positions."""
    n, seed = drawn()
    texts = texts_of(seed, n, (3, 7, 1, 5, 7))
    ids, n_pad = padded(texts, 0)
    models = {positions: pair(learner, reference, n, seed, positions=positions) for positions in ALL_POSITIONS}
    found = {positions: mine(ids, n_pad) for positions, (mine, _) in models.items()}
    view = learner.bring(on_views)(models["learned"][0], ids, n_pad)
    for positions, got in found.items():
        compare_with_texts_alone(got, texts, models[positions][1], f"with {positions} positions", tol=1e-11 if positions == "learned" else 1e-6)
    compare_with_texts_alone(view, texts, models["learned"][1], "of ids that are not contiguous")


@exercise("PaddedGPT", weight=3)
def test_padding_may_have_any_ids(learner, reference):
    """Only n_pad says what is padding: pads may be a real token's id, or all different, and the same id inside a text is a real token."""
    n, seed = drawn()
    texts = texts_of(seed, n, (2, 6, 4))
    texts[1][0], texts[2][:2] = 5, 5
    models = {positions: pair(learner, reference, n, seed, positions=positions) for positions in (TABLE_POSITIONS[seed % 2], *ATTENTION_POSITIONS)}
    pads = {"pad id 5": 5, "pad id 0": 0, "random pads": lambda k: token_ids(seed + 9, k, vocab=n.V)}
    found = {(positions, how): mine(*padded(texts, pad)) for positions, (mine, _) in models.items() for how, pad in pads.items()}
    for (positions, how), got in found.items():
        compare_with_texts_alone(got, texts, models[positions][1], f"with {positions} positions and {how}")


@exercise("PaddedGPT", weight=2)
def test_a_batch_may_be_padding_in_its_first_columns(learner, reference):
    """All rows may have pads, also unequal numbers of them, and each call has its own: the same ids without n_pad are texts without padding."""
    n, seed = drawn()
    texts = texts_of(seed, n, (7, 1, 6))
    ids, n_pad = padded(texts, 1)
    ids, n_pad = torch.cat([token_ids(seed, 3, 2, vocab=n.V), ids], dim=1), n_pad + 2
    models = {positions: pair(learner, reference, n, seed, positions=positions) for positions in ALL_POSITIONS}
    bare = {positions: mine(ids) for positions, (mine, _) in models.items()}
    found = {positions: mine(ids, n_pad) for positions, (mine, _) in models.items()}
    for positions, got in found.items():
        compare_with_texts_alone(bare[positions], list(ids), models[positions][1], f"with {positions} positions, without n_pad,")
        same(tuple(got.shape[:2]), (3, 9), f"the first two sizes of the logits with {positions} positions")
        compare_with_texts_alone(got[:, 2:], texts, models[positions][1], f"with {positions} positions, two more pads in each row,")


@exercise("PaddedGPT", weight=2)
def test_a_text_that_is_too_long_is_an_error(learner, reference):
    """A text longer than max_len is a ValueError that names max_len if positions are a table; with RoPE and ALiBi it goes on."""
    n, seed = drawn()
    texts = texts_of(seed, n, (n.max_len + 1, 4))
    ids, n_pad = padded(texts, 0)
    models = {positions: pair(learner, reference, n, seed, positions=positions) for positions in ALL_POSITIONS}
    found = {positions: models[positions][0](ids, n_pad) for positions in ATTENTION_POSITIONS}
    for positions, got in found.items():
        compare_with_texts_alone(got, texts, models[positions][1], f"with {positions} positions, one token more than max_len,")
    for positions in TABLE_POSITIONS:
        mine = models[positions][0]
        refuses(lambda mine=mine: mine(ids, n_pad), naming={"max_len": n.max_len})
        refuses(lambda mine=mine: mine(ids), naming={"max_len": n.max_len})


@exercise("PaddedGPT", weight=2)
def test_gradients_are_those_of_the_texts_alone(learner, reference):
    """The gradient of a loss at real tokens is finite and that of GPT on the texts alone, for every parameter: padding teaches nothing."""
    n, seed = drawn()
    texts = texts_of(seed, n, (2, 6, 4))
    positions = ALL_POSITIONS[seed % 4]
    mine, model = pair(learner, reference, n, seed, positions=positions, tie_weights=False)
    ids, n_pad = padded(texts, 3)
    weight = torch.zeros(3, 6, n.V, dtype=torch.float64)
    total: dict = {}
    for row, text in enumerate(texts):
        part = torch.randn(1, len(text), n.V, generator=torch.Generator().manual_seed(seed + row), dtype=torch.float64)
        weight[row, 6 - len(text) :] = part[0]
        for name, gradient in gradients(reference.bring(LogitsOfGPT)(model), text[None], cotangent=part).parameters.items():
            total[name.removeprefix("model.")] = total.get(name.removeprefix("model."), 0) + gradient
    found = gradients(mine, ids, n_pad, cotangent=weight).parameters
    for name, expected in total.items():
        with check:
            holds(found.get(name) is not None, f"no gradient reaches {name}: it will never learn")
            close(found[name], expected, f"the gradient of {name} with {positions} positions", tol=1e-6)


class LogitsOfGPT(nn.Module):
    """A GPT that returns only its logits; brought to the far side."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids)[0]


@exercise("PaddedGPT")
def test_dropout_acts_on_the_weights_in_train_mode(learner, reference):
    """In train mode dropout changes the logits from pass to pass; in eval mode it does nothing. The logits have the dtype of the parameters."""
    n, seed = drawn()
    texts = texts_of(seed, n, (3, 6))
    ids, n_pad = padded(texts, 0)
    mine, model = pair(learner, reference, n, seed, positions="rope", dropout=0.4)
    attention_only = learner.bring(passes_without_ffn_dropout)(mine, ids, n_pad)
    mine.eval()
    model.eval()
    quiet = mine(ids, n_pad)
    mine.float()
    single = mine(ids, n_pad)
    compare_with_texts_alone(quiet, texts, model, "in eval mode")
    holds(attention_only, "two passes in train mode gave the same logits, although dropout = 0.4 acts on the attention weights")
    holds(single.dtype == torch.float32, f"the logits should be float32, as the parameters are; they are {single.dtype}")
    compare_with_texts_alone(single.double(), texts, model, "in float32", tol=1e-4)


def passes_without_ffn_dropout(model, ids, n_pad):
    """Whether two passes in train mode differ if only attention has dropout; brought to the far side."""
    model.train()
    for block in model.blocks:
        block.ffn.eval()
    return not torch.equal(model(ids, n_pad), model(ids, n_pad))


@exercise("PaddedGPT")
def test_a_padded_model_can_be_used_and_trained_in_any_order(learner, reference):
    """A pass in torch.inference_mode or torch.no_grad leaves nothing behind that a later pass cannot use, also after other parameters and longer texts."""
    n, seed = drawn()
    models, batches = {}, [padded(texts_of(seed + 10 * i, n, lengths), 1) for i, lengths in enumerate(((2, 5, 3), (7, 4)))]
    for positions in ("learned", *ATTENTION_POSITIONS):
        options = {"positions": positions, "tie_weights": False}
        mine, model = (side.bring(AtRealTokens)(make_gpt(side, n, "PaddedGPT", **options)).double() for side in (learner, reference))
        rounds = [(randomise(model, seed + i, scale=1.5), batch) for i, batch in enumerate(batches)]
        models[positions] = results_in_every_order(learner, mine, rounds), model, rounds
    for positions, (found, model, rounds) in models.items():
        compare_in_every_order(found, model, rounds, ("ids", "n_pad"), what=f"the tensor of logits at real tokens with {positions} positions")


class AtRealTokens(nn.Module):
    """A PaddedGPT whose logits at padding are 0; brought to the far side."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, n_pad):
        real = torch.arange(ids.size(1)) >= n_pad[:, None]
        return self.model(ids, n_pad).masked_fill(~real[..., None], 0.0)


# ---- generate_batch


def language_models(learner, reference, n, seed, positions, max_len=20, exchanged=0, kind="GPT"):
    """A PaddedGPT of the learner and a GPT of the reference, or a model of another kind, with the same random weights, for texts that do not repeat one word for ever.

    Their texts have this token where they would have token 0, and the other way round.
    """
    sized = SimpleNamespace(**{**vars(n), "max_len": max_len})
    model = make_gpt(reference, sized, kind, positions=positions, tie_weights=False)
    values = randomise_for_text(model, seed)
    for name in ("token_emb.weight", "lm_head.weight"):
        values[name] = values[name].clone()
        values[name][[0, exchanged]] = values[name][[exchanged, 0]]
    mine = make_gpt(learner, sized, "PaddedGPT", positions=positions, tie_weights=False)
    load(mine, values)
    load(model, values)
    return mine, model


def one_by_one(reference, model, prompts, new, eos_id=None):
    """What generate writes for each prompt alone, ended by its first new eos_id."""
    texts = []
    for prompt in prompts:
        text = reference.generate(model, torch.tensor([prompt]), new, eos_id, temperature=0.0)[0].tolist()
        texts.append(text)
    return texts


def prompts_of(seed, n, lengths):
    return [text.tolist() for text in texts_of(seed, n, lengths)]


def batch_and_passes(generate_batch, model, prompts, new, options):
    """The texts, and how often the model looked tokens up; brought to the far side."""
    passes = []
    hook = model.token_emb.register_forward_hook(lambda module, inputs, output: passes.append(1))
    try:
        return generate_batch(model, prompts, new, **options), len(passes)
    finally:
        hook.remove()


@exercise("generate_batch", weight=3)
def test_each_prompt_gets_the_text_that_it_gets_alone(learner, reference):
    """Each text is the one that generate writes for its prompt alone, greedily, with each kind of positions, in the order of the prompts."""
    n, seed = drawn()
    prompts, found = prompts_of(seed, n, (3, 6, 1, 4)), {}
    for positions in ALL_POSITIONS:
        mine, model = language_models(learner, reference, n, seed, positions)
        found[positions] = learner.generate_batch(mine, prompts, 7), one_by_one(reference, model, prompts, 7)
    for positions, (got, expected) in found.items():
        same(got, expected, f"the list of texts with {positions} positions")


@exercise("generate_batch", weight=2)
def test_each_text_ends_with_its_first_new_eos(learner, reference):
    """A text ends with its first new eos_id while others go on; an eos_id in a prompt, or at its end, finishes nothing. eos_id may be 0."""
    n, seed = drawn()
    mine, model = language_models(learner, reference, n, seed, ALL_POSITIONS[seed % 4])
    prompts = prompts_of(seed, n, (2, 5, 3, 4))
    free = one_by_one(reference, model, prompts, 8)
    found = []
    for row, step in ((0, 1), (1, 3), (2, 0), (3, 5)):
        eos = free[row][len(prompts[row]) + step]
        inside = range(4) if row == 3 else [1]
        given = [[*prompt[:-1], eos, prompt[-1]] if i in inside else prompt for i, prompt in enumerate(prompts)]
        found.append((eos, learner.generate_batch(mine, given, 8, eos), one_by_one(reference, model, given, 8, eos)))
    plain = learner.generate_batch(mine, prompts, 8)
    last, text = next(prompts_that_end_with_eos(reference, model, n, prompts[0]))
    at_the_end = learner.generate_batch(mine, [last], 8, last[-1])
    new = free[0][len(prompts[0]) + 1]
    renamed = language_models(learner, reference, n, seed, ALL_POSITIONS[seed % 4], exchanged=new)
    given = [[{0: new, new: 0}.get(token, token) for token in prompt] for prompt in prompts]
    ended = learner.generate_batch(renamed[0], given, 8, 0), one_by_one(reference, renamed[1], given, 8, 0)
    for eos, got, expected in found:
        same(got, expected, f"the list of texts with eos_id={eos}, which is in a prompt too")
    same(plain, free, "the list of texts without an eos_id")
    same(at_the_end, [text], f"the list with the text of one prompt that ends with eos_id={last[-1]}")
    same(*ended, "the list of texts with eos_id=0")


def prompts_that_end_with_eos(reference, model, n, prompt):
    """A prompt with an eos_id at its end after which more than one token is written, and its text."""
    for eos in range(n.V):
        text = one_by_one(reference, model, [[*prompt, eos]], 8, eos)[0]
        if len(text) > len(prompt) + 3:
            yield [*prompt, eos], text


@exercise("generate_batch", weight=2)
def test_the_pad_may_be_a_real_token(learner, reference):
    """pad_id may be the id of a token that prompts and texts contain, and eos_id too: no text loses or gains one."""
    n, seed = drawn()
    mine, model = language_models(learner, reference, n, seed, ALL_POSITIONS[seed % 4])
    prompts = prompts_of(seed, n, (1, 5, 3))
    free = one_by_one(reference, model, prompts, 7)
    eos = free[0][3]
    prompts[1][0] = prompts[2][-1] = eos
    pads = {"0": (0, None), "the last id": (n.V - 1, None), "a token that is written": (eos, None), "eos_id": (eos, eos)}
    found = {how: (learner.generate_batch(mine, prompts, 7, eos_id=end, pad_id=pad), end) for how, (pad, end) in pads.items()}
    for how, (got, end) in found.items():
        same(got, one_by_one(reference, model, prompts, 7, end), f"the list of texts where pad_id is {how}")


@exercise("generate_batch", weight=4)
def test_one_pass_for_each_new_position(learner, reference):
    """The model runs once for each new position, for all texts together, with pads and without."""
    n, seed = drawn()
    mine, model = language_models(learner, reference, n, seed, "rope")
    found, ask = [], learner.bring(batch_and_passes)
    for prompts in (prompts_of(seed, n, (4, 2, 5)), prompts_of(seed + 1, n, (3, 3, 3, 3))):
        found.append((ask(learner.generate_batch, mine, prompts, 6, {}), one_by_one(reference, model, prompts, 6)))
    for (texts, passes), expected in found:
        same(texts, expected, f"the list of texts of {len(expected)} prompts")
        holds(passes == 6, f"six new positions of {len(expected)} texts should take 6 passes of the model; they took {passes}")


def changing_batch(additions, rows, generate_batch, model, prompts, new):
    """The texts of a model whose embeddings change with each of its passes; brought to the far side."""
    hook = model.token_emb.register_forward_hook(lambda module, inputs, output: output + torch.special.bessel_y1(torch.zeros(1)))
    try:
        with additions(rows):
            return generate_batch(model, prompts, new)
    finally:
        hook.remove()


@exercise("generate_batch", weight=14)
def test_all_texts_get_their_next_token_in_the_same_pass(learner, reference):
    """If the model changes with each of its passes, the texts are those of one pass for each new position of all texts together."""
    n, seed = drawn()
    mine, model = language_models(learner, reference, n, seed, "rope", kind="PaddedGPT")
    prompts, rows = prompts_of(seed, n, (4, 2, 5)), tensor(seed, 6, 4 * n.H)
    found = [side.bring(changing_batch)(side.bring(Additions), rows, side.generate_batch, each, prompts, 6) for side, each in ((learner, mine), (reference, model))]
    same(*found, "the list of texts of 3 prompts by a model that changes with each of its passes")


def ended_apart(reference, model, seed, n, new):
    """Two prompts, and a token that ends their texts at different steps; the text that ends first would not write it again where the other ends."""
    for i in range(100):
        prompts = prompts_of(seed + i, n, (4, 2))
        rows = [text[len(prompt) :] for text, prompt in zip(one_by_one(reference, model, prompts, new), prompts)]
        for token in range(n.V):
            ends = sorted((row.index(token), row) for row in rows if token in row)
            if len(ends) == 2 and ends[0][0] < ends[1][0] and ends[0][1][ends[1][0]] != token:
                return prompts, token
    raise AssertionError(f"no two texts of this model end apart; the seed is {seed}")


@exercise("generate_batch", weight=2)
def test_it_stops_when_all_texts_are_finished(learner, reference):
    """The model does not run any more when each text has its first new eos_id, and not once more for a text that is finished earlier."""
    n, seed = drawn()
    mine, model = language_models(learner, reference, n, seed, "rope")
    prompts = prompts_of(seed, n, (4, 2, 5))
    free = one_by_one(reference, model, prompts, 6)
    eos = free[1][3]
    ask = learner.bring(batch_and_passes)
    single, few = ask(learner.generate_batch, mine, prompts[1:2], 6, {"eos_id": eos})
    ended = one_by_one(reference, model, prompts[1:2], 6, eos)
    given, last = ended_apart(reference, model, seed, n, 9)
    both, passes_of_both = ask(learner.generate_batch, mine, given, 9, {"eos_id": last})
    both_ended = one_by_one(reference, model, given, 9, last)
    same(single, ended, "the list with the text of one prompt")
    new = len(ended[0]) - 2
    holds(few == new, f"a text that is finished after {new} new tokens should take {new} passes of the model; it took {few}")
    same(both, both_ended, "the list of two texts that end at different steps")
    steps = [len(text) - len(prompt) for text, prompt in zip(both_ended, given)]
    ends = f"two texts that are finished after {steps[0]} and {steps[1]} new tokens"
    holds(passes_of_both == max(steps), f"{ends} should take {max(steps)} passes of the model; they took {passes_of_both}")


@exercise("generate_batch")
def test_the_longest_text_must_fit(learner, reference):
    """With a table of positions, the longest prompt and the new tokens may fill max_len; one more is a ValueError before anything is computed."""
    n, seed = drawn()
    prompts, found, refused = prompts_of(seed, n, (4, 6, 3)), {}, []
    for positions in ALL_POSITIONS:
        mine, model = language_models(learner, reference, n, seed, positions, max_len=10)
        new = 4 if positions in TABLE_POSITIONS else 8
        found[positions] = learner.generate_batch(mine, prompts, new), one_by_one(reference, model, prompts, new)
        long = [prompts[0], prompts[1] + prompts[1]]
        for given, too_many in ((prompts, 5), (prompts, 7), (prompts, 8), (long, 1)) if positions in TABLE_POSITIONS else ():
            passes = learner.bring(passes_before_the_error)(learner.generate_batch, mine, given, too_many)
            refused.append((recorded_call(lambda mine=mine, given=given, new=too_many: learner.generate_batch(mine, given, new)), passes))
    for positions, (got, expected) in found.items():
        same(got, expected, f"the list of texts with {positions} positions and max_len=10")
    for call, passes in refused:
        refuses(call, naming={"max_len": 10})
        holds(passes == 0, f"the error should come before anything is computed; the model had run {passes} times")


def passes_before_the_error(generate_batch, model, prompts, new):
    """How often the model looked tokens up before generate_batch raised a ValueError; brought to the far side."""
    passes = []
    hook = model.token_emb.register_forward_hook(lambda module, inputs, output: passes.append(1))
    try:
        generate_batch(model, prompts, new)
    except (ValueError, AssertionError):
        pass
    finally:
        hook.remove()
    return len(passes)


@exercise("generate_batch")
def test_writing_in_a_batch_does_not_change_the_model(learner, reference):
    """The model runs in eval mode without gradient, and each module has its old mode afterwards."""
    n, seed = drawn()
    sized = {"positions": "alibi", "tie_weights": False, "dropout": 0.5}
    model = make_gpt(reference, n, "GPT", **sized)
    values = randomise_for_text(model, seed)
    mine = make_gpt(learner, n, "PaddedGPT", **sized)
    load(mine, values)
    prompts = prompts_of(seed, n, (3, 5))
    seen = learner.bring(modes_and_graph)(learner.generate_batch, mine, prompts)
    same(seen["texts"], one_by_one(reference, model, prompts, 5), "the list of texts of a model with dropout")
    holds(seen["modes"], "a module of the model is in another mode afterwards: train, or eval in a part that was in eval mode on purpose")
    holds(not seen["graph"], "the model ran with gradient, which keeps all intermediate results in memory, although they are never used")


def modes_and_graph(generate_batch, model, prompts):
    """The texts, whether the modes are the same afterwards, and whether a pass recorded gradients; brought to the far side."""
    model.train()
    model.blocks[0].ffn.eval()
    before, graphs = [module.training for module in model.modules()], []
    hook = model.ln_f.register_forward_hook(lambda module, inputs, output: graphs.append(output.requires_grad))
    texts = generate_batch(model, prompts, 5)
    hook.remove()
    return {"texts": texts, "modes": before == [module.training for module in model.modules()], "graph": any(graphs)}


@exercise("generate_batch")
def test_a_batch_of_one_and_of_equal_lengths(learner, reference):
    """One prompt, or prompts of one length, need no pads; max_new_tokens may be 0 or 1."""
    n, seed = drawn()
    mine, model = language_models(learner, reference, n, seed, "learned")
    prompts = prompts_of(seed, n, (4, 4, 4))
    cases = [(prompts, 3), (prompts[:1], 4), (prompts_of(seed + 1, n, (1, 3)), 1), (prompts_of(seed + 2, n, (2, 5)), 0)]
    found = [learner.generate_batch(mine, given, new) for given, new in cases]
    for (given, new), got in reversed(list(zip(cases, found))):
        same(got, one_by_one(reference, model, given, new), f"the list of texts of {len(given)} prompts with max_new_tokens={new}")
