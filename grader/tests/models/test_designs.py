"""A design becomes a model of the learner's parts; the words of `headway compare` and what each changes; a sentence for what is not possible."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from grader.models.comparison.trainings import entries_of, is_design, nearest_word, settings_for
from grader.models.design import PRESETS, Design, DesignProblem, build_model, preset
from grader.models.training.recipes import Settings
from own_models import TINY

VOCAB = 11


@pytest.mark.parametrize(("positions", "norm"), [("learned", "pre"), ("sinusoidal", "post"), ("rope", "pre"), ("alibi", "post")])
def test_every_gpt_is_causal_and_begins_near_the_loss_of_a_guess(parts, positions, norm):
    torch.manual_seed(0)
    model = build_model(parts, Design(positions=positions, norm=norm, **TINY), VOCAB).eval()
    ids = torch.randint(VOCAB, (3, 9))
    logits = model(ids)[0]
    assert logits.shape == (3, 9, VOCAB) and model(ids[:, :5])[0].allclose(logits[:, :5], atol=1e-5)
    assert all(type(block).__name__ == ("PreNormBlock" if norm == "pre" else "PostNormBlock") for block in model.blocks)
    assert torch.logsumexp(logits, -1).mean() < 1.2 * torch.tensor(VOCAB).log()
    assert all(parameter.std() < 0.03 for parameter in model.parameters() if parameter.dim() > 1)


def test_a_design_that_cannot_be_built_is_a_sentence():
    for changes, says in (
        ({"n_heads": 3}, "3 heads do not divide"),
        ({"positions": "absolute"}, "positions is 'absolute'"),
        ({"kind": "moe", "positions": "rope"}, "experts have no rope"),
        ({"kind": "moe", "norm": "post"}, "pre-norm"),
        ({"kind": "translate"}, "post-norm"),
        ({"kind": "moe", "top_k": 9}, "there are 4 experts"),
        ({"positions": "rope", "n_heads": 16}, "even width"),
        ({"max_len": 0}, "max_len is 0; it must be a whole number from 1"),
        ({"n_layers": 10**7}, "n_layers is 10000000; it must be a whole number from 1 to 1,024"),
        ({"n_layers": 2.0}, "n_layers is 2.0"),
        ({"max_len": 1 << 20, "d_model": 1024, "positions": "sinusoidal"}, "a table of 1,048,576 positions"),
    ):
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


def test_a_mini_model_is_much_smaller_than_the_default_and_reads_the_same_tokens(parts):
    sizes = {name: sum(p.numel() for p in build_model(parts, preset(name), 470).parameters()) for name in ("mini", "tiny")}
    assert sizes["mini"] * 7 < sizes["tiny"]
    assert preset("mini").max_len == preset("tiny").max_len


# ---- the words of `headway compare`


CHANGES = {
    "learned": dict(positions="learned"),
    "moe": dict(kind="moe"),
    "dense": dict(kind="gpt"),
    "small,bpe": dict(size="small", tokens="bpe"),
    "dropout=0.1,layers=6": dict(dropout=0.1, layers=6),
    "batch=4,warmup=0": dict(rows=4, warmup=0),
    "RoPE,heads=1,post": dict(positions="rope", heads=1, norm="post"),
}


def test_a_word_changes_these_settings():
    for word, changes in CHANGES.items():
        assert is_design(word) and settings_for(word, Settings(seed=5)) == replace(Settings(seed=5), **changes)


WRONG = {
    "heads=three": "heads is a whole number from 1 to 1024, not 'three'",
    "layers=0": "layers is a whole number from 1 to 100",
    "batch=": "batch is a whole number",
    "warmup=-1": "warmup is a whole number from 0",
    "dropout=1": "dropout is a number from 0 up to but not including 1, such as 0.1, not '1'",
    "heads=3": "3 heads do not divide d_model",
    "rope,alibi": "rope,alibi says two different things about positions",
    "moe,rope": "experts have no rope positions",
}


def test_an_impossible_design_is_a_sentence():
    for word, says in WRONG.items():
        assert is_design(word)
        with pytest.raises(DesignProblem, match=says):
            settings_for(word, Settings())


def test_other_words_are_names_of_checkpoints():
    words = ("stories", "stories-rope", "", "rope,", "heads", "width=3", "translate", "norm=post", "checkpoints/rope")
    assert not any(map(is_design, words))


def test_two_designs_must_differ():
    with pytest.raises(DesignProblem, match="learned and pre are the same design"):
        entries_of(("learned", "pre"), Settings())
    names = [entry.folder.name for entry in entries_of(("rope,heads=1", "learned"), Settings(seed=2))]
    assert names == ["compare-rope-heads-1-seed-2", "compare-learned-seed-2"]


def test_a_typing_mistake_gets_the_nearest_name():
    assert nearest_word("storis", ["stories", "river"]) == "stories" and nearest_word("roep", []) == "rope" and nearest_word("xyz", []) is None
