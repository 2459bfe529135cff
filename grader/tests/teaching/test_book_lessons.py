"""The parts of the book: formulas, glossary entries, the text of a lesson, code."""

import re
from html import unescape
from xml.etree import ElementTree

import pytest
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.teaching.book.formulas import mathml
from grader.teaching.book.markdown_page import Links, highlight_python, make_page
from grader.teaching.book.site import load_words
from markdown_it import MarkdownIt

COURSE = load_syllabus()


def page_of(markdown, links=None):
    return make_page(f"# T\n\n{markdown}\n", links or Links())


# formulas


def text_of(element):
    return "".join(element.itertext())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("attention(q, k, v) = softmax(q kᵀ / √d_head) v", "attention(q,k,v)=softmax(qkTdhead)v"),
        ("x[t] = token vector of ids[t] + position vector of t", "x[t]=token vector ofids[t]+position vector of t"),
        ("2 · (-0.99) · rows of the batch", "2·(−0.99)·rows of the batch"),
        ("P(a, b) = P(a) · P(b | a)", "P(a,b)=P(a)·P(b|a)"),
        ("loss = N · Σ_i f_i · P_i ≥ 1", "loss=N·∑ifi·Pi≥1"),
        ("1/4, 1/16", "14,116"),
    ],
)
def test_a_formula_keeps_every_sign_that_has_no_special_drawing(text, shown):
    made = ElementTree.fromstring(mathml(text))
    assert text_of(made) == shown
    assert made.tag == "math" and made.get("display") == "block"


def test_fractions_roots_indices_powers_and_estimates_are_drawn_as_such():
    made = ElementTree.fromstring(mathml("attention(q, k, v) = softmax(q kᵀ / √d_head) v"))
    above, below = made.find(".//mfrac")
    assert [text_of(above), text_of(below)] == ["qkT", "dhead"]
    assert [leaf.text for leaf in below.find(".//msqrt/msub")] == ["d", "head"]
    assert [leaf.text for leaf in above.find(".//msup")] == ["k", "T"]
    made = ElementTree.fromstring(mathml("p = m\u0302 / (1 - β₁ᵗ) · e^(-x / √(a + b))"))
    assert [[text_of(part) for part in power] for power in made.iter("msup")] == [["β1", "t"], ["e", "−x/a+b"]]
    assert text_of(made.find(".//mover")) == "m^" and "(" not in text_of(made.find(".//msqrt"))
    assert not any(power[1].findall(".//mfrac") for power in made.iter("msup"))


def test_roots_and_powers_within_a_sentence_are_formulas_and_the_rest_stays():
    body = page_of("Divide by √d_head (not √(2 · n)); e^x, `2^(-8h / H)`, `x ** 2` and `a_b`.").body
    formulas = re.findall(r"<math>.*?</math>", body)
    assert [text_of(ElementTree.fromstring(one)) for one in formulas] == ["dhead", "2·n", "ex", "2−8h/H"]
    rest = re.sub(r"<math>.*?</math>", "M", body)
    assert rest == "<p>Divide by M (not M); M, M, <code>x ** 2</code> and <code>a_b</code>.</p>\n"


def test_every_indented_block_of_a_lesson_with_a_sign_of_formulas_is_a_formula():
    for path in sorted(EXERCISES.glob("*.md")):
        tokens = MarkdownIt("commonmark").enable("table").parse(read_source(path))
        for text in (token.content for token in tokens if token.type == "code_block"):
            if re.search(r"[√²³Σ·^]", text):
                assert mathml(text), f"{path.name}: {text}"


@pytest.mark.parametrize(
    "text",
    ["1 0 0   &   1 1 0", "W_q = [1 1 0]     W_k = [1 1 0]", "x = x + attn(...)", "a = (b", "a = ", "= b", "count_parameters(model)", ""],
)
def test_tables_of_numbers_and_code_are_not_formulas(text):
    assert mathml(text) is None


# words and lessons


def test_each_word_of_the_glossary_is_explained_once_and_is_in_its_chapters_lesson():
    words = load_words()
    for word in words:
        lesson = read_source(EXERCISES / f"{COURSE.chapter(word.chapter).name}.md")
        assert re.search(rf"\b{re.escape(word.name.lower())}\b", " ".join(lesson.lower().split())), word.name
        assert word.says.endswith("."), word.name
    forms = [form for word in words for form in word.forms]
    assert len(set(forms)) == len(forms)


def test_names_in_a_lesson_lead_to_where_they_are_explained():
    links = Links({"softmax": "ch03.html#softmax"}, {"query": "glossary.html#query"}, {4: "ch04.html"})
    page = make_page(
        "# One: `softmax`\n\nA query, a query, `softmax(x)`, `other` and chapter 4; chapter 5.\n\n"
        "## A query\n\n[a query](ch02_x.md#y)\n",
        links,
    )
    assert page.title == "One: softmax"
    assert page.body.startswith(
        '<p>A <a class="term" href="glossary.html#query">query</a>, a query, '
        '<a class="code" href="ch03.html#softmax"><code>softmax(x)</code></a>, '
        '<code>other</code> and <a href="ch04.html">chapter 4</a>; chapter 5.</p>\n'
        '<h2 id="a-query">A query <a class="here"'
    )
    assert '<a href="ch02_x.html#y">a query</a>' in page.body
    assert [(part.title, part.anchor) for part in page.parts] == [("One: softmax", ""), ("A query", "a-query")]


def test_a_link_to_a_page_that_this_book_does_not_have_stays_text():
    links = Links(pages={"ch01_x.html", "train.html"})
    pages = "[one](ch01_x.md#part), [two](ch02_x.md), [it](../grader/teaching/book/pages/train.md), [play](play.md)."
    shown = '<p><a href="ch01_x.html#part">one</a>, <a>two</a>, <a href="train.html">it</a>, <a>play</a>.</p>\n'
    assert page_of(pages, links).body == shown


def test_text_of_a_lesson_is_never_markup_and_an_answer_is_folded_below_its_question():
    body = page_of("<script>alert(1)</script> `<unk>` & ![<b>](x.svg)\n\n    <pad> = 1").body
    assert not any(markup in body for markup in ("<script", "<unk>", "<pad>", "<b>"))
    question = "<details>\n<summary>Is `a` < b,\nor not?</summary>\n\nIt *is*.\n\n</details>\n\n<div>x</div>"
    page = page_of(f"## Predict first\n\n{question}")
    assert page.body.endswith(
        '<details class="hint"><summary>Is <code>a</code> &lt; b,\nor not?</summary>\n<p>It <em>is</em>.</p>\n'
        "</details>\n<p>&lt;div&gt;x&lt;/div&gt;</p>\n"
    )
    assert page.parts[-1].text == "Is a < b, or not? It is. x"


# code


def test_code_is_coloured_and_stays_what_it_is():
    text = "def f(x: int) -> str:\n    return '<b>'  # one & two\n\n    y = 1\n"
    made = highlight_python(text)
    assert unescape(re.sub(r"<[^>]*>", "", made)) == text
    assert 'class="k">def' in made and "<b>" not in made
    session = highlight_python(">>> x = 1\n>>> x\n1\n")
    assert session.count('class="gp">&gt;&gt;&gt;') == 2 and 'class="go">1' in session
    printed = page_of("```text begins\nA <b>\n```\n\n```\nheadway\n```")  # what was printed has nothing to copy
    assert printed.body == "<pre><code>A &lt;b&gt;\n</code></pre>\n" + (
        '<pre class="copied"><code>headway\n</code></pre>\n'
    )
