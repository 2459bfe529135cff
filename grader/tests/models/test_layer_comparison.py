"""`headway compare attention recurrent hybrid`: the models, recall, what is kept, and sentences that follow from numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from grader.chapters.ch22_recurrent.layer_comparison import costs, layer_report, models, recall, trainings
from grader.chapters.ch22_recurrent.layer_comparison.costs import Costs
from grader.chapters.ch22_recurrent.layer_comparison.layer_report import sentences, tables
from grader.chapters.ch22_recurrent.layer_comparison.models import KINDS, Memory, Size, attends, new_model, read
from grader.chapters.ch22_recurrent.layer_comparison.recall import ASK, IGNORED, KEYS, PAIRS, QUESTIONS, VALUES
from grader.chapters.ch22_recurrent.layer_comparison.trainings import Found, Result
from grader.cli.main import app
from grader.console.output import hide_progress
from grader.models import checkpoint
from grader.models.design import Design
from grader.models.own_parts import TRAINING, OwnParts, model_exercises, tokenizer_exercises
from grader.models.training import corpora
from grader.teaching.walks.parts import MixedChapters
from typer.testing import CliRunner

NAMES = tuple(
    {*tokenizer_exercises("words"), *tokenizer_exercises("bpe"), *model_exercises(trainings.DESIGN), *TRAINING, *models.LAYERS}
)
SMALL = Size(d_model=16, n_heads=2, n_layers=4)


@pytest.fixture(scope="module")
def layers():
    parts = MixedChapters(NAMES, ())
    yield parts
    parts.close()


def seeded(parts, kind: str, size: Size = SMALL, vocab_size: int = 40):
    torch.manual_seed(3)
    return new_model(parts, kind, vocab_size, size).eval()


# ---- the models


def test_the_last_layer_in_four_of_a_hybrid_is_attention():
    assert [attends("hybrid", layer) for layer in range(8)] == [False, False, False, True] * 2
    assert all(attends("attention", layer) for layer in range(4)) and not any(attends("recurrent", layer) for layer in range(4))


@pytest.mark.parametrize("size", [trainings.SIZE, recall.SIZE], ids=["text", "recall"])
def test_the_three_models_have_the_same_number_of_parameters_within_half_a_per_cent(layers, size):
    counts = [sum(p.numel() for p in seeded(layers, kind, size, 500).parameters()) for kind in KINDS]
    assert max(counts) < 1.005 * min(counts)


def test_no_convolution_begins_near_zero_and_no_matrix_as_the_layer_alone_would(layers):
    for layer in models.recurrent_layers(layers, seeded(layers, "recurrent")):
        assert layer.conv.std() > 0.2
        assert all(p.std() < 0.03 for p in layer.parameters() if p.dim() == 2 and p is not layer.conv)


@pytest.mark.parametrize("kind", KINDS)
def test_reading_in_pieces_gives_the_logits_of_the_whole(layers, kind):
    model, ids = seeded(layers, kind), torch.randint(40, (3, 11), generator=torch.Generator().manual_seed(0))
    memory = Memory(layers, model, 3)
    with torch.no_grad():
        whole = model(ids)[0]
        for piece, end in zip(ids.split([6, 1, 1, 3], dim=1), (6, 7, 8, 11)):
            torch.testing.assert_close(read(model, piece, memory), whole[:, end - 1], atol=1e-5, rtol=1e-5)


def test_the_kept_bytes_are_those_of_the_formula(layers, monkeypatch):
    """Float32: attention keeps a key and a value of d_model numbers in each layer for each token, the gated delta rule a
    matrix of each head and the last inputs of three convolutions."""
    monkeypatch.setattr(costs, "LENGTHS", (8, 40))
    monkeypatch.setattr(costs, "PIECE", 5)
    found = costs.measure(layers, KINDS, SMALL, 40, lambda: None)
    cache, state = [4 * 2 * 16 * T for T in (8, 40)], 4 * (2 * 8 * 8 + 3 * 3 * 16)
    assert found["attention"].bytes == [4 * each for each in cache]
    assert found["recurrent"].bytes == [4 * state, 4 * state]
    assert found["hybrid"].bytes == [each + 3 * state for each in cache]
    head = recall.SIZE.d_model // recall.SIZE.n_heads
    assert found["recurrent"].pair_bytes == [4 * recall.SIZE.n_layers * recall.SIZE.n_heads * head * head] * len(PAIRS)
    assert found["attention"].pair_bytes == [4 * recall.SIZE.n_layers * 2 * recall.SIZE.d_model * pairs for pairs in PAIRS]
    assert all(each.ratios[0] == 1 and min(each.seconds) > 0 for each in found.values())


# ---- recall


@pytest.mark.parametrize("pairs", PAIRS)
def test_each_question_is_a_key_of_the_text_and_its_answer_the_value(pairs):
    ids, targets = recall.draw_texts(pairs, 5, torch.Generator().manual_seed(1))
    asked = min(pairs, QUESTIONS)
    assert ids.shape == (5, 2 * (pairs + asked)) and targets.shape == (5, pairs + asked)
    for row, answers in zip(ids.view(5, -1, 2).tolist(), targets.tolist()):
        shown, questions = dict(row[:pairs]), row[pairs:]
        assert len(shown) == pairs and all(key < KEYS <= value < KEYS + VALUES for key, value in shown.items())
        assert len({key for key, _ in questions}) == asked and all(mark == ASK for _, mark in questions)
        assert answers == [IGNORED] * pairs + [shown[key] for key, _ in questions]


def test_the_number_of_pairs_grows_at_first_and_then_is_one_of_the_tested():
    generator = torch.Generator().manual_seed(0)
    drawn = [[recall.draw_pairs(share, generator) for _ in range(60)] for share in (0.0, 0.16, 0.32, 0.9)]
    assert set(drawn[0]) == {2} and max(drawn[1]) < max(drawn[2]) <= 32 and set(drawn[3]) == set(PAIRS)


def test_the_share_of_right_answers_counts_questions_only():
    class Guess(torch.nn.Module):
        def forward(self, ids):
            logits = torch.zeros(len(ids), ids.size(1) // 2, ASK + 1)
            logits[..., KEYS + 3] = 1.0
            return logits, None

    assert 0.01 < recall.share_right(Guess(), 16) < 0.15


# ---- the trainings, and what is kept of them


@pytest.fixture
def small(layers, monkeypatch, tmp_path):
    """Small models, and parts of the reference that count as the learner's if `small.learner` says so."""

    class Parts(OwnParts):
        learner = property(lambda self: list(small.learner))
        close = lambda self: None  # noqa: E731 - they are the module's

    class Kept:
        learner: tuple[str, ...] = ()

    small = Kept()
    monkeypatch.setattr(checkpoint, "CHECKPOINTS", tmp_path)
    monkeypatch.setattr(trainings, "find_own_parts", lambda names, report: Parts(layers))
    monkeypatch.setattr(trainings, "SIZE", SMALL)
    monkeypatch.setattr(trainings, "DESIGN", Design(d_model=16, n_heads=2, n_layers=4, max_len=24, positions="rope"))
    monkeypatch.setattr(trainings, "RECIPE", replace(trainings.RECIPE, rows=4))
    monkeypatch.setattr(trainings, "SEEDS", 2)
    monkeypatch.setattr(trainings, "RECALL_ROWS", 2)
    monkeypatch.setattr(trainings, "RECALL_STEPS", 1)
    monkeypatch.setattr(recall, "TESTED_TEXTS", 2)
    for name, size in (("VOCABULARY_STORIES", 300), ("VALIDATION_STORIES", 8), ("VALIDATION_TOKENS", 400)):
        monkeypatch.setattr(corpora, name, size)
    for module in (costs, layer_report):
        monkeypatch.setattr(module, "LENGTHS", (4, 30))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return small


def counting(monkeypatch, stop_after: int = 1000) -> list[str]:
    """The names of the trainings that begin from now on; after so many, Control-C."""
    begun, train = [], trainings._train

    def count(parts, kind, corpus, seed, *rest):
        if len(begun) == stop_after:
            raise KeyboardInterrupt
        begun.append(f"{kind} {seed}")
        return train(parts, kind, corpus, seed, *rest)

    monkeypatch.setattr(trainings, "_train", count)
    return begun


def test_what_is_trained_is_kept_and_the_same_command_goes_on_after_control_c(small, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        begun = counting(patch, stop_after=3)
        with pytest.raises(KeyboardInterrupt):
            trainings.train_all(KINDS[:2], 1, None, 5, hide_progress)
        assert begun == ["attention 5", "recurrent 5", "attention 6"]
    begun = counting(monkeypatch)
    found = trainings.train_all(KINDS[:2], 1, None, 5, hide_progress)
    assert begun == ["recurrent 6"] and [len(each) for each in found.results.values()] == [2, 2]
    assert trainings.train_all(KINDS[:2], 1, None, 5, hide_progress).results == found.results and len(begun) == 1
    trainings.train_all(KINDS[:1], 2, None, 5, hide_progress)
    assert begun[1:] == ["attention 5", "attention 6"], "another number of steps"
    del begun[:]
    path = tmp_path / trainings.FILE
    data = json.loads(path.read_text())
    data["results"]["attention, seed 5, 1 steps, stories"]["loss"] = "low"
    path.write_text(json.dumps(data))
    trainings.train_all(KINDS[:2], 1, None, 5, hide_progress)
    assert begun == ["attention 5", "recurrent 5", "attention 6", "recurrent 6"], "a damaged result"
    del begun[:]
    path.write_text("[{]")
    trainings.train_all(KINDS[:1], 1, None, 5, hide_progress)
    small.learner = ("GatedDeltaNet",)
    trainings.train_all(KINDS[:1], 1, None, 5, hide_progress)
    assert begun == ["attention 5", "attention 6"] * 2, "a damaged file, and other parts"


def test_the_same_seed_gives_the_same_result_and_another_seed_another_one(small, tmp_path):
    one = trainings.train_all(("recurrent",), 2, None, 0, hide_progress).results["recurrent"]
    (tmp_path / trainings.FILE).unlink()
    again = trainings.train_all(("recurrent",), 2, None, 0, hide_progress).results["recurrent"]
    assert one == again and one[0].loss != one[1].loss


def test_a_loss_that_is_no_number_is_a_sentence(small, monkeypatch):
    monkeypatch.setattr(trainings, "RECALL_RATE", float("nan"))
    with pytest.raises(checkpoint.CheckpointProblem, match="hybrid with seed 4 cannot be compared: the loss of step 2 on recall is nan"):
        trainings.train_all(("hybrid",), 2, None, 4, hide_progress)


# ---- the sentences


def found(losses, recalled) -> Found:
    """One number for each seed; recall with the fewest and with the most pairs."""
    results = {
        kind: [
            Result(1000, loss, 900, [few, *[few] * (len(PAIRS) - 2), many])
            for loss, few, many in zip(losses[kind], *recalled[kind], strict=True)
        ]
        for kind in losses
    }
    made = {kind: Costs([100, 400, 1600 if kind == "attention" else 100], [1.0, 1.5, 3.0], [8] * len(PAIRS)) for kind in losses}
    return Found(200, results, made, [])


LOSSES = {"attention": (1.0, 1.2, 1.4), "recurrent": (0.8, 1.0, 1.2), "hybrid": (0.7, 1.1, 1.0)}
RECALLED = {"attention": ((1, 1, 1), (1, 1, 0.97)), "recurrent": ((1, 0.95, 0.99), (0.3, 0.4, 0.5)), "hybrid": ((1, 1, 1), (1, 0.9, 0.95))}


def said(**changes) -> str:
    return " ".join(sentences(found(LOSSES | changes.get("losses", {}), RECALLED | changes.get("recalled", {}))))


def test_what_is_said_follows_from_the_numbers():
    text = said()
    for part in (
        "On average, the loss of hybrid is 0.067 lower than that of recurrent, but not with every seed.",
        "On average, the loss of recurrent is 0.200 lower than that of attention, and lower with every seed.",
        "attention keeps 16.0 times as many bytes as after 128, and a token takes 3.0 times as long",
        "recurrent keeps as many bytes as after 128",
        "The recurrent model forgets: it gives 98 % right answers with 4 pairs, and 40 % with 64, and fewer with every seed.",
        "With one attention layer in 4, 95 % of the answers with 64 pairs are right, and without any 40 %; it is more with every seed.",
        "Attention does not forget: at least 97 % of its answers are right",
    ):
        assert part in text, part


def test_what_the_numbers_do_not_show_is_not_said():
    kept = said(recalled={"recurrent": ((1, 1, 1), (0.3, 0.98, 0.4))})
    assert "That it forgets is not shown with every seed" in kept and "that it helps is not shown with every seed" in kept
    unlearned = said(recalled={"recurrent": ((0.3, 0.2, 0.4), (0.1, 0.1, 0.1)), "attention": ((1, 1, 1), (0.2, 1, 1))})
    assert "does not show what its state forgets; more --steps may" in unlearned and "model forgets" not in unlearned
    assert "Of attention, at least 20 %" in unlearned and "does not forget" not in unlearned


def test_the_tables_have_a_row_for_each_model_and_for_each_number_of_pairs():
    made = tables(found(LOSSES, RECALLED))
    assert [len(rows) for _, _, rows in made] == [3, 3, 3, len(PAIRS)]
    assert made[0][2][1] == ["recurrent", "1,000", "1.000", "0.800", "1.200"]
    assert made[1][2][0] == ["attention", "100", "400", "1,600"] and made[2][2][0] == ["attention", "1.00", "1.50", "3.00"]
    assert made[3][2][-1] == ["64", "99 %, 97 to 100", "40 %, 30 to 50", "95 %, 90 to 100"]
    assert all(len(row) == len(columns) for _, columns, rows in made for row in rows)


# ---- the command

WRONG_USES = {
    "one kind": (["recurrent"], "recurrent is a kind of layer; give two or three different ones of attention, recurrent, hybrid"),
    "twice the same": (["hybrid", "hybrid"], "hybrid is a kind of layer; give two or three different ones"),
    "a kind and a design": (["rope", "attention"], "attention is a kind of layer; give two or three different ones"),
    "minutes": (["attention", "hybrid", "--minutes", "2"], "--minutes is for the comparison of two models"),
    "a GPU": (["attention", "hybrid", "--device", "cuda"], "layers are compared on the CPU; leave out --device cuda"),
}


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    result = CliRunner().invoke(app, ["compare", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_two_kinds_on_a_text_of_the_users(small, text):
    result = CliRunner().invoke(app, ["compare", "hybrid", "recurrent", "--steps", "1", "--text", str(text), "--seed", "7"])
    said = " ".join(result.output.split())
    assert result.exit_code == 0, said
    assert "hybrid, seed 7: training on text" in said and "recurrent, seed 8: training on recall" in said and "attention, seed" not in said
    assert "Loss on held-out text after 1 step" in said and "Your own code: none" in said
    assert "--steps may" in said and "forgets:" not in said, "a step shows nothing"
    missing = CliRunner().invoke(app, ["compare", "hybrid", "recurrent", "--text", "nowhere.txt"])
    assert missing.exit_code == 1 and "there is no file or folder nowhere.txt" in missing.output


@pytest.mark.thorough
def test_with_the_usual_settings_recurrent_layers_forget_and_one_attention_layer_in_four_brings_it_back(layers):
    """At each of the three seeds. Minutes."""
    steps = trainings.RECALL_STEPS * trainings.STEPS
    for seed in range(trainings.SEEDS):
        trained = {kind: trainings.train_on_recall(layers, kind, seed, steps, lambda: None) for kind in KINDS}
        few, many = ({kind: recall.share_right(model, pairs) for kind, model in trained.items()} for pairs in (PAIRS[0], PAIRS[-1]))
        assert min(few.values()) > 0.85 and min(many["attention"], many["hybrid"]) > 0.95 and many["recurrent"] < 0.6, (seed, few, many)
