"""Chapter 1, first part: words, and a tokenizer for whole words. Byte-pair encoding is in test_ch01_tokenizer_bpe.py."""

from __future__ import annotations

from calls import as_list
from grader.runner.marks import exercise
from grader.verdict.comparing import refuses, same
from hypothesis import given
from hypothesis import strategies as st
from memory_layouts import after_appending

pieces = st.sampled_from(["b ", "a\n", "B\t", "aa  ", "Éa ", "ab ", "é\n", "Ab ", "ñu ", "A \n", "c-d ", "ba\t"])
corpora = st.lists(st.lists(pieces, min_size=2, max_size=5).map("".join), min_size=2, max_size=4)
vocabs = st.lists(st.sampled_from(["b", "é", "ab", "a", "ñu", "cab", "ba", "c"]), min_size=3, max_size=7, unique=True)
numbers = st.integers(0, 419)  # modulo any length from 2 to 7, each place is equally likely


# --- build_vocab


@exercise("build_vocab", weight=2)
@given(corpus=corpora)
def test_the_vocabulary_is_every_distinct_word_once_in_order(learner, reference, corpus):
    """build_vocab returns the distinct lower-cased words of all texts as a sorted list."""
    same(learner.build_vocab(corpus), reference.build_vocab(corpus), "the vocabulary")


@exercise("build_vocab")
def test_upper_and_lower_case_are_one_word(learner):
    """Words that differ only in case are one word, written with lower-case letters."""
    same(learner.build_vocab(["Zoo ant", "ANT zoo Ärger", "ärger Straße"]), ["ant", "straße", "zoo", "ärger"], "the vocabulary")


@exercise("build_vocab")
def test_any_white_space_separates_words(learner):
    """Words are separated by white space of any kind and length, and by nothing else: punctuation stays with its word."""
    corpus = ["  one two\tthree\r\nfour ", "don't stop, five  two."]
    same(learner.build_vocab(corpus), ["don't", "five", "four", "one", "stop,", "three", "two", "two."], "the vocabulary")


@exercise("build_vocab")
def test_the_words_are_sorted(learner):
    """The words are in the order of Python's sorted: digits before letters, accented letters last."""
    corpus = ["pear 9 fig pear banana", "éclair apple 10 pear", "apple fig eclair"]
    same(learner.build_vocab(corpus), ["10", "9", "apple", "banana", "eclair", "fig", "pear", "éclair"], "the vocabulary")


@exercise("build_vocab")
def test_every_text_counts_and_texts_are_not_joined(learner):
    """Every text adds its words, an empty text adds none, a corpus without texts has none, and a word ends where its text ends."""
    same(learner.build_vocab(["red", "", "blue", "   ", "green red"]), ["blue", "green", "red"], "the vocabulary")
    same(learner.build_vocab(["blue"]), ["blue"], "the vocabulary of one text")
    same(learner.build_vocab([]), [], "the vocabulary of no texts")


def call_with_generator(function, texts):
    return function(text for text in texts)


@exercise("build_vocab", weight=2)
@given(corpus=corpora)
def test_the_corpus_may_be_a_generator(learner, reference, corpus):
    """The corpus may be any iterable of strings, including a generator, which can be iterated only once."""
    got = learner.bring(call_with_generator)(learner.build_vocab, corpus)
    same(got, reference.build_vocab(corpus), "the vocabulary of a generator")


# --- WordTokenizer

UNKNOWN = "{word!r} is not in the vocabulary"


@exercise("WordTokenizer", weight=2)
@given(vocab=vocabs, numbers=st.lists(numbers, min_size=3, max_size=8))
def test_an_id_is_a_position_in_the_vocabulary(learner, vocab, numbers):
    """The id of a word is its position in vocab, counted from 0, in any order of vocab."""
    ids = [number % len(vocab) for number in numbers]
    tokenizer = learner.WordTokenizer(vocab)
    same(as_list(tokenizer.encode(" ".join(vocab[i] for i in ids))), ids, f"the ids with vocab {vocab}")


@exercise("WordTokenizer", weight=2)
@given(vocab=vocabs, numbers=st.lists(numbers, min_size=3, max_size=8))
def test_decoding_gives_the_words_with_one_space_between(learner, vocab, numbers):
    """decode joins the words of the ids, repeated ones too, with one space between them."""
    ids = [number % len(vocab) for number in numbers]
    tokenizer = learner.WordTokenizer(vocab)
    same(tokenizer.decode(ids), " ".join(vocab[i] for i in ids), f"the text with vocab {vocab}")


@exercise("WordTokenizer")
def test_encoding_lower_cases_and_splits_at_any_white_space(learner):
    """encode lower-cases the text and splits it at any white space, and only there."""
    tokenizer = learner.WordTokenizer(["mat.", "cat", "straße", "the", "mat"])
    same(as_list(tokenizer.encode(" The CAT\tthe\n\nMat.  mat cat Straße ")), [3, 1, 3, 0, 4, 1, 2], "the ids")


@exercise("WordTokenizer")
def test_the_vocabulary_size_counts_the_entries(learner):
    """vocab_size is the number of entries of vocab, with unk or without; ids stay below it."""
    plain = learner.WordTokenizer(["dog", "ant", "cat", "bee"])
    same(plain.vocab_size, 4, "vocab_size")
    same(as_list(plain.encode("bee dog")), [3, 0], "the ids")
    same(learner.WordTokenizer(["dog", "ant", "<unk>", "cat", "bee"], unk="<unk>").vocab_size, 5, "vocab_size with unk")


@exercise("WordTokenizer", weight=2)
def test_an_unknown_word_is_named(learner):
    """Without unk, a word that is not in vocab raises a KeyError that names it, lower-cased."""
    tokenizer = learner.WordTokenizer(["sat", "the", "cat"])
    same(as_list(tokenizer.encode("the cat sat")), [1, 2, 0], "the ids of known words")
    refuses(lambda: tokenizer.encode("the Zebra sat"), naming={"word": "zebra"}, errors=(KeyError,), because="'zebra' is not in the vocabulary", example=UNKNOWN)
    refuses(lambda: tokenizer.encode("Okapi"), naming={"word": "okapi"}, errors=(KeyError,), because="'okapi' is not in the vocabulary", example=UNKNOWN)


@exercise("WordTokenizer", weight=2)
@given(vocab=vocabs, number=numbers)
def test_an_unknown_word_becomes_unk(learner, vocab, number):
    """With unk, each word that is not in vocab gets the id of that entry, at any place in vocab; known words keep their ids."""
    place = 1 + number % (len(vocab) - 1)
    vocab = vocab[:place] + ["<unk>"] + vocab[place:]
    tokenizer = learner.WordTokenizer(vocab, unk="<unk>")
    last = len(vocab) - 1
    same(as_list(tokenizer.encode(f"{vocab[last]} zebra {vocab[0]} Okapi <unk>")), [last, place, 0, place, place], "the ids")
    same(tokenizer.decode([0, place, last]), f"{vocab[0]} <unk> {vocab[last]}", "the text")
    same(tokenizer.vocab_size, len(vocab), "vocab_size after a text with unknown words")


@exercise("WordTokenizer")
def test_any_entry_can_be_unk(learner):
    """unk may be any entry of vocab, even the first one, or one with capitals; each tokenizer has its own; an unk that is not in vocab raises a ValueError."""
    tokenizer = learner.WordTokenizer(["sun", "moon", "other", "star"], unk="other")
    first = learner.WordTokenizer(["other", "star", "sun"], unk="other")
    capitals = learner.WordTokenizer(["sun", "[UNK]", "star"], unk="[UNK]")
    same(as_list(tokenizer.encode("star comet sun")), [3, 2, 0], "the ids")
    same(as_list(first.encode("star comet sun")), [1, 0, 2], "the ids where unk is entry 0")
    same(as_list(capitals.encode("star comet sun")), [2, 1, 0], "the ids where unk is '[UNK]'")
    same(capitals.decode([1, 0]), "[UNK] sun", "the text of unk and another word")
    refuses(lambda: learner.WordTokenizer(["sun", "moon", "star"], unk="other").encode("star comet sun"), because="unk 'other' is not in the vocabulary")
    refuses(lambda: learner.WordTokenizer(["sun", "moon", "star"], unk="<unk>").encode("star comet sun"), because="unk '<unk>' is not in the vocabulary")


@exercise("WordTokenizer")
@given(vocab=vocabs, numbers=st.lists(numbers, min_size=2, max_size=6))
def test_decoding_undoes_encoding(learner, vocab, numbers):
    """decode(encode(text)) is the text with lower-case letters and single spaces, also after the caller changed an earlier list of ids; an empty text has no ids."""
    chosen = [vocab[number % len(vocab)] for number in numbers]
    tokenizer = learner.WordTokenizer(vocab)
    again = learner.bring(after_appending)(tokenizer.encode, " ".join(chosen), 0)
    same(tokenizer.decode(tokenizer.encode("\t".join(chosen).upper() + "\n")), " ".join(chosen), "the text")
    same(as_list(tokenizer.encode("")), [], "the ids of an empty text")
    same(tokenizer.decode([]), "", "the text of no ids")
    same(as_list(again), [vocab.index(word) for word in chosen], "the ids of the same text, after an id was appended to the first list,")
