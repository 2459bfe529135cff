"""Text to ids and back with the learner's tokenizers."""

import json
import random
import re

import pytest
from grader.chapters.stories.corpus import story
from grader.models.tokenizers import (
    BpeModelTokenizer,
    TokenizerProblem,
    WordModelTokenizer,
    split_words,
    tokenizer_from_data,
)
from own_models import GPT, TEXTS, parts_of, solved


@pytest.fixture(scope="module")
def both(parts):
    return {"words": WordModelTokenizer.of_texts(parts, TEXTS), "bpe": BpeModelTokenizer.of_text(parts, "\n".join(TEXTS), 300)}


def test_words_and_marks_are_tokens():
    assert split_words("It's Mia's half-red ball, isn't it?") == ["It's", "Mia's", "half-red", "ball", ",", "isn't", "it", "?"]
    assert split_words('"Oh!" he said … (no)') == ['"', "Oh", "!", '"', "he", "said", "…", "(", "no", ")"]
    assert split_words("मैं पानी पीता हूँ।") == ["मैं", "पानी", "पीता", "हूँ", "।"]


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_a_text_comes_back_as_it_was_printed(both, kind):
    tokenizer = both[kind]
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert all(0 <= i < tokenizer.vocab_size for i in ids)
        assert tokenizer.decode(ids) == text == "".join(tokenizer.pieces(ids))
        marked = [*tokenizer.start_ids, *ids, tokenizer.end_id]
        assert tokenizer.decode(marked) == text and len(tokenizer.pieces(marked)) == len(marked)


def test_names_have_their_capital_wherever_they_are(both):
    assert both["words"].decode(both["words"].encode("the dog saw mia. mia saw it")) == "The dog saw Mia. Mia saw it"


def test_byte_pairs_give_every_text_back(both):
    tokenizer, draw = both["bpe"], random.Random(0)
    for _ in range(40):
        codes = [draw.choice((draw.randrange(0x80), draw.randrange(0xD800), draw.randrange(0xE000, 0x110000))) for _ in range(draw.randrange(30))]
        text = "".join(map(chr, codes))
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text == "".join(tokenizer.pieces(ids))


def test_byte_pairs_are_inside_words_and_most_learned_merges_are_used(parts):
    stories = "\n".join(story(0, number) for number in range(40))
    tokenizer = BpeModelTokenizer.of_text(parts, stories, 400)
    ids = tokenizer.encode(stories)
    used = {piece for piece in tokenizer.pieces(ids) if len(piece) > 1}
    assert len(used) > 100 and len(stories) / len(ids) > 2, "with merges across words it has 76, and fewer characters a token"
    assert all(re.fullmatch(r" ?\S+|\s+", piece) for piece in used) and not re.search(r"[\x00-\x08\x0e-\x1f]", "".join(used))
    assert tokenizer.decode(ids) == stories


def test_unknown_words_are_named(both):
    assert both["words"].unknown_words("Mia saw a Zebra, a zebra, a gnu") == ["Zebra", "zebra", "gnu"]
    assert both["bpe"].unknown_words("gnu") == []
    assert both["words"].decode(both["words"].encode("a gnu")) == "A <unk>"


def test_only_the_most_frequent_words_are_known(parts):
    tokenizer = WordModelTokenizer.of_texts(parts, TEXTS, most_words=3)
    assert tokenizer.vocab_size == 4 + 3 and tokenizer.unknown_words("the dog .") == []


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_a_tokenizer_survives_as_data(parts, both, kind):
    data = json.loads(json.dumps(both[kind].to_data()))
    again = tokenizer_from_data(parts, data)
    assert again.fingerprint == both[kind].fingerprint and again.encode(TEXTS[1]) == both[kind].encode(TEXTS[1])
    assert both["words"].fingerprint != both["bpe"].fingerprint


DAMAGED = (None, {}, {"kind": "words"}, {"kind": "words", "vocab": ["a"], "cased": {}}, {"kind": "bpe", "merges": [[1, 300]]}, {"kind": "bpe", "merges": 5})


def test_damaged_data_is_a_sentence(parts):
    for data in DAMAGED:
        with pytest.raises(TokenizerProblem):
            tokenizer_from_data(parts, data)


def test_the_learners_tokenizer_does_the_work(parts):
    """Theirs reads every word twice."""
    doubled = solved("ch01_tokenizer", ("            ids.append(self.word_to_id[word])", "            ids += [self.word_to_id[word]] * 2"))
    data = WordModelTokenizer.of_texts(parts, TEXTS).to_data()
    with parts_of(GPT, ch01_tokenizer=doubled) as theirs, pytest.raises(TokenizerProblem, match="4 ids of two words"):
        tokenizer_from_data(theirs, data)
