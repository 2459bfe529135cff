"""Chapter 19, first part: near-duplicates. Filters and mixtures, and what a training costs and brings, are in two more files."""

from __future__ import annotations

import hashlib
import math
from itertools import combinations

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import seeds

few = settings(max_examples=3)


def hash_of(text, seed):
    """What `seeded_hash` gives, from its definition."""
    digest = hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(8, "big")).digest()
    return int.from_bytes(digest, "big")


def words_of(seed, count, vocab=40):
    """Words "w0" to "w39", at random."""
    return [f"w{i}" for i in torch.randint(vocab, (count,), generator=torch.Generator().manual_seed(seed * 31 + count)).tolist()]


def runs(text, n):
    """The shingles of a text, as a set."""
    words = text.lower().split()
    found = set()
    for start in range(len(words)):
        if start + n <= len(words):
            found.add(" ".join(words[start : start + n]))
    return found or ({" ".join(words)} if words else set())


def sorted_shingles(shingles, text, n):
    """The type of the result, and what is in it."""
    found = shingles(text, n)
    return type(found).__name__, sorted(found)


def shingles_of(learner, text, n):
    kind, found = learner.bring(sorted_shingles)(learner.shingles, text, n)
    holds(kind in ("set", "frozenset"), f"shingles should return a set; it returned a {kind}")
    return found


# ---- shingles


@exercise("shingles", weight=3)
@few
@given(length=st.integers(6, 12), n=st.integers(1, 4), seed=seeds)
def test_every_run_of_n_words_is_a_shingle(learner, length, n, seed):
    """A text of L words has a run at each of its first L - n + 1 words, joined by one space; equal runs are one shingle."""
    sizes(words=length, n=n)
    text = " ".join(words_of(seed, length, vocab=9))
    same(shingles_of(learner, text, n), sorted(runs(text, n)), f"the shingles of {n} words of {text!r}")


@exercise("shingles", weight=2)
def test_the_last_run_ends_with_the_last_word(learner):
    """"a b c d" has the runs "a b", "b c" and "c d" of two words, and two runs of three words."""
    got = [shingles_of(learner, "a b c d", n) for n in (2, 3, 4, 1)]
    same(got[0], ["a b", "b c", "c d"], "the shingles of 2 words of 'a b c d'")
    same(got[1], ["a b c", "b c d"], "the shingles of 3 words of 'a b c d'")
    same(got[2], ["a b c d"], "the shingles of 4 words of 'a b c d'")
    same(got[3], ["a", "b", "c", "d"], "the shingles of 1 word of 'a b c d'")


@exercise("shingles")
def test_white_space_and_capitals_make_no_difference(learner):
    """Any white space separates words, also line breaks and several spaces, and capital letters are the same as small ones; punctuation stays."""
    got = shingles_of(learner, "  The CAT\nsat.  The\tcat\r\nSAT.", 2)
    same(got, ["cat sat.", "sat. the", "the cat"], "the shingles of 2 words of a text with line breaks and capitals")


@exercise("shingles")
def test_every_alphabet_has_white_space_and_small_letters(learner):
    """No-break spaces and the wide spaces of Japanese texts separate words too; É becomes é, and ß stays: it is a small letter."""
    spaces, letters = shingles_of(learner, "Ab\u00a0cd\u3000ef", 2), shingles_of(learner, "É Straße", 1)
    same(spaces, ["ab cd", "cd ef"], "the shingles of 2 words of 'Ab\\u00a0cd\\u3000ef'")
    same(letters, ["straße", "é"], "the shingles of 1 word of 'É Straße'")


@exercise("shingles", weight=2)
def test_a_short_text_is_one_shingle(learner):
    """A text with fewer than n words has one shingle, all its words; a text without words has none."""
    got = [shingles_of(learner, text, 5) for text in ("One  two", "one", "", " \n ", "a b c d e")]
    same(got[0], ["one two"], "the shingles of 5 words of 'One  two'")
    same(got[1], ["one"], "the shingles of 5 words of 'one'")
    same(got[2], [], "the shingles of an empty text")
    same(got[3], [], "the shingles of a text of white space")
    same(got[4], ["a b c d e"], "the shingles of 5 words of 'a b c d e'")


@exercise("shingles")
def test_an_n_below_1_is_refused(learner):
    """An n of 0 or less raises a ValueError that names n, also for an empty text."""
    one = shingles_of(learner, "x y", 1)
    for n, text in ((-2, "x y"), (0, "x y"), (0, "")):
        refuses(lambda n=n, text=text: learner.shingles(text, n), naming={"n": n}, because="a shingle needs at least one word")
    same(one, ["x", "y"], "the shingles of 1 word of 'x y'")


# ---- minhash


def signature_of(minhash, shingles, seeds):
    """The signature of a set with these elements."""
    return list(minhash(set(shingles), seeds))


def signature(learner, shingles, seeds):
    return learner.bring(signature_of)(learner.minhash, list(shingles), seeds)


def smallest(shingles, seeds):
    return [min((hash_of(shingle, seed) for shingle in shingles), default=2**64) for seed in seeds]


@exercise("minhash", weight=3)
@few
@given(count=st.integers(3, 9), first=st.integers(0, 500), seed=seeds)
def test_a_signature_has_the_smallest_hash_for_each_seed(learner, count, first, seed):
    """The number at a seed is the smallest seeded_hash of the set's shingles with that seed; there is one for each seed, in their order."""
    shingles, numbers = runs(" ".join(words_of(seed, count)), 2), [first + 7, first, first + 1, 3 * first + 2]
    same(signature(learner, shingles, numbers), smallest(shingles, numbers), f"the signature of {sorted(shingles)} with the seeds {numbers}")


@exercise("minhash", weight=2)
def test_agreement_estimates_the_jaccard_similarity(learner):
    """Two signatures agree at a share of the seeds that is close to the Jaccard similarity of the sets."""
    numbers = list(range(500))
    limit = math.sqrt(math.log(2e8) / (2 * len(numbers)))  # Hoeffding: right code exceeds it once in 10^8 cases
    for shared, own in ((6, 2), (3, 6), (0, 4)):
        one, other = [f"both {i}" for i in range(shared)], [f"both {i}" for i in range(shared)]
        one, other = one + [f"one {i}" for i in range(own)], other + [f"other {i}" for i in range(own)]
        first, second = signature(learner, one, numbers), signature(learner, other, numbers)
        agree = sum(a == b for a, b in zip(first, second)) / len(numbers)
        true = shared / (shared + 2 * own)
        sentence = f"two sets with a Jaccard similarity of {true:.2f} agree at {agree:.2f} of {len(numbers)} seeds"
        holds(len(first) == len(second) == len(numbers), f"a signature should have one number for each of {len(numbers)} seeds; it has {len(first)}")
        holds(abs(agree - true) < limit, sentence)


@exercise("minhash")
def test_a_signature_depends_on_the_set_only(learner):
    """Equal sets have equal signatures in whichever order their shingles were added; letters outside of English are fine, and any whole number from 0 on is a seed."""
    shingles = ["naïve café", "日本 語", "a b", "ß ß", "z"]
    numbers = [0, 12345678901, 5]
    forwards, backwards = signature(learner, shingles, numbers), signature(learner, shingles[::-1], numbers)
    same(forwards, smallest(shingles, numbers), "the signature of five shingles")
    same(backwards, smallest(shingles, numbers), "the signature of the same five shingles, added in another order")


@exercise("minhash")
def test_an_empty_set_has_a_signature_too(learner):
    """An empty set has 2^64 at every seed, more than any hash; a set with one shingle has its hashes; without seeds the signature is empty."""
    empty, single, none = signature(learner, [], [3, 1, 4]), signature(learner, ["a b"], [3, 1]), signature(learner, ["a b"], [])
    same(empty, [2**64] * 3, "the signature of an empty set with three seeds")
    same(single, smallest(["a b"], [3, 1]), "the signature of a set with one shingle")
    same(none, [], "the signature without seeds")


# ---- candidate_pairs


def random_signatures(seed, count, length, values):
    generator = torch.Generator().manual_seed(seed * 17 + count)
    return torch.randint(values, (count, length), generator=generator).tolist()


def pairs_with_an_equal_band(signatures, bands):
    """By comparing all pairs."""
    rows = len(signatures[0]) // bands
    starts = [band * rows for band in range(bands)]
    return [
        (i, j)
        for i, j in combinations(range(len(signatures)), 2)
        if any(signatures[i][start : start + rows] == signatures[j][start : start + rows] for start in starts)
    ]


def pairs_of(learner, signatures, bands):
    found = learner.candidate_pairs(signatures, bands)
    return [tuple(pair) for pair in found] if isinstance(found, (list, tuple)) else found


@exercise("candidate_pairs", weight=3)
@few
@example(count=7, bands=3, rows=2, seed=5)
@given(count=st.integers(5, 8), bands=st.integers(2, 4), rows=st.integers(1, 3), seed=seeds)
def test_pairs_that_agree_in_a_whole_band_are_candidates(learner, count, bands, rows, seed):
    """The pairs (i, j), i < j, whose signatures are equal in at least one band of neighbouring numbers, each once and in order."""
    sizes(signatures=count, bands=bands, rows=rows)
    signatures = random_signatures(seed, count, bands * rows, 2)
    same(pairs_of(learner, signatures, bands), pairs_with_an_equal_band(signatures, bands), f"the pairs of {signatures} with bands={bands}")


@exercise("candidate_pairs", weight=2)
def test_only_bands_in_the_same_place_count(learner):
    """[1, 2, 3, 4] and [3, 4, 1, 2] have equal bands, but in different places, so they are no pair; neither are bands that are equal in a part."""
    signatures = [[1, 2, 3, 4], [3, 4, 1, 2], [1, 9, 9, 4], [9, 2, 3, 9], [5, 5, 3, 4], [4, 3, 2, 1]]
    got, halves, whole = (pairs_of(learner, signatures, bands) for bands in (2, 4, 1))
    same(got, [(0, 4)], f"the pairs of {signatures} with bands=2")
    same(halves, pairs_with_an_equal_band(signatures, 4), f"the pairs of {signatures} with bands=4")
    same(whole, [], f"the pairs of {signatures} with bands=1")


@exercise("candidate_pairs", weight=2)
def test_each_pair_is_there_once(learner):
    """Signatures that are equal in all bands are one pair, and three of them are three pairs, in the order of their indices; also with large numbers."""
    twin, other = [2**64, 2**63 + 1, 7, 7], [7, 7, 1, 2]
    got = pairs_of(learner, [twin, other, twin, twin, other], 2)
    same(got, [(0, 2), (0, 3), (1, 4), (2, 3)], "the pairs of three equal signatures and two others")


def pairs_and_work(candidate_pairs, count, length, bands):
    """The pairs of signatures of which only the first and the last have equal numbers, and whether pairing them took as much work as comparing all.

    Lines that Python runs are counted, whatever the numbers are turned into first, and comparisons of numbers, which a list makes without running
    a line. Tested code that switches the counting of lines off is reported. Here it ends when the answer is known: if the time limit of the call ended
    it, Python would switch it off in the tested code's name.
    """
    import sys

    compared, lines, most = 0, 0, count * (count - 1) // 4

    class Number(int):
        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return int(self) == int(other)

        __hash__ = int.__hash__

    def count_lines(frame, event, argument):
        nonlocal lines
        if frame.f_code is Number.__eq__.__code__:
            return None
        lines += event in ("call", "line")
        if lines > most:
            sys.settrace(None)
        return count_lines

    signatures = [[Number(i % (count - 1) * length + k) for k in range(length)] for i in range(count)]
    before = sys.gettrace()
    sys.settrace(count_lines)
    try:
        pairs = candidate_pairs(signatures, bands)
    finally:
        sys.settrace(before)
    return [tuple(pair) for pair in pairs], max(compared, lines) > most


@exercise("candidate_pairs", weight=2)
def test_signatures_are_not_compared_one_by_one(learner):
    """400 signatures are grouped by their bands, which takes a few thousand steps; comparing each with each would take 79,800."""
    pairs, too_much = learner.bring(pairs_and_work)(learner.candidate_pairs, 400, 4, 2)
    same(pairs, [(0, 399)], "the pairs of 400 signatures, of which only the first and the last are equal")
    holds(not too_much, "pairing 400 signatures took about as many steps as comparing each with each; put equal bands together in a dictionary instead")


@exercise("candidate_pairs")
def test_without_two_signatures_there_are_no_pairs(learner):
    """One signature, or none, gives no pairs; tuples are fine too, and signatures do not change."""
    two, one, none = pairs_of(learner, [(4, 5), (4, 6)], 2), pairs_of(learner, [[4, 5]], 2), pairs_of(learner, [], 2)
    same(two, [(0, 1)], "the pairs of [(4, 5), (4, 6)] with bands=2")
    same(one, [], "the pairs of one signature")
    same(none, [], "the pairs of no signature")


@exercise("candidate_pairs", weight=2)
def test_bands_must_divide_a_signature(learner):
    """A number of bands that does not divide the length of a signature, or is below 1, raises a ValueError that names bands."""
    signatures = [[1, 2, 3, 4, 5, 6], [1, 2, 0, 0, 0, 0]]
    fine = [pairs_of(learner, signatures, bands) for bands in (3, 6, 2, 1)]
    for bands in (4, 5, 7, 12, 0, -2):
        refuses(lambda bands=bands: learner.candidate_pairs(signatures, bands), naming={"bands": bands}, because="the bands should be equal parts of a signature")
    same(fine, [[(0, 1)], [(0, 1)], [], []], "the pairs with bands=3, 6, 2 and 1")


# ---- deduplicate


def likeness(one, other, n):
    a, b = runs(one, n), runs(other, n)
    return len(a & b) / len(a | b) if a or b else 1.0


def staying(texts, threshold, n=3, numbers=range(64), bands=16):
    """Which texts stay, by the definition."""
    signatures = [smallest(runs(text, n), numbers) for text in texts]
    candidates = set(pairs_with_an_equal_band(signatures, bands)) if texts else set()
    kept = []
    for j, text in enumerate(texts):
        if all((i, j) not in candidates or likeness(texts[i], text, n) < threshold for i in kept):
            kept.append(j)
    return kept


def near_duplicates(seed, count=6, length=14):
    """Texts of which each is the one before with a few words replaced, or a new one."""
    generator, texts = torch.Generator().manual_seed(seed * 13 + 1), []
    for number in range(count):
        fresh = not texts or float(torch.rand((), generator=generator)) < 0.3
        words = words_of(seed * 100 + number, length, vocab=400) if fresh else texts[-1].split()
        if not fresh:
            for place in torch.randperm(length, generator=generator)[: int(torch.randint(3, (), generator=generator))].tolist():
                words = [*words[:place], f"new{number}{place}", *words[place + 1 :]]
        texts.append(" ".join(words))
    return texts


def kept_by(learner, texts, threshold, *args, **options):
    found = learner.deduplicate(texts, threshold, *args, **options)
    return list(found) if isinstance(found, tuple) else found


EACH_NUMBER_IS_A_BAND = {"seeds": list(range(24)), "bands": 24}  # nearly everything alike is a candidate


@exercise("deduplicate", weight=3)
@few
@example(threshold=0.4, seed=3)
@given(threshold=st.sampled_from([0.3, 0.5, 0.7]), seed=seeds)
def test_near_duplicates_of_an_earlier_text_are_left_out(learner, threshold, seed):
    """The indices of the texts that stay: those without an earlier candidate that stays and whose Jaccard similarity is at least the threshold."""
    texts = near_duplicates(seed)
    got = kept_by(learner, texts, threshold, n=2, **EACH_NUMBER_IS_A_BAND)
    same(got, staying(texts, threshold, 2, range(24), 24), f"the texts that stay with threshold={threshold}")


@exercise("deduplicate", weight=2)
def test_the_first_of_equal_texts_stays(learner):
    """Of texts that are equal but for capitals and white space, the first stays; empty texts are equal too; different ones all stay, and without texts the result is []."""
    texts = ["Once upon a time there was a cat", "", "the dog ran far away home", "once  upon a time\nthere was a CAT", "  ", "One", "one", "the dog ran far away today"]
    got, none = kept_by(learner, texts, 0.8), kept_by(learner, [], 0.8)
    same(got, [0, 1, 2, 5, 7], "the texts that stay of eight, two of which are empty")
    same(none, [], "what stays of no texts")


@exercise("deduplicate", weight=2)
def test_a_text_that_was_left_out_decides_nothing(learner):
    """The second text is like the first, and the third is like the second but not like the first: the second is left out, and the third stays."""
    texts = ["a b c d e f g h", "c d e f g h i j", "e f g h i j k l"]
    got = kept_by(learner, texts, 0.5, 1, **EACH_NUMBER_IS_A_BAND)
    backwards = kept_by(learner, [texts[1], texts[0], texts[2]], 0.5, 1, **EACH_NUMBER_IS_A_BAND)
    same(got, [0, 2], f"what stays of {texts} with n=1 and threshold=0.5")
    same(backwards, [0], f"what stays of {[texts[1], texts[0], texts[2]]} with n=1 and threshold=0.5")


@exercise("deduplicate", weight=2)
def test_the_threshold_itself_is_reached(learner):
    """A similarity equal to the threshold is enough; one below it is not."""
    texts = ["a b c d e f", "a b c d x y"]  # 4 of 8 words
    got = [kept_by(learner, texts, threshold, 1, **EACH_NUMBER_IS_A_BAND) for threshold in (0.5, 0.49, 0.51, 1.0)]
    same(got, [[0], [0], [0, 1], [0, 1]], f"what stays of {texts} with n=1 and the thresholds 0.5, 0.49, 0.51 and 1.0")


@exercise("deduplicate")
def test_a_similarity_is_not_rounded(learner):
    """Two thirds are more than 0.666, and less than 0.667 and 0.67."""
    texts = ["a b c d e", "a b c d x"]  # 4 of 6 words
    got = [kept_by(learner, texts, threshold, 1, **EACH_NUMBER_IS_A_BAND) for threshold in (0.666, 0.667, 0.67)]
    same(got, [[0], [0, 1], [0, 1]], f"what stays of {texts} with n=1 and the thresholds 0.666, 0.667 and 0.67")


@exercise("deduplicate", weight=3)
def test_no_text_is_left_out_because_of_an_estimate(learner):
    """A candidate whose signature is the same, but whose shingles differ, stays: what decides is the exact Jaccard similarity."""
    texts = ["a b c d e", "a v w x y"]  # 1 of 9 words
    equal = [seed for seed in range(200) if smallest(runs(texts[0], 1), [seed]) == smallest(runs(texts[1], 1), [seed])][:3]
    got = kept_by(learner, texts, 0.5, 1, equal, 1), kept_by(learner, texts, 0.1, 1, equal, 1)
    same(got[0], [0, 1], f"what stays of {texts} with n=1, threshold=0.5, seeds={equal} and bands=1")
    same(got[1], [0], f"what stays of {texts} with n=1, threshold=0.1, seeds={equal} and bands=1")


@exercise("deduplicate", weight=2)
def test_only_candidates_are_compared(learner):
    """Two texts that agree in no band both stay, however alike they are; more bands, or other seeds, find them."""
    texts = ["a b c d e f g h i j", "a b c d e f g h i x"]  # 9 of 11 words
    apart = [seed for seed in range(200) if smallest(runs(texts[0], 1), [seed]) != smallest(runs(texts[1], 1), [seed])][:3]
    never = kept_by(learner, texts, 0.7, n=1, seeds=apart, bands=3)
    numbers = list(range(40))
    one_band, many, some = (kept_by(learner, texts, 0.7, n=1, seeds=numbers, bands=bands) for bands in (1, 40, 8))
    same(never, [0, 1], f"what stays of {texts} with n=1, seeds={apart} and bands=3")
    same(one_band, [0, 1], f"what stays of {texts} with n=1, 40 seeds and bands=1")
    same(many, [0], f"what stays of {texts} with n=1, 40 seeds and bands=40")
    same(some, staying(texts, 0.7, 1, numbers, 8), f"what stays of {texts} with n=1, 40 seeds and bands=8")


@exercise("deduplicate")
def test_all_earlier_candidates_are_compared(learner):
    """A text that shares a little with the first text and most with the second is left out because of the second."""
    texts = ["a b c d e f", "f u v w x y", "f u v w x z"]
    got = kept_by(learner, texts, 0.6, n=1, seeds=list(range(60)), bands=60)
    same(got, [0, 1], f"what stays of {texts} with n=1, threshold=0.6, 60 seeds and bands=60")


@exercise("deduplicate")
def test_by_default_shingles_have_three_words(learner):
    """Without other arguments, shingles have 3 words, the seeds are 0 to 63, and there are 16 bands."""
    texts = ["a b c d e f g h", "a b c x e f g h", "a b c d e f g y"]  # 2 of 10 runs, and 5 of 7
    got = kept_by(learner, texts, 0.6), kept_by(learner, texts, 0.15)
    same(got[0], staying(texts, 0.6), f"what stays of {texts} with threshold=0.6")
    same(got[1], staying(texts, 0.15), f"what stays of {texts} with threshold=0.15")
