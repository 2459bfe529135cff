"""Sentences with a property, for probes and steering: the mood of a report for SmolLM2, who a story is about for the
stories' model.

A probe reads the state at the last token, which is the same full stop in every sentence: what it finds there, the model
has brought there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from grader.chapters.ch16_published_model.labs import TEXT
from grader.chapters.stories.cast import PEOPLE
from grader.chapters.stories.corpus import story

MOST_SENTENCES = 240


@dataclass(frozen=True)
class Subject:
    question: str  # "is the mood of a report good or bad?"
    classes: tuple[str, str]  # what label 1 and label 0 mean
    sentences: Sequence[tuple[str, int]]  # with their labels, in turn 1 and 0
    prompts: Sequence[str]  # that steered texts go on from
    words: tuple[Sequence[str], Sequence[str]]  # first words of an answer that go with label 1 and label 0
    plain: str  # a text on which steering costs loss; empty: held-out stories
    strengths: Sequence[float]  # times the distance of the means of the two classes


THINGS = (
    "The film", "The hotel", "The soup", "The concert", "The book", "The restaurant", "The play", "The garden",
    "The song", "The cake", "The holiday", "The lesson", "The game", "The coffee", "The museum", "The party",
)  # fmt: skip
GOOD = "wonderful great lovely excellent beautiful fantastic perfect amazing brilliant delightful superb charming"
BAD = "terrible awful horrible boring disappointing dreadful poor bad ugly unpleasant dull disgusting"
LATER = (
    "I told my sister about it.", "We talked about it on the way home.", "I wrote to my friend about it.",
    "Then we took the bus home.", "My brother asked me about it.",
)  # fmt: skip


def mood() -> Subject:
    """For a model of English: the word that decides is in the first sentence, and the second says nothing of it."""
    draw, sentences = random.Random("mood").random, []
    adjectives = BAD.split(), GOOD.split()

    def pick(choices: Sequence[str]) -> str:
        return choices[int(draw() * len(choices))]

    for number in range(MOST_SENTENCES):
        label = 1 - number % 2
        sentences.append((f"{pick(THINGS)} was {pick(adjectives[label])}. {pick(LATER)}", label))
    prompts = ("My day at school was", "The food here is", "I think that this town is", "The weather today is")
    question = "is a report about something good or something bad?"
    return Subject(question, ("good", "bad"), sentences, prompts, (GOOD.split(), BAD.split()), TEXT, _around(8.0))


def heroine(seed: int) -> Subject:
    """For the stories' model: the first sentence of a story, up to its full stop, with the name of one child."""
    names = {person.name: int(person.kind == "girl") for person in PEOPLE}
    kinds: dict[int, list[str]] = {0: [], 1: []}
    number = 0
    while min(map(len, kinds.values())) < MOST_SENTENCES // 2:
        first = story(seed, number).partition(".")[0] + "."
        number += 1
        found = [names[word] for word in first.replace(",", " ").replace(".", " ").split() if word in names]
        if len(found) == 1 and '"' not in first and "!" not in first and first not in kinds[found[0]]:
            kinds[found[0]].append(first)
    pairs = zip(kinds[1], kinds[0])
    sentences = [pair for girl, boy in pairs for pair in ((girl, 1), (boy, 0))][:MOST_SENTENCES]
    prompts = ("One day", "In the summer", "One morning,", "Last week")
    by_kind = [[name for name, kind in names.items() if kind == label] for label in (1, 0)]
    question, words = "is a story about a girl or a boy?", (by_kind[0], by_kind[1])
    return Subject(question, ("a girl", "a boy"), sentences, prompts, words, "", _around(4.0))


def _around(most: float) -> list[float]:
    """Seven strengths from -most to most; those that matter most come first."""
    return [0.0, most, -most, most / 2, -most / 2, most / 4, -most / 4]
