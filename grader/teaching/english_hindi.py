"""Some hundred English sentences with their Hindi translations, made by rules: enough that a translator can learn the rules from examples.

The verb of a Hindi sentence is last, and it agrees with who acts: a boy says मैं पीता हूँ, a girl says मैं पीती हूँ. As in `corpora.py`, a boy speaks.
Adjectives and "my" agree with the noun. The words are in Unicode's NFC, as most keyboards write them.
"""

from __future__ import annotations

from functools import cache

from grader.teaching.corpora import ENGLISH_HINDI

# English, Hindi, ending of the verb, auxiliary; whether English adds an s
SUBJECTS = (
    ("i", "मैं", "ता", "हूँ", False),
    ("you", "तुम", "ते", "हो", False),
    ("we", "हम", "ते", "हैं", False),
    ("they", "वे", "ते", "हैं", False),
    ("he", "वह", "ता", "है", True),
    ("she", "वह", "ती", "है", True),
    ("the boy", "लड़का", "ता", "है", True),
    ("the girl", "लड़की", "ती", "है", True),
    ("the man", "आदमी", "ता", "है", True),
    ("the woman", "औरत", "ती", "है", True),
    ("my brother", "मेरा भाई", "ता", "है", True),
    ("my sister", "मेरी बहन", "ती", "है", True),
    ("ram", "राम", "ता", "है", True),
    ("sita", "सीता", "ती", "है", True),
)

# English, with s, stem in Hindi, objects
VERBS = (
    ("eat", "eats", "खा", (("bread", "रोटी"), ("rice", "चावल"), ("a mango", "आम"), ("an apple", "सेब"))),
    ("drink", "drinks", "पी", (("water", "पानी"), ("milk", "दूध"), ("tea", "चाय"))),
    ("read", "reads", "पढ़", (("a book", "किताब"), ("a letter", "चिट्ठी"))),
    ("write", "writes", "लिख", (("a book", "किताब"), ("a letter", "चिट्ठी"))),
    ("buy", "buys", "ख़रीद", (("bread", "रोटी"), ("milk", "दूध"), ("a book", "किताब"), ("a mango", "आम"))),
    ("see", "sees", "देख", (("a tree", "पेड़"), ("a house", "घर"), ("a bird", "चिड़िया"))),
    ("go", "goes", "जा", (("home", "घर"), ("to school", "स्कूल"), ("to the market", "बाज़ार"))),
)

# English, Hindi, masculine
NOUNS = (
    ("house", "घर", True), ("book", "किताब", False), ("tea", "चाय", False), ("milk", "दूध", True), ("school", "स्कूल", True),
    ("water", "पानी", True), ("bread", "रोटी", False), ("tree", "पेड़", True), ("bird", "चिड़िया", False), ("mango", "आम", True),
)  # fmt: skip
ADJECTIVES = (("big", "बड़ा", "बड़ी"), ("small", "छोटा", "छोटी"), ("good", "अच्छा", "अच्छी"), ("new", "नया", "नई"), ("old", "पुराना", "पुरानी"))


@cache
def sentence_pairs() -> tuple[tuple[str, str], ...]:
    """(English, Hindi), each English sentence once."""
    pairs = dict(ENGLISH_HINDI)
    for subject, hindi, ending, auxiliary, adds_s in SUBJECTS:
        for verb, verb_s, stem, objects in VERBS:
            for thing, hindi_thing in objects:
                pairs.setdefault(f"{subject} {verb_s if adds_s else verb} {thing}", f"{hindi} {hindi_thing} {stem}{ending} {auxiliary}")
                negated = "does not" if adds_s else "do not"
                pairs.setdefault(f"{subject} {negated} {verb} {thing}", f"{hindi} {hindi_thing} नहीं {stem}{ending}")
    for noun, hindi, masculine in NOUNS:
        my = "मेरा" if masculine else "मेरी"
        pairs.setdefault(f"this is my {noun}", f"यह {my} {hindi} है")
        for adjective, for_masculine, for_feminine in ADJECTIVES:
            agreeing = for_masculine if masculine else for_feminine
            pairs.setdefault(f"the {noun} is {adjective}", f"{hindi} {agreeing} है")
            pairs.setdefault(f"my {noun} is {adjective}", f"{my} {hindi} {agreeing} है")
    return tuple(pairs.items())
