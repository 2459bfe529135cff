"""The content of the book: stubs, hints, pictures; and `headway book`, as a person runs it."""

import os
import re
import shutil
import signal
import socket
from html import unescape

import pytest
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.teaching.book.markdown_page import find_stub
from grader.teaching.drawing import without_style
from grader.teaching.show import find_subject, has_picture
from grader.teaching.walks import list_walks, load
from kit_copy import posix
from local_pages import PATIENCE, get, serving

COURSE = load_syllabus()


@pytest.fixture(scope="module")
def kit(module_kit):
    """A copy of the kit for all these tests."""
    return module_kit


@pytest.fixture(scope="module")
def site(kit, folder):
    """The book in the kit, where it is up to date, because the kit has the same sources."""
    return shutil.copytree(folder, kit.root / "build" / "book")


def page_text(path):
    return path.read_text(encoding="utf-8")


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


# the book


def test_every_exercise_has_its_stub_and_its_collapsed_hints_and_nothing_of_the_solution(site):
    for chapter in COURSE.chapters:
        page = page_text(site / f"{chapter.name}.html")
        for exercise in chapter.exercises:
            card = page[page.index(f'<section class="exercise" id="{exercise.name}"') :].partition("</section>")[0]
            assert " ".join(find_stub(exercise).split()) in words(card)
            assert card.count('<details class="hint"><summary>') == len(exercise.hints) == 3
            for hint in exercise.hints:
                assert " ".join(hint.split()) in words(card)
            assert (find_subject(exercise.name).about in words(card) and "<svg " in card) if has_picture(exercise.name) else "<svg " not in card
        assert "BEGIN SOLUTION" not in page


def test_the_pictures_are_those_that_the_reference_draws(site):
    for chapter in COURSE.chapters:
        drawn = without_style(read_source(EXERCISES / "pictures" / f"{chapter.name}.svg"))
        page = page_text(site / f"{chapter.name}.html")
        assert drawn[drawn.index("</title>") + len("</title>\n") :].strip() in page
    assert ' aria-label="scores as weights: ' in page_text(site / "ch03_attention.html")


def test_each_walk_is_mentioned_in_the_chapter_that_completes_it(site):
    page = page_text(site / "walks.html")
    for name, title in list_walks().items():
        assert f"headway walk {name}" in words(page) and title in words(page)
        last = max(COURSE.exercise(needed).chapter for needed in load(name).REQUIRED_EXERCISES)
        pages = {chapter.id: page_text(site / f"{chapter.name}.html") for chapter in COURSE.chapters}
        assert [chapter for chapter, text in pages.items() if f'href="walks.html#{name}"' in text] == [last]


def test_chapter_0_is_before_chapter_1_and_the_front_page_has_its_diagram_needs_and_hours(site):
    names = ("ch00_first_model", "ch00_big_picture", "ch00_refresher", "ch01_tokenizer", "index")
    begin, big, refresher, first, front = (page_text(site / f"{name}.html") for name in names)
    assert 'rel="next" href="ch00_big_picture.html"' in begin and 'rel="prev" href="index.html"' in begin
    assert 'rel="next" href="ch00_refresher.html"' in big and 'rel="prev" href="ch00_first_model.html"' in big
    assert 'rel="next" href="ch01_tokenizer.html"' in refresher and 'rel="prev" href="ch00_refresher.html"' in first
    assert 'href="ch03_attention.html">Attention</a>' in big
    assert '"ch00_refresher.html#broadcasting"' in page_text(site / "search-index.js")
    lesson = read_source(EXERCISES / "ch00_big_picture.md")
    hours = {int(number): hours for number, hours in re.findall(r"\| (\d+) \[.*\| (\S+) \|\n", lesson)}
    assert len(hours) == len(COURSE.chapters)
    for chapter in COURSE.chapters:
        assert f"{chapter.about}, about {hours[chapter.number]} hours" in words(front)
    assert f"about {sum(map(int, hours.values()))} hours" in words(front)
    needs = re.findall(r"^- \*\*(.*?)\*\*", lesson[lesson.index("## What you need") :].split("\n## ")[0], re.MULTILINE)
    assert len(needs) >= 3
    for need in needs:
        assert f"<strong>{need}</strong>" in front
    alt = re.search(r"!\[(.*?)\]", lesson)[1]
    assert alt in front and alt in big


# headway book


@posix
def test_before_any_work_it_serves_the_front_page_on_this_machine_until_control_c(kit, site):
    with serving(kit, "book", "--no-browser") as (process, said):
        assert "Building" not in said  # it is up to date
        address = re.search(r"http://127\.0\.0\.1:\d+/(\S+)", said)
        assert address[1] == "index.html"
        status, page, headers = get(address[0], "/" + address[1])
        assert (status, "<h1>Headway</h1>" in page) == (200, True)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert get(address[0], "/pictures/")[0] == get(address[0], "/../../pyproject.toml")[0] == 404
        assert get(address[0], "/", host="elsewhere.example:80")[0] == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        rest = process.stdout.read().decode()
        assert "Stopped." in rest and "Traceback" not in rest


@posix
def test_it_opens_the_current_chapter_in_the_browser_if_there_is_one(kit, site, tmp_path):
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    kit.edit("ch04_positions_in_attention", "TODO 1", "TODO one")  # makes this the current chapter
    try:
        with serving(kit, "book", browser=f"{browser} %s") as (_, said):
            assert "The book is open in your browser" in said
            address = re.search(r"http://\S+", said)[0]
            assert address.endswith("/ch04_positions_in_attention.html") and opened.read_text() == address
    finally:
        kit.edit("ch04_positions_in_attention", "TODO one", "TODO 1")


@posix
def test_a_changed_lesson_rebuilds_it_and_control_c_meanwhile_keeps_the_old_book(kit, site):
    lesson = kit.exercises / "AFTERWARDS.md"
    before = read_source(lesson)
    lesson.write_text(before + "\nOne line more.\n", encoding="utf-8")
    try:
        with serving(kit, "book", until="Building the book") as (process, _):
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
            said = process.stdout.read().decode()
        assert "headway: stopped" in said and "Traceback" not in said
        assert list(site.parent.iterdir()) == [site] and (site / "index.html").is_file()
    finally:
        lesson.write_text(before, encoding="utf-8")
    with serving(kit, "book", "softmax", "--no-browser") as (_, said):
        assert "Building" not in said and re.search(r"http://\S+", said)[0].endswith("/ch03_attention.html#softmax")


def test_errors_are_one_sentence(kit, site, tmp_path):
    assert "did you mean softmax" in kit.run("book", "sofmax", status=2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert f"port {port} is in use or not allowed" in kit.run("book", "--port", str(port), "--no-browser", status=1)
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['markdown_it'] = None\n")
    said = kit.run("book", status=1, PYTHONPATH=f"{tmp_path}{os.pathsep}{kit.root}")
    assert said.count("\n") == 1 and "needs the extra `book`" in said and "pip install" in said
    shutil.move(kit.root / "build", kit.root / "built")
    try:
        (kit.root / "build").write_text("in the way")
        said = kit.run("book", status=1)
        assert "the book is not built: could not write build/book" in said
    finally:
        (kit.root / "build").unlink()
        shutil.move(kit.root / "built", kit.root / "build")
