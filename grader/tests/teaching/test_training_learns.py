"""Training really learns: the reference's own models, loss and optimizer memorise small corpora."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import unicodedata

import pytest
import torch
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.corpora import ENGLISH_HINDI, SENTENCES, SURFACES, least_loss
from learning import (
    PAD,
    Chapters,
    Translator,
    continued,
    curriculum_gpt,
    learn_sentences,
    learn_to_translate,
    one_batch,
    tokenizer_for,
)

pytestmark = pytest.mark.thorough

TEXTS = (*SENTENCES, *(english for english, _ in ENGLISH_HINDI))
SPLIT = """
import json, sys
from grader.execution.chapter_package import ChapterPackage
from grader.course.syllabus import load_syllabus
from grader.execution.target import package_sources, resolve
sources = package_sources(resolve("solutions"), load_syllabus().chapter("ch08"), whole=True)
training = ChapterPackage(sources).module("ch08_training")
json.dump([training.is_validation(text, 0.2) for text in json.load(sys.stdin)] + [hash("cat")], sys.stdout)
"""


@pytest.fixture(scope="module")
def chapters():
    sources = package_sources(resolve("solutions"), load_syllabus().chapter("ch08"), whole=True)
    package = ChapterPackage(sources, "tested")
    yield Chapters.of(package)
    package.close()


# ---- the corpora


def test_the_corpora_match_their_description():
    assert len(set(SENTENCES)) == 20 and "the cat sat on the mat" in SENTENCES
    sitting = [sentence.split() for sentence in SENTENCES if " sat on " in sentence]
    assert len(sitting) >= 5 and {words[-1] for words in sitting} <= set(SURFACES)
    english, hindi = zip(*ENGLISH_HINDI)
    assert 20 <= len(set(english)) == len(set(hindi)) == len(ENGLISH_HINDI)
    for text in TEXTS:
        assert text == " ".join(text.lower().split()) and text.isascii()
    for text in hindi:
        assert text == unicodedata.normalize("NFC", " ".join(text.split())), text
        assert all(character == " " or "DEVANAGARI" in unicodedata.name(character) for character in text), text
    assert least_loss(SENTENCES) < 0.3, "so many sentences begin alike that no model could reach a loss below 0.5"


# ---- twenty sentences


def test_twenty_sentences_are_memorised_and_the_cat_sits_on_something(chapters):
    model, tokenizer, losses = learn_sentences(chapters)
    words = tokenizer.vocab_size
    by_heart = f"by heart {least_loss(SENTENCES):.3f}"
    report = f"loss {losses[0]:.3f} (ln {words} = {math.log(words):.3f}) to {losses[-1]:.3f}; {by_heart}"
    assert abs(losses[0] - math.log(words)) < 0.2, report
    assert least_loss(SENTENCES) - 1e-3 < losses[-1] < 0.5, report
    assert chapters.models.count_parameters(model) > 200_000
    for sentence in SENTENCES:
        beginning, _, surface = sentence.partition(" sat on the ")
        if surface:
            assert continued(model, tokenizer, f"{beginning} sat on", 2) == sentence, report
    assert continued(model, tokenizer, "the cat sat on", 2).split()[-1] in SURFACES, report


# ---- English to Hindi


def test_every_training_sentence_is_translated_exactly(chapters):
    translator, losses = learn_to_translate(chapters)
    translated = {english: translator.translate(english) for english, _ in ENGLISH_HINDI}
    wrong = {english: said for english, said in translated.items() if said != dict(ENGLISH_HINDI)[english]}
    assert not wrong, f"loss {losses[0]:.3f} to {losses[-1]:.3f}, {len(wrong)} of {len(ENGLISH_HINDI)} wrong: {wrong}"


class Still(torch.optim.SGD):
    """Optimizer steps with learning rate 0, so that the gradient stays and can be inspected."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.0)


@pytest.mark.parametrize("corpus", ["sentences", "translations"])
def test_accumulated_gradients_are_the_big_batchs(chapters, corpus):
    if corpus == "sentences":
        tokenizer = tokenizer_for(chapters, SENTENCES, PAD)
        model, batch = curriculum_gpt(chapters, tokenizer), one_batch(chapters, tokenizer, SENTENCES)
    else:
        model = Translator(chapters)
        batch = model.batch
    rows = [1, 2, 5, len(batch[0]) - 8]
    pieces = list(zip(batch[0].split(rows), batch[1].split(rows)))
    tokens = [int((targets != -100).sum()) for _, targets in pieces]
    assert len(set(tokens)) == len(tokens)

    def gradients(step):
        optimizer = Still(model.parameters())
        loss = step(optimizer)
        return loss, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    def furthest(some, others):
        return max((some[name] - others[name]).abs().max().item() for name in others)

    whole_loss, whole = gradients(lambda optimizer: chapters.training.train_step(model, optimizer, *batch))
    loss, accumulated = gradients(lambda optimizer: chapters.training.accumulated_step(model, optimizer, iter(pieces)))
    step = chapters.training.train_step
    means = [gradients(lambda optimizer, piece=piece: step(model, optimizer, *piece))[1] for piece in pieces]
    mean_of_means = {name: sum(mean[name] for mean in means) / len(means) for name in whole}
    assert furthest(mean_of_means, whole) > 1e-2, "the pieces are too much alike to show a mistake"
    assert furthest(accumulated, whole) < 1e-6, f"{furthest(accumulated, whole):.2e} apart, with {tokens} real tokens"
    assert abs(loss - whole_loss) < 1e-5


# ---- held-out texts


def test_the_split_is_the_same_in_another_process(chapters):
    here = [chapters.training.is_validation(text, 0.2) for text in TEXTS]
    assert 0 < sum(here) < len(here) / 2
    hashes = set()
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", SPLIT]
        said = subprocess.check_output(command, input=json.dumps(TEXTS), cwd=ROOT, env=environment, text=True)
        *there, hashed = json.loads(said)
        assert there == here
        hashes.add(hashed)
    assert len(hashes) == 2


def test_perplexity_falls_on_held_out_texts_until_the_others_are_memorised(chapters):
    training = chapters.training
    tokenizer = tokenizer_for(chapters, TEXTS, PAD)
    kept_back = [text for text in TEXTS if training.is_validation(text, 0.2)]
    learned = one_batch(chapters, tokenizer, [text for text in TEXTS if text not in kept_back])
    exam = one_batch(chapters, tokenizer, kept_back)
    model = curriculum_gpt(chapters, tokenizer)
    before = training.perplexity(model, [exam])
    optimizer = training.AdamW(model.parameters(), lr=3e-3)

    def validate(model):
        return training.perplexity(model, [exam])

    records = training.fit(model, optimizer, lambda: [learned], 60, validate=validate)
    train, held_out = ([record[key] for record in records] for key in ("train_loss", "val_loss"))
    after = training.perplexity(model, [learned])
    perplexities = f"{before:.1f}, lowest {min(held_out):.1f}, last {held_out[-1]:.1f}; learned: {after:.1f}"
    report = f"held out {len(kept_back)} of {len(TEXTS)}: {perplexities}"
    assert before == pytest.approx(tokenizer.vocab_size, rel=0.2), report
    assert min(held_out) < 0.6 * before, report
    assert after < 0.1 * before, report
    assert training.judge_fit(train, held_out) == "overfitting", report
