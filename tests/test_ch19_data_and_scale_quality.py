"""Chapter 19, second part: rules that remove bad pages, and mixing streams of texts."""

from __future__ import annotations

from collections import Counter

import torch
from distributions import check_frequencies
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import seeds

few = settings(max_examples=4)


# ---- quality_reasons


def page(count=60, per_line=10, stop=("the", "of"), length=5):
    """A page without faults: different words of `length` letters, after two stop words, in lines."""
    letters = "bcdfghjklmnpqrstvwxz"
    own = [letters[i // 20] + letters[i % 20] + "a" * (length - 2) for i in range(count - len(stop))]
    words = [*stop, *own]
    return "\n".join(" ".join(words[i : i + per_line]) for i in range(0, count, per_line))


def reasons_of(text):
    """All reasons, by the rules of the docstring."""
    words = text.split()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    n, size = len(words), sum(len(word) for word in words)
    found = ["words"] if n < 50 or n > 100_000 else []
    mean = size / n if n else 0
    found += ["word length"] if mean < 3 or mean > 10 else []
    dots = text.count("...") + text.count("…")
    found += ["symbols"] if text.count("#") > 0.1 * n or dots > 0.1 * n else []
    found += ["bullets"] if sum(line[0] in "-*•" for line in lines) > 0.9 * len(lines) else []
    found += ["ellipses"] if sum(line.endswith("...") or line.endswith("…") for line in lines) > 0.3 * len(lines) else []
    found += ["letters"] if not n or sum(any(c.isalpha() for c in word) for word in words) < 0.8 * n else []
    stops = {"the", "be", "to", "of", "and", "that", "have", "with"}
    found += ["stop words"] if len(stops & {word.lower() for word in words}) < 2 else []
    found += ["repeated lines"] if len(lines) - len(set(lines)) > 0.3 * len(lines) else []
    for run, limit in ((2, 0.2), (3, 0.18), (4, 0.16)):
        counts = Counter(tuple(words[i : i + run]) for i in range(n - run + 1))
        most = max(counts.values(), default=0)
        longest = max((sum(map(len, gram)) for gram, often in counts.items() if often == most), default=0)
        if most > 1 and most * longest > limit * size:
            return [*found, "repeated n-grams"]
    return found


def compare_reasons(learner, **pages):
    """The reasons for each of these pages."""
    got = {name: learner.quality_reasons(text) for name, text in pages.items()}
    for name, text in pages.items():
        found = list(got[name]) if isinstance(got[name], tuple) else got[name]
        same(found, reasons_of(text), f"the reasons for {name.replace('_', ' ')}")


@exercise("quality_reasons", weight=2)
def test_a_good_page_has_no_reason(learner):
    """A page of 50 words, two stop words, and nothing repeated has no reason; without one of the words, it has."""
    compare_reasons(learner, a_page_of_50_words=page(50), a_page_of_49_words=page(49), a_page_of_60_words=page(60), a_page_with_capitals=page(60).upper())


@exercise("quality_reasons")
def test_a_page_may_be_too_long(learner):
    """A page of 20,000 words or of 100,000 has no reason; with one word more it has, and it is the only one if nothing else is wrong."""
    text = " ".join(f"the a{100 + i % 29}o of b{100 + i % 31}o" for i in range(25_000))
    pages = {20_000: " ".join(text.split()[:20_000]), 100_000: text, 100_001: f"{text} end"}
    got = {words: learner.quality_reasons(page) for words, page in pages.items()}
    for words, found in got.items():
        same(list(found) if isinstance(found, tuple) else found, ["words"] * (words > 100_000), f"the reasons for a page of {words:,} words")


@exercise("quality_reasons", weight=2)
def test_white_space_separates_words_and_all_line_ends_count(learner):
    """Words are what any white space separates, also no-break spaces; lines end at \\r, at a form feed and at U+2028 as they do at \\n."""
    lines = page(60).splitlines()
    compare_reasons(
        learner,
        a_page_of_50_words_in_lines_of_5=page(50, per_line=5),
        a_page_with_no_break_spaces=page(60).replace(" ", "\u00a0"),
        a_page_with_wide_spaces=page(60).replace(" ", "\u3000"),
        **{f"bullets_in_lines_that_end_with_{end!a}": end.join(f"- {line}" for line in lines) for end in ("\r", "\f", "\u2028")},
        **{f"repeated_lines_that_end_with_{end!a}": end.join([*lines, *lines[:3]]) for end in ("\r", "\f", "\u2028")},
    )  # fmt: skip


@exercise("quality_reasons", weight=2)
def test_the_mean_word_length_has_two_limits(learner):
    """A mean of exactly 3 or exactly 10 characters is fine, less than 3 or more than 10 is not; it is the mean of all words, not of each."""
    three, ten = page(60, stop=("the", "and"), length=3), page(60, stop=("to", "of"), length=10)
    compare_reasons(
        learner,
        words_of_3_characters=three,
        words_of_a_little_less=three.replace(" bca", " b", 1),
        words_of_up_to_10_characters=ten + " " + "z" * 26,
        words_of_a_little_more_than_10=ten + " " + "z" * 27,
        one_very_long_word=page(60) + " " + "q" * 90,
    )  # fmt: skip


@exercise("quality_reasons", weight=2)
def test_symbols_are_counted_for_each_word(learner):
    """One hash sign for every ten words is fine, more is not; ellipses have the same limit for themselves, in both forms together."""
    ten, words = page(60), page(58, per_line=58)
    compare_reasons(
        learner,
        a_page_with_6_hash_signs_in_60_words=ten.replace(" b", " #b", 6),
        a_page_with_7_hash_signs_in_60_words=ten.replace(" b", " #b", 7),
        a_page_with_7_hash_signs_in_one_word=page(59, per_line=59) + " #######x",
        a_page_with_3_ellipses_of_each_kind=words.replace(" b", " ...b", 3).replace(" c", " …c", 3) + " aaaaa eeeee",
        a_page_with_4_and_3_ellipses=words.replace(" b", " ...b", 4).replace(" c", " …c", 3) + " aaaaa eeeee",
        a_page_with_7_ellipses_of_three_dots=ten.replace(" b", " ...b", 7),
        a_page_with_7_ellipses_of_one_character=ten.replace(" b", " …b", 7),
        a_page_with_9_times_two_dots=ten.replace(" b", " b..", 9),
        a_page_with_40_hash_signs_in_399_words=page(399, per_line=399).replace(" ", " #", 40),
        a_page_with_39_hash_signs_in_399_words=page(399, per_line=399).replace(" ", " #", 39),
        a_page_with_4_hash_signs_and_4_ellipses=ten.replace(" b", " #b", 4).replace(" c", " …c", 4),
    )  # fmt: skip


@exercise("quality_reasons", weight=2)
def test_too_many_lines_may_not_be_bullets(learner):
    """Up to 90 % of the lines may begin with a bullet, of three kinds, also behind spaces; blank lines are not counted."""
    lines = page(60, per_line=6).splitlines()
    nine = "\n".join([f"- {lines[0]}", f"  * {lines[1]}", f"• {lines[2]}", *(f"-{line}" for line in lines[3:9]), lines[9]])
    ten = "\n\n".join(f"  - {line}" for line in lines)
    compare_reasons(
        learner, a_page_with_9_bullets_in_10_lines=nine, a_page_of_bullets_only=ten, a_page_of_three_kinds_of_bullets=nine[:-1].replace(lines[9][:-1], f"• {lines[9]}"),
        a_page_with_9_bullets_and_blank_lines=nine.replace("\n", "\n\n \n"), a_page_with_hyphens_inside="\n".join(f"{line} - a*b" for line in lines),
    )  # fmt: skip


@exercise("quality_reasons", weight=2)
def test_too_many_lines_may_not_end_with_an_ellipsis(learner):
    """Up to 30 % of the lines may end with an ellipsis, "..." or "…", also before spaces."""
    lines = page(100).splitlines()
    three = [f"{lines[0]}...", f"{lines[1]}…", f"{lines[2]} ...  ", *lines[3:]]
    compare_reasons(
        learner, a_page_with_3_open_lines_in_10="\n".join(three), a_page_with_4_open_lines_in_10="\n".join([*three[:9], f"{lines[9]}…"]),
        a_page_with_2_dots_at_the_ends="\n".join(f"{line}.." for line in lines), a_page_with_windows_line_breaks="\r\n".join([*three[:9], f"{lines[9]}... "]),
    )  # fmt: skip


@exercise("quality_reasons", weight=2)
def test_most_words_have_a_letter_and_two_are_stop_words(learner):
    """80 % of the words need a letter, of any alphabet. Two different stop words are enough; one that occurs twice is not."""
    words = page(60).split()
    numbers = [f"{1000 + i}!" for i in range(15)]
    compare_reasons(
        learner,
        a_page_with_12_numbers_in_60_words=" ".join([*words[:48], *numbers[:12]]),
        a_page_with_13_numbers_in_60_words=" ".join([*words[:47], *numbers[:13]]),
        a_page_with_words_like_x1=" ".join([*words[:40], *(f"é{number}" for number in numbers)]),
        a_page_with_letters_that_are_numbers=" ".join([*words[:47], *(f"三{number}" for number in numbers[:13])]),
        a_page_with_numbers_that_are_no_digits=" ".join([*words[:47], *(f"½{number}" for number in numbers[:13])]),
        a_page_with_stop_words_before_punctuation=page(60, stop=("the,", "of.")),
        a_page_with_one_stop_word_and_other_frequent_words=page(60, stop=("the", "a", "in", "is", "for", "it", "from", "this")),
        a_page_with_one_stop_word_twice=page(60, stop=("the", "the")),
        a_page_with_two_stop_words_in_capitals=page(60, stop=("That", "WITH")),
        a_page_with_a_stop_word_inside_a_word=page(60, stop=("the", "often")),
        a_page_with_have_and_be=page(60, stop=("have", "be")),
        a_page_with_and_and_to=page(60, stop=("and", "to")),
    )  # fmt: skip


@exercise("quality_reasons", weight=2)
def test_too_many_lines_may_not_be_repeated(learner):
    """Up to 30 % of the lines may be equal to an earlier one; a line that is there three times is repeated twice."""
    lines = page(100).splitlines()
    compare_reasons(
        learner,
        a_page_with_2_repeated_lines_in_10="\n".join([*lines[:8], lines[0], lines[1]]),
        a_page_with_3_repeated_lines_in_10="\n".join([*lines[:7], lines[0], f"  {lines[1]}", lines[2]]),
        a_page_with_4_repeated_lines_in_10="\n".join([*lines[:6], lines[0], f"  {lines[1]}", lines[2], lines[3]]),
        a_page_with_a_line_five_times_in_10="\n".join([*lines[:6], *lines[:1] * 4]),
        a_page_with_5_lines_again_in_capitals="\n".join([*lines[:5], *(line.upper() for line in lines[:5])]),
        a_page_of_lines_that_differ_at_their_ends="\n".join(f"{line} {i}x" for i, line in enumerate(lines)),
    )  # fmt: skip


def repeating(run, often, fresh=120):
    """A page in which a run of words occurs so many times, with other words between."""
    others = page(fresh, per_line=fresh).split()
    words = []
    for i in range(often):
        words += [*run, *others[i * 3 : i * 3 + 3]]
    return " ".join([*words, *others[often * 3 :]])


@exercise("quality_reasons", weight=3)
def test_no_run_of_words_holds_too_much_of_the_page(learner):
    """The characters in the most frequent run of 2 words, times how often it occurs, are at most 20 % of all characters of words; 18 % for 3 words, and 16 % for 4."""
    two, three, four = ("yyyyy", "yyyyx"), ("yyyyy", "yyyyx", "yyyyz"), ("yyyyy", "yyyyx", "yyyyz", "yyyyv")
    pages = {}
    for run, counts in ((two, (14, 16, 18)), (three, (8, 9, 10)), (four, (5, 6, 7))):
        for often in counts:
            pages[f"a_page_with_{often}_times_the_same_{len(run)}_words"] = repeating(run, often)
    pages["a_page_with_too_many_runs_of_2_and_3_and_4_words"] = repeating(four, 30)
    pages["a_page_with_40_times_the_same_2_words_half_of_them_in_capitals"] = repeating(two, 20) + " " + repeating(two, 20).upper()
    holds([len(reasons_of(text)) for text in pages.values()].count(0) >= 3, "the pages of this test are not on both sides of the limits")
    compare_reasons(learner, **pages)


@exercise("quality_reasons")
def test_the_share_of_a_run_may_be_at_its_limit(learner):
    """A run of 2 words may hold exactly 20 % of the characters, one of 3 words 18 %, and one of 4 words 16 %; a character more is a reason."""
    pages = {}
    for run, held in ((2, 60), (3, 54), (4, 48)):
        words = [letter * (held // (6 * run)) for letter in "xyzv"[:run]]  # six times, the last one with what is missing
        words[-1] += "u" * (held // 6 - sum(map(len, words)))
        for size in (300, 299):
            pages[f"a_page_of_{size}_characters_with_{held}_in_a_run_of_{run}_words"] = filled_up(words, 6, size)
    compare_reasons(learner, **pages)


def filled_up(run, often, characters):
    """A page in which a run occurs so many times, whose words have so many characters together."""
    words = repeating(run, often, fresh=60).split()
    fresh, left = [i for i, word in enumerate(words) if word not in run], sum(map(len, words)) - characters
    for i in reversed(fresh[2:]):
        cut = min(left, len(words[i]) - 2)
        words[i], left = words[i][: len(words[i]) - cut], left - cut
    return " ".join(words)


@exercise("quality_reasons")
def test_the_most_frequent_run_decides(learner):
    """A run that holds much of the page, but does not occur most often, is no reason."""
    others = page(90, per_line=90).split()
    words = [part for i in range(4) for part in ("to", "be", *others[4 * i : 4 * i + 4])]
    for i in range(3):
        words += ["x" * 30, "y" * 25, *others[20 + 4 * i : 24 + 4 * i]]
    compare_reasons(learner, a_page_with_a_long_run_3_times_and_a_short_one_4_times=" ".join([*words, *others[32:]]))


@exercise("quality_reasons")
def test_of_equally_frequent_runs_the_longest_counts(learner):
    """Two runs occur equally often: the one with more characters decides. A run that occurs once is not repeated, however long it is."""
    others = page(60, per_line=60).split()
    short_first = " ".join([*(["to", "be", *others[:2]] * 1), *others, "to", "be", "x" * 60, "y" * 40, "eee", "x" * 60, "y" * 40])
    long_first = " ".join(["x" * 60, "y" * 40, "eee", "x" * 60, "y" * 40, *others, "to", "be", *others[:2], "to", "be"])
    long_word = " ".join([*others, "q" * 120, "z" * 120])
    compare_reasons(
        learner, a_page_with_a_short_and_a_long_run_twice=short_first, a_page_with_a_long_and_a_short_run_twice=long_first, a_page_with_two_long_words_once=long_word
    )  # fmt: skip


@exercise("quality_reasons")
@few
@example(seed=11)
@given(seed=seeds)
def test_reasons_have_a_fixed_order(learner, seed):
    """A page with several faults has all their reasons, in the order of the rules, each once."""
    generator = torch.Generator().manual_seed(seed)
    words = ["the", "of", "bb", "#cc", "12", "ddd", "eeeeeeeeeeeeeeeeeeeeeeeeeeee", "..."]
    drawn = torch.randint(len(words), (12, 4), generator=generator).tolist()
    lines = [" ".join(words[i] for i in row) for row in drawn]
    compare_reasons(learner, a_page_with_many_faults="\n".join(["- " * (seed % 2) + line for line in [*lines, lines[0], lines[0]]]))


@exercise("quality_reasons")
def test_an_empty_page_is_too_short(learner):
    """A page without words raises no error: it has too few words, and a mean length and a share of words with a letter of 0."""
    good, empty, blank = (learner.quality_reasons(text) for text in (page(50), "", " \n\t\n"))
    same(list(good), [], "the reasons for a page of 50 words")
    same(list(empty), ["words", "word length", "letters", "stop words"], "the reasons for an empty page")
    same(list(blank), ["words", "word length", "letters", "stop words"], "the reasons for a page of white space")


# ---- mixture


def mixed(mixture, streams, weights, seed, most=None, drawn_before=0):
    """The first items of the mixture of these lists, all of them if it ends before; what was read of each stream; and whether other random numbers were used.

    A list that begins with "endless" is repeated: 4,000 items are more than any test asks for, and they do end. The generator has drawn
    `drawn_before` numbers after its seed.
    """
    import random

    read = [0] * len(streams)

    def reading(number, items):
        for item in items:
            read[number] += 1
            yield item

    def endless(number, items):
        yield from reading(number, items * 4000)

    made = [endless(number, items[1:]) if items[:1] == ["endless"] else reading(number, items) for number, items in enumerate(streams)]
    generator = torch.Generator().manual_seed(seed)
    torch.rand(drawn_before, generator=generator)
    torch.manual_seed(7)
    before, before_in_python = torch.get_rng_state(), random.getstate()
    iterator = iter(mixture(made, weights, generator))
    early, found, behind = sum(read), [], 0
    while most is None or len(found) < most:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        behind = max(behind, sum(read) - len(found))
    return {"items": found, "read": read, "early": early, "behind": behind, "torch": not torch.equal(before, torch.get_rng_state()), "python": before_in_python != random.getstate()}


def mix(learner, streams, weights, seed, most=None, drawn_before=0):
    return learner.bring(mixed)(learner.mixture, streams, weights, seed, most, drawn_before)


def labelled(counts):
    """Streams of these lengths, whose items say where they come from: 1002 is the third one of stream 1."""
    return [[1000 * number + i for i in range(count)] for number, count in enumerate(counts)]


@exercise("mixture", weight=3)
@few
@given(counts=st.lists(st.integers(0, 6), min_size=2, max_size=4).filter(any), seed=seeds)
def test_every_item_comes_once_and_in_the_order_of_its_stream(learner, counts, seed):
    """All items of all streams come, each once, and those of one stream in their order, also when other streams have ended."""
    streams, weights = labelled(counts), [1.0 + i for i in range(len(counts))]
    got = mix(learner, streams, weights, seed)["items"]
    of_lists = learner.bring(first_items)(learner.mixture, streams, weights, sum(counts) + 5)
    same(sorted(got), sorted(sum(streams, [])), f"the items of streams of {counts} items, sorted")
    same(sorted(of_lists), sorted(sum(streams, [])), f"the items of lists of {counts} items, sorted")
    for number, stream in enumerate(streams):
        same([item for item in got if item // 1000 == number], stream, f"the items of stream {number}, in the order in which they came")


def first_items(mixture, streams, weights, most):
    """Of lists, which can be read again, and not of iterators; at most so many."""
    from itertools import islice

    return list(islice(mixture(streams, weights, torch.Generator().manual_seed(1)), most))


@exercise("mixture", weight=3)
def test_streams_are_drawn_in_proportion_to_their_weights(learner):
    """Each item comes from stream i with a probability of its weight over the sum of all weights, which need not be 1."""
    endless = [["endless", number] for number in range(3)]
    found = {}
    for weights in ([1, 3, 6], [0.5, 0.2, 0.3]):
        counts = Counter(mix(learner, endless, weights, 5, 1500)["items"])
        found[tuple(weights)] = counts
    for weights, counts in found.items():
        check_frequencies(counts, {i: weight / sum(weights) for i, weight in enumerate(weights)}, f"the streams with weights {list(weights)}")


@exercise("mixture", weight=2)
def test_draws_do_not_depend_on_each_other(learner):
    """The stream of an item says nothing about the stream of the next one: pairs of neighbours have the product of both probabilities."""
    got = mix(learner, [["endless", 0], ["endless", 1]], [0.6, 0.4], 8, 1600)["items"]
    pairs = Counter(zip(got[::2], got[1::2]))
    chances = {0: 0.6, 1: 0.4}
    check_frequencies(pairs, {(a, b): chances[a] * chances[b] for a in chances for b in chances}, "pairs of neighbours with weights [0.6, 0.4]")


@exercise("mixture", weight=2)
def test_the_others_go_on_when_a_stream_has_ended(learner):
    """After a stream has ended, the others keep their weights: what is left is drawn in the same proportions, and nothing is lost at the change."""
    got = mix(learner, [[5] * 40, ["endless", 1], ["endless", 2]], [8, 1, 3], 3, 1400)["items"]
    same(got.count(5), 40, "the number of items of the stream that has 40")
    rest = [item for item in got[200:] if item != 5]
    check_frequencies(Counter(rest), {1: 0.25, 2: 0.75}, "the streams with weights [8, 1, 3] after the first has ended")


@exercise("mixture", weight=2)
def test_nothing_is_read_before_it_is_yielded(learner):
    """Streams may be endless: before the first item is asked for nothing is read, and then one item at a time."""
    got = mix(learner, [["endless", 1, 2, 3], ["endless", 4]], [1, 1], 2, 30)
    holds(len(got["items"]) == 30, f"30 items were asked for; {len(got['items'])} came")
    same(sorted(set(got["items"])), [1, 2, 3, 4], "the different items, sorted")
    holds(got["early"] == 0, f"{got['early']} items were read before the first one was asked for")
    holds(got["behind"] <= 0, f"{got['behind']} more items were read than were yielded")


@exercise("mixture", weight=2)
@few
@given(seed=seeds)
def test_the_generator_alone_decides(learner, seed):
    """The same seed of the generator gives the same mixture, another one another mixture, and so do numbers that it has drawn before; other random numbers are not used."""
    streams = labelled([40, 40])
    one, again, other = (mix(learner, streams, [1, 1], number) for number in (seed, seed, seed + 1))
    later = mix(learner, streams, [1, 1], seed, None, 3)
    same(sorted(one["items"]), sorted(sum(streams, [])), "the items, sorted")
    same(again["items"], one["items"], "the mixture with the same seed")
    holds(one["items"] != other["items"], "the mixture is the same with another seed of the generator")
    holds(one["items"] != later["items"], "the mixture is the same after the generator has drawn other numbers; every draw should use `generator` itself")
    holds(not one["torch"], "mixture uses torch's global random numbers; every draw should use `generator`")
    holds(not one["python"], "mixture uses Python's random numbers; every draw should use `generator`")


@exercise("mixture", weight=2)
def test_a_stream_of_weight_0_is_never_read(learner):
    """Nothing of a stream with weight 0 is read, and the mixture ends when all others have ended."""
    got = mix(learner, [[1, 2], ["endless", 9], [3], []], [2, 0, 0.5, 1], 4, 50)
    same(sorted(got["items"]), [1, 2, 3], "the items, sorted")
    same(got["read"][1], 0, "how many items of the stream with weight 0 were read")


@exercise("mixture")
def test_any_object_can_be_an_item(learner):
    """0, None, False, empty texts and lists are items like others, and a list that is given twice is two streams."""
    odd = [0, None, "", False, []]
    got = mix(learner, [odd, []], [1, 1], 6)["items"]
    twice = learner.bring(same_list_twice)(learner.mixture)
    same(got, odd, "the items of a stream of 0, None, '', False and []")
    same(twice, [1, 1, 2, 2, 3, 3], "the items of a list [1, 2, 3] that is given twice, sorted")


def same_list_twice(mixture):
    items, weights = [1, 2, 3], [0.5, 0.5]
    found = sorted(mixture([items, items], weights, torch.Generator().manual_seed(1)))
    return found if weights == [0.5, 0.5] else "the list of weights has changed"


WRONG_WEIGHTS = (
    ([[1], [2]], [2, -1], "no weight may be below 0"),
    ([[1], [2]], [0, 0], "one weight must be above 0"),
    ([[1], [2]], [1], "there must be one weight for each stream"),
    ([[1], [2]], [1, 2, 3], "there must be one weight for each stream"),
    ([[1], [2]], [], "there must be one weight for each stream"),
)


def all_of(mixture, streams, weights):
    """All items."""
    return list(mixture(streams, weights, torch.Generator()))


def only_called(mixture, streams, weights):
    """The call, without asking for an item."""
    mixture(streams, weights, torch.Generator())
    return "an iterator"


@exercise("mixture", weight=2)
def test_wrong_weights_are_refused(learner):
    """A weight below 0, only zeros, or another number of weights than of streams raises a ValueError that names weights."""
    fine = mix(learner, [[1], [2]], [0, 3], 1)["items"]
    for streams, weights, why in WRONG_WEIGHTS:
        refuses(lambda streams=streams, weights=weights: learner.bring(all_of)(learner.mixture, streams, weights), naming=("weights",), because=why)
    same(fine, [2], "the items of [[1], [2]] with the weights [0, 3]")


@exercise("mixture")
def test_wrong_weights_are_refused_at_once(learner):
    """The error comes from the call itself, before an item is asked for."""
    fine = mix(learner, [[1], [2]], [3, 0], 1)["items"]
    for streams, weights, why in WRONG_WEIGHTS:
        refuses(lambda streams=streams, weights=weights: learner.bring(only_called)(learner.mixture, streams, weights), naming=("weights",), because=why)
    same(fine, [1], "the items of [[1], [2]] with the weights [3, 0]")
