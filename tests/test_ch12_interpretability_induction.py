"""Chapter 12, third part: how much a head attends to the token after the previous copy, and which heads of a model do."""

import torch
from grader.chapters.ch12_interpretability.circuits import induction_circuit
from grader.execution.proxy import load, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, shaped, sizes
from hypothesis import given
from hypothesis import strategies as st
from memory_layouts import of_views
from model_states import check_hooks_and_modes, check_trainable, observed
from strategies import seeds, tensor, token_ids

# ---- induction_score


def causal(seed, T, dtype=torch.float32):
    """A random pattern (T, T)."""
    scores = tensor(seed, T, T, scale=2.0, dtype=dtype)
    return scores.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf).softmax(-1)


def looking_back(T, period, back):
    """A head whose every row i from `period` on attends `back` positions back, and whose earlier rows attend to themselves."""
    return torch.eye(T)[[i - back if i >= period else i for i in range(T)]]


@exercise("induction_score", weight=3)
@given(period=st.integers(2, 5), more=st.integers(1, 3), seed=seeds)
def test_the_mean_weight_on_what_came_after_the_previous_copy(learner, reference, period, more, seed):
    """The score is the mean weight on i - period + 1 over all rows i from `period` on, and depends on nothing else in the pattern."""
    sizes(period=period)
    patterns = [causal(seed + T, T) for T in (2 * period, period + more, 3 * period + more)]
    scores = [learner.induction_score(pattern, period) for pattern in patterns]
    for score, pattern in zip(scores, patterns):
        close(score, reference.induction_score(pattern, period), f"the score of a pattern of {len(pattern)} positions, period {period}")


@exercise("induction_score", weight=3)
@given(period=st.integers(3, 6))
def test_perfect_induction_is_1_and_a_head_for_duplicates_0(learner, period):
    """Attending to the position after the previous copy scores 1; attending to the copy itself, or two positions after it, scores 0."""
    sizes(period=period)
    T = 2 * period + 1
    heads = {back: learner.induction_score(looking_back(T, period, back), period) for back in (period - 1, period, period - 2)}
    close(heads[period - 1], 1.0, "the score of a perfect induction head")
    close(heads[period], 0.0, "the score of a head that attends to the previous copy of its own token")
    close(heads[period - 2], 0.0, "the score of a head that looks two places after the previous copy")


@exercise("induction_score", weight=2)
def test_all_rows_with_a_previous_copy_count_and_no_others(learner):
    """Rows before `period` have no previous copy and do not count; all later ones do, equally, including those of a third copy."""
    T, period = 11, 4
    rows = {i: looking_back(T, period, period - 1) for i in (3, 4, 7, 8, 10)}
    for i, pattern in rows.items():
        pattern[i] = torch.eye(T)[min(i, 2)]  # this row looks somewhere else
    scores = {i: learner.induction_score(pattern, period) for i, pattern in rows.items()}
    for i, score in scores.items():
        close(score, 1.0 if i < period else 6 / 7, f"the score with period 4 of a head that is perfect from row 4 to row 10{'' if i < period else f', but in row {i}'}")


@exercise("induction_score")
@given(seed=seeds)
def test_with_period_1_the_head_looks_at_itself(learner, seed):
    """When one token is repeated again and again, what came after its previous copy is the token itself."""
    patterns = [causal(seed, T) for T in (4, 7)]
    scores = [learner.induction_score(pattern, 1) for pattern in patterns]
    for score, pattern in zip(scores, patterns):
        close(score, pattern.diagonal()[1:].mean().item(), f"the score of a pattern of {len(pattern)} positions, period 1")


@exercise("induction_score")
@given(seed=seeds)
def test_a_score_is_a_float(learner, seed):
    """The score is a plain float, from a pattern in float32 or in float64, where it keeps its digits; the pattern may be a view."""
    patterns = {dtype: causal(seed, 9, torch.float64).to(dtype) for dtype in (torch.float32, torch.float64)}
    view = learner.bring(of_views)(learner.induction_score, patterns[torch.float32], 4)
    scores = {dtype: learner.induction_score(pattern, 4) for dtype, pattern in patterns.items()}
    for dtype, score in scores.items():
        kind = str(dtype).removeprefix("torch.")
        right = patterns[dtype].double().diagonal(-3)[1:].mean().item()
        close(score, right, f"the score of a pattern in {kind}", 1e-12 if dtype is torch.float64 else None)
        holds(isinstance(score, float), f"a score should be a plain float; of a pattern in {kind} it is a {type(score).__name__}")
    close(view, patterns[torch.float32].double().diagonal(-3)[1:].mean().item(), "the score of a pattern that is not contiguous")


# ---- find_induction_heads


def scores_and_sequences(find, model, period, n_sequences, seed, double=False):
    """The scores, and each row of ids that went through the model or, where it was never called, through its table of tokens."""
    told = {"model": [], "table": []}

    def note(where):
        def hook(module, inputs, named):
            told[where].append((list(inputs) + list(named.values()))[0].clone())

        return hook

    parts = {"model": model, "table": model.token_emb}
    hooks = [part.register_forward_pre_hook(note(where), with_kwargs=True) for where, part in parts.items()]
    try:
        scores = find(model.double() if double else model, period, n_sequences, torch.Generator().manual_seed(seed))
    finally:
        for hook in hooks:
            hook.remove()
    return scores, [row.clone() for ids in told["model"] or told["table"] for row in (ids if ids.dim() == 2 else ids[None])]


def model_of(learner, reference, seed, period, V, H=3, L=2, tokens_differ=True, **options):
    """A GPT on each side with the same random parameters; without `tokens_differ` its patterns depend on positions alone."""
    config = {"vocab_size": V, "max_len": 2 * period, "d_model": 4 * H, "n_heads": H, "n_layers": L, "d_ff": 5, "dropout": 0.3} | options
    mine, model = (side.GPT(side.GPTConfig(**config)) for side in (learner, reference))
    values = randomise(model, seed, scale=1.5)
    if not tokens_differ:
        values["token_emb.weight"] = values["token_emb.weight"][:1].repeat(V, 1)
        load(model, values)
    load(mine, values)
    return mine, model


def scored(reference, model, ids, period):
    """Every head's score on these rows of ids, (n_layers, H)."""
    patterns = reference.attention_patterns(model, ids).double()  # (n_layers, n, H, T, T)
    return patterns.diagonal(1 - period, -2, -1)[..., 1:].mean((1, 3))


def same_scores(got, expected, what="the scores", dtype=torch.float32):
    tol = 1e-9 if dtype is torch.float64 else 1e-4
    close(shaped(got, tuple(expected.shape), f"{what}, a number for each head of each layer,"), expected.to(dtype), what, tol)


def halves(found, period):
    """The first halves of the different rows that went through the model, each repeated once; None if no rows were recorded."""
    for row in found:
        holds(len(row) == 2 * period, f"a sequence should have 2 x {period} tokens; one of {len(row)} went through the model")
        holds(torch.equal(row[:period], row[period:]), f"the second half of a sequence should repeat the first; {row.tolist()} does not, with period {period}")
    return torch.stack(found)[:, :period].unique(dim=0) if found else None


@exercise("find_induction_heads", weight=3)
def test_every_head_of_every_layer_gets_its_score(learner, reference):
    """(n_layers, H) in the model's dtype, row l holding the heads of layer l: where tokens make no difference, any draw gives these very numbers."""
    find, ask = learner.find_induction_heads, learner.bring(scores_and_sequences)
    tabled, expected = model_of(learner, reference, 1, 4, 11, tokens_differ=False)
    rope, expected_too = model_of(learner, reference, 2, 5, 9, H=2, L=3, tokens_differ=False, positions="rope", max_len=6)
    got = [ask(find, tabled, 4, 6, 0)[0], ask(find, rope, 5, 3, 0)[0], ask(find, rope, 5, 3, 0, True)[0]]
    same_scores(got[0], scored(reference, expected, torch.zeros(1, 8, dtype=torch.long), 4), "the scores with period 4 of a model whose max_len is 8")
    for scores, dtype, kind in zip(got[1:], (torch.float32, torch.float64), ("", " in float64")):
        expected = scored(reference, expected_too.to(dtype), torch.zeros(1, 10, dtype=torch.long), 5)
        same_scores(scores, expected, f"the scores with period 5 of a model with RoPE{kind}", dtype)


@exercise("find_induction_heads", weight=3)
def test_scores_are_means_over_the_sequences_drawn(learner, reference):
    """Each head's score is its mean over all n_sequences sequences, for any random sequences."""
    mine, model = model_of(learner, reference, 3, 5, 23)
    scores, ids = learner.bring(scores_and_sequences)(learner.find_induction_heads, mine, 5, 7, 0)
    shaped(scores, (2, 3), "the tensor of scores")
    firsts = halves(ids, 5)
    if firsts is not None:
        holds(len(firsts) == 7, f"with n_sequences = 7 there should be 7 different sequences; {len(firsts)} went through the model")
        same_scores(scores, scored(reference, model, firsts.repeat(1, 2), 5))
    likely = scored(reference, model, token_ids(3, 50, 5, vocab=23).repeat(1, 2), 5)
    holds(((scores - likely).abs() < 0.3).all(), "a score is far from what this model's heads get on such sequences")


@exercise("find_induction_heads", weight=2)
def test_tokens_of_a_sequence_are_all_different(learner, reference):
    """With period tokens in the vocabulary, or more, a sequence contains no token twice before it repeats, and any token may occur."""
    asked = []
    for period, V in ((6, 17), (7, 7)):
        mine, model = model_of(learner, reference, period, period, V, tokens_differ=False)
        scores, ids = learner.bring(scores_and_sequences)(learner.find_induction_heads, mine, period, 20, 1)
        asked.append((period, V, scores, ids, scored(reference, model, torch.zeros(1, 2 * period, dtype=torch.long), period)))
    for period, V, scores, ids, expected in asked:
        same_scores(scores, expected)
        firsts = halves(ids, period)
        if firsts is not None:
            twice = [row for row in firsts.tolist() if len(set(row)) < period]
            holds(not twice, f"{period} tokens can all be different with a vocabulary of {V}; {(twice or [0])[0]} are not")
            holds(firsts.max() >= period - (V == period), f"of {V} tokens only those up to {firsts.max()} were drawn, in 20 sequences of {period}")


@exercise("find_induction_heads")
def test_a_small_vocabulary_is_drawn_with_replacement(learner, reference):
    """If the vocabulary is smaller than period, tokens occur several times in a sequence, every token may occur, and sequences differ."""
    mine, model = model_of(learner, reference, 4, 5, 3, tokens_differ=False)
    scores, ids = learner.bring(scores_and_sequences)(learner.find_induction_heads, mine, 5, 12, 2)
    long = model_of(learner, reference, 7, 30, 29, H=2, L=1)[0]
    _, ids_of_long = learner.bring(scores_and_sequences)(learner.find_induction_heads, long, 30, 6, 2)
    same_scores(scores, scored(reference, model, torch.zeros(1, 10, dtype=torch.long), 5), "the scores with period 5 and a vocabulary of 3")
    firsts = halves(ids, 5)
    if firsts is not None:
        holds(len(firsts) > 3, f"12 random sequences should differ; there were only {len(firsts)} different ones")
        came = firsts.unique().tolist()
        holds(came == [0, 1, 2], f"in 12 sequences of 5 tokens from a vocabulary of 3 only these occurred: {came}")
    many = halves(ids_of_long, 30)
    if many is not None:
        holds(len(many) == 6, f"with n_sequences = 6 there should be 6 sequences; {len(many)} different ones went through the model")


def draws(find, model, period, n_sequences):
    """Scores by generator: seed 1 twice with another global seed each, seed 1 used twice in a row, seed 2, and none twice."""

    def seeded(seed):
        return torch.Generator().manual_seed(seed)

    torch.manual_seed(10)
    going_on = seeded(1)
    first, after = find(model, period, n_sequences, going_on), find(model, period, n_sequences, going_on)
    torch.manual_seed(11)
    again, other = find(model, period, n_sequences, generator=seeded(1)), find(model, period, n_sequences, seeded(2))
    return [first, again, other, after, find(model, period, n_sequences), find(model, period, n_sequences)]


@exercise("find_induction_heads", weight=2)
def test_the_generator_decides(learner, reference):
    """The same generator gives the same scores, another generator, or the same one later, gives other scores; without one, torch's default generator is used."""
    got = []
    for period, V in ((4, 19), (5, 4)):
        mine, model = model_of(learner, reference, 5, period, V)
        got.append(learner.bring(draws)(learner.find_induction_heads, mine, period, 3))
    for results, what in zip(got, ("", " when the vocabulary is smaller than period")):
        first, again, other, after, free, free_too = (shaped(scores, (2, 3), "the tensor of scores") for scores in results)
        holds(not first.allclose(other, atol=1e-6), f"two generators with different seeds gave the same scores{what}")
        holds(first.allclose(again, atol=1e-6), f"two generators with the same seed gave different scores{what}")
        holds(not first.allclose(after, atol=1e-6), f"a generator that was used before gave the same scores again{what}: it was reset")
        holds(not free.allclose(free_too, atol=1e-6), f"without a generator two calls gave the same scores{what}")


@exercise("find_induction_heads", weight=3)
def test_an_induction_head_is_found_where_it_is(learner, reference):
    """In a model whose weights make an induction head of head 1 of layer 1, that one scores above 0.9; in a new model all are near the score of uniform attention."""
    config, values = induction_circuit(9, 12)
    made, new = (learner.GPT(learner.GPTConfig(**config | {"dropout": dropout})) for dropout in (0.2, 0.0))
    load(made, values)
    load(new, {name: tensor(i, *value.shape, scale=0.02) for i, (name, value) in enumerate(sorted(values.items()))})
    scores, nothing = (learner.find_induction_heads(model, 6, 5) for model in (made, new))
    shaped(scores, (2, 2), "the tensor of scores")
    holds(scores[1, 1] > 0.9, f"head 1 of layer 1 is made for induction, and its score is {scores[1, 1]:.3f}")
    others = scores.flatten()[:3].max()
    holds(others < 0.3, f"the three other heads attend to the previous position, or to all equally; one of them scores {others:.3f}")
    shaped(nothing, (2, 2), "the tensor of scores")
    chance = sum(1 / (i + 1) for i in range(6, 12)) / 6
    spread = f"from {nothing.min():.3f} to {nothing.max():.3f}"
    holds(((nothing - chance).abs() < 0.03).all(), f"in a new model attention is nearly uniform, which gives about {chance:.3f}; the scores are {spread}")


@exercise("find_induction_heads")
def test_the_model_is_left_as_it_was(learner, reference):
    """Heads are scored in eval mode and without gradient; afterwards modes, hooks and weights are those from before."""
    mine, model = model_of(learner, reference, 6, 4, 10, tokens_differ=False)
    found = learner.bring(observed)(learner.find_induction_heads, mine, 4, 3)
    expected = scored(reference, model, torch.zeros(1, 8, dtype=torch.long), 4)
    same_scores(found["seen"], expected)
    check_hooks_and_modes(found)
    check_trainable(found)
    same_scores(found["again"], expected, "the scores of the same model in a second call")
    same_scores(found["parts in train mode"], expected, "the scores of a model in eval mode that has parts in train mode")
