"""Chapter 25, first part: automata that read a text byte by byte."""

from __future__ import annotations

import re
from itertools import product

from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same
from hypothesis import example, given, settings
from hypothesis import strategies as st

some = settings(max_examples=25)
few = settings(max_examples=8)

# ---- random patterns, each with some texts that match

PARTS = (
    ("a", ("a",)), ("b", ("b",)), ("ab", ("ab",)), ("é", ("é",)), ("😀", ("😀",)), ("[ab]", ("a", "b")), ("[^a]", ("b", "é", "\n")),
    (".", ("a", "😀")), ("[à-é]", ("à", "é")), ("\\d", ("7",)), ("\\.", (".",)), ("", ("",)),
)  # fmt: skip
COUNTS = {"?": (0, 1), "*": (0, 1, 3), "+": (1, 2, 3), "{2}": (2,), "{0}": (0,), "{1,3}": (1, 3), "{2,}": (2, 4), "{0,2}": (0, 2)}


def one_after_the_other(parts):
    texts = ["".join(each) for each in product(*(texts for _, texts in parts))]
    return "".join(pattern for pattern, _ in parts), tuple(texts[:: len(texts) // 6 + 1])


def one_of(parts):
    return f"({'|'.join(pattern for pattern, _ in parts)})", tuple(text for _, texts in parts for text in texts[:4])


def repeated(part, sign):
    pattern, texts = part
    return f"({pattern}){sign}", tuple("".join(texts[(i + count) % len(texts)] for i in range(count)) for count in COUNTS[sign])


patterns = st.recursive(
    st.sampled_from(PARTS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(one_after_the_other),
        st.lists(inner, min_size=2, max_size=3).map(one_of),
        st.tuples(inner, st.sampled_from(list(COUNTS))).map(lambda pair: repeated(*pair)),
    ),
    max_leaves=7,
)
SHORT = ["".join(letters) for length in range(4) for letters in product("ab", repeat=length)]


def with_neighbours(texts):
    """The texts, and others that differ in one place."""
    found = [*texts, *SHORT]
    for text in texts:
        found += [text[:-1], text[1:], text + "a", text + text[-1:], "b" + text[1:], text[:-1] + "é", text + "\n"]
    return [text for text in dict.fromkeys(found) if len(text) <= 12]


def over(letters, longest):
    """All texts of at most so many of these letters."""
    return ["".join(text) for length in range(longest + 1) for text in product(letters, repeat=length)]


# ---- what runs beside the automaton; steps go through map, so that a failure shows the call of build_automaton


def accepted(build_automaton, pattern, texts):
    """For each text, whether its automaton accepts its bytes."""
    start, accepting, step = build_automaton(pattern)
    found = []
    for text in texts:
        state = start
        for byte in text.encode():
            (state,) = map(step, (state,), (byte,))
            if state is None:
                break
        found.append(state is not None and state in accepting)
    return found


def compare(learner, pattern, texts):
    """Exactly the right ones of these texts are accepted."""
    got = learner.bring(accepted)(learner.build_automaton, pattern, texts)
    compare_accepted(got, pattern, texts)


def compare_accepted(got, pattern, texts, when=""):
    for text, result in zip(texts, got):
        same(result, re.fullmatch(pattern, text, re.ASCII) is not None, f"whether the automaton of {pattern!r} accepts {text!r}{when}")


@exercise("build_automaton", weight=3)
@some
@given(sample=patterns)
@example(sample=("(a|b)*a(a|b){2}", ("aab", "bbaba", "abb", "baa")))
@example(sample=("[^a]{2}é?(b|😀)+", ("bb😀", "éééb", "\n\n😀b")))
@example(sample=("(ab){2,}(é|a{0,2})", ("abab", "abababé", "ababaa")))
def test_it_accepts_exactly_the_texts_that_match(learner, sample):
    """The automaton accepts a text if the whole pattern matches it, and no other text: none that is shorter or longer, or has another character."""
    pattern, texts = sample
    compare(learner, pattern, with_neighbours(texts))


@exercise("build_automaton", weight=3)
def test_parts_that_begin_alike_are_followed_together(learner):
    """In (ab|ac)d, both alternatives are still possible after the a. In a*ab, the automaton cannot know which a is the last of the a*. A text that is accepted may go on."""
    cases = {"(ab|ac)d": "abcd", "a*ab": "ab", "(a|b)*abb": "ab", "(a|ab)(c|bcd)": "abcd", "a?a?aa": "a", "(a|aba)*": "ab", "a|ab|abc": "abc", "(aa|aaa)*": "a", "[ab]b|[bc]c": "abc"}
    texts = {pattern: over(letters, 8 if len(letters) == 1 else 6 if len(letters) == 2 else 4) for pattern, letters in cases.items()}
    helper = learner.bring(accepted)
    got = {pattern: helper(learner.build_automaton, pattern, texts[pattern]) for pattern in cases}
    for pattern in cases:
        compare_accepted(got[pattern], pattern, texts[pattern])


@exercise("build_automaton", weight=3)
def test_repetitions_have_their_bounds(learner):
    """?, *, +, {m}, {m,} and {m,n} allow so many copies, no fewer and no more, also with m = 0 and for a group; different copies may be different."""
    helper = learner.bring(accepted)
    signs = ["?", "*", "+", "{0}", "{1}", "{3}", "{0,}", "{1,}", "{2,}", "{0,0}", "{0,2}", "{1,3}", "{3,3}"]
    patterns, got = [f"{part}{sign}c" for part in ("é", "(ab|a)") for sign in signs], []
    texts = ["é" * n + "c" for n in range(6)] + [text + "c" for text in over(("ab", "a"), 4)] + ["", "é", "ab"]
    texts = list(dict.fromkeys(texts))
    for pattern in patterns:
        got.append(helper(learner.build_automaton, pattern, texts))
    for pattern, result in zip(patterns, got):
        compare_accepted(result, pattern, texts)


@exercise("build_automaton", weight=2)
def test_parts_may_match_the_empty_text(learner):
    """A repetition of something that matches the empty text, such as (a*)*, comes to an end. An alternative and the whole pattern may be empty, and then the empty text is accepted."""
    helper = learner.bring(accepted)
    patterns = ["", "a*", "(a*)*", "(a?)+b", "((a|b?)*)*", "(|a){2}", "(a|)(b|)", "((a*)*b*)*", "(){3}a", "(a{0}b?)*", "((a?){2}b){2}", "((((a*)*)*)*)*b"]
    texts = over("ab", 4)
    got = [helper(learner.build_automaton, pattern, texts) for pattern in patterns]
    for pattern, result in zip(patterns, got):
        compare_accepted(result, pattern, texts)


def following_bytes(build_automaton, pattern, beginnings):
    """For each beginning, the bytes that may come next, and whether a text may end here. The texts take turns: one step each."""
    build_automaton("(x|y)*z")  # another automaton changes nothing
    start, accepting, step = build_automaton(pattern)
    places = [start] * len(beginnings)
    for i in range(max(map(len, beginnings))):
        for j, beginning in enumerate(beginnings):
            if i < len(beginning) and places[j] is not None:
                (places[j],) = map(step, (places[j],), (beginning[i],))
    kinds = sorted({type(state).__name__ for state in [start, *accepting, *places] if state is not None})
    rows = [None if state is None else list(map(step, [state] * 256, range(256))) for state in places]
    return kinds, ["no state" if row is None else [[byte for byte in range(256) if row[byte] is not None], state in accepting] for state, row in zip(places, rows)]


words = st.lists(st.text("abé😀è", max_size=4), min_size=2, max_size=6, unique=True)


@exercise("build_automaton", weight=3)
@few
@given(texts=words)
@example(texts=["ab", "aéb", "aè", "b😀"])
@example(texts=["a", "abb", "", "éa"])
def test_step_is_none_exactly_where_nothing_matches(learner, texts):
    """For the pattern ab|aéb|aè: after a, the next byte is b or the first of two bytes of é and è, and nothing else. A text may end after its last byte, and not inside a character. Each step depends only on the state and the byte."""
    pattern, whole = "|".join(texts), [text.encode() for text in texts]
    beginnings = list(dict.fromkeys(text[:i] for text in whole for i in range(len(text) + 1)))
    wrong = list(dict.fromkeys([*(text + b"a" for text in beginnings), *(text + b"\xa9" for text in beginnings), b"\xff", b"c"]))
    beginnings += [text for text in wrong if text not in beginnings]
    kinds, got = learner.bring(following_bytes)(learner.build_automaton, pattern, beginnings)
    same(kinds, ["int"], f"the type of the states of {pattern!r}")
    for beginning, result in zip(beginnings, got):
        longer = sorted({text[len(beginning)] for text in whole if text.startswith(beginning) and text != beginning})
        right = [longer, beginning in whole] if any(text.startswith(beginning) for text in whole) else "no state"
        same(result, right, f"which bytes may follow {beginning!r} in the automaton of {pattern!r}, and whether a text may end there")


def dead_ends(build_automaton, pattern):
    """How many states can be reached, and how many of these lead to no accepting state."""
    start, accepting, step = build_automaton(pattern)
    after, todo = {}, [start]
    while todo:
        state = todo.pop()
        if state not in after:
            after[state] = set(map(step, [state] * 256, range(256))) - {None}
            todo += after[state]
    before = {state: [] for state in after}
    for state, found in after.items():
        for following in found:
            before[following].append(state)
    living, todo = set(), [state for state in after if state in accepting]
    while todo:
        state = todo.pop()
        if state not in living:
            living.add(state)
            todo += before[state]
    return len(after), len(after) - len(living)


@exercise("build_automaton", weight=2)
def test_a_character_is_all_of_its_bytes(learner):
    """A class and `.` match whole characters of one to four bytes: no text ends inside a character, and every state leads to an end. `.` is every character but a line end."""
    characters = ["a", "~", "\0", "\n", "é", "è", "߿", "ࠀ", "€", "\ud7ff", "\ue000", "￿", "𐀀", "😀", "\U0010ffff"]
    texts = ["", *characters, "é€", "éé", "aé", "a\n", "😀😀"]
    patterns = [".", "[^é]", "[è-😀]", "é", "[aé€😀]{2}", ".*é", "[^\\n]?\\n"]
    helper, ends = learner.bring(accepted), learner.bring(dead_ends)
    got = [helper(learner.build_automaton, pattern, texts) for pattern in patterns]
    dead = [ends(learner.build_automaton, pattern) for pattern in patterns]
    _, bytes_after = learner.bring(following_bytes)(learner.build_automaton, ".", [b"", b"\xc3", b"\xe0", b"\xed", b"\xf0\x9f\x98", b"\xf4", b"\xc3\xa9"])
    for pattern, result, (count, without_end) in zip(patterns, got, dead):
        compare_accepted(result, pattern, texts)
        holds(without_end == 0, f"every state of the automaton of {pattern!r} should lead to an end; {without_end} of {count} do not")
    first = [*(byte for byte in range(128) if byte != 10), *range(0xC2, 0xF5)]
    ranges = [first, range(0x80, 0xC0), range(0xA0, 0xC0), range(0x80, 0xA0), range(0x80, 0xC0), range(0x80, 0x90), []]
    for result, right, what in zip(bytes_after, ranges, ("at the beginning", "after C3", "after E0", "after ED", "after F0 9F 98", "after F4", "after é")):
        same(result, [list(right), what == "after é"], f"which bytes `.` allows {what}, and whether a text may end there")


def of_trees(build_automaton, parse_pattern, Byte, Concat, Choice, Repeat, texts):
    """What automata of trees accept, some of which have the same node in several places."""
    a, b, either = Byte(frozenset(b"a")), Byte(frozenset(b"b")), Byte(frozenset(b"ab"))
    maybe = Repeat(b, 0, 1)
    pair = Concat((a, maybe))
    trees = {
        "aa": Concat((a, a)),
        "(ab?){2}": Concat((pair, pair)),
        "a(b?a|b?b)b?": Concat((a, Choice((Concat((maybe, a)), Concat((maybe, b)))), maybe)),
        "(ab?)*ab?": Concat((Repeat(pair, 0, None), pair)),
        "((ab?){1,2}b)*": Repeat(Concat((Repeat(pair, 1, 2), b)), 0, None),
        "[ab]{2}": Repeat(either, 2, 2),
        "": Concat(()),
        "a|": Choice((a, Concat(()))),
        "(a|b)": Choice((Choice((a,)), b)),
        "(a|bb)*": parse_pattern("(a|bb)*"),
    }
    found = {}
    for name, tree in trees.items():
        start, accepting, step = build_automaton(tree)
        found[name] = []
        for text in texts:
            state = start
            for byte in text.encode():
                if state is not None:
                    (state,) = map(step, (state,), (byte,))
            found[name].append(state is not None and state in accepting)
    return found


@exercise("build_automaton", weight=2)
def test_a_tree_may_be_given(learner):
    """A tree gives the same automaton as its pattern. A node may be in several places of a tree, and what comes behind it is different in each."""
    texts = over("ab", 5)
    nodes = [getattr(learner, kind) for kind in ("parse_pattern", "Byte", "Concat", "Choice", "Repeat")]
    got = learner.bring(of_trees)(learner.build_automaton, *nodes, texts)
    for pattern, result in got.items():
        compare_accepted(result, pattern, texts, ", if a tree is given")


@exercise("build_automaton", weight=2)
def test_an_automaton_has_at_most_max_states(learner):
    """After (a|b)*a(a|b){9} one of 1,024 states is needed, which is more than MAX_STATES, so a ValueError is raised. 512 states are few enough, and so are exactly MAX_STATES, as in a{999}."""
    texts = ["a" + "b" * 8, "bba" + "ab" * 4, "b" * 9, "a" * 8]
    helper = learner.bring(accepted)
    got = [helper(learner.build_automaton, "(a|b)*a(a|b){8}", texts), helper(learner.build_automaton, "a{999}", ["a" * 999, "a" * 998])]
    for pattern in ("(a|b)*a(a|b){9}", "a{1000}"):
        refuses(lambda pattern=pattern: learner.build_automaton(pattern), because=f"the automaton of {pattern!r} needs more than MAX_STATES states")
    compare_accepted(got[0], "(a|b)*a(a|b){8}", texts)
    same(got[1], [True, False], "whether the automaton of 'a{999}', which needs 1,000 states, accepts 999 and 998 a")


@exercise("build_automaton")
def test_a_wrong_pattern_has_a_place(learner):
    """For a wrong pattern, a ValueError names the place where it is wrong; nothing is guessed."""
    got = learner.bring(accepted)(learner.build_automaton, "a(b|c)*", ["abcb", "a", "ab)"])
    wrong = {"abc(de": 3, "ab)": 2, "abcd[ef": 4, "*ab": 0, "ab+?c": 3, "abcde{x}": 5, "ab[^]": 2, "abcdef\\": 6, "abcdefgh\\q": 8, "abc$": 3, "abcd[z-a]": 5}
    for pattern, place in wrong.items():
        refuses(lambda pattern=pattern: learner.build_automaton(pattern), naming={"place": place}, because=f"the pattern {pattern!r} is wrong at {place}")
    same(got, [True, True, False], "whether the automaton of 'a(b|c)*' accepts 'abcb', 'a' and 'ab)'")
