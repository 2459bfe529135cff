"""`headway compare` as a command: its sentences and its exit statuses."""

import pytest
from grader.cli.main import app
from typer.testing import CliRunner

WRONG_USES = {
    "one name": (["stories"], "give two checkpoints", 2),
    "steps and minutes": (["pre", "post", "--steps", "3", "--minutes", "1"], "give one of them", 2),
    "all modern parts": (["modern", "--minutes", "2"], "--minutes is for the comparison of two models", 2),
    "heads": (["heads=3", "heads=4"], "3 heads do not divide d_model", 2),
    "a translator": (["translate", "rope"], "'translate' is neither a checkpoint nor a design", 1),
    "a typing mistake": (["learnt", "rope"], "'learnt' is neither a checkpoint nor a design; did you mean learned?", 1),
}


@pytest.mark.parametrize(("options", "says", "status"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says, status):
    result = CliRunner().invoke(app, ["compare", *options])
    assert result.exit_code == status and says in " ".join(result.output.split())


@pytest.mark.thorough
def test_two_designs_from_training_to_picture_and_what_can_go_wrong(kit):
    """In a learner's kit with real processes: it trains, compares, writes the picture; the second time it does not train."""
    said = kit.run("compare", "learned", "rope", "--steps", "2")
    assert "Training compare-learned." in said and "Training compare-rope." in said
    picture = kit.root / "checkpoints" / "compare-learned-and-compare-rope.svg"
    assert picture.read_text().startswith("<svg") and "checkpoints/compare-learned-and-compare-rope.svg" in said
    for name in ("positions", "validation loss", "perplexity", "tokens a second, writing", "headway play compare-learned"):
        assert name in said
    again = kit.run("compare", "learned", "rope", "--picture", "two.svg", "--prompt", "Mia had a")
    assert "Training" not in again and "compare-rope was trained in an earlier comparison" in again and "'Mia had a', seed 0" in again
    assert (kit.root / "two.svg").is_file()
    names = ("compare-learned", "compare-rope")
    assert "did you mean compare-rope?" in kit.run("compare", "compare-learned", "compare-roe", status=1)
    assert "compare-rope is a checkpoint and post is a design" in kit.run("compare", "compare-rope", "post", status=2)
    assert "--steps is for the training of two designs" in kit.run("compare", *names, "--steps", "3", status=2)
    assert "could not write the picture" in kit.run("compare", *names, "--picture", "two.svg/three.svg", status=1)
    (kit.root / "checkpoints" / "compare-rope" / "model.safetensors").write_bytes(b"nothing")
    assert "compare-rope/model.safetensors is damaged" in kit.run("compare", *names, status=1)
