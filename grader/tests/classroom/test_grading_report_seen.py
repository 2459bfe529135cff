"""The class report in a real browser: by eye, keyboard and screen reader, in light and dark, on a phone, on paper, and under attack."""

import re

import pytest
import report_examples as classes
from browser import Browser, needs_chromium
from contrast import CONTRAST
from grader.classroom.class_report import write_report
from page_layout import misfits

pytestmark = [pytest.mark.thorough, needs_chromium]

OPEN_ALL = "document.querySelectorAll('details').forEach(details => { details.open = true; })"
MODES = [pytest.param(False, id="light"), pytest.param(True, id="dark")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_report(classes.small(), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return write_report(classes.hostile(), tmp_path_factory.mktemp("hostile"))


def test_the_instructor_reads_the_numbers_of_the_class(browser, small):
    page = browser.open(small)
    text = page.js("document.body.innerText")
    assert page.requests == [small.as_uri()] and page.errors == []
    for sentence in (
        "7 people, 3 exercises from chapters 3\u00a0Attention, 5\u00a0Layers.",
        "Hardest was softmax: 4 of the 6 who started it did not get full points.",
        "Most frequent misconception, of 2 people, in softmax: The scores go into exp as they are.",
        "1 person could not be graded",
        "1 person submitted late.",
        "2 people of the 6 who started softmax",
        "What can be subtracted from every score?",
        "the archive is protected by a password",
        "five, softmax: line 9 uses torch.softmax",
        "ch03_attention.py: SyntaxError: invalid syntax.",
    ):
        assert sentence in text


def test_nothing_is_wider_than_the_window_and_no_button_is_on_two_lines(browser, small, hostile):
    assert [misfits(browser.open(path)) for path in (small, hostile)] == [[], []]


def test_a_name_that_is_a_script_stays_text(browser, hostile):
    page = browser.open(hostile)
    page.js(OPEN_ALL)
    assert page.js("document.title") == "Class report: 11 people, 3 exercises"
    assert page.js("document.querySelector('.person h3').textContent") == classes.SCRIPT
    assert page.js("[document.scripts.length, document.images.length, document.styleSheets.length]") == [1, 0, 1]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.js("document.body.textContent"))
    assert "{{ 7 * 7 }}" in page.js("document.body.textContent")
    assert page.requests == [hostile.as_uri()]
    assert page.errors == []


def test_the_security_policy_forbids_everything_else(browser, small):
    """Even if an escape were missing somewhere, nothing could run, load or be sent."""
    page = browser.open(small)
    page.js("""(() => {
        const add = (tag, set) => document.body.append(Object.assign(document.createElement(tag), set));
        add("script", {textContent: "document.title = 'broken into'"});
        add("img", {src: "https://example.org/picture"});
        add("link", {rel: "stylesheet", href: "https://example.org/style"});
        document.body.insertAdjacentHTML("beforeend", "<b onclick='document.title=1' style='color:red'>x</b>");
        document.body.lastChild.click();
        return fetch("https://example.org/sent").catch(() => 0);
    })()""")
    page.until(lambda: len(page.blocked) == 2 and sum("Content Security Policy" in error for error in page.errors) >= 6)
    assert page.requests == [small.as_uri()]
    assert page.js("document.title").startswith("Class report")
    assert page.js("getComputedStyle(document.body.lastChild).color") != "rgb(255, 0, 0)"


@pytest.mark.parametrize("dark", MODES)
def test_all_text_has_enough_contrast(browser, small, dark):
    """WCAG AA: 4.5 for text; 3 for what is drawn."""
    page = browser.open(small, dark=dark)
    page.js(OPEN_ALL)
    text, bars = page.js(CONTRAST)
    assert len(text) >= 5 and min(text.values()) >= 4.5, text
    assert set(bars) == {"passed", "partly", "failed", "error"} and min(bars.values()) >= 3, bars
    assert (page.js("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)") is not dark


def test_a_phone_never_scrolls_sideways(browser, hostile):
    page = browser.open(hostile, width=360, height=740)
    page.js(OPEN_ALL)
    assert page.js("[innerWidth, document.scrollingElement.scrollWidth]") == [360, 360]
    assert page.js("document.querySelector('.wide').closest('.scroll').scrollWidth") > 360  # a wide table scrolls inside itself
    outside = "[...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, .code, pre, svg') && one.getBoundingClientRect().right > 360)"
    assert page.js(f"{outside}.map(one => one.outerHTML)") == []


def test_everything_can_be_focused_by_keyboard_and_shows_the_focus(browser, small):
    page = browser.open(small)
    page.js(OPEN_ALL)
    reachable = "[...document.querySelectorAll('a, summary, input, button, .scroll')]"
    for _ in range(3 * page.js(f"{reachable}.length")):
        page.press("Tab")
        if page.js("document.activeElement === document.body"):
            break
        page.js("document.activeElement.dataset.reached = getComputedStyle(document.activeElement).outline")
    assert page.js(f"{reachable}.filter(one => !/3px/.test(one.dataset.reached)).map(one => one.outerHTML)") == []


def test_a_screen_reader_finds_its_way(browser, small):
    page = browser.open(small)
    tree = page.tree()
    assert {"banner", "navigation", "main", "contentinfo", "search"} <= {role for role, _ in tree}
    assert ("region", "Misconceptions of this class") in tree
    assert ("searchbox", "Find a person") in tree
    assert ("table", "People by their share of all points, in percent") in tree
    page.js(OPEN_ALL)
    levels = page.js("[...document.querySelectorAll('h1, h2, h3, h4')].map(heading => Number(heading.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))
    for needed in ("caption", "th[scope=col]", "th[scope=row]"):
        assert page.js(f"[...document.querySelectorAll('table')].every(table => table.querySelector('{needed}'))")
    assert page.js("[...document.querySelectorAll('svg')].every(drawn => drawn.getAttribute('aria-hidden') === 'true')")
    assert page.js("document.documentElement.lang") == "en"


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without"])
def test_a_link_to_a_person_expands_the_section(browser, small, script):
    page = browser.open(small, script=script, at="p4")
    assert page.js("[...document.querySelectorAll('.person')].map(person => person.open)") == [False] * 3 + [True] + [False] * 3
    top = page.js("document.querySelectorAll('.person > summary')[3].getBoundingClientRect().top")
    assert 0 <= top <= page.js("innerHeight")
    assert page.js("document.getElementById('find').checkVisibility()") is script


def test_people_are_found_by_name(browser, small):
    page = browser.open(small)
    page.js("document.getElementById('name').focus()")
    page.type("THREE")
    page.until(lambda: page.js("document.getElementById('found').textContent"))
    assert page.js("[...document.querySelectorAll('.person h3')].filter(name => name.checkVisibility()).map(name => name.textContent)") == ["three"]
    assert page.js("document.getElementById('found').textContent") == "1 of 7 people"
    assert page.js("[...document.querySelectorAll('.heat tbody tr')].filter(row => row.checkVisibility()).map(row => row.cells[0].textContent)") == ["three"]
    page.js("document.getElementById('open').click()")
    assert page.js("document.querySelectorAll('.person[open]').length") == 1
    page.js("document.querySelector('a[href=\"#p7\"]').click()")
    page.until(lambda: page.js("document.querySelectorAll('.person')[6].checkVisibility() && document.querySelectorAll('.person')[6].open"))
    page.js("document.getElementById('close').click()")
    assert page.js("document.querySelectorAll('.person[open]').length") == 0


def test_in_print_lecture_sections_are_expanded_and_people_stay_as_they_are(browser, small):
    page = browser.open(small, media="print", dark=True, width=720)
    seen = "[...document.querySelectorAll('{}')].map(element => element.checkVisibility({{contentVisibilityAuto: true}}))"
    assert page.js(seen.format(".who li")) == [True, True, False, False]  # mistakes of one person each stay collapsed
    assert all(page.js(seen.format("article:not(.more *) dl")))
    assert not any(page.js(seen.format(".person > div")))
    assert not any(page.js(seen.format("nav, form, .skip")))
    assert page.js("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.js("[innerWidth, document.scrollingElement.scrollWidth]") == [720, 720]


def test_mistakes_of_one_person_are_collapsed(browser, small):
    page = browser.open(small)
    assert page.js("[...document.querySelectorAll('.mistake')].map(title => [title.textContent, title.title, title.checkVisibility()])") == [
        [classes.OVERFLOW.says, classes.OVERFLOW.id, True],
        [classes.DIAGONAL.says, classes.DIAGONAL.id, False],
    ]


def test_every_table_of_numbers_is_sorted_by_a_press_on_a_heading(browser, small):
    page = browser.open(small)
    first = "[...document.querySelectorAll('.sortable')][{}].tBodies[0].rows[0].cells[0].innerText.split('\\n')[0]"
    press = "[...document.querySelectorAll('.sortable')][{}].querySelectorAll('thead button')[{}].click()"
    assert page.js("document.querySelectorAll('table:not(.sortable)').length") == 1, "the histogram"
    assert page.js("document.querySelectorAll('.sortable').length") == 5
    for table, column, name in ((0, 0, "seven"), (1, 1, "six"), (2, 1, "three"), (3, 7, "gelu"), (4, 1, "one")):
        page.js(press.format(table, column))
        assert page.js(first.format(table)).replace("\u200b", "") == name, (table, column)
