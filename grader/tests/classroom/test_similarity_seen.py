"""similarity.html in a real browser: complete, in light and dark, on a phone, on paper, and under attack."""

import re

import pytest
import report_examples
from browser import Browser, needs_chromium
from contrast import CONTRAST
from grader.classroom.similarity import page as similarity_page
from grader.classroom.similarity.comparison import compare
from grader.course.syllabus import load_syllabus
from page_layout import misfits
from seeded_copies import CHANGES, a_submission, honest_courses

pytestmark = [pytest.mark.thorough, needs_chromium]
COURSES = honest_courses()
CHAPTERS = ("ch03_attention", "ch05_layers")
VISIBLE = "[...document.querySelectorAll('{}')].filter(one => one.checkVisibility()).map(one => one.textContent)"


def a_class(many):
    """So many people, the first three the honest courses; the others copied, with changes."""
    changes = list(CHANGES.values())
    people = [a_submission(f"Learner {number:03}", {module: course[module] for module in CHAPTERS}) for number, course in enumerate(COURSES.values())]
    for number in range(3, many):
        course = list(COURSES.values())[number % 3]
        people.append(a_submission(f"Learner {number:03}", {module: changes[number % 4](course[module]) for module in CHAPTERS}))
    return compare([*people, a_submission("Broken", {"ch03_attention": "def f(:\n"})], load_syllabus().exercises, {})


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    comparison = a_class(30)
    return comparison, similarity_page.write_page(comparison, tmp_path_factory.mktemp("similarity"), "Week 3")


def test_the_page_says_what_a_percentage_means_and_shows_every_pair(browser, written):
    comparison, path = written
    page = browser.open(path)
    assert page.requests == [path.as_uri()] and page.errors == []
    assert "It proves nothing." in page.js("document.querySelector('.meaning').textContent")
    shown = comparison.pairs[: similarity_page.MAX_SHOWN_PAIRS]
    assert page.js("[...document.querySelectorAll('.pairs tbody tr')].map(row => row.cells[1].textContent)") == [f"{pair.percent} %" for pair in shown]
    assert page.js("document.querySelectorAll('section.pair').length") == len(shown) == min(comparison.found, 40)
    assert "1 file or submission is not compared" in page.js("document.body.textContent")


def test_nothing_is_wider_than_the_window_and_no_button_is_on_two_lines(browser, written):
    assert misfits(browser.open(written[1])) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_enough_contrast(browser, written, dark):
    text, _ = browser.open(written[1], dark=dark).js(CONTRAST)
    assert len(text) >= 6 and min(text.values()) >= 4.5, text


def test_names_and_code_that_are_markup_stay_text(browser, tmp_path):
    nasty = report_examples.SCRIPT
    helper = f"\n\ndef helper(x):\n    '''{nasty}'''\n    # {nasty}\n    return x.roll(7, dims=0)[1].add(5), {nasty!r}\n"
    code = COURSES["typed"]["ch03_attention"] + helper
    people = [a_submission(name, {"ch03_attention": code}) for name in (report_examples.SCRIPT, report_examples.TURNED, "")]
    path = similarity_page.write_page(compare(people, load_syllabus().exercises, {}), tmp_path, report_examples.SCRIPT)
    page = browser.open(path)
    assert page.errors == [] and page.requests == [path.as_uri()]
    assert page.js("[document.scripts.length, document.images.length, document.styleSheets.length]") == [1, 0, 1]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.js("document.body.textContent"))
    assert len(page.js(VISIBLE.format("section.pair h2"))) == 3
