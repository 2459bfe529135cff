"""The workflows of a handout for GitHub and GitLab: valid, without rights for the learner's code, and with a comment on the commit."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from shutil import which

import pytest
from grader.classroom.handout import templates
from grader.classroom.handout.summary import LONGEST, format_summary
from grader.course.syllabus import ROOT
from kit_copy import posix

yaml = pytest.importorskip("yaml")
TEST = {"name": "test_x", "outcome": "failed", "message": "row sums"}
EXERCISE = {"name": "softmax", "earned": 0, "points": 8.0, "outcome": "failed", "diagnosis": None, "forbidden": [], "tests": [TEST]}
RESULTS = {"earned": 1.5, "points": 8.0, "exercises": [EXERCISE]}
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
    workflow = yaml.safe_load(templates.WORKFLOW)
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
    job = yaml.safe_load(templates.GITLAB)["grade"]
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


def test_a_long_summary_fits_a_comment():
    long = [EXERCISE | {"name": f"exercise{number}", "tests": [TEST | {"message": "words " * 60}] * 20} for number in range(40)]
    page = format_summary(RESULTS | {"exercises": long})
    assert LONGEST - 1000 < len(page) < 65_536 and page.endswith("The rest is in the log of the step that runs the tests.\n")
