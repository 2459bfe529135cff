# variant: one set comprehension
def build_vocab(corpus):
    return sorted({word for text in corpus for word in text.lower().split()})


# variant: all texts joined with a line end between them
def build_vocab(corpus):
    return sorted(set("\n".join(corpus).lower().split()))


# variant: inserted into a sorted list, each word where it belongs
from bisect import bisect_left


def build_vocab(corpus):
    words = []
    for text in corpus:
        for word in text.split():
            word = word.lower()
            place = bisect_left(words, word)
            if place == len(words) or words[place] != word:
                words.insert(place, word)
    return words


# variant: a regular expression finds everything but white space, a Counter removes duplicates
import re
from collections import Counter


def build_vocab(corpus):
    found = Counter()
    for text in corpus:
        found.update(match.lower() for match in re.findall(r"\S+", text))
    return sorted(found)


# variant: sorted with duplicates, then neighbours compared
from itertools import chain, groupby


def build_vocab(corpus):
    words = list(chain.from_iterable(map(str.split, map(str.lower, corpus))))
    words.sort()
    return [word for word, _ in groupby(words)]
