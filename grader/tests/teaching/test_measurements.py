"""`headway measure`: the command, and the laws behind its numbers; test_lessons_measured.py compares these."""

from __future__ import annotations

import re

import pytest
import torch
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements import list_measurements, run_measurement
from grader.teaching.walks import balance, cache_speed, induction, int8, positions, speculation, training
from grader.teaching.walks.initialization import WAYS, measure_depth
from grader.teaching.walks.small_models import names_of
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def chapters():
    last = load_syllabus().chapters[-1]
    package = ChapterPackage(package_sources(resolve("solutions"), last, whole=True), "tested")
    yield package.module
    package.close()


def printed(capsys, *words: str) -> str:
    run_measurement(words[0], words[1:])
    return capsys.readouterr().out


# ---- the command


def test_every_measurement_is_listed_with_what_it_measures(kit):
    out = " ".join(kit.run("measure").split())
    assert '"""' not in out
    assert all(f"{name} {one.title}" in out for name, one in list_measurements().items())
    assert "headway measure NAME" in out and len(list_measurements()) >= 16


def test_a_measurement_is_run_with_its_options_and_its_status(kit):
    assert "1,000 draws" in kit.run("measure", "draws", "--seed", "5")
    assert "unrecognized arguments: --steps" in kit.run("measure", "draws", "--steps", "5", status=2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("extrapolatoin", "did you mean extrapolation?"),
        ("xyzzy", "`headway measure` lists them all"),
        ("__init__", "no measurement"),
    ],
)
def test_an_unknown_name_is_one_sentence(kit, name, said):
    assert said in kit.run("measure", name, status=2)


def test_the_help_of_a_measurement_is_its_own(kit):
    said = " ".join(kit.run("measure", "balance", "--help").split())
    assert said.startswith("usage: headway measure balance [-h] [--seed SEED] [--steps STEPS]") and "Lesson 11" in said
    assert kit.run("measure", "-h") == kit.run("measure", "--help") != kit.run("measure", "cache", "-h")
    assert "headway measure NAME --help" in kit.run("measure", "--help")


def test_what_cannot_be_measured_is_one_sentence(capsys, tmp_path):
    nowhere = tmp_path / "nowhere"
    cases = {nowhere: "there is no folder", tmp_path: "contains none of the chapters", EXERCISES: "not implemented yet"}
    for folder, said in cases.items():
        with pytest.raises(SystemExit) as stopped:
            run_measurement("balance", ["--target", str(folder), "--steps", "10"])
        assert stopped.value.code == 2 and said in capsys.readouterr().err


def test_a_seed_gives_the_same_numbers_and_leaves_the_random_state_alone(capsys):
    before = torch.get_rng_state()
    for words in (["balance", "--steps", "10"], ["extrapolation", "--steps", "2"], ["induction", "--steps", "2"]):
        once, again, other = (printed(capsys, *words, "--seed", seed) for seed in "334")
        assert once == again != other
    assert torch.equal(before, torch.get_rng_state())


# ---- lesson 4


def test_each_scheme_is_measured_at_each_length_and_learns(chapters):
    rows = {row.name: row for row in positions.extrapolate(chapters("ch07_models"), length=8, steps=40, texts=50)}
    assert list(rows) == ["best possible", "last token alone", *positions.SCHEMES]
    guessing = torch.log(torch.tensor(positions.VOCABULARY)).item()
    n = {length: length - positions.BACK for length in (8, 16, 32)}
    for name, row in rows.items():
        assert list(row.at) == list(n)
        assert row.at[32] * n[32] == pytest.approx(row.at[8] * n[8] + row.beyond * (n[32] - n[8]), rel=1e-4)
        assert name not in positions.SCHEMES or rows["best possible"].at[8] < row.at[8] < guessing
    assert rows["best possible"].beyond < rows["last token alone"].beyond < guessing


def test_rows_of_a_table_that_no_text_reached_are_never_trained(chapters):
    lessons = torch.randint(positions.VOCABULARY, (20, 4, 9), generator=torch.Generator().manual_seed(0))
    models = [positions.train(chapters("ch07_models"), "learned", lessons[:steps], seed=0) for steps in (0, 20)]
    before, after = (model.pos_emb.weight for model in models)
    assert before.shape == after.shape == (32, 32)
    assert torch.equal(before[8:], after[8:]) and (before[:8] != after[:8]).all(1).all()


def test_the_language_echoes_and_follows():
    followers, echo = positions.draw_language(0), positions.ECHO
    texts, chances = positions.draw_texts(followers, 400, 40, torch.Generator().manual_seed(0))
    assert texts.shape == (400, 41) and chances.shape == (400, 41 - echo)
    assert followers.sum(1) == pytest.approx(torch.ones(positions.VOCABULARY))
    assert (followers > 0.4).sum() == 2 * positions.VOCABULARY
    echoes = (texts[:, echo:] == texts[:, :-echo]).float().mean()
    following = (followers > 0.4)[texts[:, echo - 1 : -1], texts[:, echo:]].float().mean()
    assert 0.5 < echoes < 0.7 and 0.5 < following < 0.7


# ---- lesson 6


def test_what_the_lesson_concludes_about_depth(chapters):
    found = measure_depth(chapters("ch06_blocks"))
    pre, post, bare, neither = (found[way] for way in WAYS)
    assert all(abs(way.as_sent[11] - 1) < 0.1 for way in pre)
    assert all(abs(way.as_sent[0]) < 0.15 for ways in (post, bare, neither) for way in ways)
    assert all(0.1 < size < 10 for ways in (pre, post, bare) for way in ways for size in (way.sizes[0], way.sizes[11]))
    assert all(way.sizes[0] < 1e-6 for way in neither)
    assert all(way.alike > 0.995 for ways in (post, bare, neither) for way in ways)
    assert all(way.alike < 0.9 for way in pre)


# ---- lesson 8


def test_what_the_lesson_says_about_overfitting(chapters):
    lesson = " ".join((EXERCISES / "ch08_training.md").read_text(encoding="utf-8").split())
    found = training.measure_overfitting(names_of(*map(chapters, ("ch01_tokenizer", "ch07_models", "ch08_training"))))
    assert "These are six of the twenty" in lesson and found.held_out == 6
    assert min(found.validation) == pytest.approx(found.validation[19], rel=0.05) and "lowest at epoch 20" in lesson
    assert (found.judged[19], found.judged[39]) == ("learning", "overfitting")
    assert "eight words of the other six do not occur" in lesson and found.unknown_words == 8
    assert found.memorised[0] == pytest.approx(4.17, rel=0.03) and found.memorised[-1] == pytest.approx(0.23, rel=0.1)
    assert f"{found.least:.3f}" in lesson and found.least < found.memorised[-1]
    assert "`mat`" in lesson and found.next_word == "mat"


# ---- lesson 10


def small_config(models, **others):
    return models.GPTConfig(**{"vocab_size": 11, "max_len": 40, "d_model": 12, "n_heads": 3, "n_layers": 2} | others)


def counted(f) -> int:
    with FlopCounterMode(display=False) as counter:
        f()
    return counter.get_total_flops() // 2  # a multiplication and an addition are two


@pytest.mark.parametrize("encoding", ["learned", "sinusoidal", "rope", "alibi"])
def test_the_formula_is_what_torch_counts(chapters, encoding):
    config = small_config(chapters("ch07_models"), positions=encoding)
    model = chapters("ch10_kv_cache").CachedGPT(config)
    for past, new in ((0, 9), (0, 1), (9, 1), (5, 4)):
        caches = model.new_caches()
        ids = torch.arange(past + new)[None] % 11
        if past:
            model(ids[:, :past], caches)
        assert counted(lambda: model(ids[:, past:], caches)) == cache_speed.multiply_adds(config, new, past + new)  # noqa: B023


@pytest.mark.parametrize(("prompt", "tokens"), [(1, 6), (9, 1), (7, 8)])
def test_whole_texts_are_counted_as_torch_counts_them(chapters, prompt, tokens):
    config, caching = small_config(chapters("ch07_models")), chapters("ch10_kv_cache")
    model, ids = caching.CachedGPT(config), torch.arange(prompt)[None] % 11
    ways = (chapters("ch09_sampling").generate, caching.generate_cached)
    counts = tuple(counted(lambda way=way: way(model, ids, tokens, temperature=0.0)) for way in ways)
    assert counts == cache_speed.count_work(config, prompt, tokens)


def test_both_ways_of_writing_are_timed_and_another_text_is_noticed(chapters):
    from grader.teaching.walks.progress_line import hide_progress

    config, caching = small_config(chapters("ch07_models")), chapters("ch10_kv_cache")
    rows, same = cache_speed.time_both(caching, chapters("ch09_sampling").generate, config, 8, (2, 6), 3, hide_progress)
    assert same and [row.tokens for row in rows] == [2, 6]
    assert all(row.seconds > 0 and row.seconds_cached > 0 for row in rows)
    assert [row.bytes for row in rows] == [2 * 2 * 3 * 4 * (8 + n) * 4 for n in (2, 6)]

    def stubborn(model, ids, tokens, temperature):
        for _ in range(tokens):
            model(ids)
        return torch.cat([ids, ids.new_full((1, tokens), 3)], dim=1)

    assert not cache_speed.time_both(caching, stubborn, config, 8, (4,), 1, hide_progress)[1]


@pytest.mark.parametrize(
    ("count", "said"),
    [(0.87, "0.9"), (3, "3.0"), (42, "42"), (999, "999"), (1234, "1.2k"), (78_643_200, "79M"), (3e15, "3000T")],
)
def test_counts_in_few_digits(count, said):
    assert cache_speed.format_count(count) == said


def test_the_cache_tables_are_printed(capsys):
    out = printed(capsys, "cache", "--tokens", "3", "--prompt", "4", "--width", "16", "--layers", "1", "--runs", "1")
    assert all(word in out for word in ("one thread", "tokens/s", "faster", "multiply-adds", "a prompt of 4 tokens"))
    assert "differ" not in out


def test_the_lessons_counts_are_those_of_the_formula_and_its_speeds_the_promised_ones(chapters):
    """Speeds differ from machine to machine; numbers of operations and bytes do not. 20 times from 256 tokens on."""
    text = (EXERCISES / "ch10_kv_cache.md").read_text(encoding="utf-8")
    lines = text[text.index("### Measured") :].splitlines()
    lines = [line.strip("|").split("|") for line in lines if re.match(r"\| [\d,]+ \|", line)][:4]
    rows = [[cell.strip() for cell in line] for line in lines]
    config = chapters("ch07_models").GPTConfig(256, 512 + 1024, d_model=256, n_heads=4, n_layers=2)
    for tokens, slow, fast, faster, *counts in rows:
        n = int(tokens.replace(",", ""))
        without, cached = cache_speed.count_work(config, 512, n)
        size = chapters("ch10_kv_cache").kv_cache_bytes(2, 4, 64, 512 + n, bytes_per_value=4)
        work = [cache_speed.format_count(count) for count in (without, cached)]
        assert counts == [*work, f"{without / cached:.0f}x", f"{size / 2**20:.1f} MiB"]
        quotient = float(fast.replace(",", "")) / float(slow.replace(",", ""))
        assert float(faster.rstrip("x")) == pytest.approx(quotient, rel=0.05, abs=0.6) and (n < 200 or quotient >= 20)
    assert [row[0] for row in rows] == ["16", "64", "256", "1,024"]


# ---- lesson 11


@pytest.mark.parametrize("top_k", [1, 2])
def test_collapsed_experts_spread_out_with_the_balance_loss_and_not_without_it(chapters, top_k):
    chapter = chapters("ch11_moe")
    without, with_loss = (balance.train_collapsed_layer(chapter, top_k, factor, seed=2, steps=200) for factor in (0.0, 0.1))
    before = without[0]
    assert before == with_loss[0]
    assert before.shares == pytest.approx([1 / top_k] * top_k + [0.0] * (balance.FEW_EXPERTS - top_k))
    assert before.loss > 0.9 * balance.FEW_EXPERTS / top_k and before.effective_experts == pytest.approx(top_k)
    assert without[200].shares == pytest.approx(before.shares, abs=0.02) and without[200].loss > 0.9 * before.loss
    assert min(with_loss[200].shares) > 0.08 and with_loss[200].effective_experts > 3.5 and with_loss[200].loss < 1.25
    assert max(with_loss[200].error, without[200].error) < 0.5 * before.error


@pytest.mark.parametrize("top_k", [1, 2])
def test_the_task_moves_only_the_scores_of_chosen_experts_and_of_one_alone_not_even_its_own(chapters, top_k):
    layer = balance.make_collapsed_layer(chapters("ch11_moe"), top_k, seed=3)
    x = torch.randn(5, 6, balance.D_MODEL)
    x[..., 0] = 1.0
    found, aux_loss = layer(x)
    losses, weight = (found.square().sum(), aux_loss), layer.router.weight
    by_task, by_loss = (torch.autograd.grad(loss, weight, retain_graph=True, allow_unused=True)[0] for loss in losses)
    assert by_task is None or by_task[2 if top_k == 2 else 0 :].abs().max() < 1e-5
    assert top_k == 1 or by_task[:2].abs().max() > 0.01
    assert by_loss[0].abs().max() > 0.01


def test_the_balance_table_fits_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = printed(capsys, "balance", "--steps", "10")
    assert "…" not in out and max(map(len, out.splitlines())) <= 80


# ---- lesson 12


def test_training_grows_an_induction_head_and_it_is_found(chapters):
    """The real training: about 20 seconds of one processor."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = induction.train(chapters("ch07_models"), chapters("ch12_interpretability"))
    finally:
        torch.set_num_threads(threads)
    layer, head = found.head
    first, last, guessing = found.checkpoints[0], found.checkpoints[-1], torch.log(torch.tensor(64.0)).item()
    assert layer == 1 and found.scores[layer][head] > induction.FOUND
    assert found.appeared and max(first.best) < 3 / induction.LENGTH
    assert max(found.scores[0]) < 0.2, "the first layer cannot: it takes two"
    assert all(score > 0.2 for score in found.other_periods.values())
    assert first.second == pytest.approx(guessing, abs=0.1) and last.second < 0.6
    assert all(abs(point.first - guessing) < 0.3 for point in found.checkpoints)
    assert min(point.second for point in found.checkpoints if max(point.best) < 0.1) > 3.0


def test_texts_repeat_with_their_own_periods():
    periods = torch.tensor([[12], [16], [20]])
    texts = induction.make_repeating_texts(3, periods, torch.Generator().manual_seed(0))
    assert texts.shape == (3, induction.LENGTH + 1)
    for text, period in zip(texts, periods[:, 0].tolist()):
        assert torch.equal(text[period:], text[:-period])
        assert (text[1:] == text[:-1]).float().mean() < 0.2


# ---- lesson 15


@pytest.fixture
def model(chapters):
    models = chapters("ch07_models")
    torch.manual_seed(0)
    with torch.no_grad():
        model = models.GPT(models.GPTConfig(20, 16, 16, 2, 2, tie_weights=False)).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def test_outliers_do_not_change_what_the_model_computes(model):
    ids, outliers = torch.randint(20, (3, 9)), int8.with_outliers(model)
    with torch.no_grad():
        assert torch.allclose(model(ids)[0], outliers(ids)[0], atol=1e-4)
    before, after = (one.blocks[0].attn.W_q.weight.abs().amax() for one in (model, outliers))
    assert after > 10 * before


def test_bytes_are_those_of_the_matrices_of_the_blocks(chapters, model):
    linear = [layer for _, _, layer in int8.linear_layers(model)]
    matrices, rows = sum(layer.weight.numel() for layer in linear), sum(layer.out_features for layer in linear)
    assert len(linear) == 12 and matrices == 2 * 12 * 16 * 16 and int8.stored_bytes(model) == 4 * matrices
    quantized = int8.with_quantized_layers(model, chapters("ch15_serving"))
    assert int8.stored_bytes(quantized) == matrices + 4 * rows
    assert int8.linear_layers(quantized) == [] and len(int8.linear_layers(model)) == 12


def test_the_ways_to_quantize_are_what_their_names_say(chapters, model):
    weight = model.blocks[0].ffn.up.weight.detach()
    codes, scale = chapters("ch15_serving").quantize_int8(weight)
    cut, cut_scale = int8.cut_off(weight)
    assert torch.equal(cut_scale, scale) and not torch.equal(cut, codes.float())
    assert (cut.abs() <= codes.float().abs()).all()
    common, scales = int8.one_scale(weight)
    assert scales.unique().numel() == 1 and common.abs().max() == 127
    four, _ = int8.four_bits(weight)
    assert four.abs().amax(1).eq(7).all()
    exact = int8.rounded(model, lambda matrix: (matrix, torch.ones(matrix.size(0))))
    assert all(torch.equal(value, exact.state_dict()[name]) for name, value in model.state_dict().items())


def test_passes_of_each_model_are_counted():
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def call():
        return [one(torch.ones(2)), one(torch.ones(2)), other(torch.ones(2))]

    seconds, passes, result = speculation.timed(call, 1, one, other)
    assert passes == [2, 1] and len(result) == 3 and seconds > 0 and not one._forward_pre_hooks


def test_batches_and_guesses_of_small_models(capsys, monkeypatch):
    """Every number of passes that the tables show follows from the sizes and from the texts."""
    monkeypatch.setenv("COLUMNS", "120")
    out = printed(capsys, "serving", "--width", "16", "--layers", "1", "--steps", "2", "--runs", "1")
    assert out.startswith("Training a model and a draft"), "it says first what it does and how long that takes"
    rows = [line.split() for line in out.splitlines() if re.match(r" *(\d+|none) .*x *$", line)]
    assert [row[:2] for row in rows[:5]] == [["1", "200"], ["4", "50"], ["10", "20"], ["20", "10"], ["none", "200"]]
    for row in rows[5:]:
        passes = int(row[1])
        assert 200 / (int(row[0]) + 1) <= passes <= 200 and row[3] == f"{200 / passes:.2f}"
