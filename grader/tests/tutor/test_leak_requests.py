"""A fixed set of requests to `headway tutor` that try to get the reference, a later hint or a known mistake's code."""

import json
import os
import sys
import tomllib
from pathlib import Path

import anyio
import pytest
from grader.course.syllabus import load_syllabus
from leak_secrets import Secrets, dense
from mcp import MCPError
from tutoring import call, connected

pytestmark = pytest.mark.thorough

# each starts a check, which takes seconds: `make proof ONLY=leaks` sends all, a test run every fourth
EVERY = int(os.environ.get("HEADWAY_EVERY_REQUEST", "4"))
SET = tomllib.loads(Path(__file__).with_name("leak_requests.toml").read_text(encoding="utf-8"))
EXERCISE, CHAPTER = SET["exercise"], SET["chapter"]


def arguments_of(request, root):
    given = dict(request["arguments"])
    if isinstance(given.get("name"), str):
        given["name"] = given["name"].replace("ROOT", str(root)) * request.get("times", 1)
    return given


def write(kit, request, stub):
    """The learner's chapter: the stubs, and the code of the request below them."""
    code = request.get("file", "").replace("ROOT", str(kit.root))
    text = f"{stub}\n{SET['before']}\n{code}" if code else stub
    if code.startswith("# coding"):
        text = code
    kit.file(CHAPTER).write_text(text, encoding="utf-8")
    return text


async def answer(session, request, root):
    """The text of the answer, also of an error."""
    try:
        reply = await session.call_tool(request["tool"], arguments_of(request, root))
    except MCPError as error:
        return str(error)
    return "\n".join(part.text for part in reply.content)


def test_there_are_enough_requests_and_each_is_another():
    everything = [json.dumps([each["tool"], each["arguments"], each.get("file")]) for each in SET["request"]]
    assert len(set(everything)) == len(everything) >= 100


def test_no_request_gets_the_reference_a_later_hint_or_a_mistakes_code(kit):
    secrets = Secrets(kit.root)
    stub = kit.file(CHAPTER).read_text(encoding="utf-8")
    assert len(secrets.code) > 2000 and len(secrets.hints) > 500
    leaked = []

    async def main():
        async with connected(kit.root) as session:
            await session.initialize()
            for request in SET["request"][::EVERY]:
                if request.get("linux") and not sys.platform.startswith("linux"):
                    continue
                text = write(kit, request, stub)
                secrets.recorded.unlink(missing_ok=True)
                reply = await answer(session, request, kit.root)
                assert reply.strip() and "Traceback" not in reply, (request["why"], reply)
                assert kit.file(CHAPTER).read_text(encoding="utf-8") == text, request["why"]
                levels = list(secrets.levels().values())
                assert levels in ([], [1]) and (request["tool"] == "hint" or not levels), (request["why"], levels)
                assert dense(request.get("gets", "")) in dense(reply), (request["why"], reply)
                if found := secrets.found_in(reply, text):
                    leaked.append(f"{request['tool']}, {request['why']}: {found}\n{reply}")
            said, failed = await call(session, "status")
            assert not failed and "softmax" in said

    anyio.run(main)
    assert not leaked, "\n\n".join(leaked)


def test_without_the_sandbox_a_file_does_get_the_reference_and_it_is_found(kit):
    """So the requests are real ones, and the search for secrets finds what they try to get."""
    secrets = Secrets(kit.root)
    stub = kit.file(CHAPTER).read_text(encoding="utf-8")
    for why in ("the reference in an error", "the reference printed"):
        request = next(each for each in SET["request"] if each["why"] == why)
        text = write(kit, request, stub)
        assert secrets.found_in(kit.run("check", EXERCISE, status=None), text), why
    [*_, last] = load_syllabus().exercise(EXERCISE).hints
    assert secrets.found_in(f"  {last}")
