"""The walks on attention and training: their statements are true for the numbers of a run on the reference."""

import re
import unicodedata

import pytest
import torch
from grader.chapters.corpora import ENGLISH_HINDI, SENTENCES, least_loss
from grader.teaching.walks import load
from walk_runs import check_walk, run_once

pytestmark = pytest.mark.thorough

WALKS = ("inference", "qkv", "qkv-training", "training", "translation", "accumulation", "backward")


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_fits_the_page_and_names_exactly_the_exercises_that_run(name):
    check_walk(name)


def test_the_corpora_match_their_description():
    assert len(set(SENTENCES)) == 20 and "the cat sat on the mat" in SENTENCES
    english, hindi = zip(*ENGLISH_HINDI)
    assert 20 <= len(set(english)) == len(set(hindi)) == len(ENGLISH_HINDI)
    for text in (*SENTENCES, *english):
        assert text == " ".join(text.lower().split()) and text.isascii()
    for text in hindi:
        assert text == unicodedata.normalize("NFC", " ".join(text.split())), text
        assert all(character == " " or "DEVANAGARI" in unicodedata.name(character) for character in text), text


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    first, again, other = run_once("qkv"), run_once.__wrapped__("qkv"), run_once("qkv", seed=1)  # __wrapped__ is without the cache
    assert first.numbers == again.numbers and first.text == again.text
    assert first.numbers != other.numbers


def test_inference_goes_in_ten_steps_from_text_to_word():
    n, text = run_once("inference").numbers, run_once("inference").text
    assert re.findall(r"^── (\d+) ", text, re.M) == [str(i) for i in range(1, 11)]
    assert n.shapes["ids"] == (1, 5) and n.shapes["tokens"] == (1, 5, 32) and n.shapes["weights"] == (1, 2, 5, 5) and n.shapes["logits"] == (1, 5, n.vocab_size)
    assert "(1, 2, 5, 5)" in text and f"(1, 5, {n.vocab_size})" in text
    assert all(abs(sum(row) - 1) < 1e-5 for head in n.weights for row in head)
    assert all(w == 0 for head in n.weights for q, row in enumerate(head) for w in row[q + 1 :])
    assert all(0.5 < sum(row) < 1.00001 for row in n.probabilities.values())
    assert n.written == f"{load('inference').TEXT} {n.greedy}" and n.greedy == n.candidates[0]
    mean, deviation = n.norm["after"]
    assert abs(mean) < 0.05 and abs(deviation - 1) < 0.2 and n.loss_after < 1 < n.loss_before


def test_qkv_is_right_by_hand():
    n = run_once("qkv").numbers
    x, q = torch.tensor(n.x), torch.tensor(n.q)
    assert torch.allclose((x @ torch.tensor(n.linear["W_q"]))[:, :2], q[0], atol=1e-5)
    scores = q[0] @ torch.tensor(n.k[0]).T / 2**0.5
    assert torch.allclose(scores, torch.tensor(n.scores[0]), atol=1e-5)
    assert torch.allclose(torch.softmax(scores, -1), torch.tensor(n.open_weights[0]), atol=1e-5)
    assert torch.allclose(torch.softmax(torch.tensor(n.masked_scores), -1), torch.tensor(n.weights[0]), atol=1e-5)
    assert n.difference < 1e-6
    assert all(round(value, 1) == pytest.approx(value, abs=1e-6) for row in n.x for value in row)


def test_qkv_training_shows_one_step_of_the_optimizer():
    n = run_once("qkv-training").numbers
    assert n.loss_after < n.loss_before == pytest.approx(torch.log(torch.tensor(float(n.vocab_size))).item(), abs=0.05)
    assert n.losses[0] == n.loss_after and n.losses[-1] < 2.5
    before, after, gradient = (torch.tensor(m["W_v"]) for m in (n.before, n.after, n.gradient))
    assert torch.equal((after - before).sign(), -gradient.sign())
    assert 0 < n.moved[0] <= n.moved[1] < 0.011 and n.against > 0.99
    queries, values = (sum(row[i] for row in n.norms) for i in (0, 2))
    assert queries < values / 100, "before training, queries hardly matter"


def test_training_learns_the_sentences_and_which_words_are_alike():
    n = run_once("training").numbers
    assert n.losses[0] > 4 and least_loss(SENTENCES) <= n.losses[-1] < 0.3
    assert all(p < 0.1 for best in n.before.guesses.values() for _, p in best)
    word, probability = n.after.guesses["the cat sat on the"][0]
    assert word == "mat" and probability > 0.9
    assert n.after.written["every night the"] == "every night the moon rose over the hill"
    assert n.judgement == "overfitting" and min(n.unseen) < n.unseen[-1]
    cat, dog, mat = (load("training").COMPARED.index(word) for word in ("cat", "dog", "mat"))
    assert n.after.alike[cat][dog] > 0.7 > 0.3 > n.after.alike[cat][mat]
    assert abs(n.before.alike[cat][dog]) < 0.5 and n.after.nearest["cat"][0][0] == "dog"


def test_translation_learns_every_pair_and_attends_where_it_should():
    n = run_once("translation").numbers
    assert n.translated == [hindi for _, hindi in ENGLISH_HINDI]
    assert n.right[1] <= 2 and n.right[120] == 28 and n.losses[-1] < 0.05
    boy = n.attended[0]
    assert boy.source == ["the", "boy", "drinks", "milk"] and [word.split()[0] for word in boy.written[:3]] == ["लड़का", "दूध", "पीता"]
    weights = torch.tensor(boy.weights)
    assert torch.allclose(weights.sum(-1), torch.ones(len(boy.written)), atol=1e-5)
    assert weights[0].argmax() == 1, "the translation of 'the boy' attends to 'the boy'"
    hindi = {word for _, sentence in ENGLISH_HINDI for word in sentence.split()}
    walk = load("translation")
    assert set(walk.MEANINGS) == hindi >= {word for meant in walk.NEW_SENTENCES.values() for word in meant.split()}
    assert "लड़का (boy)" in run_once("translation").text


def test_accumulation_is_the_big_batch_and_small_ones_are_noisy():
    n = run_once("accumulation").numbers
    cosines, noises = zip(*(n.noise[size] for size in sorted(n.noise)))
    assert list(cosines) == sorted(cosines) and list(noises) == sorted(noises, reverse=True)
    assert n.noise[1][1] > 1 > n.noise[10][1]
    assert n.accumulated_off < 1e-5 < 1e-3 < n.averaged_off
    assert sum(n.counts) == n.targets and len(set(n.counts)) > 1
    small, accumulated, whole = n.losses.values()
    assert max(abs(a - b) for a, b in zip(accumulated, whole)) < 0.05 and small[-1] > whole[-1]


def test_every_gradient_by_hand_is_autograds_and_the_measured_one():
    n, text = run_once("backward").numbers, run_once("backward").text
    assert max(n.off_autograd.values()) < 1e-9 and max(n.off_measured.values()) < 1e-6 and n.apart < 1e-6
    assert list(n.between) == ["logits", "g", "u", "h", "n", "x", "table"] and n.between["table"][0] == n.shapes["table"]
    assert n.fall == pytest.approx(n.expected_fall, rel=1e-2)
    assert sum(n.logits_gradient) == pytest.approx(0, abs=1e-12) and [g < 0 for g in n.logits_gradient].count(True) == 1
    assert n.losses[-1] < 0.5 * n.losses[0] < n.loss
    assert "All gradients are right." in text and "-8 from d, and 24 from c" in text
    assert [(value, grad) for _, value, grad in n.nodes] == [(16, 1), (-4, -8), (-6, -8), (-3, -16), (2, 16)]
