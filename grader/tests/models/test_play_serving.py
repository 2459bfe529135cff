"""`headway play --speculative` and `--batch`: the texts are those of the model alone, with fewer passes."""

from __future__ import annotations

import pytest
import torch
from grader.cli.commands.play import play
from grader.models.checkpoint import save
from grader.models.design import Design, build_model
from grader.models.play.commands import answer
from grader.models.play.engine import Engine
from grader.models.play.serving import require_draft, write_batch, write_speculatively
from grader.models.play.session import Session
from grader.models.play.settings import PlayProblem, Settings
from grader.models.tokenizers import BpeModelTokenizer
from grader.tests.models.own_models import GPT, MOE, TINY, TRANSLATOR
from grader.tests.models.page_engines import engine_of, written
from grader.tests.models.test_play_terminal import piped

SMALL = Design(**{**TINY, "d_model": 8, "n_layers": 1})
ROPE = Design(positions="rope", **TINY)
GREEDY = Settings(temperature=0, length=9)


def engines(parts, words, design: Design = GPT) -> tuple[Engine, Engine]:
    """A model, and a smaller one that guesses for it."""
    engine, draft = engine_of(parts, words, design), engine_of(parts, words, SMALL)
    draft.name = "little"
    return engine, draft


# ---- a draft


@pytest.mark.parametrize("design", [GPT, ROPE, MOE, Design(norm="post", **TINY)], ids=["learned", "rope", "experts", "post-norm"])
def test_without_randomness_a_draft_changes_no_text(parts, words, design):
    engine, draft = engines(parts, words, design)
    for beginning in ("the cat sat", "a dog", ""):
        ids = engine.read(beginning, GREEDY.length).ids
        speculated = write_speculatively(engine, draft, ids, GREEDY)
        assert speculated.ids == written(engine, beginning, GREEDY)
        assert speculated.tokens == len(speculated.ids) + speculated.ended and speculated.passes <= speculated.tokens


def test_the_same_seed_gives_the_same_text_and_the_next_text_has_another(parts, words):
    engine, draft = engines(parts, words)
    session = Session(engine, lambda name: draft, Settings(length=8, temperature=1.0), draft=draft)
    texts = ["".join(piece.text for piece in answer(session, "the cat") if piece.style == "text") for _ in range(4)]
    assert session.settings.seed == 4 and len(set(texts)) > 1
    list(answer(session, "/seed 1"))
    pieces = list(answer(session, "the cat"))
    assert "".join(piece.text for piece in pieces if piece.style == "text") == texts[1]
    assert "passes of tiny" in pieces[-1].text and "the guesses of little" in pieces[-1].text and pieces[-1].style == "note"
    assert engine.text(session.ids) == engine.text(engine.read("the cat", 8).ids) + texts[1].removesuffix("\n")


def test_what_a_draft_cannot_do_is_a_sentence(parts, words):
    engine, draft = engines(parts, words)
    with pytest.raises(PlayProblem, match="with the temperature only; type `/top-k off` first"):
        write_speculatively(engine, draft, [1, 2], Settings(top_k=3))
    with pytest.raises(PlayProblem, match="is a translator; guessing ahead needs two models"):
        require_draft(engine, engine_of(parts, words, TRANSLATOR))
    other = engine_of(parts, BpeModelTokenizer(parts, {}))
    with pytest.raises(PlayProblem, match="has another tokenizer than tiny"):
        require_draft(engine, other)


# ---- a batch


@pytest.mark.parametrize("design", [GPT, ROPE], ids=["learned", "rope"])
def test_a_batch_writes_what_the_model_writes_one_by_one(parts, words, design):
    engine = engine_of(parts, words, design)
    beginnings = ["the cat sat", "a dog", "the boy drinks milk and", "the girl"]
    batch = write_batch(engine, beginnings, GREEDY.length)
    alone = [[*engine.read(text, GREEDY.length).ids, *written(engine, text, GREEDY)] for text in beginnings]
    assert batch.texts == [engine.text(ids) for ids in alone]
    assert batch.passes <= GREEDY.length < batch.tokens


def test_a_batch_needs_a_gpt_of_pre_norm_blocks(parts, words):
    for design, what in ((MOE, "a GPT with experts"), (TRANSLATOR, "a translator"), (Design(norm="post", **TINY), "a GPT of post-norm blocks")):
        with pytest.raises(PlayProblem, match=f"tiny is {what}, and chapter 15's PaddedGPT"):
            write_batch(engine_of(parts, words, design), ["the cat"], 5)


# ---- the command


@pytest.fixture
def kit_with_models(kit, parts, words):
    for name, design in (("large", GPT), ("small", SMALL)):
        torch.manual_seed(1)
        save(kit.root / "checkpoints" / name, build_model(parts, design, words.vocab_size), words, design, {})
    return kit


def test_the_command_writes_with_a_draft_and_in_a_batch(kit_with_models):
    kit = kit_with_models
    (kit.root / "beginnings.txt").write_text("the cat sat\n\na dog\n")
    batched = kit.run("play", "large", "--batch", "beginnings.txt")
    assert "The cat sat" in batched and "A dog" in batched and "2 texts, " in batched and "passes of large" in " ".join(batched.split())
    (kit.root / "beginnings.txt").write_text("")
    assert "beginnings.txt has no line with a beginning" in " ".join(kit.run("play", "large", "--batch", "beginnings.txt", status=1).split())
    speculated = piped(kit, "/temperature 0\nthe cat sat\n", "large", "--speculative", "small")
    assert speculated.stdout.startswith("The cat sat") and "the guesses of small" in " ".join(speculated.stderr.split())
    assert "did you mean small?" in kit.run("play", "large", "--speculative", "smal", status=1)


def test_wrong_use_is_a_sentence(tmp_path, capsys):
    assert play(web=True, speculative="small") == 2
    assert "three ways to play; give one of them" in capsys.readouterr().err
    assert play(batch=tmp_path / "missing.txt") == 1
    assert "missing.txt" in capsys.readouterr().err
