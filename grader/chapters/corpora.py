"""Small texts that small models can memorise, from corpora.toml: for walks, measurements, training and tests."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

SENTENCES = tuple(_TEXTS["sentences"])
ENGLISH_HINDI = tuple((english, hindi) for english, hindi in _TEXTS["english_hindi"])
FACTS = tuple(tuple(fact) for fact in _TEXTS["facts"])  # each: a country, and what RELATIONS says about it
RELATIONS = ("capital", "language", "continent")


def least_loss(texts: Sequence[str]) -> float:
    """Return the lowest loss of any model that sees only the beginning of a text.

    It is more than 0 because several words may follow the same beginning.
    """
    split = [text.split() for text in texts]
    beginnings = Counter(tuple(words[:n]) for words in split for n in range(1, len(words) + 1))
    followed = Counter(tuple(words[:n]) for words in split for n in range(1, len(words)))
    surprise = [
        math.log(followed[tuple(words[:n])] / beginnings[tuple(words[: n + 1])])
        for words in split
        for n in range(1, len(words))
    ]
    return sum(surprise) / len(surprise)


@cache
def sentence_pairs() -> tuple[tuple[str, str], ...]:
    """Some hundred pairs (English, Hindi), each English sentence once: enough that a translator can learn the rules."""
    pairs, parts = dict(ENGLISH_HINDI), _TEXTS["sentence_parts"]
    for subject, hindi, ending, auxiliary, adds_s in parts["subjects"]:
        for verb, verb_with_s, stem, objects in parts["verbs"]:
            for thing, hindi_thing in objects:
                said = f"{hindi} {hindi_thing}"
                agreeing_verb, negation = (verb_with_s, "does not") if adds_s else (verb, "do not")
                pairs.setdefault(f"{subject} {agreeing_verb} {thing}", f"{said} {stem}{ending} {auxiliary}")
                pairs.setdefault(f"{subject} {negation} {verb} {thing}", f"{said} नहीं {stem}{ending}")
    for noun, hindi, masculine in parts["nouns"]:
        my = "मेरा" if masculine else "मेरी"
        pairs.setdefault(f"this is my {noun}", f"यह {my} {hindi} है")
        for adjective, *agreeing in parts["adjectives"]:
            said = f"{hindi} {agreeing[0 if masculine else 1]} है"
            pairs.setdefault(f"the {noun} is {adjective}", said)
            pairs.setdefault(f"my {noun} is {adjective}", f"{my} {said}")
    return tuple(pairs.items())
