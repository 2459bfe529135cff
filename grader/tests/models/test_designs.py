"""A design becomes a model of the learner's parts."""

import pytest
import torch
from grader.models.design import PRESETS, Design, DesignProblem, build_model, parameters_by_name, preset
from own_models import GPT, MOE, TINY, TRANSLATOR, parts_of, solved

VOCAB = 11


@pytest.fixture(scope="module")
def parts():
    designs = [Design(positions=positions, norm=norm, **TINY) for positions in ("learned", "sinusoidal", "rope", "alibi") for norm in ("pre", "post")]
    with parts_of(*designs, MOE, TRANSLATOR) as made:
        yield made


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "alibi"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_gpt_is_causal_and_begins_near_the_loss_of_a_guess(parts, positions, norm):
    torch.manual_seed(0)
    model = build_model(parts, Design(positions=positions, norm=norm, **TINY), VOCAB).eval()
    ids = torch.randint(VOCAB, (3, 9))
    logits = model(ids)[0]
    assert logits.shape == (3, 9, VOCAB) and model(ids[:, :5])[0].allclose(logits[:, :5], atol=1e-5)
    assert all(type(block).__name__ == ("PreNormBlock" if norm == "pre" else "PostNormBlock") for block in model.blocks)
    assert torch.logsumexp(logits, -1).mean() < 1.2 * torch.tensor(VOCAB).log()
    assert all(parameter.std() < 0.03 for parameter in model.parameters() if parameter.dim() > 1)


def test_experts_add_their_balance_loss(parts):
    torch.manual_seed(0)
    model = build_model(parts, MOE, VOCAB)
    logits, balance = model(torch.randint(VOCAB, (3, 9)))
    assert logits.shape == (3, 9, VOCAB) and 0.9 < balance < MOE.n_experts and balance.requires_grad


def test_a_translator_reads_two_texts(parts):
    model = build_model(parts, TRANSLATOR, VOCAB)
    assert model(torch.randint(1, VOCAB, (3, 5)), torch.randint(1, VOCAB, (3, 7))).shape == (3, 7, VOCAB)


def test_the_learners_blocks_are_in_the_model():
    chapter = solved("ch06_blocks", ("        x = x + self.attn(self.ln1(x))\n        return x + self.ffn(self.ln2(x))", "        return x * 0"))
    with parts_of(GPT, ch06_blocks=chapter) as parts:
        model = build_model(parts, GPT, VOCAB)
        assert model(torch.randint(VOCAB, (1, 4)))[0].abs().max() == 0
        assert type(model.blocks[0]).__module__.endswith("_learner")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"n_heads": 3}, "3 heads do not divide"),
        ({"positions": "absolute"}, "positions is 'absolute'"),
        ({"kind": "moe", "positions": "rope"}, "experts have no rope"),
        ({"kind": "moe", "norm": "post"}, "pre-norm"),
        ({"kind": "translate"}, "post-norm"),
        ({"kind": "moe", "top_k": 9}, "there are 4 experts"),
        ({"positions": "rope", "n_heads": 16}, "even width"),
        ({"max_len": 0}, "at least 1"),
    ],
)
def test_a_design_that_cannot_be_built_is_a_sentence(changes, says):
    with pytest.raises(DesignProblem, match=says):
        Design(**{**TINY, **changes})


def test_designs_survive_as_data():
    for name in PRESETS:
        for kind in ("gpt", "moe", "translate"):
            design = preset(name, kind, n_heads=2, d_ff=None)
            assert Design.from_data(design.to_data()) == design and (design.kind, design.n_heads) == (kind, 2)
    for damaged in (None, [], {"kind": "gpt", "wheels": 4}, {"d_model": "wide"}):
        with pytest.raises(DesignProblem):
            Design.from_data(damaged)


def test_a_tied_matrix_has_one_name(parts):
    names = parameters_by_name(build_model(parts, GPT, VOCAB))
    assert "lm_head.weight" in names and "token_emb.weight" not in names
    assert {"lm_head.weight", "token_emb.weight"} <= set(parameters_by_name(build_model(parts, Design(tie_weights=False, **TINY), VOCAB)))


def test_a_mini_model_is_much_smaller_than_the_default_and_reads_the_same_tokens(parts):
    sizes = {name: sum(p.numel() for p in build_model(parts, preset(name), 470).parameters()) for name in ("mini", "tiny")}
    assert sizes["mini"] * 7 < sizes["tiny"]
    assert preset("mini").max_len == preset("tiny").max_len
