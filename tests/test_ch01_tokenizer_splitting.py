"""Chapter 1, third part: the pieces inside which GPT-2 merges."""

from __future__ import annotations

from calls import as_list
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, same
from hypothesis import example, given
from hypothesis import strategies as st

END = "<|endoftext|>"
words = st.sampled_from(["the", "Red", "kites", "née", "Straße", "x"])
sentences = st.lists(words, min_size=3, max_size=6)
# What a text can contain beside words: numbers, signs, endings, white space of several kinds, the mark at the end of a text.
parts = st.sampled_from(["cat", " Dog", "7", " 42", "!", "...", " (", "'ll", "'S", "'", " ", "  ", "\n", "\n\n", " \t", "é", "²", "五", "_", "😀", END, " " + END])


def splits(learner, texts: dict[str, list[str]], what: str = "the pieces") -> None:
    """Each text has these pieces. All are computed before the first is compared, because that helps to distinguish mistakes."""
    for text in texts:
        learner.split_for_bpe(text)
    for text, pieces in texts.items():
        same(as_list(learner.split_for_bpe(text)), pieces, f"{what} of {text!r}")


@exercise("split_for_bpe", weight=3)
@given(chosen=sentences)
def test_a_word_has_the_space_before_it(learner, chosen):
    """Each word is a piece together with the space before it; the first word has none."""
    splits(learner, {" ".join(chosen): [chosen[0], *(" " + word for word in chosen[1:])]})


@exercise("split_for_bpe")
def test_a_text_may_have_thousands_of_pieces(learner):
    """A text may have any length: three thousand pieces are found as three are."""
    pieces = as_list(learner.split_for_bpe("Red kites.\n" * 750))
    holds(pieces == ["Red", " kites", ".", "\n"] * 750, "a text of 750 lines 'Red kites.' should have the four pieces 'Red', ' kites', '.', '\\n' 750 times")


@exercise("split_for_bpe", weight=2)
def test_letters_digits_and_other_characters_are_separate_pieces(learner):
    """Letters, digits and other characters form pieces of their own, each with the space before it: "route66 (old!)" has four."""
    splits(
        learner,
        {
            "route66 (old!)": ["route", "66", " (", "old", "!)"],
            "in 1999, 3.5": ["in", " 1999", ",", " 3", ".", "5"],
            "snake_case __init__": ["snake", "_", "case", " __", "init", "__"],
            "a+b == c?!": ["a", "+", "b", " ==", " c", "?!"],
        },
    )


@exercise("split_for_bpe", weight=2)
def test_endings_of_short_forms_are_pieces(learner):
    """The seven endings 's 't 're 've 'm 'll 'd are pieces, only in lower case and only with the plain apostrophe."""
    splits(
        learner,
        {
            "we'll": ["we", "'ll"],
            "she's I'm they've": ["she", "'s", " I", "'m", " they", "'ve"],
            "don't you're he'd": ["don", "'t", " you", "'re", " he", "'d"],
            "SHE'S": ["SHE", "'", "S"],
            "she’s": ["she", "’", "s"],
            "O'Neil o'clock": ["O", "'", "Neil", " o", "'", "clock"],
            "'tis": ["'t", "is"],
            "say 'so": ["say", " '", "so"],
        },
    )


@exercise("split_for_bpe", weight=3)
def test_a_run_of_white_space_leaves_its_last_character(learner):
    """White space inside a text leaves its last character to the next piece; only a space joins the word behind it."""
    splits(
        learner,
        {
            "a  b": ["a", " ", " b"],
            "a    b": ["a", "   ", " b"],
            "a\nb": ["a", "\n", "b"],
            "a\n\n\nb": ["a", "\n\n", "\n", "b"],
            "a \tb": ["a", " ", "\t", "b"],
            "a\t b": ["a", "\t", " b"],
            "   b": ["  ", " b"],
            "a\u00a0\u00a0b": ["a", "\u00a0", "\u00a0", "b"],
        },
    )


@exercise("split_for_bpe", weight=2)
def test_white_space_at_the_end_of_a_text_is_one_piece(learner):
    """At the end of a text, a run of white space is one piece. A text without any character has no pieces."""
    splits(learner, {"a ": ["a", " "], "a   ": ["a", "   "], "b\n\n": ["b", "\n\n"], "b! \n": ["b", "!", " \n"], " ": [" "], "": []})


@exercise("split_for_bpe", weight=3)
def test_the_end_mark_is_never_split(learner):
    """Each <|endoftext|> is one piece, and the parts between the marks are split as texts of their own."""
    splits(
        learner,
        {
            END: [END],
            f"Yes!{END}No": ["Yes", "!", END, "No"],
            f"a {END} b": ["a", " ", END, " b"],
            f"a  {END}{END}b": ["a", "  ", END, END, "b"],
            f"we{END}'ll": ["we", END, "'ll"],
            "a<|endof b": ["a", "<|", "endof", " b"],
        },
    )


@exercise("split_for_bpe", weight=2)
def test_the_rules_hold_in_every_language(learner):
    """Letters and digits of every language count as such. A sign above or below a letter, as in Hindi, is another character;
    one that is letter and numeric, such as the Chinese five, is a letter."""
    splits(
        learner,
        {
            "Ça fait 5€": ["Ça", " fait", " 5", "€"],
            "Ελλάδα и мир": ["Ελλάδα", " и", " мир"],
            "猫が2匹": ["猫が", "2", "匹"],
            "x² Ⅷ ½ ٣٤": ["x", "²", " Ⅷ", " ½", " ٣٤"],
            "हिन्दी": ["ह", "ि", "न", "्", "द", "ी"],
            "so 😀😀!": ["so", " 😀😀!"],
            "第五天 十2": ["第五天", " 十", "2"],
            "1½ 2² Ⅷ!": ["1½", " 2²", " Ⅷ", "!"],
        },
    )


@exercise("split_for_bpe", weight=3)
@given(chosen=st.lists(parts, min_size=6, max_size=16))
@example(chosen=["cat", "'ll", " ", " ", "7", "7", "\n", "\n\n", "!", END, " "])
def test_all_rules_together(learner, reference, chosen):
    """The rules hold in any order and combination, and no character of the text is lost."""
    text = "".join(chosen)
    got = as_list(learner.split_for_bpe(text))
    same(got, reference.split_for_bpe(text), f"the pieces of {text!r}")
    same("".join(got), text, "the pieces, joined")
