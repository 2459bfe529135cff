"""The book in a real browser: every page, served and from its folder, light and dark, on a phone, without scripts; its search, contents and copied code."""

from __future__ import annotations

import json
import re
import shutil
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from browser import needs_chromium
from contrast import CONTRAST
from grader.course.syllabus import load_syllabus
from local_pages import serving
from page_layout import misfits

pytestmark = [pytest.mark.thorough, needs_chromium]

PHONE = 360
MODES = [pytest.param(False, id="light"), pytest.param(True, id="dark")]
SEEN = """({
    links: [...document.querySelectorAll("a[href]")].map(link => link.href),
    ids: [...document.querySelectorAll("[id]")].map(one => one.id),
    unseen: [...document.images].map(image => image.src),
    undescribed: [...document.querySelectorAll("svg")].filter(
        one => one.getAttribute("role") !== "img" || !one.ariaLabel || !one.getBoundingClientRect().height).length,
    pictures: document.querySelectorAll("svg").length,
    wide: document.documentElement.scrollWidth,
    headings: document.querySelectorAll("h1").length,
    title: document.title,
    open: document.querySelectorAll("details[open]").length,
    levels: [...document.querySelectorAll("main :is(h1, h2, h3, h4)")].map(one => Number(one.tagName[1])),
})"""


@pytest.fixture(scope="module")
def pages(browser, address, folder):
    """Every page on a phone, by its name: what SEEN reports, its errors and its requests."""
    found, page = {}, browser.open("about:blank", width=PHONE, height=700)
    for path in sorted(folder.glob("*.html")):
        page.visit(address + path.name)
        found[path.name] = page.js(SEEN) | {"errors": page.errors, "requests": page.requests}
    return found


def test_every_page_has_its_own_title_and_no_error_and_asks_nobody_else(pages, address):
    assert {f"{chapter.name}.html" for chapter in load_syllabus().chapters} <= set(pages)
    assert {name: page["errors"] for name, page in pages.items() if page["errors"]} == {}
    assert len({page["title"] for page in pages.values()}) == len(pages)
    assert [url for page in pages.values() for url in page["requests"] if not url.startswith(address)] == []
    assert all(len(page["requests"]) >= 4 for page in pages.values())  # the page, its style, its two scripts


def test_every_link_leads_to_a_page_and_a_place_that_is_there(pages, address, folder):
    lost = []
    for name, page in pages.items():
        assert len(page["ids"]) == len(set(page["ids"])), name
        for link in page["links"]:
            place, part = urldefrag(urljoin(address + name, link))
            target = unquote(place.removeprefix(address)) or "index.html"
            is_page = place.startswith(address) and target in pages
            if not is_page or (part and unquote(part) not in pages[target]["ids"]):
                lost.append((name, link))
    assert lost == []


def test_every_page_fits_a_phone_and_can_be_read_by_a_screen_reader(pages):
    for name, page in pages.items():
        assert page["wide"] <= PHONE and page["headings"] == 1, name
        assert all(b <= a + 1 for a, b in zip([0, *page["levels"]], page["levels"])), f"{name}: no level of the headings is skipped"
        assert not page["unseen"] and not page["undescribed"], f"{name}: each picture is in its page, with a description"
        assert not page["open"], f"{name}: hints are collapsed"
    assert sum(page["pictures"] for page in pages.values()) > 12


def test_nothing_is_wider_than_the_window_and_no_button_is_on_two_lines(browser, address, folder):
    page = browser.open("about:blank")
    found = {}
    for path in sorted(folder.glob("*.html")):
        page.visit(address + path.name)
        found |= {path.name: wrong} if (wrong := misfits(page)) else {}
    assert found == {}


@pytest.mark.parametrize("dark", MODES)
def test_all_text_has_enough_contrast(browser, address, dark):
    page = browser.open("about:blank", dark=dark)
    for name in ("ch03_attention.html", "index.html", "glossary.html"):
        page.visit(address + name)
        page.js("document.querySelectorAll('svg, .here').forEach(one => one.remove())")  # test_pictures.py tests the colours of pictures
        texts, _ = page.js(CONTRAST)
        assert {colours: ratio for colours, ratio in texts.items() if ratio < 4.5} == {}


def test_dark_follows_the_system_until_the_reader_chooses_and_the_choice_is_kept(browser, address):
    def paper(page):
        return page.js("getComputedStyle(document.body).backgroundColor")

    light, dark = paper(browser.open(address)), paper(browser.open(address, dark=True))
    assert light != dark
    page = browser.open(address)
    page.js("document.getElementById('book-theme').click()")
    assert paper(page) == dark and page.js("document.getElementById('book-theme').ariaPressed") == "true"
    other = browser.open(address + "glossary.html")
    assert paper(other) == dark
    other.js("document.getElementById('book-theme').click()")
    assert paper(other) == light
    other.js("localStorage.clear()")


def test_the_keyboard_reaches_everything_and_the_focus_is_visible(browser, address):
    page = browser.open(address + "ch03_attention.html")
    focused = """(() => {
        const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
        const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
        return [at.id || at.getAttribute("href") || at.tagName, outlined && box.bottom > 0 && box.width > 0];
    })()"""
    met = []
    for _ in range(150):
        page.press("Tab")
        where, visible = page.js(focused)
        assert visible or where == "BODY", where
        met.append(where)
    chapter, word = "ch04_positions_in_attention.html", "glossary.html#query"
    assert set(met) >= {"#content", "book-query", "book-theme", chapter, "glossary.html", "#softmax", word}
    page = browser.open(address + "ch03_attention.html")
    page.press("Tab")
    page.press("Enter")
    assert page.js("document.activeElement.id") == "content"
    page.press("Tab")
    assert page.js("document.getElementById('content').contains(document.activeElement)")
    page.js("document.querySelector('#softmax summary').focus()")
    page.press("Enter")
    assert page.js("document.querySelector('#softmax details').open")


def test_what_is_wider_than_a_phone_can_be_moved_by_keyboard(browser, address):
    page = browser.open(address + "ch03_attention.html", width=PHONE)
    page.until(lambda: page.js("[...document.querySelectorAll('main .scroll')].some(box => box.tabIndex === 0)"))
    assert page.js("""[...document.querySelectorAll("main .scroll, main pre")].every(
        box => (box.scrollWidth > box.clientWidth) === (box.tabIndex === 0))""")


@pytest.mark.parametrize("served", [True, False], ids=["served", "folder"])
def test_the_search_finds_and_is_used_without_a_mouse(browser, address, folder, served):
    page = browser.open(address if served else folder / "index.html")
    page.js("document.getElementById('book-query').focus()")
    page.type("paddin mask")
    page.until(lambda: page.js("document.querySelectorAll('#book-results a').length"))
    assert page.js("document.querySelector('#book-results a strong').textContent") == "padding_mask"
    page.press("Enter")
    page.until(lambda: page.js("location.hash + document.readyState") == "#padding_maskcomplete")
    assert page.js("location.pathname").endswith("/ch03_attention.html")
    page.js("document.getElementById('book-query').focus()")
    page.type("xyzzy")
    page.until(lambda: page.js("document.querySelector('#book-results .count')?.textContent") == "No results.")
    page.press("Escape")
    assert page.js("document.getElementById('book-results').hidden")
    assert page.errors == []


def test_the_served_book_shows_what_is_passed_and_asks_again_when_it_comes_into_view(browser, module_kit, folder):
    kit = module_kit
    shutil.copytree(folder, kit.root / "build" / "book")
    kit.solve("ch00_first_model")
    kit.record(count_bigrams=25, average_loss=10)
    marked = """[...document.querySelectorAll(".passed")].map(one => one.id || one.hash)"""
    with serving(kit, "book", "--no-browser") as (_, said):
        address = re.search(r"http://127\.0\.0\.1:\d+/", said)[0]
        page = browser.open(address + "ch00_first_model.html")
        page.until(lambda: page.js(marked))
        assert sorted(page.js(marked)) == ["#count_bigrams", "count_bigrams"]  # in the contents and on its card
        assert "✓ passed" in page.js("getComputedStyle(document.querySelector('#count_bigrams .points'), '::after').content")
        assert page.js("document.querySelector('#book-chapters [data-chapter=ch00_first_model]').textContent") == "1 of 4 passed"
        kit.record(count_bigrams=25, average_loss=25)
        page.js("document.dispatchEvent(new Event('visibilitychange'))")
        page.until(lambda: "#average_loss" in page.js(marked))
        page.visit(address + "index.html")
        page.until(lambda: page.js("document.querySelector('.front .tally').textContent") == "2 of 4 passed")
        assert page.js("[...document.querySelectorAll('.tally')].filter(one => one.offsetHeight).length") == 2  # one chapter, in two places
        assert page.js("document.querySelectorAll('.path.chosen').length") == 0
        kit.run("path", "first-model")
        page.visit(address + "index.html")
        page.until(lambda: "your path: about" in page.js("document.querySelector('.path.chosen[open] .tally')?.textContent ?? ''"))
        kit.run("path", "all")
        assert page.errors == []
    kept = browser.open(folder / "ch00_first_model.html")
    kept.until(lambda: kept.js("!document.querySelector('script[src=\"progress.js\"]')"))
    assert kept.js(marked) == [] and kept.errors == []


def test_from_its_folder_and_without_scripts_the_book_can_be_read(browser, folder):
    page = browser.open(folder / "ch03_attention.html", width=PHONE, script=False)
    assert page.js("document.getElementById('book-chapters').offsetHeight") > 0
    assert page.js("getComputedStyle(document.getElementById('book-search')).display") == "none"
    assert page.js("document.documentElement.scrollWidth") == PHONE
    assert all(url.startswith(folder.as_uri()) for url in page.requests)


# ---- the scripts


FOUND = {  # what a reader types: the address, or its beginning, of the first hit
    "why divide by sqrt": "ch03_attention.html#why-divide-by",
    "attention": "ch03_attention.html",
    "softmax": "ch03_attention.html#softmax",
    "multi head attention": "ch03_attention.html#MultiHeadAttention",
    "training": "ch08_training.html",
    "kv_cache_bytes": "ch10_kv_cache.html#kv_cache_bytes",
    "what is a token": "glossary.html#token",
    "rotary": "glossary.html#rope",
    "top p": "ch09_sampling.html#top_p_filter",
    "broadcasting": "ch00_refresher.html#broadcasting",
}
IN_VIEW = """(() => {{
    const at = document.querySelector("[aria-current={}]").getBoundingClientRect();
    return at.top >= 0 && at.bottom <= innerHeight;
}})()"""


def test_the_first_hit_is_the_best_and_a_typing_error_is_forgiven_only_where_nothing_matches(browser, address):
    page = browser.open(address)
    page.js("load()")

    def searched(query):
        return page.js(f"headwaySearch({json.dumps(query)})")

    def addresses(query):
        return [hit["address"] for hit in searched(query)["hits"]]

    for query, best in FOUND.items():
        assert addresses(query)[0].startswith(best), query
    assert addresses("trained")[:10] == addresses("trains")[:10]  # further down, names of arguments count too
    assert addresses("the attention of a model") == addresses("attention model")
    for typed in ("softm", "softma", "cross_ent", "LayerN"):  # what is being typed is the exercise with this beginning
        assert addresses(typed)[0].endswith(("#softmax", "#cross_entropy", "#LayerNorm")), typed
    assert searched("attenton")["instead"] == "attention" and searched("attention")["instead"] is None
    assert searched("bakcpropagation")["instead"] == "backpropagation"
    assert searched("xyzzyqux")["hits"] == []


def test_a_search_for_an_exercise_finds_exercises_and_lessons_before_the_pages_about_the_kit(browser, address):
    """These pages have tables with the name of every exercise."""
    page = browser.open(address)
    page.js("load()")
    for exercise in load_syllabus().exercises:
        hits = page.js(f"headwaySearch({json.dumps(exercise.name)}).hits.map(hit => [hit.where, hit.title, hit.address])")
        assert hits[0][2].endswith(f"#{exercise.name}")
        about_the_kit = [where.endswith("about the kit") for where, _, _ in hits]
        lessons = [where[0].isdigit() for where, _, _ in hits]
        assert not any(about_the_kit[: min(12, sum(lessons))]), (exercise.name, hits[:12])
    assert page.js("headwaySearch('canvas').hits[0].address").startswith("grading.html")  # where the lessons have nothing, they are found


def test_the_contents_mark_the_part_that_is_read(browser, address):
    page = browser.open(address + "ch03_attention.html")
    marked = "document.querySelector('#book-chapters [aria-current=location]')?.hash"
    for anchor in ("softmax", "shapes", "MultiHeadAttention", "the-idea"):
        page.js(f"document.getElementById('{anchor}').scrollIntoView()")
        page.until(lambda: page.js(marked) == f"#{anchor}")  # noqa: B023 - called at once
        assert page.js(IN_VIEW.format("location"))


def test_code_is_copied_by_keyboard_and_a_session_without_its_prompts_and_results(browser, address):
    page = browser.open(address + "ch03_attention.html")
    page.ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.js("document.querySelector('#softmax .copy').focus()")
    page.press("Enter")
    page.until(lambda: page.js("document.querySelector('#softmax .copy-box [role=status]').textContent") == "Copied")
    assert page.js("document.activeElement.className") == "copy"
    assert page.js("navigator.clipboard.readText()") == page.js("document.querySelector('#softmax pre').textContent")
    page.visit(address + "ch00_refresher.html")
    page.js("document.querySelector('.copy').click()")
    page.until(lambda: page.js("document.querySelector('.copy-box [role=status]').textContent") == "Copied")
    copied = page.js("navigator.clipboard.readText()")
    assert copied.startswith("import torch\nx = torch.arange(24)") and ">>>" not in copied
    assert "torch.Size" not in copied
    assert page.errors == []
