"""The reader's progress in the book that `headway book` serves: verdicts of exercises, points on the front page."""

import json
import re
import subprocess
import sys

import pytest
from browser import needs_chromium
from kit_copy import posix
from local_pages import get, serving
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
    assert (fresh["begun"], fresh["earned"], fresh["next"]["name"]) == (False, "0", "build_vocab")
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


@posix
@needs_chromium
@pytest.mark.alone
@pytest.mark.thorough
def test_verdicts_follow_a_watch_in_the_open_book(kit, browser):
    with serving(kit, "book", "softmax", "--no-browser") as (_, said), watching(kit, "softmax") as terminal:
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
