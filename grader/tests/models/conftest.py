"""Fixtures for tests of models: the parts that `headway play` needs, a small model, and small trainings."""

from __future__ import annotations

import pytest
import torch
from grader.chapters.ch16_published_model.published import chat
from grader.chapters.corpora import SENTENCES
from grader.models.checkpoint import save
from grader.models.design import Design, build_model
from grader.models.play.opening import CACHE, LOOKING
from grader.models.tokenizers import WordModelTokenizer
from grader.models.training.corpora import STORIES
from grader.teaching.walks.parts import MixedChapters
from grader.tests.models.own_models import GPT, MOE, TINY, TRANSLATOR, exercises_of, parts_of
from grader.tests.models.page_engines import random_engine
from grader.tests.models.trainings import small_trainings, write_text


@pytest.fixture(scope="module")
def parts():
    """All that a model, its training and `headway play` need, of the reference."""
    parts = MixedChapters(tuple(dict.fromkeys((*CACHE, *LOOKING, *exercises_of(GPT, MOE, TRANSLATOR)))), ())
    yield parts
    parts.close()


@pytest.fixture(scope="module")
def words(parts):
    return WordModelTokenizer.of_texts(parts, [f"{sentence}." for sentence in SENTENCES])


@pytest.fixture(scope="module")
def engine(parts, words):
    return random_engine(parts, words)


@pytest.fixture
def short_answers(monkeypatch):
    monkeypatch.setattr(chat, "MOST_ANSWER_TOKENS", 60)


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory):
    from grader.tests.models.published_models import write_model

    sizes = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1)
    return str(write_model(tmp_path_factory.mktemp("tiny"), tied=False, **sizes).gguf)


@pytest.fixture
def kit_with_model(kit):
    """Its model writes without an end: ALiBi has no table, and with temperature 0 it repeats itself."""
    design = Design(positions="alibi", **TINY)
    with parts_of(design) as parts:
        torch.manual_seed(1)
        tokenizer = WordModelTokenizer.of_texts(parts, [f"{sentence}." for sentence in SENTENCES])
        save(kit.root / "checkpoints" / "tiny", build_model(parts, design, tokenizer.vocab_size), tokenizer, design, {"corpus": {"kind": STORIES}})
    return kit


@pytest.fixture
def trainings(tmp_path):
    with small_trainings(tmp_path / "checkpoints") as made:
        yield made


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "river.txt")
