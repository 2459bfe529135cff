"""Two models are measured on the same text, with the same prompts and seeds."""

import json
import math
import shutil

import pytest
import torch
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.comparison import measuring
from grader.models.comparison.measuring import Comparison, ComparisonProblem
from grader.models.comparison.picture import draw, loss_curves, terminal_lines
from grader.models.comparison.report import sample_lines, sentences, table_rows
from grader.models.own_parts import CodeProblem
from grader.models.play.engine import Engine
from grader.models.play.settings import Settings as PlaySettings
from grader.models.training import run
from grader.models.training.corpora import held_out_stories
from grader.teaching.walks.progress_line import hide_progress
from own_models import parts_of, solved
from trainings import SMALL, Silent


def train(trainings, name, **changes):
    training = trainings.begin(name, **changes)
    assert run.run(training, Silent())
    return training


def compare(trainings, one="one", other="two", prompts=()) -> Comparison:
    return measuring.compare([trainings.folder / one, trainings.folder / other], prompts, "cpu", hide_progress)


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
    one = train(trainings, "one", steps=4)
    train(trainings, "two", steps=8, positions="rope")
    found = compare(trainings)
    for made, name in zip(found.both, ("one", "two")):
        total, count = nats_of_stories(trainings.folder / name)
        assert made.scores[0].loss == pytest.approx(total / count, rel=1e-4) and made.scores[0].tokens == count
        assert made.scores[0].perplexity == pytest.approx(math.exp(total / count), rel=1e-3)
    assert found.one.scores[0].loss == pytest.approx(one.trainer.history.validation[-1][1], rel=1e-4)
    assert len(found.held_out) == 1 and found.same_tokenizer
    assert row(found, "positions") == ("learned", "rope") and row(found, "steps of training") == ("4", "8") and row(found, "heads") is None
    assert row(found, "validation loss") == tuple(f"{made.scores[0].loss:.3f}" for made in found.both)
    assert "not trained on equally many tokens" in " ".join(sentences(found))


def test_a_copy_is_equal_in_everything(trainings):
    train(trainings, "one", steps=3)
    shutil.copytree(trainings.folder / "one", trainings.folder / "two")
    found = compare(trainings)
    assert found.one.scores == found.other.scores and all(sample.texts[0] == sample.texts[1] for sample in found.samples)
    assert "almost equal: they differ by 0.000 nats a token" in " ".join(sentences(found))
    assert len({(sample.prompt, sample.seed) for sample in found.samples}) == 4
    with pytest.raises(ComparisonProblem, match="both names are the checkpoint one"):
        compare(trainings, "one", "one")


def test_samples_are_those_of_play_with_this_prompt_and_seed(trainings):
    train(trainings, "one", steps=3)
    train(trainings, "two", steps=3, heads=1)
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
    train(trainings, "one", steps=4)
    train(trainings, "two", steps=4, tokens="bpe")
    found = compare(trainings)
    assert not found.same_tokenizer and row(found, "validation loss") is None and row(found, "perplexity") is None
    with parts_of(SMALL) as parts:
        characters = sum(map(len, held_out_stories(parts, 0)))
    for made, name, shown in zip(found.both, ("one", "two"), row(found, "bits a character")):
        total, _ = nats_of_stories(trainings.folder / name)
        assert made.scores[0].bits_per_character == pytest.approx(total / characters / math.log(2), rel=1e-4)
        assert float(shown) == pytest.approx(made.scores[0].bits_per_character, abs=1e-3)
    said = " ".join(sentences(found))
    assert "losses a token cannot be compared" in said and "bits a character" in said and "does not predict capitals" in said
    lines = loss_curves(found)
    assert lines["two, validation"][-1][1] == pytest.approx(found.other.scores[0].bits_per_character, rel=1e-3)


def test_with_different_texts_both_are_measured_on_both(trainings, text, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text(text.read_text())
    train(trainings, "one", steps=4, tokens="words")
    train(trainings, "two", steps=4, text=mine, tokens="words")
    found = compare(trainings)
    assert [len(made.scores) for made in found.both] == [2, 2] and len({score.loss for made in found.both for score in made.scores}) == 4
    said = " ".join(sentences(found))
    assert "trained on different texts" in said and "two predicts better on the held-out part of mine.txt" in said
    assert found.one.unknown[0] == 0 < found.one.unknown[1] and f"two has the lower loss on 8 held-out stories, but it reads {found.other.unknown[0]} words" in said
    mine.write_text("Another text.\n\n" * 200)
    found = compare(trainings)
    assert len(found.held_out) == 1 and f"two is not measured on its own text: {mine} has changed" in " ".join(sentences(found))
    assert compare(trainings, "two", "one").held_out == found.held_out
    mine.unlink()
    assert f"there is no file or folder {mine}" in " ".join(sentences(compare(trainings)))


def test_translators_show_how_many_sentences_are_right(trainings):
    for name, steps in (("one", 2), ("two", 30)):
        train(trainings, name, kind="translate", steps=steps)
    found = compare(trainings, prompts=("i eat bread",))
    assert found.translates and row(found, "right translations")[0].endswith(f" of {len(found.held_out[0].texts)}")
    record = checkpoint.read_record(trainings.folder / "two")["record"]
    assert found.other.scores[0].loss == pytest.approx(record["history"]["validation"][-1][1], rel=1e-4)
    assert [sample.prompt for sample in found.samples] == ["i eat bread"]
    assert next(sample_lines(found.samples[0], found, 80)).startswith("'i eat bread'")
    train(trainings, "writer", steps=1)
    with pytest.raises(ComparisonProblem, match="one is a translator and writer continues texts"):
        compare(trainings, "one", "writer")


def test_the_picture_has_both_curves_in_two_colours(trainings):
    from grader.teaching.drawing.palette import CURVES

    train(trainings, "one", steps=4)
    train(trainings, "two", steps=4, norm="post")
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
    for unicode in (True, False):
        shown = [line.plain for line in terminal_lines(found, 60, unicode)]
        assert len(shown) == 9 and "one" in shown[-1] and "two" in shown[-1] and max(map(len, shown)) < 60
        assert any(("⠁" <= mark <= "⣿") if unicode else mark in "*o" for line in shown[:-1] for mark in line)
        assert unicode or "".join(shown).isascii()


# ---- what cannot be compared


def test_a_crash_in_the_learners_code_is_their_line(trainings):
    train(trainings, "one", steps=1)
    train(trainings, "two", steps=1, heads=1)
    before = "    modes = [(module, module.training) for module in model.modules()]\n    model.eval()\n    total"
    trainings.chapters = {"ch08_training": solved("ch08_training", (before, "    modes = [][1]\n    total"))}
    with pytest.raises(CodeProblem, match=r"your perplexity raised IndexError: list index out of range \(ch08_training.py, line \d+:  modes = "):
        compare(trainings)


def test_what_cannot_be_compared_is_a_sentence(trainings):
    train(trainings, "one", steps=1)
    training = train(trainings, "two", steps=1)
    record = trainings.folder / "two" / "checkpoint.json"
    data = json.loads(record.read_text())
    del data["record"]["history"]
    record.write_text(json.dumps(data))
    with pytest.raises(CheckpointProblem, match="two has no record of its training"):
        compare(trainings)
    with torch.no_grad():
        next(iter(training.trainer.parameters)).fill_(float("nan"))
    training.save()
    with pytest.raises(ComparisonProblem, match="the loss of two is not a number"):
        compare(trainings)
