"""Chapter 1, second part: byte-pair encoding, from counting pairs to the tokenizer."""

from __future__ import annotations

from typing import Any

from calls import as_list
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same
from hypothesis import example, given
from hypothesis import strategies as st
from memory_layouts import after_appending
from strategies import texts

id_lists = st.lists(st.integers(0, 3), min_size=4, max_size=16)
LEARNED = "the merges, in the order learned"
RHYMES = (  # in a tie, merge 300 is (276, 289) and not (277, 33)
    '!hat"one!cat#fun"pan!cat!tan"one#rain!can!moon"that!mat"ten"mat!mat"tan"pan#rain!two"this"cat#fun"can#pan#tan"rat"moon#mat#cat#man"two!one!six"mat!'
    'hat#fun!hat!two"man!man!cat"moon"pan"ran!cat#cat#tan#cat#moon"two#that#ten"this!this"can!man"rat"hat"man"tan!ten!moon!tan!this#two"fun"tan"rat#then'
)
prose = st.lists(st.sampled_from(["a", "aa", "b", " ", "bab", "é", "ñe", "😀", "A"]), min_size=6, max_size=20).map("".join)


def written(merges: dict) -> str:
    """Merges in the order learned, as text: ab, ab+c."""
    spelled = {i: chr(i) if 32 < i < 127 else f"<{i}>" for i in range(256)}
    names = []
    for (left, right), new_id in sorted(merges.items(), key=lambda merge: merge[1]):
        spelled[new_id] = spelled[left] + spelled[right]
        names.append(f"{spelled[left]}+{spelled[right]}")
    return ", ".join(names)


def encodes(tokenizer: Any, expected: dict[str, list[int]], merges: dict) -> None:
    """Each text has these ids. All are computed before the first is compared, because that helps to distinguish mistakes."""
    for text in expected:
        tokenizer.encode(text)
    for text, ids in expected.items():
        same(as_list(tokenizer.encode(text)), ids, f"the ids of {text!r} (merges: {written(merges)})")


def same_counts(got: Any, expected: dict, what: str = "the counts") -> None:
    """Equal counts, in any order of the pairs."""
    ordered = dict(sorted(got.items(), key=repr)) if isinstance(got, dict) else got
    same(ordered, dict(sorted(expected.items(), key=repr)), what)


# --- count_pairs


@exercise("count_pairs", weight=3)
@given(ids=id_lists)
def test_every_pair_of_neighbours_is_counted(learner, reference, ids):
    """count_pairs counts every pair of neighbours: a dict from (left, right) to how often it occurs."""
    same_counts(learner.count_pairs(ids), reference.count_pairs(ids))


@exercise("count_pairs", weight=2)
@given(length=st.integers(3, 9), i=st.integers(0, 300))
def test_overlapping_pairs_count(learner, length, i):
    """In a run of equal ids every pair counts, including pairs that share an id: n equal ids have n - 1 pairs."""
    same_counts(learner.count_pairs([i] * length), {(i, i): length - 1}, "the counts of a run")


@exercise("count_pairs")
def test_a_pair_has_a_left_and_a_right(learner):
    """(1, 2) and (2, 1) are different pairs, and only neighbours form a pair: not the two ends of the list, not every second id. An id may be 0."""
    same_counts(learner.count_pairs([1, 2, 1, 2, 3]), {(1, 2): 2, (2, 1): 1, (2, 3): 1})
    same_counts(learner.count_pairs([5, 7, 6]), {(5, 7): 1, (7, 6): 1})
    same_counts(learner.count_pairs([0, 4, 0, 0]), {(0, 4): 1, (4, 0): 1, (0, 0): 1}, "the counts of ids that are 0")


@exercise("count_pairs")
def test_short_lists_have_few_pairs(learner):
    """Two ids form one pair; one id, or none, forms no pair."""
    same_counts(learner.count_pairs([12, 50256]), {(12, 50256): 1}, "the counts of two ids")
    same_counts(learner.count_pairs([4]), {}, "the counts of one id")
    same_counts(learner.count_pairs([]), {}, "the counts of no ids")


# --- merge_pair


@exercise("merge_pair", weight=3)
@given(ids=id_lists, at=st.integers(0, 2), new_id=st.integers(256, 300))
def test_every_occurrence_is_merged(learner, reference, ids, at, new_id):
    """merge_pair writes new_id for every occurrence of the pair, and keeps every other id in its place."""
    pair = (ids[at], ids[at + 1])
    same(as_list(learner.merge_pair(ids, pair, new_id)), reference.merge_pair(ids, pair, new_id), "the merged ids")


@exercise("merge_pair", weight=2)
@given(length=st.integers(3, 9), i=st.integers(0, 99))
def test_merges_go_left_to_right_and_never_overlap(learner, length, i):
    """A run of equal ids is merged in twos from the left; if its length is odd, the last id stays."""
    expected = [300] * (length // 2) + [i] * (length % 2)
    same(as_list(learner.merge_pair([i] * length, (i, i), 300)), expected, "the merged run")


@exercise("merge_pair")
def test_both_ends_are_merged_and_kept(learner):
    """A pair at the beginning or the end is merged like any other, and a last id without a partner stays."""
    same(as_list(learner.merge_pair([1, 2, 5, 1, 2], (1, 2), 9)), [9, 5, 9], "pairs at both ends")
    same(as_list(learner.merge_pair([1, 2, 1], (1, 2), 9)), [9, 1], "half a pair at the end")
    same(as_list(learner.merge_pair([3, 1, 2, 7], (1, 2), 9)), [3, 9, 7], "ids at both ends")
    apart = (int("5000"), int("5001"))  # equal to the ids in the list, and not the same objects
    same(as_list(learner.merge_pair([5000, 5001, 7, 5000, 5001], apart, 5002)), [5002, 7, 5002], "ids above the bytes")


@exercise("merge_pair")
def test_only_this_pair_is_merged(learner):
    """Only the two ids next to each other, in this order, count as the pair."""
    same(as_list(learner.merge_pair([2, 1, 3, 1, 2, 2, 1], (1, 2), 9)), [2, 1, 3, 9, 2, 1], "the merged ids")
    same(as_list(learner.merge_pair([11, 2, 1, 22, 1, 2], (1, 2), 256)), [11, 2, 1, 22, 256], "the merged ids")
    same(as_list(learner.merge_pair([5, 1, 4, 2, 1, 2], (1, 2), 9)), [5, 1, 4, 2, 9], "the merged ids")


def ids_after_changing_the_result(merge, ids, pair, new_id):
    """The caller's ids, after the caller has appended to the result of a merge, if that is a list."""
    merged = merge(ids, pair, new_id)
    if isinstance(merged, list):
        merged.append(5)
    return ids


@exercise("merge_pair")
def test_merging_is_done_once(learner):
    """Merging is one pass: a new id is not merged again, and without the pair the result is a new list of the same ids, however short it is."""
    same(as_list(learner.merge_pair([9, 4, 4, 9, 4, 4, 4, 4], (4, 4), 9)), [9, 9, 9, 9, 9], "ids that contained the new id before")
    same(as_list(learner.merge_pair([6, 7, 8], (7, 6), 9)), [6, 7, 8], "ids without the pair")
    same(as_list(learner.merge_pair([6], (6, 6), 9)), [6], "one id")
    same(as_list(learner.merge_pair([], (6, 6), 9)), [], "no ids")
    kept = learner.bring(ids_after_changing_the_result)(learner.merge_pair, [6, 7, 8], (7, 6), 9)
    same(kept, [6, 7, 8], "the caller's ids, after another id was appended to the result,")


@exercise("merge_pair")
def test_a_list_may_have_thousands_of_ids(learner):
    """A list may have any length: thousands of pairs are merged as three are."""
    merged = as_list(learner.merge_pair([1, 2, 5] * 1500, (1, 2), 9))
    holds(merged == [9, 5] * 1500, "in [1, 2, 5] * 1500, merging (1, 2) to 9 should give [9, 5] * 1500")


# --- train_bpe


@exercise("train_bpe", weight=3)
@given(text=prose, merges=st.integers(3, 9))
def test_merges_are_learned_one_after_another(learner, reference, text, merges):
    """Each step merges the pair that is most frequent after all previous merges, starting from the UTF-8 bytes."""
    text = text + "bab ab"
    same(learner.train_bpe(text, 256 + merges), reference.train_bpe(text, 256 + merges), LEARNED)


@exercise("train_bpe", weight=2)
def test_pairs_are_counted_again_after_each_merge(learner):
    """After a merge the pairs are counted again: some no longer exist, and new ones contain the new id."""
    expected = {(97, 98): 256, (256, 99): 257, (257, 257): 258}
    same(learner.train_bpe("abcabcabcabc", 259), expected, "the merges of 'abcabcabcabc', in the order learned")


@exercise("train_bpe", weight=2)
def test_ties_go_to_the_smallest_pair(learner):
    """Among equally frequent pairs the smallest is merged first: the smaller left id, then the smaller right id."""
    same(learner.train_bpe("zyzyxw-xw", 257), {(120, 119): 256}, "the first merge of 'zyzyxw-xw'")
    same(learner.train_bpe("ab1zy2ab3zy", 257), {(97, 98): 256}, "the first merge of 'ab1zy2ab3zy'")
    same(learner.train_bpe("ad1ac2ab3ad4ac5ab", 257), {(97, 98): 256}, "the first merge of 'ad1ac2ab3ad4ac5ab'")
    expected = {(97, 97): 256, (98, 99): 257, (256, 100): 258}
    same(learner.train_bpe("aad1bc2aad3bc4aa", 259), expected, "the merges of 'aad1bc2aad3bc4aa', in the order learned")


@exercise("train_bpe")
def test_dozens_of_merges_are_learned(learner, reference):
    """A longer text gives dozens of merges, by the same rules: in a tie, pairs that contain merged ids are compared like any others."""
    same(learner.train_bpe(RHYMES, 310), reference.train_bpe(RHYMES, 310), LEARNED)


@exercise("train_bpe")
@given(letter=st.sampled_from("aq 7"), length=st.integers(7, 15))
def test_a_run_of_one_letter_is_merged_without_overlaps(learner, reference, letter, length):
    """In a run of one letter overlapping pairs are counted, but merges do not overlap."""
    text = letter * length + "xyxyx-y-"
    same(learner.train_bpe(text, 260), reference.train_bpe(text, 260), LEARNED)


@exercise("train_bpe", weight=2)
def test_it_begins_with_the_bytes_of_utf8(learner):
    """The first ids are UTF-8 bytes: a letter such as é is two of them, an emoji four."""
    found = learner.train_bpe("éé 😀😀", 259), learner.train_bpe("éñéñéñ ab ab", 257)
    same(found[0], {(152, 128): 256, (159, 256): 257, (195, 169): 258}, "the merges of 'éé 😀😀'")
    same(found[1], {(169, 195): 256}, "the first merge of 'éñéñéñ ab ab'")


@exercise("train_bpe")
def test_the_text_is_not_normalised(learner):
    """The text is not changed first: case, spaces and line ends belong to it, and a merge may cross them."""
    texts = "a b a b a b", "Aa\n\nAa\n\n", "a\r\na\r\n", "a  b  c  d"
    words, lines, ends, spaces = [learner.train_bpe(text, 258) for text in texts]
    same(words, {(32, 98): 256, (97, 256): 257}, "the merges of 'a b a b a b'")
    same(lines, {(10, 10): 256, (65, 97): 257}, "the merges of two lines")
    same(ends, {(13, 10): 256, (97, 256): 257}, "the merges of two lines that end with \\r\\n")
    same(spaces, {(32, 32): 256}, "the merges of 'a  b  c  d'")


@exercise("train_bpe", weight=2)
def test_it_stops_when_no_pair_occurs_twice(learner):
    """A pair that occurs only once gets no id: training stops early. Two occurrences are enough."""
    same(learner.train_bpe("xyzxy", 300), {(120, 121): 256}, "the merges of 'xyzxy'")
    same(learner.train_bpe("abab", 300), {(97, 98): 256}, "the merges of 'abab'")
    same(learner.train_bpe("aaaa", 300), {(97, 97): 256}, "the merges of 'aaaa'")
    for text in ("abcd", "a", ""):
        same(learner.train_bpe(text, 300), {}, f"the merges of {text!r}")


@exercise("train_bpe")
def test_the_vocabulary_size_counts_the_bytes_too(learner, reference):
    """vocab_size is the 256 bytes plus the merges: with 256 no merge is learned, and a smaller number raises a ValueError that names it."""
    text = "how much wood would a woodchuck chuck if a woodchuck could chuck wood"
    for merges in (1, 4, 0):
        same(learner.train_bpe(text, 256 + merges), reference.train_bpe(text, 256 + merges), LEARNED)
    refuses(lambda: learner.train_bpe(text, 255), naming={"vocab_size": 255}, because="255 ids are fewer than the 256 bytes")
    refuses(lambda: learner.train_bpe(text, 0), because="0 ids are fewer than the 256 bytes")


# --- BPETokenizer


@exercise("BPETokenizer", weight=3)
@example(text="a b a b ", more="a b")
@given(text=prose, more=prose)
def test_encoding_applies_the_learned_merges(learner, reference, text, more):
    """encode applies the learned merges in the order learned, to the training text and to new texts."""
    merges = reference.train_bpe(text + "bab ab", 262)
    ours = reference.BPETokenizer(merges)
    encodes(learner.BPETokenizer(merges), {each: ours.encode(each) for each in (text, more + "ab", "Zoë:\t" + more + "  ")}, merges)


@exercise("BPETokenizer")
def test_the_new_ids_say_which_merge_was_learned_first(learner):
    """The merge with the smallest new id goes first, wherever it is in the dict."""
    merges = {(98, 99): 258, (97, 98): 257, (99, 100): 256}
    expected = {"abc": [257, 99], "bcd": [98, 256], "abcd": [257, 256]}
    encodes(learner.BPETokenizer(merges), expected, merges)


@exercise("BPETokenizer")
def test_a_merge_may_come_before_its_parts_in_the_dict(learner):
    """The dict may be in any order: also one in which a merged id is made of ids that come later."""
    merges = {(257, 98): 258, (256, 97): 257, (97, 97): 256}
    tokenizer = learner.BPETokenizer(merges)
    encodes(tokenizer, {"aaab": [258], "aaaab": [256, 256, 98]}, merges)
    same(tokenizer.decode([258, 257, 99, 256]), "aaabaaacaa", "the text of merged ids")


@exercise("BPETokenizer", weight=4)
def test_the_earliest_learned_merge_goes_first(learner):
    """Of the merges that could be applied, the earliest learned one is applied, at any place in the text, however often it occurs there and however long its token is."""
    cases = [
        ({(98, 99): 256, (97, 98): 257}, {"abc": [97, 256], "ababc": [257, 97, 256]}),
        ({(97, 98): 256, (99, 100): 257, (98, 257): 258, (256, 99): 259}, {"abcd": [256, 257], "bcdabc": [258, 259]}),
        ({(122, 121): 256, (121, 97): 257, (97, 122): 258}, {"azyaz": [97, 256, 258], "zyaz": [256, 258]}),
        ({(99, 100): 256, (98, 99): 257}, {"bcbcbcd": [257, 257, 98, 256]}),
        ({(99, 98): 256, (97, 98): 257, (98, 99): 258}, {"abcbc": [257, 256, 99]}),
    ]
    tokenizers = [learner.BPETokenizer(merges) for merges, _ in cases]
    for tokenizer, (_, expected) in zip(tokenizers, cases):
        for text in expected:
            tokenizer.encode(text)
    for tokenizer, (merges, expected) in zip(tokenizers, cases):
        encodes(tokenizer, expected, merges)


@exercise("BPETokenizer", weight=2)
def test_merges_go_on_until_none_is_left(learner):
    """Merges are applied again and again, to merged ids too, everywhere in the text and from the left."""
    merges = {(97, 97): 256, (256, 256): 257, (257, 98): 258}
    expected = {"aaaaaaab": [257, 256, 97, 98], "aaaab": [258], "aaaab aaaab": [258, 32, 258]}
    encodes(learner.BPETokenizer(merges), expected, merges)


@exercise("BPETokenizer", weight=2)
@given(text=prose, vocab_size=st.integers(257, 266))
def test_encoding_the_training_text_gives_the_ids_that_training_ended_with(learner, reference, text, vocab_size):
    """Encoding the training text replays the training: its ids are those that training ended with."""
    text = "bab ab" + text
    merges, ids = reference.train_bpe(text, vocab_size), list(text.encode())
    for pair, new_id in merges.items():
        ids = reference.merge_pair(ids, pair, new_id)
    encodes(learner.BPETokenizer(merges), {text: ids}, merges)


@exercise("BPETokenizer", weight=2)
@given(seen=prose, text=texts)
def test_decoding_undoes_byte_pair_encoding(learner, reference, seen, text):
    """decode(encode(text)) is the text, for all characters; ids are below vocab_size, and there are at most as many as bytes."""
    merges = reference.train_bpe(seen + "bab ab", 262)
    tokenizer = learner.BPETokenizer(merges)
    same(tokenizer.vocab_size, 256 + len(merges), "vocab_size")
    for each in ("\ufeffe\u0301\r\nÅ  bab\n", " \tab", "Bab" + text + "aé😀 "):
        ids = as_list(tokenizer.encode(each))
        same(tokenizer.decode(ids), each, "the text after encoding and decoding")
        holds(all(0 <= i < 256 + len(merges) for i in ids), f"ids should be below vocab_size {256 + len(merges)}; they are {ids}")
        holds(len(ids) <= len(each.encode()), f"{each!r} has {len(each.encode())} bytes, but more ids than that: {len(ids)}")


@exercise("BPETokenizer")
def test_short_texts_have_ids_too(learner):
    """A text of one byte has one id, an empty text has none, and decoding no ids gives an empty text; a caller may change the ids without changing the next ones."""
    tokenizer = learner.BPETokenizer({(97, 98): 256})
    again = learner.bring(after_appending)(tokenizer.encode, "abc", 0)
    same(as_list(tokenizer.encode("ab")), [256], "the ids of 'ab'")
    same(as_list(tokenizer.encode("a")), [97], "the ids of 'a'")
    same(as_list(tokenizer.encode("")), [], "the ids of an empty text")
    same(tokenizer.decode([]), "", "the text of no ids")
    same(as_list(learner.BPETokenizer({}).encode("aé")), [97, 195, 169], "the ids of 'aé' without merges")
    same(as_list(again), [256, 99], "the ids of 'abc', after an id was appended to the first list,")


@exercise("BPETokenizer", weight=2)
def test_ids_are_decoded_together(learner):
    """The bytes of all ids are joined before they are decoded as UTF-8, because the bytes of one character may be in several ids."""
    tokenizer = learner.BPETokenizer({(159, 152): 256, (240, 256): 257, (97, 195): 258})
    same(tokenizer.decode([257, 128, 98]), "😀b", "the text of an emoji in two ids")
    same(tokenizer.decode([258, 169, 240, 256, 128]), "aé😀", "the text of ids that end within a character")


@exercise("BPETokenizer")
def test_invalid_utf8_is_replaced(learner):
    """Bytes that are not valid UTF-8 become U+FFFD, the replacement character, and everything around them stays."""
    tokenizer = learner.BPETokenizer({(159, 152): 256, (240, 256): 257})
    same(tokenizer.decode([97, 257]), "a\ufffd", "the text of half an emoji")
    same(tokenizer.decode([98, 128, 97, 195]), "b\ufffda\ufffd", "the text of stray bytes")
    same(tokenizer.decode([195, 40]), "\ufffd(", "the text of a broken é")
    same(tokenizer.decode([97, 255, 98]), "a\ufffdb", "the text around byte 255, which UTF-8 never uses")
