"""Chapter 9, third part: generating text from a prompt."""

import torch
from grader.execution.proxy import load
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, same
from hypothesis import given, settings
from small_models import compare_text, randomise_for_text
from strategies import distinct, seeds, token_ids
from torch import nn
from torch.nn import functional as F

few = settings(max_examples=2)  # what is broken here is broken at every example
TABLES, NO_TABLES = ("learned", "sinusoidal"), ("rope", "alibi")


# ---- generate


def written(generate, ids, new, options, eos=None, vocab=11, positions="rope", max_len=6, kind="tuple", training=True, frozen=False, seed=None, quiet=False, view=False):
    """The text of a model whose likeliest word depends on its whole input; if `eos` is given, a row with first id s gets it as its s-th word.

    `quiet`: gradients are switched off before. `view`: the ids are not contiguous in memory.
    """
    from types import SimpleNamespace

    class Speaker(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(3.0))
            self.pos_emb = nn.Identity() if positions in ("learned", "sinusoidal") else None
            self.drop, self.frozen = nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5))
            self.always_eval, self.graph = True, False
            if kind != "bare":
                self.config = SimpleNamespace(vocab_size=vocab, max_len=max_len, positions=positions)

        def forward(self, ids):
            T = ids.size(1)
            if positions in ("learned", "sinusoidal") and T > max_len:
                raise ValueError(f"the model was given {T} tokens, and its table of positions ends at max_len = {max_len}")
            self.always_eval = self.always_eval and not any(module.training for module in self.modules())
            mixed = ((ids + 1) * torch.arange(1, T + 1) ** 2).cumsum(1)  # every token counts, by its place
            says = (mixed * 5 + torch.arange(T)) % (vocab - (eos is not None))
            if eos is not None:
                says = says + (says >= eos)
                says[torch.arange(T) == start - 2 + ids[:, :1]] = eos
            logits = self.frozen(self.drop(self.gain * F.one_hot(says, vocab)))
            self.graph = self.graph or logits.requires_grad
            return logits if kind == "logits" or kind == "bare" else (logits, None)

    start = ids.size(1)
    model = Speaker().train(training)
    if frozen:
        model.frozen.eval()
    before = [module.training for module in model.modules()]
    if seed is not None:
        options = {**options, "generator": torch.Generator().manual_seed(seed)}
    if view:
        ids = ids.t().contiguous().t()
    with torch.set_grad_enabled(not quiet):
        text, restored = generate(model, ids, new, **options), torch.is_grad_enabled() != quiet
    return {
        "text": text,
        "always eval": model.always_eval,
        "graph": model.graph,
        "modes": [module.training for module in model.modules()] == before,
        "grad mode": restored,
        "for training": not isinstance(text, torch.Tensor) or not text.is_inference(),
    }


GREEDY = {"temperature": 0.0}
speech = distinct("B", "T", B=(3, 3), T=(4, 5), V=(11, 13))


def texts(learner, reference, ids, new, options=GREEDY, **others):
    """The learner's text, the expected text, everything else from the learner's call, and the call itself."""

    def ask():
        return learner.bring(written)(learner.generate, ids, new, options, **others)

    got = ask()
    return got["text"], reference.bring(written)(reference.generate, ids, new, options, **others)["text"], got, ask


@exercise("generate", weight=4)
@few
@given(n=speech, seed=seeds)
def test_each_token_follows_from_all_before_it(learner, reference, n, seed):
    """With temperature 0 each new token is the likeliest one after the whole text so far, in each row; the prompt comes first."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    compare_text(texts(learner, reference, ids, 6, vocab=n.V, max_len=30), "the text")


@exercise("generate", weight=3)
def test_a_gpt_continues_its_prompt(learner, reference):
    """A GPT of chapter 7 continues its prompt, also beyond max_len, with each kind of positions."""
    seed, found = 5, []
    ids = token_ids(seed, 3, 4, vocab=13)
    for positions in TABLES + NO_TABLES:
        mine, model = (who.GPT(who.GPTConfig(13, 7, 8, 2, 1, 5, positions, False)) for who in (learner, reference))
        load(mine, randomise_for_text(model, seed))
        found.append((positions, learner.generate(mine, ids, 6, temperature=0.0), reference.generate(model, ids, 6, temperature=0.0)))
    for positions, got, expected in found:
        same(got, expected, f"the text of a GPT with positions={positions!r} and max_len=7")


@exercise("generate", weight=3)
@few
@given(n=speech, seed=seeds)
def test_a_model_with_a_position_table_gets_the_last_max_len_tokens(learner, reference, n, seed):
    """If positions are a table and the text is longer than max_len, the model gets its last max_len tokens; the returned text is complete."""
    ids, longer = token_ids(seed, n.B, n.T, vocab=n.V), token_ids(seed, n.B, n.T + 4, vocab=n.V)
    found = [(each, texts(learner, reference, each, 6, vocab=n.V, positions=positions)) for positions in TABLES for each in (ids, longer)]
    for each, answer in found:
        compare_text(answer, f"the text after a prompt of {each.size(1)}, with max_len = 6,")


@exercise("generate", weight=2)
@few
@given(n=speech, seed=seeds)
def test_a_model_with_rope_or_alibi_gets_the_whole_text(learner, reference, n, seed):
    """With RoPE and ALiBi the model gets the whole text, however long it is: dozens of tokens too."""
    ids, longer = token_ids(seed, n.B, n.T, vocab=n.V), token_ids(seed, n.B, n.T + 70, vocab=n.V)
    found = [(each, texts(learner, reference, each, 6, vocab=n.V, positions=positions)) for positions in NO_TABLES for each in (ids, longer)]
    for each, answer in found:
        compare_text(answer, f"the text after a prompt of {each.size(1)}, with max_len = 6 and no table,")


@exercise("generate")
@few
@given(n=speech, seed=seeds)
def test_logits_or_a_tuple_with_them(learner, reference, n, seed):
    """The model may return only logits, or a tuple that begins with them."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    found = [texts(learner, reference, ids, 4, vocab=n.V, kind=kind) for kind in ("logits", "tuple")]
    compare_text(found[0], "the text of a model that gives logits")
    compare_text(found[1], "the text of a model that gives a tuple")


@exercise("generate")
@few
@given(n=speech, seed=seeds)
def test_a_model_needs_no_config(learner, reference, n, seed):
    """A model without a config gets the whole text."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    compare_text(texts(learner, reference, ids, 6, vocab=n.V, kind="bare"), "the text of a model without a config")


@exercise("generate")
@few
@given(n=speech, seed=seeds)
def test_max_new_tokens_sets_the_number_of_tokens(learner, reference, n, seed):
    """max_new_tokens new tokens: one, seven, or none; after a single token, in a single row."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    cases = [(ids, 1), (ids, 7), (ids, 0), (ids[:, :1], 5), (ids[:1], 5)]
    found = [texts(learner, reference, prompt, new, vocab=n.V) for prompt, new in cases]
    for (prompt, new), answer in zip(cases, found):
        compare_text(answer, f"the text of a prompt of shape {tuple(prompt.shape)} with max_new_tokens={new}")


@exercise("generate")
@few
@given(n=speech, seed=seeds)
def test_the_prompt_may_be_a_view(learner, reference, n, seed):
    """The ids of the prompt may be a view, whose rows are not next to each other in memory."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    compare_text(texts(learner, reference, ids, 3, vocab=n.V, view=True), "the text of a prompt that is a view, not contiguous in memory,")


def greedy_text_of(generate, ids, logits):
    """The greedy text of a model with the same logits at every position."""

    class Always(nn.Module):
        def forward(self, ids):
            return logits.expand(*ids.shape, -1)

    return generate(Always(), ids, 3, temperature=0.0)


@exercise("generate")
def test_float64_logits_are_not_rounded(learner):
    """With float64 logits that are equal in float32, the greatest of them is the likeliest token."""
    ids, near = token_ids(3, 2, 4, vocab=5), torch.tensor([0.5, 1.0, 1.0 + 1e-12, 1.0, -2.0], dtype=torch.float64)
    text = learner.bring(greedy_text_of)(learner.generate, ids, near)
    same(text, torch.cat([ids, torch.full((2, 3), 2)], dim=1), "the text of float64 logits that differ by 1e-12")


# ---- generate: the end of a text


def beginning(seed, n, firsts, eos):
    """Prompts without eos; row b ends after firsts[b] new tokens."""
    ids = token_ids(seed, len(firsts), n.T, vocab=n.V - 1)
    ids += ids >= eos
    ids[:, 0] = torch.tensor(firsts)
    return ids


def ends(learner, reference, n, seed, eos, firsts, new, prompt=None):
    ids = beginning(seed, n, firsts, eos) if prompt is None else prompt
    return texts(learner, reference, ids, new, {"temperature": 0.0, "eos_id": eos}, vocab=n.V, eos=eos, max_len=30)


@exercise("generate", weight=3)
@few
@given(n=speech, seed=seeds)
def test_a_finished_row_is_filled_with_eos(learner, reference, n, seed):
    """A row that has written eos_id is finished: it is filled with eos_id while the other rows continue."""
    eos = n.V - 1 - seed % 3
    found = [ends(learner, reference, n, seed, eos, firsts, 6) for firsts in ((1, 7, 3), (7, 2, 4))]
    for answer in found:
        compare_text(answer, f"the text with eos_id={eos}")


@exercise("generate", weight=2)
@few
@given(n=speech, seed=seeds)
def test_the_text_ends_when_all_rows_are_finished(learner, reference, n, seed):
    """The text ends with the eos_id of the row that finishes last, even if more tokens were allowed; a single row ends with its own."""
    eos = n.V - 1 - seed % 3
    found = [(max(firsts), ends(learner, reference, n, seed, eos, firsts, 9)) for firsts in ((2, 5, 3), (4, 1, 1), (3,), (2, 2, 2))]
    for last, answer in found:
        compare_text(answer, f"the text whose last row ends after {last} of 9 tokens")


@exercise("generate", weight=2)
@few
@given(n=speech, seed=seeds)
def test_eos_in_the_prompt_finishes_nothing(learner, reference, n, seed):
    """An eos_id inside the prompt, or at its end, is an ordinary token."""
    eos = n.V - 1 - seed % 3
    ids = beginning(seed, n, (4, 7, 2), eos)
    ids[0, -1], ids[1, 1], ids[2, 1:] = eos, eos, eos
    compare_text(ends(learner, reference, n, seed, eos, None, 6, prompt=ids), f"the text after prompts that hold eos_id={eos}")


@exercise("generate")
@few
@given(n=speech, seed=seeds)
def test_any_id_may_be_eos_or_none(learner, reference, n, seed):
    """eos_id may be 0; without an eos_id no row is ever finished."""
    ids, zero = beginning(seed, n, (2, 1, 3), 5), beginning(seed, n, (2, 4, 3), 0)
    found = ends(learner, reference, n, seed, 0, None, 6, prompt=zero), texts(learner, reference, ids, 5, vocab=n.V, eos=5, max_len=30)
    compare_text(found[0], "the text with eos_id=0")
    compare_text(found[1], "the text without an eos_id")


# ---- generate: only looking


@exercise("generate", weight=2)
@few
@given(n=speech, seed=seeds)
def test_generating_does_not_change_the_model(learner, reference, n, seed):
    """The model is called in eval mode, without dropout, and without gradient, which is on or off afterwards as before. The text may be used in training."""
    got, expected, facts, _ = texts(learner, reference, token_ids(seed, n.B, n.T, vocab=n.V), 5, vocab=n.V)
    quiet = texts(learner, reference, token_ids(seed, n.B, n.T, vocab=n.V), 3, vocab=n.V, quiet=True)[2]
    same(got, expected, "the text of a model with dropout")
    holds(facts["always eval"], "the model ran in train mode: with dropout the text differs each time")
    holds(not facts["graph"], "the model ran with gradient, which keeps all intermediate results in memory, although they are never used")
    holds(facts["grad mode"], "gradients are still switched off afterwards, so no model can be trained")
    holds(quiet["grad mode"], "gradients were switched off before, and are switched on afterwards")
    holds(facts["for training"], "the text was made under torch.inference_mode: a model that is trained on it raises an error")


CASES = [
    ({"training": True}, "a model in train mode was left in another mode"),
    ({"training": False}, "a model in eval mode was left in another mode"),
    ({"frozen": True}, "a part of the model was in eval mode on purpose, and is now in train mode"),
]


@exercise("generate")
@few
@given(n=speech, seed=seeds)
def test_generating_restores_the_mode_of_each_module(learner, reference, n, seed):
    """Afterwards each module has its old mode: train, eval, or eval in one part of a model in train mode."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    found = [texts(learner, reference, ids, 3, vocab=n.V, **case) for case, _ in CASES]
    for answer, (_, sentence) in zip(found, CASES):
        compare_text(answer, "the text")
        if not answer[2]["modes"]:
            answer[3]()  # the call that is shown
        holds(answer[2]["modes"], sentence)
