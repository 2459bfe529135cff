"""The page of `headway chat --web`: over HTTP, and in a real browser."""

from __future__ import annotations

import base64
import json
import re
import signal
import threading
from contextlib import contextmanager

import pytest
import torch
from browser import Browser, needs_chromium
from grader.chapters.ch16_published_model.published import chat
from grader.chapters.ch16_published_model.published.chat import Chat, answer_ids
from grader.chapters.ch16_published_model.published.chat_page import FILES, ChatApi
from grader.chapters.ch16_published_model.published.opening import build, find_source
from grader.console.local_server import PageServer
from grader.tests.models.page_engines import request
from grader.tests.models.published_models import reference_parts, write_model
from kit_copy import posix
from local_pages import serving
from page_layout import misfits

HELLO = {"role": "user", "content": "hello"}
TOKENS = "[...document.querySelectorAll('#tokens .token')]"


@contextmanager
def served(published, temperature=0.0):
    api = ChatApi(published, ["Your own code: none of the 25 parts yet."], temperature)
    with PageServer(FILES, api=api) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()
    with api.turn:
        pass  # whoever used the model has ended


@pytest.fixture(scope="module")
def server(published):
    with served(published) as server:
        yield server


def ask(server, name, data, status=200):
    got, text, _ = request(server, f"/{server.token}/api/{name}", data)
    assert got == status, text
    return text


def events(server, messages, **more):
    return [json.loads(line) for line in ask(server, "answer", {"messages": messages, **more}).splitlines()]


def answered(server, messages):
    *pieces, end = events(server, messages)
    assert end == {"event": "end"}
    return "".join(piece["text"] for piece in pieces)


@pytest.mark.usefixtures("short_answers")
def test_the_page_describes_the_model_and_answers_as_the_terminal_does(server, published):
    status, text, headers = request(server, f"/{server.token}/")
    assert status == 200 and 'src="chat.js"' in text and "unsafe" not in headers["Content-Security-Policy"]
    for name in re.findall(r'(?:src|href)="([\w.-]+)"', text) + ["stream.js", "inside.js", "rove.js", "theme-button.js"]:
        assert request(server, f"/{server.token}/{name}")[0] == 200, name
    about = json.loads(request(server, f"/{server.token}/api/model")[1])
    assert (about["name"], about["blocks"], about["heads"]) == ("Tiny-Llama", 2, 4)
    terminal = Chat(published)
    for line in ("hello", "go on"):
        list(terminal.reply(line))
        assert answered(server, terminal.messages[:-1]) == terminal.messages[-1]["content"]


def test_the_inside_is_that_of_transformers(server, published, written):
    messages = [HELLO, {"role": "assistant", "content": "The sea."}]
    ids = answer_ids(published, messages)
    with torch.no_grad():
        theirs = written.theirs(torch.tensor([ids]), output_attentions=True)
    for place in (None, 5, len(ids) - 1):
        found = json.loads(ask(server, "inside", {"messages": messages, "place": place}))
        at = len(ids) - 1 if place is None else place
        assert found["place"] == at and len(found["tokens"]) == len(ids) and found["next"] == (ids + [None])[at + 1]
        assert found["layers"][-1][0]["id"] == theirs.logits[0, at].argmax()
        weights = torch.tensor(list(base64.b64decode(found["weights"]))).view(2, 4, at + 1) / 255
        expected = torch.stack([weights[0, :, at, : at + 1] for weights in theirs.attentions])
        torch.testing.assert_close(weights, expected, rtol=0, atol=0.003)


def test_a_request_that_the_page_does_not_send_is_refused(server):
    hello = [HELLO]
    for data in (
        {}, {"messages": []}, {"messages": "x"}, {"messages": [{"role": "tool", "content": ""}]}, {"messages": [{"role": "user", "content": 3}]},
        {"messages": hello, "temperature": 11}, {"messages": hello, "temperature": True}, {"messages": hello, "place": 1},
        {"messages": [HELLO, {"role": "assistant", "content": "a"}]}, {"messages": [{"role": "user", "content": "a" * 20_001}]},
    ):  # fmt: skip
        assert json.loads(ask(server, "answer", data, 400))["problem"].endswith(".")
    assert "the last message is no answer" in ask(server, "inside", {"messages": hello}, 400).lower()
    said = json.loads(ask(server, "inside", {"messages": [HELLO, {"role": "assistant", "content": "a"}], "place": 10_000}))
    assert said["problem"] == "The conversation has no token 10000."
    [said] = events(server, [{"role": "user", "content": "1 2 " * 4000}])
    assert "tokens, and Tiny-Llama reads at most" in said["problem"]
    for change in (lambda headers: headers.update(Host="example.org"), lambda headers: headers.update(Origin="http://example.org")):
        assert request(server, f"/{server.token}/api/answer", {"messages": hello}, change=change)[0] == 403
    assert request(server, "/wrong/api/answer", {"messages": hello})[0] == 403


@posix
@pytest.mark.alone
def test_the_command_serves_the_page_until_control_c(kit, written):
    with serving(kit, "chat", str(written.folder), "--web", "--no-browser") as (process, output):
        assert "To chat, open this address in a browser:" in output and re.search(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", output)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


# ---- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def opened(browser, server, **how):
    page = browser.open(server.address, **how)
    page.until(lambda: page.js("'ready' in document.documentElement.dataset"))
    return page


def type_in(page, text):
    page.js("document.getElementById('question').focus()")
    page.type(text)
    page.press("Enter")


def is_busy(page):
    return page.js("document.documentElement.classList.contains('busy')")


def messages(page):
    return page.js("[...document.querySelectorAll('.message')].map(message => [message.className.split(' ')[1], message.textContent])")


@pytest.mark.thorough
@needs_chromium
@pytest.mark.parametrize("how", [dict(width=1300), dict(width=1300, dark=True), dict(width=360), dict(width=360, dark=True)])
def test_a_conversation_and_its_inside_on_the_page(browser, server, published, how):
    page = opened(browser, server, **how)
    type_in(page, "hello <b>")
    page.until(lambda: not is_busy(page) and page.js(f"{TOKENS}.length"))
    terminal = Chat(published)
    list(terminal.reply("hello <b>"))
    assert messages(page) == [["user", "hello <b>"], ["assistant", terminal.messages[1]["content"]]]
    ids = answer_ids(published, terminal.messages)
    assert page.js(f"{TOKENS}.length") == len(ids)
    assert page.js("[...document.querySelectorAll('#lens tbody th')].map(cell => cell.textContent)") == ["embeddings", "block 1", "block 2"]
    page.js(f"{TOKENS}[9].click()")
    page.until(lambda: page.js(f"{TOKENS}[9].getAttribute('aria-pressed') == 'true'"))
    shades = page.js(f"{TOKENS}.map(token => Number(token.style.getPropertyValue('--weight')))")
    assert sum(shade**2 for shade in shades) == pytest.approx(1, abs=0.05) and not any(shades[10:])
    page.js("(() => { const head = document.getElementById('head'); head.value = 2; head.dispatchEvent(new Event('change')); })()")
    assert page.js(f"{TOKENS}.map(token => Number(token.style.getPropertyValue('--weight')))") != shades
    assert page.js("document.documentElement.scrollWidth") == how["width"] and page.errors == []
    assert all(address.startswith(server.address) for address in page.requests)


@pytest.mark.thorough
@needs_chromium
def test_names_and_tokens_as_long_as_those_of_published_models_fit_every_window(browser, server):
    page = opened(browser, server, width=1280)
    type_in(page, "hello")
    page.until(lambda: not is_busy(page) and page.js(f"{TOKENS}.length"))
    page.js("document.querySelectorAll('#lens .name').forEach(name => { name.textContent = '<|endoftext|>'; })")
    page.js("document.getElementById('model-name').textContent = 'SmolLM2-135M-Instruct'")
    assert misfits(page, tables_may_scroll=False) == []
    widths = page.js("[...document.querySelectorAll('#lens tbody tr:last-child td')].map(cell => cell.offsetWidth)")
    assert len(widths) == 3 and max(widths) - min(widths) <= 1


@pytest.mark.thorough
@needs_chromium
def test_stop_keeps_what_was_written_and_a_new_conversation_begins_empty(browser, tmp_path):
    slow = write_model(tmp_path, tied=False, num_hidden_layers=60)
    with reference_parts() as own, served(build(find_source(slow.folder), own)) as server:
        page = opened(browser, server)
        page.js("document.getElementById('system').value = 'You are a pirate.'")
        type_in(page, "hello")
        page.until(lambda: len(messages(page)) == 3 and messages(page)[2][1])
        page.js("document.getElementById('stop').click()")
        page.until(lambda: not is_busy(page) and page.js(f"{TOKENS}.length"))
        [system, _, (_, text)] = messages(page)
        assert system == ["system", "System message: You are a pirate."] and 0 < len(text) < chat.MOST_ANSWER_TOKENS
        assert "pirate" in page.js("document.getElementById('tokens').textContent") and page.js("document.getElementById('status').textContent") == "Stopped."
        page.js("document.getElementById('reset').click()")
        assert messages(page) == [] and page.js("document.getElementById('tokens').hidden") and page.errors == []
