"""The page of `headway play --web` in a real browser: a text that streams, bars, attention under the mouse, sliders, the keyboard, errors, two tabs."""

from __future__ import annotations

import re

import pytest
from browser import Browser, needs_chromium
from grader.models.play.engine import Settings
from grader.teaching.drawing import contrast
from grader.tests.models.own_models import MOE, TRANSLATOR
from grader.tests.models.page_engines import ENDLESS, api_of, random_engine, served, written_ids
from page_layout import misfits

pytestmark = [pytest.mark.thorough, needs_chromium]

TOKENS = "[...document.querySelectorAll('.token')]"
BARS = """[...document.querySelectorAll('.candidate')].map(bar =>
    [bar.querySelector('.name').textContent, ...[...bar.querySelectorAll('.number')].map(number => number.textContent)])"""
COLOURS = """(() => {
    const tokens = [...document.querySelectorAll('.token')], shades = tokens.map(token => Number(token.style.getPropertyValue('--weight')));
    const token = tokens[shades.indexOf(Math.max(...shades))];
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const hex = part => part.toString(16).padStart(2, '0');
    const paint = colour => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return '#' + [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(hex).join('');
    };
    const ink = paint(getComputedStyle(token).color);
    paint(getComputedStyle(token.closest('.card')).backgroundColor);
    return [ink, paint(getComputedStyle(token).backgroundColor)];
})()"""  # the ink and the background of the token with the strongest shade


def opened(browser, address, **how):
    """The page, when its scripts have begun."""
    page = browser.open(address, **how)
    page.until(lambda: page.js("'ready' in document.documentElement.dataset"))
    return page


def set_slider(page, name, value):
    page.js(f"(() => {{ const input = document.getElementById('{name}'); input.value = {value}; input.dispatchEvent(new Event('input')); }})()")


def write(page, text, length=12):
    """Write a text and wait until the page shows the inside of the model."""
    set_slider(page, "length", length)
    page.js("(() => { const box = document.getElementById('beginning'); box.value = ''; box.focus(); })()")
    page.type(text)
    page.press("Enter")
    finished(page)


def finished(page):
    """Wait until no text is written and the page shows the inside of the model."""
    page.until(lambda: page.js(f"!document.documentElement.classList.contains('busy') && {TOKENS}.length"))
    page.until(lambda: page.js("!document.getElementById('lens').hidden && !document.getElementById('heads').hidden && document.querySelectorAll('.candidate').length"))


def point(page, place):
    """Move the mouse over a token."""
    x, y = page.js(f"(() => {{ const box = {TOKENS}[{place}].getClientRects()[0]; return [box.x + box.width / 2, box.y + box.height / 2]; }})()")
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def text_of(page):
    """The text of the (first) model, without marks such as that of the beginning."""
    return page.js("""(() => {
        const text = document.querySelector('.text').cloneNode(true);
        text.querySelectorAll('.mark').forEach(mark => mark.remove());
        return text.textContent;
    })()""")


def weights(page):
    return page.js(f"{TOKENS}.map(token => Number(token.style.getPropertyValue('--weight')))")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def mixture(parts, words):
    return random_engine(parts, words, MOE, "mixture")


@pytest.fixture(scope="module")
def address(engine, mixture):
    with served(api_of(engine, mixture=mixture)) as server:
        yield server.address


def test_a_person_types_a_beginning_and_the_text_streams(browser, address, engine):
    page = opened(browser, address)
    set_slider(page, "length", 400)
    page.js("document.getElementById('beginning').focus()")
    page.type("the cat sat")
    page.press("Enter")
    page.until(lambda: page.js("document.querySelectorAll('.token.written').length > 3"))
    assert page.js("document.documentElement.classList.contains('busy')")  # the text is shown while it is written
    page.js("document.getElementById('stop').click()")
    finished(page)
    count = page.js("document.querySelectorAll('.token.written').length")
    assert 3 < count < 400 and page.js("document.getElementById('status').textContent") == f"Stopped after {count} tokens."
    ids = engine.read("the cat sat", 400).ids
    pieces = [piece for piece in engine.write(ids, Settings(length=count, seed=0)) if hasattr(piece, "id")]
    assert text_of(page) == engine.text(ids) + "".join(piece.text for piece in pieces)
    page.js("document.getElementById('go-on').click()")
    page.until(lambda: page.js("document.querySelectorAll('.token.written').length") > count)
    page.js("document.getElementById('stop').click()")
    finished(page)
    assert page.errors == [] and all(url.startswith(address) for url in page.requests)


def test_bars_show_what_was_possible_and_a_click_goes_on_from_another_token(browser, address, engine):
    page = opened(browser, address)
    write(page, "the cat sat", 8)
    expected = engine.likeliest(written_ids(engine, "the cat sat", 8), Settings(length=8))
    assert page.js(BARS) == [[c.text, f"{100 * c.probability:.1f} %", f"{100 * c.drawn:.1f} %"] for c in expected]
    page.js(f"{TOKENS}[6].click()")
    page.until(lambda: "the model wrote" in page.js("document.getElementById('next-where').textContent"))
    there = page.js("document.querySelector('.candidate.there .name')?.textContent ?? null")
    shown = page.js(f"{TOKENS}[6].textContent.trim()")
    assert there in (None, shown)
    before, other = text_of(page), page.js("document.querySelector('.candidate:not(.there) .name').textContent")
    start = engine.text(written_ids(engine, "the cat sat", 8)[:6])
    page.js("document.querySelector('.candidate:not(.there)').click()")
    finished(page)
    after = text_of(page)
    assert before.startswith(start) and after.startswith(start) and after != before
    assert page.js(f"{TOKENS}[6].textContent.trim().toLowerCase()") == other.lower() and page.js(f"{TOKENS}[6].classList.contains('put')")
    assert page.js("document.querySelectorAll('.token').length") == 4 + 2 + 1 + 8  # the beginning with its mark, two tokens, the one that was put, the new ones
    assert page.errors == []


def test_the_mouse_shades_the_tokens_that_a_head_looks_at(browser, address, engine):
    page = opened(browser, address)
    write(page, "the cat sat on the mat", 6)
    ids = written_ids(engine, "the cat sat on the mat", 6)
    patterns = engine.attention(ids)
    for layer, head, place in ((0, 0, 5), (1, 1, 9), (1, 0, 3)):
        page.js(f"document.querySelectorAll('#heads button')[{layer * 2 + head}].click()")
        point(page, place)
        page.until(lambda: page.js(f"{TOKENS}[{place}].classList.contains('pointed')"))  # noqa: B023 - called at once
        row = patterns[layer, head, place, : place + 1].tolist()
        shades = weights(page)
        full = max(0.2, *row)
        assert shades[place + 1 :] == [0] * (len(ids) - place - 1)
        for shade, weight in zip(shades, row):
            assert shade == pytest.approx((weight / full) ** 0.5, abs=0.06)
        best = max(range(place + 1), key=row.__getitem__)
        said = page.js("document.getElementById('attention-says').textContent")
        assert f"looks at “{page.js(f'{TOKENS}[{best}].textContent.trim()')}”" in said or f"{round(100 * row[best])} %" in said
    assert page.js("[document.getElementById('layer').value, document.getElementById('head').value]") == ["2", "1"]
    kind = engine.head_kind(patterns[1, 0])
    assert page.js("document.getElementById('head-kind').textContent") == f"classify_head calls it “{kind}”"
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    page.until(lambda: not any(weights(page)))
    page.js("(() => { const layer = document.getElementById('layer'); layer.value = 1; layer.dispatchEvent(new Event('change')); })()")
    assert page.js("document.querySelectorAll('#heads button')[0].getAttribute('aria-pressed')") == "true"


def test_the_page_works_with_the_keyboard_and_names_everything(browser, address):
    page = opened(browser, address)
    write(page, "the cat sat", 5)
    page.js("document.getElementById('write').focus()")
    page.press("Tab")  # Go on; Stop cannot be used now
    assert page.js("document.activeElement.id") == "go-on"
    page.press("Tab")
    assert page.js("document.activeElement.matches('.token.mark')")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=39)
        page.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=39)
    assert page.js(f"{TOKENS}.indexOf(document.activeElement)") == 4
    assert any(weights(page)[:5])  # a focused token shows its attention as one under the mouse does
    page.press("Enter")
    page.until(lambda: page.js(f"{TOKENS}[4].getAttribute('aria-pressed')") == "true")
    page.press("Escape")
    page.until(lambda: page.js(f"{TOKENS}[4].getAttribute('aria-pressed')") == "false")
    for role, name in page.tree():
        assert role not in ("button", "slider", "spinbutton", "textbox", "combobox", "checkbox", "table") or name.strip(), role
    roles = {role: name for role, name in page.tree()}
    assert {"slider", "spinbutton", "textbox", "combobox", "table", "status", "main"} <= set(roles)
    assert ("slider", "Temperature") in page.tree() and ("textbox", "The beginning of a text") in page.tree()


@pytest.mark.parametrize("width, dark", [(1280, False), (390, True)])
def test_wide_narrow_light_and_dark(browser, address, width, dark):
    page = opened(browser, address, width=width, dark=dark)
    write(page, "the cat sat on the mat " * 8, 30)
    assert page.js("document.documentElement.scrollWidth") <= width
    channels = [int(part) for part in re.findall(r"\d+", page.js("getComputedStyle(document.body).backgroundColor"))[:3]]
    assert (sum(channels) < 150) == dark
    wide = page.js("document.querySelector('.writing').getBoundingClientRect().right < document.getElementById('inside').getBoundingClientRect().left")
    assert wide == (width == 1280)
    assert page.js("document.getElementById('settings').open") == (width == 1280)
    for place in (5, 30):
        point(page, place)
        ink, strongest = page.js(COLOURS)
        assert contrast(ink, strongest) >= 4.5
    page.js("document.getElementById('theme').click()")
    other = [int(part) for part in re.findall(r"\d+", page.js("getComputedStyle(document.body).backgroundColor"))[:3]]
    assert (sum(other) < 150) != dark
    page.js("localStorage.clear()")
    assert page.errors == []


def test_names_and_tokens_as_long_as_those_of_learners_models_fit_every_window(browser, parts, words, mixture):
    for design in (ENDLESS, TRANSLATOR):
        with served(api_of(random_engine(parts, words, design, "stories-rope-swiglu-rmsnorm-experts"), mixture=mixture)) as server:
            page = opened(browser, server.address)
            page.js("document.getElementById('beginning').focus()")
            page.type("the cat sat")
            page.press("Enter")
            page.until(lambda: page.js("!document.documentElement.classList.contains('busy') && document.querySelectorAll('.token, .pair').length"))  # noqa: B023
            page.js("document.querySelectorAll('#lens .name').forEach(name => { name.textContent = '<|endoftext|>'; })")
            assert misfits(page, tables_may_scroll=False) == []


def test_what_is_typed_is_text_and_never_markup(browser, address, engine):
    page = opened(browser, address)
    word = "<img src=x onerror=document.title='hacked'>"
    engine_unknown, engine.tokenizer.unknown_words = engine.tokenizer.unknown_words, lambda text: [text]  # so that a note repeats it
    try:
        write(page, word, 3)
    finally:
        engine.tokenizer.unknown_words = engine_unknown
    assert word in page.js("document.querySelector('.notes').textContent")
    assert page.js("document.querySelectorAll('main img').length") == 0 and "hacked" not in page.js("document.title") and page.errors == []


def test_two_models_write_side_by_side(browser, address, mixture):
    page = opened(browser, address)
    write(page, "the cat sat", 5)
    page.js("(() => { const select = document.getElementById('compare'); select.value = 'mixture'; select.dispatchEvent(new Event('change')); })()")
    page.until(lambda: page.js("document.querySelectorAll('.pane').length === 2 && document.querySelectorAll('.pane')[1].querySelectorAll('.written').length === 5"))
    assert page.js("[...document.querySelectorAll('.pane h2')].map(title => title.textContent)") == ["tiny", "mixture"]
    pieces = [piece.text for piece in mixture.write(mixture.read("the cat sat", 5).ids, Settings(length=5, seed=0)) if hasattr(piece, "id")]
    assert page.js("document.querySelectorAll('.pane')[1].querySelector('.text').textContent") == "startThe cat sat" + "".join(pieces)  # the same seed
    page.js("document.querySelectorAll('.pane')[1].querySelectorAll('.token')[2].click()")
    page.until(lambda: "this model is another one" in page.js("document.getElementById('attention-says').textContent"))  # experts have no chapter 12
    page.js("(() => { const select = document.getElementById('compare'); select.value = 'damaged'; select.dispatchEvent(new Event('change')); })()")
    page.until(lambda: page.js("document.getElementById('compare-status').textContent") == "Damaged/checkpoint.json is damaged; train the model again.")
    assert page.js("document.querySelectorAll('.pane').length") == 1 and page.errors == []


def test_a_translator_shows_source_and_translation(browser, parts, words):
    engine = random_engine(parts, words, TRANSLATOR, "hindi")
    with served(api_of(engine)) as server:
        page = opened(browser, server.address)
        page.type("the cat sat")
        page.press("Enter")
        page.until(lambda: page.js("document.querySelectorAll('.pair').length"))
        source, target = page.js("[...document.querySelectorAll('.pair dd')].map(text => text.textContent)")
        assert (source, target) == ("the cat sat", engine.translate("the cat sat", 100) or "(nothing)")
        assert page.js("document.getElementById('write').textContent") == "Translate"
        assert page.js("document.getElementById('temperature').offsetParent") is None and page.errors == []
