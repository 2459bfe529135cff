"""The corpus of stories: endless, seeded, without repetition, and coherent."""

import re
from collections import Counter

import pytest
from grader.chapters.stories.cast import PEOPLE
from grader.chapters.stories.corpus import story, validation_stories
from grader.models.tokenizers import WordModelTokenizer, split_words
from grader.models.training.corpora import StoryCorpus

COUNT = 1500
END = re.compile(r'[.!?]"?(?= [A-Z"]|$)')


@pytest.fixture(scope="module")
def stories():
    return [story(0, number) for number in range(COUNT)]


def test_thousands_of_stories_differ(stories):
    assert len(set(stories)) >= 0.999 * COUNT
    assert len({story(1, number) for number in range(500)} & set(stories)) < 5


def test_a_story_depends_on_its_numbers_only():
    """This text is the same with every version of Python, so a seed names a corpus."""
    assert story(0, 7) == STORY_7 and story(0, 7) == story(0, 7) != story(1, 7)


STORY_7 = (
    "Finn was a kind boy. Finn had a blue train. One morning, his cat Luna jumped on the train, and it broke. Finn began to cry. His mothe"
    "r saw him and came. His mother had tape in the kitchen. His mother took tape and repaired the train. Now the train was as good as new."
)


def test_a_story_has_four_to_eight_sentences_of_some_hundred_words(stories):
    lengths = Counter(len(END.findall(text)) for text in stories)
    assert min(lengths) >= 4 and max(lengths) <= 8
    counts = Counter(word.lower() for text in stories for word in split_words(text))
    assert 300 < len(counts) < 600 and min(counts.values()) >= 2


def test_every_sentence_is_printed_well(stories):
    for text in stories:
        assert "{" not in text and "  " not in text and text.count('"') % 2 == 0, text
        assert all(sentence[0].isupper() or sentence[0] == '"' for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", text)), text
        assert not re.search(r"\ba [aeio]|\ban [^aeiou]", text), text


def test_pronouns_agree_with_their_person(stories):
    """The main person is named first; the other one has the other pronouns. So a story without the other has no pronoun of theirs."""
    kinds = {person.name: person.kind for person in PEOPLE}
    for text in stories:
        named = {kinds[word] for word in split_words(text) if word in kinds}
        used = {kind for kind, words in (("boy", r"\b([Hh]e|[Hh]im|[Hh]is)\b"), ("girl", r"\b([Ss]he|[Hh]er)\b")) if re.search(words, text)}
        assert used <= named | ({"girl"} if "Luna" in text else set()), text


def test_held_out_stories_differ_and_none_is_trained_on(parts):
    corpus = StoryCorpus(parts, "words", 0, 4, 2, 32, WordModelTokenizer.of_texts(parts, ["a story"]))
    held_out, trained = validation_stories(0, parts.is_validation, 50), corpus.texts(range(600))
    assert len(set(held_out)) == 50 and 400 < len(trained) < 600 and not set(held_out) & set(trained)


def test_the_word_tokenizer_gives_every_story_back(parts, stories):
    tokenizer = WordModelTokenizer.of_texts(parts, stories)
    assert [text for text in stories[:300] if tokenizer.decode(tokenizer.encode(text)) != text] == []
