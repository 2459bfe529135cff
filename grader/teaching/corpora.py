"""Small texts that small models can memorise: for the kit's tests, and for the walks that learners run with all parts in place."""

import math
from collections import Counter
from collections.abc import Sequence

SURFACES = ("mat", "rug", "bench", "sofa", "roof", "wall", "table")  # one can sit on them

SENTENCES = (
    "the cat sat on the mat",
    "the dog sat on the rug",
    "the bird sat on the roof",
    "the king sat on the sofa",
    "the queen drank some tea",
    "the mouse ate all the cheese",
    "the boy kicked the red ball",
    "a girl sat on the bench",
    "a kitten sat on the table",
    "a fish swam in the pond",
    "a horse ran over the hill",
    "my brother sat on the wall",
    "my sister read a long book",
    "our cat chased a mouse",
    "our dog barked at the moon",
    "one bird sang in the tree",
    "some rain fell on the roof",
    "two children slept in the sun",
    "nobody saw the mouse under the table",
    "every night the moon rose over the hill",
)

# A boy speaks: a girl would say खाती and पीती. The words are in Unicode's NFC, as most keyboards write them.
ENGLISH_HINDI = (
    ("i eat bread", "मैं रोटी खाता हूँ"),
    ("i drink water", "मैं पानी पीता हूँ"),
    ("i drink tea", "मैं चाय पीता हूँ"),
    ("i read a book", "मैं किताब पढ़ता हूँ"),
    ("i go home", "मैं घर जाता हूँ"),
    ("i am a boy", "मैं एक लड़का हूँ"),
    ("you eat bread", "तुम रोटी खाते हो"),
    ("you drink milk", "तुम दूध पीते हो"),
    ("we drink water", "हम पानी पीते हैं"),
    ("we go to school", "हम स्कूल जाते हैं"),
    ("he reads a book", "वह किताब पढ़ता है"),
    ("she reads a book", "वह किताब पढ़ती है"),
    ("she drinks tea", "वह चाय पीती है"),
    ("the boy drinks milk", "लड़का दूध पीता है"),
    ("the girl drinks milk", "लड़की दूध पीती है"),
    ("the boy goes to school", "लड़का स्कूल जाता है"),
    ("the girl goes home", "लड़की घर जाती है"),
    ("the girl eats a mango", "लड़की आम खाती है"),
    ("this is my house", "यह मेरा घर है"),
    ("this is my book", "यह मेरी किताब है"),
    ("that is a tree", "वह एक पेड़ है"),
    ("the water is cold", "पानी ठंडा है"),
    ("the tea is hot", "चाय गर्म है"),
    ("the house is big", "घर बड़ा है"),
    ("my name is ram", "मेरा नाम राम है"),
    ("what is your name", "तुम्हारा नाम क्या है"),
    ("where are you going", "तुम कहाँ जा रहे हो"),
    ("i do not drink tea", "मैं चाय नहीं पीता"),
)

FACTS = (  # a country, its capital, its language, its continent
    ("france", "paris", "french", "europe"),
    ("italy", "rome", "italian", "europe"),
    ("egypt", "cairo", "arabic", "africa"),
    ("japan", "tokyo", "japanese", "asia"),
    ("england", "london", "english", "europe"),
    ("russia", "moscow", "russian", "europe"),
    ("greece", "athens", "greek", "europe"),
    ("korea", "seoul", "korean", "asia"),
    ("poland", "warsaw", "polish", "europe"),
    ("norway", "oslo", "norwegian", "europe"),
    ("hungary", "budapest", "hungarian", "europe"),
    ("thailand", "bangkok", "thai", "asia"),
)
ASKED = ("capital", "language", "continent")


def least_loss(texts: Sequence[str]) -> float:
    """The lowest loss of any model that sees only the beginning of a text: several words may follow the same beginning."""
    split = [text.split() for text in texts]
    beginnings = Counter(tuple(words[:n]) for words in split for n in range(1, len(words) + 1))
    followed = Counter(tuple(words[:n]) for words in split for n in range(1, len(words)))
    surprise = [math.log(followed[tuple(words[:n])] / beginnings[tuple(words[: n + 1])]) for words in split for n in range(1, len(words))]
    return sum(surprise) / len(surprise)
