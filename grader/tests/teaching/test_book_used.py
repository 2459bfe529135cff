"""The scripts of the book in a real browser: the search, the contents, copied code, dark pictures."""

import json

import pytest
from browser import needs_chromium

pytestmark = [pytest.mark.thorough, needs_chromium]

FOUND = {  # what a reader types: the address, or its beginning, of the first hit
    "weight tying": "ch07_models.html",
    "backpropagation": "",
    "vanishing gradient": "ch08_training.html",
    "why divide by sqrt": "ch03_attention.html#why-divide-by",
    "attention": "ch03_attention.html",
    "attenton": "ch03_attention.html",
    "sofmax": "ch03_attention.html#softmax",
    "softmax": "ch03_attention.html#softmax",
    "paddin mask": "ch03_attention.html#padding_mask",
    "multi head attention": "ch03_attention.html#MultiHeadAttention",
    "multihead": "ch03_attention.html#MultiHeadAttention",
    "training": "ch08_training.html",
    "trained": "ch08_training.html",
    "kv cache": "ch10_kv_cache.html",
    "kv_cache_bytes": "ch10_kv_cache.html#kv_cache_bytes",
    "mixture of experts": "ch11_moe.html",
    "what is a token": "glossary.html#token",
    "rotary": "glossary.html#rope",
    "layer norm": "ch05_layers.html#LayerNorm",
    "gradient clipping": "ch08_training.html",
    "top p": "ch09_sampling.html#top_p_filter",
    "broadcasting": "ch00_refresher.html#broadcasting",
    "the big picture": "ch00_big_picture.html",
    "sandbox": "sandbox.html",
}
IN_VIEW = """(() => {{
    const at = document.querySelector("[aria-current={}]").getBoundingClientRect();
    return at.top >= 0 && at.bottom <= innerHeight;
}})()"""


@pytest.fixture(scope="module")
def searched(browser, address):
    page = browser.open(address)
    page.js("load()")
    return lambda query: page.js(f"headwaySearch({json.dumps(query)})")


@pytest.mark.parametrize("query", FOUND)
def test_the_first_hit_is_the_best(searched, query):
    hits = [hit["address"] for hit in searched(query)["hits"]]
    assert hits and hits[0].startswith(FOUND[query]), hits[:5]


def test_forms_of_a_word_find_the_same_and_a_typing_error_is_forgiven_only_where_nothing_matches(searched):
    def addresses(query):
        return [hit["address"] for hit in searched(query)["hits"]]

    assert addresses("training") == addresses("trained") == addresses("trains")
    assert addresses("the attention of a model") == addresses("attention model")
    assert searched("attenton")["instead"] == "attention" and searched("attention")["instead"] is None
    assert searched("bakcpropagation")["instead"] == "backpropagation"
    assert searched("xyzzyqux")["hits"] == []


def test_the_search_says_what_it_searched_for_instead(browser, address):
    page = browser.open(address)
    page.js("document.getElementById('book-query').focus()")
    page.type("attenton")
    page.until(lambda: page.js("document.querySelectorAll('#book-results a').length"))
    status = page.js("document.querySelector('#book-results [role=status]').textContent")
    assert status.endswith(" results for “attention”, the first 12:")
    assert page.errors == []


def test_the_contents_mark_the_part_that_is_read(browser, address):
    page = browser.open(address + "ch03_attention.html")
    marked = "document.querySelector('#book-chapters [aria-current=location]')?.hash"
    for anchor in ("softmax", "shapes", "MultiHeadAttention", "the-idea"):
        page.js(f"document.getElementById('{anchor}').scrollIntoView()")
        page.until(lambda: page.js(marked) == f"#{anchor}")  # noqa: B023 - called at once
        assert page.js(IN_VIEW.format("location"))


def test_the_contents_show_the_current_page_from_the_beginning(browser, address):
    page = browser.open(address + "figures.html", height=600)
    page.until(lambda: page.js(IN_VIEW.format("page")))


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


def test_pictures_follow_the_button_and_the_system(browser, address):
    ground = "getComputedStyle(document.querySelector('.drawing rect')).fill"
    page = browser.open(address + "ch03_attention.html")
    light = page.js(ground)
    page.js("document.getElementById('book-theme').click()")
    dark = page.js(ground)
    page.js("localStorage.clear()")
    assert light != dark == browser.open(address + "ch03_attention.html", dark=True).js(ground)
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.js(paper) == dark


def test_what_goes_on_beyond_the_edge_of_a_phone_fades(browser, address):
    page = browser.open(address + "ch03_attention.html", width=360)
    page.until(lambda: page.js("document.querySelectorAll('main .more').length"))
    fades = """[...document.querySelectorAll("main .scroll")].every(
        box => (getComputedStyle(box).maskImage !== "none") === (box.scrollWidth > box.clientWidth))"""
    assert page.js(fades)
    page.js("document.querySelector('main .more').scrollLeft = 1e6; document.querySelector('main .more').id = 'moved'")
    page.until(lambda: not page.js("document.getElementById('moved').classList.contains('more')"))
