"""Two models are measured on the same text, with the same prompts and seeds."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from grader.console.output import hide_progress
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.comparison import measuring
from grader.models.comparison.comparison_report import draw, loss_curves, sample_lines, sentences, table_rows
from grader.models.comparison.measuring import Comparison, ComparisonProblem
from grader.models.own_parts import CodeProblem
from grader.models.play.engine import Engine
from grader.models.play.engine import Settings as PlaySettings
from grader.models.training import training_run
from grader.models.training.corpora import held_out_stories
from grader.teaching.drawing import CURVES
from own_models import parts_of, solved
from safetensors.torch import load_file, save_file
from trainings import SMALL, Silent, small_trainings, write_text


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    """With some models that are trained already."""
    folder = tmp_path_factory.mktemp("compared")
    text = write_text(folder / "river.txt")
    with small_trainings(folder / "checkpoints") as made:
        for name, changes in {
            "one": dict(steps=4), "two": dict(steps=8, positions="rope"), "bpe": dict(steps=4, tokens="bpe"), "translator": dict(steps=1, kind="translate"),
            "text-words": dict(steps=4, text=text, tokens="words"), "text-bpe": dict(steps=4, text=text),
        }.items():  # fmt: skip
            assert training_run.run(made.begin(name, **changes), Silent())
        yield made


def compare(trainings, one="one", other="two", prompts=()) -> Comparison:
    return measuring.compare([trainings.folder / one, trainings.folder / other], prompts, "cpu", hide_progress)


def copied(trainings, one: str, name: str, change: Callable[[dict], object] = lambda record: None) -> Path:
    """A copy of a checkpoint, with a change of its record."""
    folder = shutil.copytree(trainings.folder / one, trainings.folder / name)
    data = json.loads((folder / checkpoint.RECORD).read_text(encoding="utf-8"))
    change(data["record"])
    (folder / checkpoint.RECORD).write_text(json.dumps(data), encoding="utf-8")
    return folder


def row(comparison, name) -> tuple[str, str] | None:
    return next((row.values for row in table_rows(comparison) if row.name == name), None)


def nats_of_stories(folder) -> tuple[float, int]:
    """The sum of the losses of the held-out stories, each read alone, and the number of tokens that were predicted."""
    with parts_of(SMALL) as parts:
        loaded = checkpoint.load(folder, parts)
        total, count = 0.0, 0
        for story in held_out_stories(parts, 0):
            ids = [*loaded.tokenizer.start_ids, *loaded.tokenizer.encode(story), loaded.tokenizer.end_id]
            for start in range(0, len(ids) - 1, loaded.design.max_len):
                window = torch.tensor(ids[start : start + loaded.design.max_len + 1])
                output = loaded.model(window[None, :-1])
                logits = (output[0] if isinstance(output, tuple) else output)[0]
                total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
                count += len(window) - 1
    return total, count


# ---- two checkpoints


def test_both_are_measured_on_the_same_held_out_stories(trainings):
    """The loss is that of every held-out story read alone, and the perplexity is e to the loss."""
    found = compare(trainings)
    for made, name in zip(found.both, ("one", "two")):
        total, count = nats_of_stories(trainings.folder / name)
        assert made.score.loss == pytest.approx(total / count, rel=1e-4) and made.score.tokens == count
        assert made.score.perplexity == pytest.approx(math.exp(total / count), rel=1e-3)
    assert found.one.score.loss == pytest.approx(found.one.history["validation"][-1][1], rel=1e-4)
    assert found.same_tokenizer
    assert row(found, "positions") == ("learned", "rope") and row(found, "steps of training") == ("4", "8") and row(found, "heads") is None
    assert row(found, "validation loss") == tuple(f"{made.score.loss:.3f}" for made in found.both)
    assert "not trained on equally many tokens" in " ".join(sentences(found))


def test_a_copy_is_equal_in_everything(trainings):
    copied(trainings, "one", "copy")
    found = compare(trainings, "one", "copy")
    assert found.one.score == found.other.score and all(sample.texts[0] == sample.texts[1] for sample in found.samples)
    assert "almost equal: they differ by 0.000 nats a token" in " ".join(sentences(found))
    assert len({(sample.prompt, sample.seed) for sample in found.samples}) == 4
    with pytest.raises(ComparisonProblem, match="both names are the checkpoint one"):
        compare(trainings, "one", "one")


def test_samples_are_those_of_play_with_this_prompt_and_seed(trainings):
    found = compare(trainings, prompts=("Mia had a",))
    assert [(sample.prompt, sample.seed) for sample in found.samples] == [("Mia had a", 0), ("Mia had a", 1)]
    with parts_of(SMALL) as parts:
        for number, name in enumerate(("one", "two")):
            engine = Engine(checkpoint.load(trainings.folder / name, parts), parts, with_cache=False)
            for sample in found.samples:
                ids = engine.read("Mia had a", measuring.SAMPLE_TOKENS).ids
                pieces = list(engine.write(ids, PlaySettings(seed=sample.seed, length=measuring.SAMPLE_TOKENS)))
                assert sample.texts[number] == (engine.text(ids) + "".join(piece.text for piece in pieces)).strip()
    assert found.one.written > 0 and found.one.seconds > 0
    wide, narrow = (list(sample_lines(found.samples[0], found, width)) for width in (80, 40))
    assert wide[0] == "'Mia had a', seed 0" and "one" in wide[1] and "two" in wide[1] and not ("one" in narrow[1] and "two" in narrow[1])


def test_with_different_tokenizers_the_unit_is_bits_a_character(trainings):
    """Losses a token cannot be compared, so the table does not have them."""
    found = compare(trainings, "one", "bpe")
    assert not found.same_tokenizer and row(found, "validation loss") is None and row(found, "perplexity") is None
    with parts_of(SMALL) as parts:
        characters = sum(map(len, held_out_stories(parts, 0)))
    for made, name, shown in zip(found.both, ("one", "bpe"), row(found, "bits a character")):
        total, _ = nats_of_stories(trainings.folder / name)
        assert made.score.bits_per_character == pytest.approx(total / characters / math.log(2), rel=1e-4)
        assert float(shown) == pytest.approx(made.score.bits_per_character, abs=1e-3)
    said = " ".join(sentences(found))
    assert "losses a token cannot be compared" in said and "bits a character" in said and "does not predict capitals" in said
    lines = loss_curves(found)
    assert lines["bpe, validation"][-1][1] == pytest.approx(found.other.score.bits_per_character, rel=1e-3)


def test_translators_and_different_texts_cannot_be_compared(trainings):
    with pytest.raises(ComparisonProblem, match="one and text-bpe were trained on different texts"):
        compare(trainings, "one", "text-bpe")
    with pytest.raises(ComparisonProblem, match="translator is a translator"):
        compare(trainings, "one", "translator")
    changed = trainings.folder.parent / "changed.txt"
    changed.write_text("Another text.\n\n" * 200)
    copied(trainings, "text-bpe", "text-changed", lambda record: record["corpus"].update(path=str(changed)))
    with pytest.raises(ComparisonProblem, match="no held-out text to measure on: .* has changed since the training"):
        compare(trainings, "text-changed", "text-bpe")


def test_a_loss_of_unknown_words_proves_nothing(trainings):
    found = compare(trainings, "text-words", "text-bpe")
    found.one.unknown, found.one.score = 9, replace(found.one.score, loss=0.01)
    assert "text-words has the lower loss, but it reads 9 words of this text as <unk>" in " ".join(sentences(found))


def test_the_picture_has_both_curves_in_two_colours(trainings):
    found = compare(trainings)
    lines = loss_curves(found)
    assert list(lines) == ["one, validation", "one, training", "two, validation", "two, training"]
    assert lines["two, validation"] == [(step, loss) for step, loss in found.other.history["validation"]]
    assert lines["one, training"] == [(step + 1, loss) for step, loss in enumerate(found.one.history["losses"])]
    picture = draw(found)
    assert picture is not None and picture.count("<polyline") == 8 and "prefers-color-scheme:dark" in picture
    for colour in CURVES[:2]:
        assert picture.count(f'stroke="{colour.light}"') == 4
    assert CURVES[2].light not in picture


# ---- what cannot be compared


def test_a_crash_in_the_learners_code_is_their_line(trainings, monkeypatch):
    before = "    modes = [(module, module.training) for module in model.modules()]\n    model.eval()\n    total"
    monkeypatch.setattr(trainings, "chapters", {"ch08_training": solved("ch08_training", (before, "    modes = [][1]\n    total"))})
    with pytest.raises(CodeProblem, match=r"your perplexity raised IndexError: list index out of range \(ch08_training.py, line \d+:  modes = "):
        compare(trainings)


def test_what_cannot_be_compared_is_a_sentence(trainings):
    copied(trainings, "one", "no-history", lambda record: record.pop("history"))
    with pytest.raises(CheckpointProblem, match="no-history/checkpoint.json does not say record.history"):
        compare(trainings, "one", "no-history")
    file = copied(trainings, "one", "no-numbers") / checkpoint.MODEL
    save_file({name: tensor.fill_(math.nan) for name, tensor in load_file(file).items()}, file)
    with pytest.raises(CheckpointProblem, match="has values that are infinite or not numbers; train the model again"):
        compare(trainings, "one", "no-numbers")
