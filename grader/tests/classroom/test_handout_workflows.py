"""The workflows of a handout for GitHub and GitLab: valid, without rights for the learner's code, and with a comment on the commit."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from shutil import which

import pytest
from grader.classroom.handout.summary import MOST_LINES, MOST_ROWS, escape_markdown, format_summary
from grader.classroom.handout.update import TEXTS
from grader.course.syllabus import ROOT
from kit_copy import posix
from markdown_it import MarkdownIt

yaml = pytest.importorskip("yaml")
TEST = {"name": "test_x", "outcome": "failed", "message": "row sums"}
FAILURE = {
    "test": "test_x", "promise": "Each row sums to one.", "sizes": "T=2", "called": ["softmax(x)"], "message": "row sums", "got": "2.0", "expected": "1.0",
    "difference": "", "explanation": "It is twice as large.", "where": "",
}  # fmt: skip
EXERCISE = {
    "name": "softmax", "chapter": "ch03", "earned": 0, "points": 8.0, "outcome": "failed", "diagnosis": None, "forbidden": [], "failure": FAILURE, "tests": [TEST],
}  # fmt: skip
RESULTS = {"earned": 1.5, "points": 8.0, "broken": [], "exercises": [EXERCISE]}
BROKEN = {"module": "ch03_attention", "message": "SyntaxError: invalid syntax.", "where": "ch03_attention.py, line 7:  def f(:"}
PAGE = format_summary(RESULTS)


@pytest.fixture
def machine(tmp_path):
    """The variables of a runner, in whose folder the tests have just written results.json. Its programs: this Python, and `gh`, which notes how it is called."""
    (tmp_path / "results.json").write_text(json.dumps(RESULTS), encoding="utf-8")
    programs = {"python": f'exec "{sys.executable}" "$@"', "gh": 'printf "%s\\n" "$@" > called.txt'}
    (tmp_path / "bin").mkdir()
    for name, script in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}


def run(script: str, folder, env: dict[str, str]) -> None:
    done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@posix
def test_github_grades_without_rights_and_comments_in_a_job_of_its_own(tmp_path, machine):
    workflow = yaml.safe_load((TEXTS / "github.yml").read_text(encoding="utf-8"))
    grade, comment = workflow["jobs"]["grade"], workflow["jobs"]["comment"]
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in grade and comment["permissions"] == {"contents": "write"}
    assert comment["needs"] == "grade" and comment["if"] == "always()"
    assert not any("checkout" in step.get("uses", "") for step in comment["steps"]), "no code of the repository runs there"
    assert all("token" not in json.dumps(step) for step in grade["steps"])
    [uploaded] = [step["with"] for step in grade["steps"] if "upload" in step.get("uses", "")]
    [downloaded] = [step["with"] for step in comment["steps"] if "download" in step.get("uses", "")]
    assert uploaded == {"name": downloaded["name"], "path": "summary.md"}
    scripts = {step["name"]: step["run"] for step in [*grade["steps"], *comment["steps"]] if "name" in step}
    env = machine | {"GITHUB_STEP_SUMMARY": str(tmp_path / "shown.md"), "GITHUB_REPOSITORY": "one/two", "GITHUB_SHA": "abc"}
    run(scripts["Summary"], tmp_path, env)
    assert (tmp_path / "shown.md").read_text() == (tmp_path / "summary.md").read_text() == PAGE
    run(scripts["Comment"], tmp_path, env)
    assert (tmp_path / "called.txt").read_text().split() == ["api", "--silent", "repos/one/two/commits/abc/comments", "-F", "body=@summary.md"]


@posix
@pytest.mark.skipif(which("curl") is None, reason="curl is not installed")
def test_gitlab_shows_the_summary_and_comments_if_there_is_a_token(tmp_path, machine):
    job = yaml.safe_load((TEXTS / "gitlab.yml").read_text(encoding="utf-8"))["grade"]
    assert job["artifacts"]["paths"] == ["summary.md", "results.json"] and job["artifacts"]["when"] == "always"
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.headers["PRIVATE-TOKEN"], self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = machine | {"CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}/api/v4", "CI_PROJECT_ID": "7", "CI_COMMIT_SHA": "abc", "NO_PROXY": "*"}
        run("\n".join(job["after_script"]), tmp_path, env)
        assert received == [] and (tmp_path / "summary.md").read_text() == PAGE
        run("\n".join(job["after_script"]), tmp_path, env | {"HEADWAY_TOKEN": "secret"})
        server.shutdown()
    [(path, token, body)] = received
    assert (path, token) == ("/api/v4/projects/7/repository/commits/abc/comments", "secret")
    assert 'name="note"' in body and PAGE.strip() in body.replace("\r\n", "\n")


def lines_of(page: str) -> int:
    return page.count("\n")


def test_the_comment_shows_the_diagnosis_and_the_smallest_example():
    known = {"says": "It sums over the rows.", "hint": "Over which axis?", "also": {"says": "It is not shifted.", "hint": "What is the largest score?"}}
    page = format_summary(RESULTS | {"exercises": [EXERCISE | {"diagnosis": known}, EXERCISE | {"name": "gelu", "outcome": "passed", "earned": 8, "failure": None}]})
    assert "**1.5 of 8 points**" in page and "| `softmax` | 0/8 | failed |\n| `gelu` | 8/8 | passed |" in page
    assert "**`softmax`** It sums over the rows. Over which axis? It is not shifted. What is the largest score?\n```text\nFAILED  test_x\n" in page
    for line in ("  promised  Each row sums to one.", "  called    softmax(x)", "  got       2.0", "  expected  1.0", "  that is   It is twice as large."):
        assert f"\n{line}\n" in page
    assert page.count("softmax(x)") == 1 and "test_x`" not in page and page.endswith("`headway check NAME` shows all failures of an exercise.\n")


def test_a_broken_chapter_is_one_entry_with_its_line():
    error = EXERCISE | {"outcome": "error", "failure": None, "tests": [TEST | {"message": BROKEN["message"], "outcome": "error"}] * 20}
    page = format_summary(RESULTS | {"broken": [BROKEN], "exercises": [error | {"name": f"exercise{number}"} for number in range(3)]})
    assert page.count("SyntaxError") == 1 and "\n  at        ch03_attention.py, line 7:  def f(:\n" in page
    assert "**`ch03_attention.py` does not import**, so `exercise0`, `exercise1` and `exercise2` could not be tested. Fix this first." in page


@pytest.mark.parametrize("failing", [1, 3, MOST_ROWS, 40])
def test_a_summary_has_at_most_40_lines_and_names_what_it_leaves_out(failing):
    long = EXERCISE | {"failure": FAILURE | {"promise": "words " * 90, "got": "1.0\n" * 50, "expected": "2.0\n" * 50, "message": "words " * 90}}
    exercises = [long | {"name": f"exercise{number}", "chapter": f"ch{4 + number // 8:02}"} for number in range(failing)]
    page = format_summary(RESULTS | {"broken": [BROKEN], "exercises": exercises})
    assert 20 < lines_of(page) <= MOST_LINES == 40 and len(page) < 65_536, "a comment on GitHub has at most 65,536 characters"
    named = sum(f"`{one['name']}`" in page.partition("| ---")[2].partition("\n\n")[2] for one in exercises)
    left = re.search(r"- (\d+) (?:more|exercises) failed; the log", page)
    assert named + int(left[1] if left else 0) == failing


def test_a_summary_shows_a_learners_text_literally():
    nasty = "# <script>alert(1)</script> | ![x](http://x)\n```\n\x1b[31m@all"
    words = dict.fromkeys(("promise", "sizes", "message", "got", "expected", "difference", "explanation", "where"), nasty)
    bad = EXERCISE | {"failure": FAILURE | words | {"called": [nasty]}, "diagnosis": {"says": nasty, "hint": nasty}}
    page = format_summary(RESULTS | {"broken": [BROKEN | {"module": "ch05_layers", "message": nasty, "where": nasty}], "exercises": [bad, bad | {"chapter": "ch05"}]})
    shown = MarkdownIt("commonmark", {"html": True}).render(page)
    assert "\x1b" not in page and not re.search("<script|<img|<a |<h1>alert", shown) and shown.count("<h1>") == 1 and shown.count("<pre>") >= 2
    assert escape_markdown("a" * 500) == "a" * 400 + "…"
