"""The book, as its files say: formulas, shapes, words, stubs and hints; `headway book`, as a person runs it. How it looks: test_book_seen.py."""

import contextlib
import http.client
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from html import unescape
from xml.etree import ElementTree

import pytest
from grader.book import glossary, lessons
from grader.book.code import coloured, stub_of
from grader.book.formulas import mathml
from grader.book.shapes import SHAPE, rows_of
from grader.source import find_definition, read_source
from grader.syllabus import EXERCISES, load_syllabus
from kit_copy import Kit, posix

PATIENCE = 120.0
COURSE = load_syllabus()


@pytest.fixture(scope="module")
def kit(template, tmp_path_factory):
    """A kit with a book in it: one is built for all that is asked here."""
    root = tmp_path_factory.mktemp("book") / "kit"
    shutil.copytree(template, root)
    return Kit(root)


@pytest.fixture(scope="module")
def site(kit):
    done = subprocess.run([sys.executable, "-m", "grader.book"], cwd=kit.root, env=kit.environment(), capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "build/book/index.html" in " ".join(done.stdout.split())
    return kit.root / "build" / "book"


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


# formulas


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("attention(q, k, v) = softmax(q kᵀ / √d_head) v", "attention(q,k,v)=softmax(qkTdhead)v"),
        ("(patched - corrupted) / (clean - corrupted) = 1", "patched−corruptedclean−corrupted=1"),
        ("x[t] = token vector of ids[t] + position vector of t", "x[t]=token vector ofids[t]+position vector of t"),
        ("2 · (-0.99) · rows of the batch", "2·(−0.99)·rows of the batch"),
        ("a = 3 · x0 cos d", "a=3·x0cosd"),
    ],
)
def test_a_formula_keeps_every_sign_that_is_not_drawn_otherwise(text, shown):
    made = ElementTree.fromstring(mathml(text))
    assert "".join(made.itertext()) == shown
    assert made.tag == "math" and made.get("display") == "block"


def test_fractions_roots_indices_and_powers_are_drawn_as_such():
    made = ElementTree.fromstring(mathml("attention(q, k, v) = softmax(q kᵀ / √d_head) v"))
    above, below = made.find(".//mfrac")
    assert ["".join(part.itertext()) for part in (above, below)] == ["qkT", "dhead"]
    assert [leaf.text for leaf in below.find(".//msqrt/msub")] == ["d", "head"]
    assert [leaf.text for leaf in above.find(".//msup")] == ["k", "T"]


def test_lines_of_a_formula_stand_under_each_other_at_their_equals_signs():
    made = ElementTree.fromstring(mathml("x0 cos - x1 sin  =  3 · 0.5\nx0 sin + x1 cos  =  3 · 0.8"))
    assert [["".join(cell.itertext()) for cell in row] for row in made.iter("mtr")] == [["x0cos−x1sin", "=3·0.5"], ["x0sin+x1cos", "=3·0.8"]]


@pytest.mark.parametrize(
    "text",
    ["1 0 0   &   1 1 0", "104 111 116 32  112", "W_q = [1 1 0]     W_k = [1 1 0]", "x = x + attn(...)", "1\n0.7   0.3", "a = (b", "a = ", "= b",
     "A:  0.6 / 0.8 = 0.7      0.2 / 0.8 = 0.2", "hot _   pot", "count_parameters(model)", "a = b / ", "a √", ""],
)  # fmt: skip
def test_tables_of_numbers_and_code_are_no_formulas(text):
    assert mathml(text) is None


# shapes


def rows(name):
    exercise = COURSE.exercise(name)
    return rows_of(exercise, stub_of(exercise))


def test_shapes_are_those_of_the_docstring():
    def said(name):
        return [(row.call, row.takes, row.gives) for row in rows(name)]

    assert said("split_heads") == [("split_heads", "(B, T, D)", "(B, H, T, d_head)")]
    assert said("scaled_dot_product_attention")[0][1:] == ("q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v)", "output (..., Tq, d_v), weights (..., Tq, Tk)")
    assert said("MultiHeadAttention") == [("MultiHeadAttention", "x (B, Tq, D), context (B, Tk, D)", "(B, Tq, D)")]
    assert said("causal_mask") == [("causal_mask", "q_len: int, k_len: int | None", "(q_len, k_len)")]
    assert said("recovery") == [("recovery", "logits (V,)", "float")]
    assert said("merge_pair") == [("merge_pair", "ids: Sequence[int], pair: Pair, new_id: int", "list[int]")]
    assert said("KVCache")[0] == ("KVCache.append", "(B, H, T, d_head)", "tuple[Tensor, Tensor]: (B, H, P + T, d_head)")
    assert said("residual_stream")[0][2] == "list[Tensor]: tensors (B, T, D)"
    assert said("fit")[0][2] == "list[dict[str, float]]"


def test_no_shape_is_written_twice():
    """Another docstring, another row."""
    exercise = COURSE.exercise("split_heads")
    changed = stub_of(exercise).replace("(B, T, D) -> (B, H, T, d_head)", "(B, T, D) -> (B, T, H)")
    assert [row.gives for row in rows_of(exercise, changed)] == ["(B, T, H)"]


def test_every_arrow_in_a_docstring_is_in_the_index_and_every_letter_is_explained():
    known = set(glossary.sizes())
    for exercise in COURSE.exercises:
        found = rows_of(exercise, stub_of(exercise))
        assert found and all(row.takes and row.gives for row in found), exercise.name
        if re.search(r"\) -> \(", stub_of(exercise)):
            assert any(row.shapes for row in found), exercise.name
    shapes = {shape for exercise in COURSE.exercises for row in rows_of(exercise, stub_of(exercise)) for shape in row.shapes}
    letters = {letter for shape in shapes for letter in re.findall(r"[A-Za-z_]+|\.\.\.", shape)}
    explained = known | {"Tq", "Tk", "d", "d_v", "q_len", "k_len", "d_model"}  # of T, of one vector, of q and k, D
    assert letters <= explained, letters - explained


def test_shapes_are_told_from_other_parentheses():
    assert [m[0] for m in SHAPE.finditer("a pair (1, 1) of (left, right), x (B, T), all (...), a (D,), (floats), (n_layers + 1, B, H * d_head)")] == [
        "(B, T)", "(...)", "(D,)", "(n_layers + 1, B, H * d_head)",
    ]  # fmt: skip


# words and lessons


@pytest.mark.parametrize("word", glossary.words(), ids=lambda word: word.name)
def test_each_word_of_the_glossary_stands_in_its_chapters_lesson(word):
    text = " ".join(read_source(EXERCISES / f"{COURSE.chapter(word.chapter).name}.md").lower().split())
    assert re.search(rf"\b{re.escape(word.name.lower())}\b", text)
    assert word.says.endswith(".")


def test_no_word_is_explained_twice():
    forms = [form.lower() for word in glossary.words() for form in (word.name, *word.also)]
    assert len(set(forms)) == len(forms)


def test_names_in_a_lesson_lead_to_where_they_are_explained():
    links = lessons.Links({"softmax": "ch03.html#softmax"}, {"query": "glossary.html#query"}, {4: "ch04.html"})
    page = lessons.page_of("# One: `softmax`\n\nA query, a query, `softmax(x)`, `other` and chapter 4; chapter 5.\n\n## A query\n\n[a query](ch02_x.md#y)\n", links)
    assert page.title == "One: softmax"
    assert page.body.startswith(
        '<p>A <a class="term" href="glossary.html#query">query</a>, a query, <a class="code" href="ch03.html#softmax"><code>softmax(x)</code></a>, '
        '<code>other</code> and <a href="ch04.html">chapter 4</a>; chapter 5.</p>\n<h2 id="a-query">A query <a class="here"'
    )
    assert '<a href="ch02_x.html#y">a query</a>' in page.body
    assert [(part.title, part.level) for part in page.parts] == [("One: softmax", 1), ("A query", 2)]


def test_what_a_lesson_says_is_never_markup():
    page = lessons.page_of("# T\n\n<script>alert(1)</script> `<unk>` & ![<b>](x.svg)\n\n    <pad> = 1\n", lessons.Links())
    assert "<script" not in page.body and "<unk>" not in page.body and "<pad>" not in page.body and "<b>" not in page.body


# the book


def test_every_exercise_has_its_stub_and_its_hints_folded_and_nothing_of_the_solution(site):
    for chapter in COURSE.chapters:
        page = read_source(site / f"{chapter.name}.html")
        for exercise in chapter.exercises:
            card = page[page.index(f'<section class="exercise" id="{exercise.name}"') :].partition("</section>")[0]
            assert " ".join(stub_of(exercise).split()) in words(card)
            assert card.count('<details class="hint"><summary>') == len(exercise.hints) == 3
            for hint in exercise.hints:
                assert " ".join(hint.split()) in words(card)
        assert "BEGIN SOLUTION" not in page


def test_the_stub_is_shown_whatever_a_learner_has_written(kit, site):
    assert "raise NotImplementedError" in words(read_source(site / "ch03_attention.html"))
    exercise = COURSE.exercise("softmax")
    stub = read_source(kit.file("ch03_attention"))
    assert stub_of(exercise) == find_definition(stub, "softmax").text


def test_the_pictures_are_those_that_the_reference_draws(site):
    for path in sorted((EXERCISES / "pictures").glob("*.svg")):
        assert read_source(site / "pictures" / path.name) == read_source(path)
    assert 'src="pictures/softmax-1.svg" alt="scores as weights: ' in read_source(site / "ch03_attention.html")
    assert (site / "pictures" / "softmax-1.svg").is_file()


def test_code_is_coloured_and_stays_what_it_is():
    text = "def f(x: int) -> str:\n    return '<b>'  # one & two\n\n    y = 1\n"
    made = coloured(text)
    assert unescape(re.sub(r"<[^>]*>", "", made)) == text
    assert 'class="k">def' in made and "<b>" not in made


# headway book


@contextlib.contextmanager
def reading(kit, *arguments):
    """`headway book` in a process of its own: (process, address), once it says where it is."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "grader.cli", "book", *arguments], cwd=kit.root, env={**kit.environment(), "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, end = b"", time.monotonic() + PATIENCE
        while b"Control-C ends it." not in said:
            assert time.monotonic() < end, said
            if select.select([process.stdout], [], [], 1)[0]:
                piece = os.read(process.stdout.fileno(), 1 << 16)
                assert piece, said
                said += piece
        yield process, said.decode()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def get(address, path, host=None):
    name, _, port = address.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(name, int(port.partition("/")[0]), timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace"), answer.headers
    finally:
        connection.close()


@posix
def test_it_serves_the_current_chapter_on_this_machine_until_control_c(kit, site):
    kit.edit("ch04_positions_in_attention", "TODO 1", "TODO one")  # the chapter that is worked on
    with reading(kit) as (process, said):
        assert "Building" not in said  # it is current
        address = re.search(r"http://127\.0\.0\.1:\d+/(\S+)", said)
        assert address[1] == "ch04_positions_in_attention.html"
        status, page, headers = get(address[0], "/" + address[1])
        assert (status, "<h1>Chapter 4: Positions in attention</h1>" in page) == (200, True)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert get(address[0], "/pictures/")[0] == 404
        assert get(address[0], "/../../pyproject.toml")[0] == 404
        assert get(address[0], "/", host="elsewhere.example:80")[0] == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        rest = process.stdout.read().decode()
        assert "The book is closed." in rest and "Traceback" not in rest


@posix
def test_it_opens_at_what_is_named_and_is_built_anew_when_a_lesson_has_changed(kit, site):
    lesson = kit.exercises / "AFTERWARDS.md"
    lesson.write_text(read_source(lesson) + "\nOne line more.\n", encoding="utf-8")
    with reading(kit, "softmax", "--no-browser") as (_, said):
        assert "Building the book" in said
        address = re.search(r"http://\S+", said)[0]
        assert address.endswith("/ch03_attention.html#softmax")
        assert "One line more." in get(address, "/AFTERWARDS.html")[1]


def test_what_goes_wrong_is_a_sentence(kit, site, tmp_path):
    assert "did you mean softmax" in kit.run("book", "sofmax", status=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} cannot be used" in kit.run("book", "--port", str(port), "--no-browser", status=1)
    hidden = tmp_path / "without"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys; sys.modules['markdown_it'] = None\n")
    said = kit.run("book", status=1, PYTHONPATH=f"{hidden}{os.pathsep}{kit.root}")
    assert said.count("\n") == 1 and "needs the extra `book`" in said and "pip install" in said


def test_a_place_that_cannot_be_written_is_a_sentence(kit, site):
    shutil.move(kit.root / "build", kit.root / "built")
    try:
        (kit.root / "build").write_text("in the way")
        said = kit.run("book", status=1)
        assert "the book is not built: could not write build/book" in said
    finally:
        (kit.root / "build").unlink()
        shutil.move(kit.root / "built", kit.root / "build")
