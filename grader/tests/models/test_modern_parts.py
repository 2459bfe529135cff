"""Each part of chapter 20 in a GPT, in its training, and in `headway compare`."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from grader.console.output import hide_progress
from grader.models import checkpoint
from grader.models.comparison import trainings as modern
from grader.models.comparison.trainings import settings_for
from grader.models.design import Design, DesignProblem, build_model
from grader.models.play.engine import PlayProblem
from grader.models.play.engine import Settings as PlaySettings
from grader.models.training import training_run
from grader.models.training.recipes import Recipe, Settings
from grader.models.training.trainer import logits_of_all_heads
from grader.models.training.training_run import training_exercises
from grader.teaching.walks.parts import MixedChapters
from own_models import GPT, TINY, parameters, solved
from page_engines import engine_of, written
from trainings import Silent, stop_after

VOCAB = 11
DESIGNS = {
    "qk_norm": Design(attention="qk_norm", positions="alibi", **TINY),
    "latent": Design(attention="latent", positions="rope", **TINY),
    "sink": Design(attention="sink", **TINY),
    "gated": Design(attention="gated", norm="post", positions="rope", **TINY),
    "soft cap": Design(soft_cap=2.0, **TINY),
    "two tokens": Design(predict_tokens=2, soft_cap=5.0, **TINY),
}
OPTIONS = {
    "qk_norm": dict(attention="qk_norm"),
    "latent": dict(attention="latent", positions="rope"),
    "sink, soft cap": dict(attention="sink", soft_cap=30.0),
    "gated, three tokens": dict(attention="gated", predict_tokens=3),
    "muon, wsd": dict(optimizer="muon", schedule="wsd"),
    "muon, experts": dict(optimizer="muon", kind="moe"),
    "muon, translator": dict(optimizer="muon", kind="translate"),
}


@pytest.fixture(scope="module")
def parts():
    every = {name for design in DESIGNS.values() for name in training_exercises(design, Recipe(4, 2, 1e-3, optimizer="muon", schedule="wsd"), "words")}
    made = MixedChapters(tuple(every | {"LatentAttention", "CachedGPT", "min_p_filter"}), ())
    yield made
    made.close()


def built(parts, design, seed=0):
    """A model whose parameters are random at a healthy scale, so that each part has an effect."""
    torch.manual_seed(seed)
    model = build_model(parts, design, VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


# ---- models


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_a_model_is_causal_begins_near_a_guess_and_survives_as_data(parts, design):
    assert Design.from_data(design.to_data()) == design
    ids = torch.randint(VOCAB, (3, 9), generator=torch.Generator().manual_seed(0))
    for model in (built(parts, design), build_model(parts, design, VOCAB).eval()):
        logits = model(ids)[0]
        assert model(ids[:, :5])[0].allclose(logits[:, :5], atol=1e-4)
    assert (torch.logsumexp(logits, -1) - math.log(VOCAB)).abs().mean() < 0.2


def test_the_attention_of_a_block_is_chapter_20s(parts):
    x, mask = torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(1)), parts.causal_mask(7)
    kinds = {name: built(parts, DESIGNS[name]).blocks[1].attn for name in ("qk_norm", "latent", "sink", "gated")}
    assert isinstance(kinds["qk_norm"], parts.QKNormAttention) and kinds["qk_norm"].positions == "alibi"
    assert isinstance(kinds["latent"], parts.LatentAttention)
    for name in ("sink", "gated"):
        layer = kinds[name]
        q, k, v = (parts.split_heads(W(x), 2) for W in (layer.W_q, layer.W_k, layer.W_v))
        if name == "sink":
            mixed = parts.attention_with_sink(q, k, v, layer.sink, mask)[0]
        else:
            q, k = (parts.apply_rope(each, torch.arange(7)) for each in (q, k))
            mixed = parts.gated_attention(q, k, v, parts.split_heads(layer.W_gate(x), 2), mask)
        torch.testing.assert_close(layer(x), layer.W_out(parts.merge_heads(mixed)))


def test_a_soft_cap_is_on_the_logits(parts):
    ids = torch.arange(9)[None]
    plain = build_model(parts, GPT, VOCAB).eval()
    capped = build_model(parts, replace(GPT, soft_cap=2.0), VOCAB).eval()
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.normal_()
    capped.load_state_dict(plain.state_dict())
    logits = plain(ids)[0]
    assert logits.abs().max() > 4
    torch.testing.assert_close(capped(ids)[0], 2 * torch.tanh(logits / 2))


def test_further_heads_are_for_training_only(parts):
    design, ids = DESIGNS["two tokens"], torch.arange(9)[None]
    model = built(parts, design)
    both = logits_of_all_heads(parts, design, model, ids)
    assert both.shape == (2, 1, 9, VOCAB)
    torch.testing.assert_close(both[0], model(ids)[0])
    before = model(ids)[0]
    with torch.no_grad():
        model.further_heads[0].weight.zero_()
    assert model(ids)[0].equal(before) and logits_of_all_heads(parts, design, model, ids)[1].eq(0).all()


def test_the_bytes_of_a_cache_are_those_that_the_parts_keep(parts):
    x = torch.randn(1, 5, 16)
    for name in ("qk_norm", "latent"):
        design, cache = DESIGNS[name], parts.KVCache()
        if name == "latent":
            built(parts, design).blocks[0].attn.cached(x, cache)
        else:
            cache.append(torch.zeros(1, 2, 5, 8), torch.zeros(1, 2, 5, 8))
        keys, values = cache.append(*(t[:, :, :0] for t in (cache.k, cache.v)))
        assert design.cached_numbers * 5 == 2 * (keys.numel() + values.numel())  # two layers


@pytest.mark.parametrize("name", ["latent", "soft cap", "two tokens"])
def test_such_a_model_writes_what_generate_gives_and_says_what_it_has(parts, words, name):
    engine = engine_of(parts, words, DESIGNS[name])
    ids = engine.read("the cat", 6).ids
    expected = parts.generate(engine.model, torch.tensor([ids]), 6, temperature=0)[0, len(ids) :].tolist()
    assert written(engine, "the cat", PlaySettings(length=6, temperature=0)) == expected and engine.cached is None
    with pytest.raises(PlayProblem, match="has latent attention" if name == "latent" else "has a soft cap"):
        engine.lens(ids)


def test_a_model_with_further_heads_writes_with_the_cache(parts, words):
    engine = engine_of(parts, words, replace(GPT, predict_tokens=3))
    ids = engine.read("the cat", 6).ids
    expected = parts.generate(engine.model, torch.tensor([ids]), 6, temperature=0)[0, len(ids) :].tolist()
    assert engine.cached is not None and written(engine, "the cat", PlaySettings(length=6, temperature=0)) == expected


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attention": "flash"}, "attention is 'flash'; it must be plain, qk_norm"),
        ({"attention": "sink", "positions": "alibi"}, "sink attention has no ALiBi positions"),
        ({"attention": "gated", "dropout": 0.1}, "gated attention has no dropout"),
        ({"attention": "latent", "kind": "moe"}, "only a gpt can have attention = latent"),
        ({"soft_cap": 30.0, "kind": "moe"}, "only a gpt can have soft_cap = 30.0"),
        ({"soft_cap": 0.0}, "it must be a number above 0"),
        ({"soft_cap": math.nan}, "it must be a number above 0"),
        ({"predict_tokens": 0}, "predict_tokens is 0; it must be a whole number from 1"),
        ({"predict_tokens": 25}, "a text has at most max_len = 24 tokens"),
    ],
)  # fmt: skip
def test_a_combination_that_makes_no_sense_is_a_sentence(changes, says):
    with pytest.raises(DesignProblem, match=says):
        Design(**{**TINY, **changes})


# ---- trainings


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_resumed_training_gives_the_losses_of_an_undisturbed_one(trainings, options):
    stopped = trainings.begin("stopped", steps=6, **options)
    assert not training_run.run(stopped, Silent(), stop_after(stopped, 3))
    resumed, whole = trainings.resume("stopped"), trainings.begin("whole", steps=6, **options)
    assert resumed.notes == [] and resumed.trainer.design == whole.trainer.design
    before, after = parameters(stopped.trainer.model), parameters(resumed.trainer.model)
    assert all(before[name].equal(after[name]) for name in before)
    assert training_run.run(resumed, Silent()) and training_run.run(whole, Silent())
    losses = whole.trainer.history.losses
    assert resumed.trainer.history.losses == pytest.approx(losses, abs=1e-5) and losses[-1] < losses[0]


def test_what_is_not_chosen_is_not_recorded(trainings):
    """So an earlier Headway reads the checkpoint of a training without these options, and the other way round."""
    training = trainings.begin(steps=1)
    training.save()
    data = checkpoint.read_record(training.folder)
    new = {"attention", "soft_cap", "predict_tokens", "optimizer", "schedule"}
    assert not new & {*data["design"], *data["record"]["recipe"]}
    assert Design.from_data(data["design"]) == training.trainer.design
    assert Recipe.from_data(data["record"]["recipe"]) == training.trainer.recipe
    chosen = Settings(attention="sink", soft_cap=9.0, predict_tokens=2, optimizer="muon", schedule="wsd")
    assert new == {*chosen.design().to_data(), *chosen.recipe().to_data()} & new
    assert chosen.default_name() == "stories-sink-cap-9-predict-2-muon-wsd"


def test_muon_gets_the_matrices_inside_the_blocks_and_each_parameter_has_one_optimizer(trainings):
    trainer = trainings.begin(steps=2, optimizer="muon", attention="sink").trainer
    muon, adamw = ([id(p) for group in one.param_groups for p in group["params"]] for one in trainer.optimizer.both)
    names = {id(p): name for name, p in trainer.model.named_parameters()}
    inside = {"W_q", "W_k", "W_v", "W_out", "up", "down"}
    assert {names[i] for i in muon} == {f"blocks.0.{'ffn' if name in ('up', 'down') else 'attn'}.{name}.weight" for name in inside}
    assert sorted([*muon, *adamw]) == sorted(names)
    trainer.step(40)
    rates = [one.param_groups[0]["lr"] for one in trainer.optimizer.both]
    assert rates[0] / rates[1] == pytest.approx(0.02 / trainer.recipe.peak)


def test_the_rate_of_wsd_rises_stays_and_falls(trainings):
    trainer = trainings.begin(steps=50, schedule="wsd").trainer
    trainer.recipe, rates = replace(trainer.recipe, warmup=10), []
    for trainer.steps_done in range(50):
        rates.append(trainer.learning_rate(50, 1.0))
    assert rates[:10] == pytest.approx([0.1 * n for n in range(1, 11)]) and rates[9:40] == [1.0] * 31
    assert rates[39:] == pytest.approx([1 - 0.095 * n for n in range(11)])


def test_the_gradient_of_several_tokens_is_that_of_the_mean_over_the_heads(trainings):
    """And the loss that is recorded is that of the next token, as validation measures it."""
    trainer = trainings.begin(predict_tokens=2, rows=3).trainer
    inputs, targets = trainer.corpus.batch(0)[0]
    trainer.optimizer.step, trainer.clipping.max_norm = (lambda: None), 1e9
    trainer.corpus.batch = lambda step: [(inputs, targets)]
    loss = trainer.step(8)
    got = {name: parameter.grad.clone() for name, parameter in trainer.model.named_parameters()}
    x = trainer.model.ln_f(trainer.model.blocks[0](trainer.model.pos_emb(trainer.model.token_emb(inputs))))
    first, second = (head(x).transpose(1, 2) for head in (trainer.model.lm_head, trainer.model.further_heads[0]))
    losses = [torch.nn.functional.cross_entropy(*pair) for pair in ((first, targets), (second[:, :, :-1], targets[:, 1:]))]
    expected = torch.autograd.grad(sum(losses) / 2, list(trainer.model.parameters()))
    assert loss == pytest.approx(float(losses[0].detach()), rel=1e-5)
    for (name, _), gradient in zip(trainer.model.named_parameters(), expected):
        torch.testing.assert_close(got[name], gradient, atol=1e-6, rtol=1e-4)


# ---- `headway compare`


WORDS = {
    "qk_norm": dict(attention="qk_norm"),
    "soft_cap=30": dict(soft_cap=30.0),
    "latent,predict=2": dict(attention="latent", predict_tokens=2),
    "Muon,wsd": dict(optimizer="muon", schedule="wsd"),
}


@pytest.mark.parametrize(("word", "changes"), WORDS.items(), ids=WORDS)
def test_a_word_changes_these_settings(word, changes):
    assert settings_for(word, Settings(seed=5)) == replace(Settings(seed=5), **changes)


@pytest.mark.parametrize(("word", "says"), {"soft_cap=much": "such as 30, not 'much'", "soft_cap=0": "above 0", "predict=0": "from 1 to 16", "qk_norm,sink": "two different things about attention"}.items())
def test_an_impossible_word_is_a_sentence(word, says):
    with pytest.raises(DesignProblem, match=says):
        settings_for(word, Settings())


def test_all_parts_are_trained_once_and_compared_seed_by_seed(trainings, monkeypatch):
    monkeypatch.setattr(modern, "USUAL", "tiny")
    monkeypatch.setattr(modern, "CHANGES", ("latent", "cosine", "muon"))
    begun = []

    def report(what, total):
        begun.append(what)
        return hide_progress(what, total)

    rows = modern.train_all(2, None, 4, "cpu", report)
    assert [what for what in begun if "seed-5" in what] == [f"training compare-tiny{word}-seed-5" for word in ("", "-latent", "-cosine", "-muon")]
    begun.clear()
    assert modern.train_all(2, None, 4, "cpu", report) == rows and begun == []
    usual, latent, same, muon = rows
    assert usual.losses == same.losses != muon.losses and len(usual.losses) == modern.SEEDS
    assert latent.cache_bytes < usual.cache_bytes == 4 * 2 * 16
    record = checkpoint.read_record(trainings.folder / "compare-tiny-seed-4")["record"]
    assert usual.losses[0] == record["history"]["validation"][-1][1] and usual.parameters == record["parameters"]
    cells = modern.table_rows(rows)
    assert cells[0][2:4] == ["", ""] and cells[2][-1] == "nothing"
    assert "nothing here that these seeds could show" in " ".join(modern.conclusions(rows))


def test_a_loss_that_is_no_number_is_a_sentence(trainings, monkeypatch):
    monkeypatch.setattr(modern, "USUAL", "tiny")
    trainings.chapters = {"ch08_training": solved("ch08_training", ("    return whole\n", "    return float('nan')\n"))}
    with pytest.raises(checkpoint.CheckpointProblem, match="tiny cannot be compared: the loss of step 1 is nan"):
        modern.train_all(2, None, 0, "cpu", hide_progress)


def test_the_interval_is_students():
    """Differences of .2, .2, .4 and .4 have the mean .3 and the variance .04 / 3; t is 3.182 for four seeds."""
    usual = [2.0, 3.0, 4.0, 5.0]
    found = modern.difference(usual, [2.2, 3.2, 4.4, 5.4])
    assert found.mean == pytest.approx(0.3) and found.half == pytest.approx(3.182 * math.sqrt(0.04 / 3 / 4)) and found.says == "worse"
    assert modern.difference(usual, [2.2, 3.2, 4.4, 5.9]).says == "nothing"
    assert modern.difference(usual, [1.8, 2.8, 3.6, 4.6]).says == "better"
    assert modern.SEEDS == len(usual)
