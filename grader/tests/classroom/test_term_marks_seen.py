"""The page of a term in a real browser: sorted, searched, in light and dark, on a phone, on paper, and under attack."""

import re

import pytest
import report_examples
from browser import Browser, needs_chromium
from contrast import CONTRAST
from grader.classroom.report import marks_page
from grader.classroom.term.marks import compute_term_marks
from grader.classroom.term.roster import RosterPerson
from term_examples import a_class_of, a_course, a_graded_person, a_term, an_assignment

pytestmark = [pytest.mark.thorough, needs_chromium]
NAMES = "[...document.querySelectorAll('#{} ~ .scroll tbody tr')].filter(row => row.checkVisibility()).map(row => row.cells[0].textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module", params=[12, 100, 400])
def term(request, tmp_path_factory):
    marks = a_term(request.param)
    return marks, marks_page.write(marks, tmp_path_factory.mktemp("term"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return marks_page.write(a_term(12), tmp_path_factory.mktemp("small"))


def names(page, section):
    return page.js(NAMES.format(section))


def press_heading(page, section, label):
    page.js(f"[...document.querySelectorAll('#{section} ~ .scroll thead button')].find(button => button.textContent === '{label}').click()")


def test_the_page_shows_every_person_and_exercise_and_makes_no_request(browser, term):
    marks, path = term
    page = browser.open(path)
    assert page.requests == [path.as_uri()] and page.errors == []
    assert names(page, "term") == names(page, "exercises") == [person.who.name for person in marks.people]
    columns = sum(len(one.exercises) for one in marks.classes.values())
    assert set(page.js("[...document.querySelectorAll('.heat tbody tr')].map(row => row.cells.length)")) == {columns + 1}
    shown = page.js("[...document.querySelectorAll('#term ~ .scroll tbody tr')].map(row => row.cells[3].textContent)")
    assert [float(percent) for percent in shown] == [float(person.percent) for person in marks.people]


def test_a_press_on_a_heading_sorts(browser, term):
    marks, path = term
    page = browser.open(path)
    press_heading(page, "term", "Percent")
    percents = {person.who.name: person.percent for person in marks.people}
    best = [percents[name] for name in names(page, "term")]
    assert best == sorted(best, reverse=True)
    assert page.js("document.querySelector('[aria-sort]').ariaSort") == "descending"
    press_heading(page, "term", "Percent")
    assert [percents[name] for name in names(page, "term")] == sorted(best)
    assert names(page, "exercises") == [person.who.name for person in marks.people]  # the other table keeps its order
    press_heading(page, "exercises", "softmax")
    values = page.js("(() => { const at = [...document.querySelectorAll('.heat thead tr:last-child th')].findIndex(one => one.ariaSort);"
                     " return [...document.querySelectorAll('.heat tbody tr')].map(row => row.cells[at].dataset.value ?? row.cells[at].textContent); })()")  # fmt: skip
    numbers = [float(value) for value in values if value]
    assert numbers == sorted(numbers, reverse=True) and values[len(numbers) :] == [""] * (len(values) - len(numbers)) != []
    press_heading(page, "term", "Name")
    assert names(page, "term") == sorted(percents)


def search(page, words):
    page.js(f"document.getElementById('name').value = {words!r}; document.getElementById('name').form.requestSubmit()")


def test_people_are_found_without_accents_and_by_their_ids(browser, tmp_path):
    people = (RosterPerson("Zoë Müller", "zoe@example.edu", "zm1", "s-77", section="S1", group="G1"), RosterPerson("Other One"))
    assignment = an_assignment("week1", ("softmax",))
    marks = compute_term_marks(a_course(assignment, people=people), {"week1": a_class_of(assignment, a_graded_person("Zoë Müller", assignment, (1,)))})
    page = browser.open(marks_page.write(marks, tmp_path))
    for words in ("zoe mu", "MÜLLER", "Mu\u0308ller", "zm1", "s-77", "zoe@", "S1", "g1"):
        search(page, words)
        assert names(page, "term") == names(page, "exercises") == ["Zoë Müller"], words


def test_people_are_found_by_name_section_and_group(browser, small):
    page = browser.open(small)
    page.js("document.getElementById('name').focus()")
    page.type("learner 003")
    page.until(lambda: page.js("document.getElementById('found').textContent"))
    assert names(page, "term") == names(page, "exercises") == ["Learner 003"]
    assert page.js("document.getElementById('found').textContent") == "1 of 12 people"
    press_heading(page, "term", "Percent")
    search(page, "G2")
    assert sorted(names(page, "term")) == names(page, "exercises") == ["Learner 006", "Learner 007", "Learner 008"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_enough_contrast(browser, small, dark):
    page = browser.open(small, dark=dark)
    text, _ = page.js(CONTRAST)
    assert len(text) >= 8 and min(text.values()) >= 4.5, text


def test_no_number_is_shown_by_a_colour_alone(browser, small):
    page = browser.open(small)
    assert page.js("[...document.querySelectorAll('.heat td[class]')].every(cell => /\\d/.test(cell.textContent))")


def test_a_phone_scrolls_only_the_tables(browser, term):
    page = browser.open(term[1], width=360, height=740)
    assert page.js("[innerWidth, document.scrollingElement.scrollWidth]") == [360, 360]


def test_on_a_phone_the_lines_of_a_row_are_level_and_the_caption_can_be_read(browser, term):
    page = browser.open(term[1], width=390, height=844)
    heights = page.js("[...document.querySelectorAll('.sheet tbody tr')].map(row => row.getBoundingClientRect().height)")
    assert all(height == int(height) for height in heights), "parts of a pixel are rounded differently in a column that stays in place"
    lines = page.js("[...document.querySelectorAll('.sheet tbody tr:not(:first-child) > *')].map(cell => getComputedStyle(cell))"
                    ".map(style => [style.borderTopWidth, style.borderBottomWidth].join())")  # fmt: skip
    assert set(lines) == {"1px,0px"}, "the cell below covers a line at the bottom"
    where = "(() => { const box = document.querySelector('.heat caption span').getBoundingClientRect(); return [box.left, box.right]; })()"
    for scrolled in (0, 300):
        page.js(f"document.querySelector('.heat').parentElement.scrollLeft = {scrolled}")
        left, right = page.js(where)
        assert 0 <= left < right <= 390 - 16


def test_in_print_the_tables_are_whole_and_in_black_on_white(browser, small, tmp_path):
    page = browser.open(small, media="print", dark=True, width=1000)
    assert page.js("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.js("[...document.querySelectorAll('.scroll')].every(one => getComputedStyle(one).overflow === 'visible')")
    assert not page.js("document.getElementById('find').checkVisibility()")
    pages = len(re.findall(rb"/Type\s*/Page\b", browser.open(small).pdf(tmp_path / "marks.pdf").read_bytes()))
    assert 1 <= pages <= 4


def test_without_a_script_the_page_can_be_read(browser, small):
    page = browser.open(small, script=False)
    assert len(names(page, "term")) == 12 and not page.js("document.getElementById('find').checkVisibility()")


def test_a_name_that_is_a_script_stays_text(browser, tmp_path):
    assignment = an_assignment("week1", ("softmax",))
    people = [RosterPerson(name, section=report_examples.NASTY) for name in (report_examples.SCRIPT, report_examples.TURNED, "")]
    graded = a_class_of(assignment, *(a_graded_person(person.name, assignment, (1,), late=report_examples.NASTY) for person in people))
    path = marks_page.write(compute_term_marks(a_course(assignment, people=tuple(people)), {"week1": graded}), tmp_path)
    page = browser.open(path)
    assert page.errors == [] and page.requests == [path.as_uri()]
    assert page.js("document.title") == "A term: marks of 3 people"
    assert page.js("[document.scripts.length, document.images.length, document.styleSheets.length]") == [1, 0, 1]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.js("document.body.textContent"))
