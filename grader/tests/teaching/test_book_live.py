"""The reader's progress in the book that `headway book` serves: verdicts of exercises, points on the front page."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from book_reading import get, reading
from browser import needs_chromium
from grader.course.syllabus import ROOT
from grader.teaching.book.site import _sources
from kit_copy import Kit, posix
from watching import watching

STUB = "    raise NotImplementedError"
WHOLE = """    largest = x.amax(dim, keepdim=True)
    exps = (x - largest.masked_fill(largest == -math.inf, 0.0)).exp()
    total = exps.sum()
    return exps / total.masked_fill(total == 0, 1.0)"""
SENTENCE = "The whole tensor sums to 1, where every slice along `dim` should."


def progress(kit):
    code = "from grader.teaching.book.serving import progress_json\nprint(progress_json().decode(), 'torch' in sys.modules)"
    command, environment = [sys.executable, "-c", f"import sys\n{code}"], kit.environment()
    done = subprocess.run(command, cwd=kit.root, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(" False\n"), "torch takes seconds"
    return json.loads(done.stdout.removesuffix(" False\n"))


def test_the_state_of_an_exercise_is_its_last_verdict_until_its_code_changes(kit):
    fresh = progress(kit)
    assert {one["state"] for one in fresh["exercises"].values()} == {"untried"}
    assert (fresh["begun"], fresh["earned"], fresh["next"]["name"]) == (False, "0", "count_bigrams")
    kit.run("check", "softmax", status=1)
    assert not (kit.exercises / ".headway" / "verdicts.json").exists()  # a stub has no verdict

    kit.edit("ch03_attention", STUB, WHOLE)
    assert progress(kit)["exercises"]["softmax"] == {"state": "untried", "says": ""}
    kit.run("check", "softmax", status=1)
    failed = {"state": "failed", "says": SENTENCE}
    assert progress(kit)["exercises"]["softmax"] == failed
    kit.edit("ch03_attention", "exps.sum()", "exps.sum()  # a comment")
    kit.edit("ch03_attention", STUB, "    return q_len")  # causal_mask
    assert progress(kit)["exercises"]["softmax"] == failed
    kit.edit("ch03_attention", "exps.sum()", "exps.sum(dim, keepdim=True)")
    assert progress(kit)["exercises"]["softmax"] == {"state": "changed", "says": "", "was": "failed"}
    kit.run("check", "softmax", status=0)
    now = progress(kit)
    assert now["exercises"]["softmax"] == {"state": "passed", "says": ""}
    assert now["begun"] and now["earned"] == "10" and now["chapters"]["ch03"]["passed"] == 1
    assert not now["chapters"]["ch03"]["complete"]

    kit.edit("ch03_attention", "import math", "import math (")
    assert progress(kit)["exercises"]["softmax"]["state"] == "changed"
    (kit.exercises / ".headway" / "verdicts.json").write_text("[damaged")
    assert progress(kit)["exercises"]["padding_mask"]["state"] == "untried"


@pytest.fixture(scope="module")
def module_kit(template, tmp_path_factory):
    root = tmp_path_factory.mktemp("live") / "kit"
    shutil.copytree(template, root)
    return Kit(root)


@posix
@needs_chromium
@pytest.mark.alone
@pytest.mark.thorough
def test_verdicts_follow_a_watch_in_the_open_book(module_kit, browser):
    kit = module_kit
    with reading(kit, "softmax", "--no-browser") as (_, said), watching(kit, "softmax") as terminal:
        address = re.search(r"http://127\.0\.0\.1:\d+/", said)[0]
        page = browser.open(address + "ch03_attention.html")

        def shown(wanted):
            page.until(lambda: page.js("document.querySelector('#softmax .verdict')?.textContent") == wanted)

        shown("○ Not tried yet.")
        terminal.wait("Write the code and save the file")
        terminal.save("ch03_attention", STUB, WHOLE)
        shown(f"✗ Failed. {SENTENCE}")
        assert page.js("document.querySelector('body > [role=status]').textContent") == f"softmax: Failed. {SENTENCE}"
        assert page.js("document.querySelector('#book-chapters a[href=\"#softmax\"]').dataset.mark") == "✗"
        terminal.verdict()
        terminal.save("ch03_attention", "exps.sum()", "exps.sum(dim, keepdim=True)")
        shown("✓ Passed.")
        front = browser.open(address)
        front.until(lambda: front.js("document.querySelector('.tally')?.textContent.startsWith('You have 10 of ')"))
        done = front.js("document.querySelector('[data-chapter=ch03] .done').textContent")
        assert done.endswith(" points, 1 of 11 passed")
        assert front.js("document.querySelector('.what a').hash") == "#causal_mask"
        terminal.press("q")
        assert terminal.ended == 0
        assert page.errors == front.errors == []
        assert all(url.startswith(address) for url in page.requests + front.requests)

        status, body, headers = get(address, "/progress.json")
        assert status == 200 and json.loads(body)["exercises"]["softmax"]["state"] == "passed"
        assert get(address, "/progress.json", host="elsewhere.example:80")[0] == 403
        assert "'unsafe" not in headers["Content-Security-Policy"]


@needs_chromium
@pytest.mark.thorough
def test_the_built_book_shows_no_progress_and_asks_for_none(browser, folder):
    page = browser.open(folder / "ch03_attention.html")
    page.js("new Promise(done => setTimeout(done, 200))")
    assert page.js("document.querySelectorAll('.verdict, .done').length") == 0
    assert not any("progress" in url for url in page.requests)
    assert "fetch" not in (folder / "live.js").read_text(encoding="utf-8")


def test_a_change_of_any_source_of_the_book_builds_it_again():
    sources = {path.relative_to(ROOT).as_posix() for path in _sources()}
    assert sources >= {
        "exercises/ch00_big_picture.md", "exercises/pictures/ch00_transformer.svg", "exercises/syllabus.toml",
        "solutions/ch03_attention.py", "grader/teaching/book/static/search.js", "grader/teaching/book/served/live.js",
        "grader/teaching/book/templates/front.html", "grader/teaching/book/glossary.toml",
        "grader/teaching/book/pages/figures.md", "grader/teaching/show/catalog.toml",
    }  # fmt: skip
    assert {path for path in sources if path.startswith("grader/teaching/drawing/")}
