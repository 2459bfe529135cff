"""The words of `headway compare`: what each changes, and a sentence for those that are not possible."""

import pytest
from grader.models.comparison.design_words import is_design, nearest_word, settings_for
from grader.models.comparison.training import entries_of
from grader.models.design import DesignProblem
from grader.models.training.settings import Settings

CHANGES = {
    "learned": dict(positions="learned"),
    "rope": dict(positions="rope"),
    "RoPE": dict(positions="rope"),
    "positions=alibi": dict(positions="alibi"),
    "post": dict(norm="post"),
    "norm=pre": dict(norm="pre"),
    "moe": dict(kind="moe"),
    "dense": dict(kind="gpt"),
    "model=translate": dict(kind="translate"),
    "heads=1": dict(heads=1),
    "bpe": dict(tokens="bpe"),
    "small": dict(size="small"),
    "layers=6": dict(layers=6),
    "dropout=0.1": dict(dropout=0.1),
    "batch=4,warmup=0": dict(rows=4, warmup=0),
    "rope,heads=1,post": dict(positions="rope", heads=1, norm="post"),
}


@pytest.mark.parametrize(("word", "changes"), CHANGES.items(), ids=CHANGES)
def test_a_word_changes_these_settings(word, changes):
    from dataclasses import replace

    assert is_design(word) and settings_for(word, Settings(seed=5)) == replace(Settings(seed=5), **changes)


WRONG = {
    "heads=three": "heads is a whole number from 1 to 1024, not 'three'",
    "heads=": "heads is a whole number",
    "heads=0": "heads is a whole number",
    "layers=0": "layers is a whole number from 1 to 100",
    "batch=": "batch is a whole number",
    "warmup=-1": "warmup is a whole number from 0",
    "dropout=1": "dropout is a number from 0 up to but not including 1, such as 0.1, not '1'",
    "dropout=nan": "dropout is a number",
    "heads=3": "3 heads do not divide d_model",
    "norm=none": "norm can be pre or post, not 'none'",
    "rope,alibi": "rope,alibi says two different things about positions",
    "moe,rope": "experts have no rope positions",
}


@pytest.mark.parametrize(("word", "says"), WRONG.items(), ids=WRONG)
def test_an_impossible_design_is_a_sentence(word, says):
    assert is_design(word)
    with pytest.raises(DesignProblem, match=says):
        settings_for(word, Settings())


@pytest.mark.parametrize("word", ["stories", "stories-rope", "", "rope,", "heads", "width=3", "checkpoints/rope"])
def test_other_words_are_names_of_checkpoints(word):
    assert not is_design(word)


def test_two_designs_must_differ_and_do_the_same():
    with pytest.raises(DesignProblem, match="learned and pre are the same design"):
        entries_of(("learned", "pre"), Settings())
    with pytest.raises(DesignProblem, match="translate is a translator, and the other design is not"):
        entries_of(("rope", "translate"), Settings())
    names = [entry.checkpoint_name for entry in entries_of(("rope,heads=1", "learned"), Settings(seed=2))]
    assert names == ["compare-rope-heads-1-seed-2", "compare-learned-seed-2"]


def test_a_typing_mistake_gets_the_nearest_name():
    assert nearest_word("storis", ["stories", "river"]) == "stories" and nearest_word("roep", []) == "rope" and nearest_word("xyz", []) is None
