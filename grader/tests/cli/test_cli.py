"""The headway command as a learner runs it: real files, real processes, a real terminal."""

import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
from grader.course.progress import Score
from grader.course.syllabus import load_syllabus
from kit_copy import Kit, posix

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def fresh(module_kit):
    """A kit that no test changes."""
    return module_kit


# ---- the pages


def test_a_fresh_clone_shows_every_chapter_and_one_next_thing(fresh, tmp_path):
    out = fresh.run()
    for chapter in load_syllabus().chapters:
        assert f"{chapter.number:>2}  {chapter.title}" in out
    assert re.search(r"Next: count_bigrams \(\d+ points\), exercises[/\\]ch00_first_model\.py:\d+", out)
    assert "headway check count_bigrams" in out and "You have not passed an exercise yet" in out
    assert "read exercises/ch00_first_model.md, or open the book with `headway book`" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80 and "\x1b" not in out
    assert not (fresh.exercises / "progress.txt").exists()
    place = re.search(r"points\), (.*):\d+", fresh.run("next", cwd=tmp_path))[1]
    assert (tmp_path / place).resolve() == fresh.file("ch00_first_model")
    assert re.fullmatch(r"headway \d+\.\d+\.\d+\n", fresh.run("--version"))


def test_the_status_page_leaves_torch_alone(fresh):
    """Importing torch would take most of two seconds."""
    code = "import sys; from grader.cli.main import app; app(standalone_mode=False); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=fresh.root, env=fresh.environment(), capture_output=True).returncode == 0


def test_the_next_thing_follows_the_record_and_the_chapter_worked_on(kit):
    kit.record(build_vocab=10, WordTokenizer=1.25)
    page = kit.run("status", COLUMNS="40").splitlines()
    assert all(len(line) <= 40 for line in page[:15]) and not any("…" in line for line in page[:15])
    total = sum(chapter.points for chapter in load_syllabus().chapters)
    assert [line.strip() for line in page if " points" in line][0].endswith(f"11.25 of {total:g} points")
    (line,) = [line for line in kit.run(PYTHONIOENCODING="ascii", PYTHONUTF8="0").splitlines() if "  Tokenizer " in line]
    assert " 11.25/" in line and "##" in line and "1 of " in line
    listed = kit.run("list")
    assert all(f"{exercise.name}  {exercise.effort}\n" in listed for exercise in load_syllabus().exercises)
    assert re.search(r"x +10/10  build_vocab", listed) and re.search(r"> +1.25/\d+  WordTokenizer", listed)
    kit.edit("ch03_attention", "def softmax", "# a comment\n\n\ndef softmax")
    line = kit.file("ch03_attention").read_text().split("def softmax")[0].count("\n") + 1
    said = kit.run("next")
    softmax = load_syllabus().exercise("softmax")
    assert f"{softmax.promise} About {softmax.minutes} minutes, easy." in " ".join(said.split())
    assert "Next: softmax" in said and f"ch03_attention.py:{line}\n" in said
    kit.pass_chapter("ch03")
    said = kit.run("next", "chapter3")
    assert "You have passed every exercise of ch03 Attention.\nNext: " in said and "Next: gelu" in kit.run("next", "5")
    kit.record(**{exercise.name: exercise.points for exercise in load_syllabus().exercises})
    wide, narrow = kit.run(), kit.run(COLUMNS="40")
    for chapter in load_syllabus().chapters:
        points, count = f"{chapter.points:g}/{chapter.points:g}", len(chapter.exercises)
        assert re.search(rf"^ +{chapter.number}  {chapter.title} .*█ +{points}  {count} of {count} passed$", wide, re.M)
        assert re.search(rf"^ +{chapter.number}  {chapter.title[:20]}.* {points}$", narrow, re.M)
    assert all(len(line) <= columns for page, columns in ((wide, 80), (narrow, 40)) for line in page.splitlines())
    for command in ("status", "check", "hint"):
        assert "You have passed every exercise" in kit.run(command)


def test_after_the_last_exercise_of_a_chapter_its_open_ones_are_next(monkeypatch):
    from grader.course import status

    chapter = load_syllabus().chapter("ch15")
    monkeypatch.setattr(status, "current_scores", lambda: {each.name: Score(1, 1) for each in chapter.exercises if each.name != "beam_search"})
    assert status.next_unpassed(chapter.exercises[-1]).name == "beam_search"


def test_the_next_step_begins_with_the_environment_until_headway_can_be_typed(monkeypatch, tmp_path, capsys):
    from grader.cli.commands.status import show_next

    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "activate").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    show_next()
    assert f"    {'' if os.name == 'nt' else '. '}{Path('.venv/bin/activate')}\n    headway " in capsys.readouterr().out
    for name in ("headway", "headway.exe"):
        (tmp_path / name).touch(mode=0o755)
    show_next()
    assert "activate" not in capsys.readouterr().out


# ---- hints, the difference, the editor


def test_hints_come_one_after_the_other(kit):
    hints = load_syllabus().exercise("softmax").hints
    for level, arguments in ((1, ()), (2, ()), (3, ("--level", "3")), (3, ())):
        out = " ".join(kit.run("hint", "softmax", *arguments).split())
        assert f"softmax, hint {level} of 3" in out and " ".join(hints[level - 1].split()) in out
    assert "softmax, hint 3 of 3" in kit.run("hint", "Attention") and "count_bigrams, hint 1 of 3" in kit.run("hint")


def test_earlier_hints_can_be_seen_again(kit):
    """Without a new one; and the second hint says how."""
    assert "You have not seen a hint of gelu yet.\nFor the first hint: headway hint gelu\n" == kit.run("hint", "gelu", "--again")
    assert "again" not in kit.run("hint", "gelu")
    assert "To see the earlier ones again: headway hint gelu --again" in kit.run("hint", "gelu")
    for _ in range(2):
        out = kit.run("hint", "gelu", "--again")
        assert re.findall(r"gelu, hint (\d) of 3", out) == ["1", "2"] and out.endswith("For the next hint: headway hint gelu\n")
        assert all(" ".join(hint.split()) in " ".join(out.split()) for hint in load_syllabus().exercise("gelu").hints[:2])
    assert "hint 1 of 3" in kit.run("hint", "gelu", "1") and "softmax, hint 1 of 3" in kit.run("hint", "chapter", "3")
    assert "hint 3 of 3" in kit.run("hint", "gelu") and "This is the last hint" not in kit.run("hint", "gelu", "--level", "1")
    assert kit.run("hint", "gelu", "--again").endswith("This is the last hint.\n")


def test_diff_waits_until_the_exercise_is_passed_and_ignores_todo_comments(kit):
    assert "--peek" in kit.run("diff", "softmax", status=1)
    out = kit.run("diff", "softmax", "--peek")
    assert "-    raise NotImplementedError" in out and "+    return" in out and "SOLUTION" not in out
    kit.solve("ch03_attention")
    path = kit.file("ch03_attention")
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "# TODO" not in line) + "\n")
    kit.pass_chapter("ch03")
    assert "Your softmax is identical to the reference." in kit.run("diff", "softmax")


def test_without_a_terminal_or_an_editor_the_place_is_printed(fresh):
    assert re.fullmatch(r"exercises.ch03_attention\.py:\d+\n", fresh.run("open", "softmax", EDITOR="vi"))
    assert re.fullmatch(r"exercises.ch03_attention\.py:1\n", fresh.run("open", "ch03", PATH=""))
    assert "'nosuch/code'" in fresh.run("open", "softmax", VISUAL="nosuch/code --wait", status=1)


@posix
@pytest.mark.parametrize(("name", "pattern"), [("code", r"-g \S+ch03_attention\.py:\d+"), ("subl", r"\S+ch03_attention\.py:\d+"), ("nano", r"\+\d+ \S+ch03_attention\.py")])
def test_an_editor_is_called_at_the_line(fresh, tmp_path, name, pattern):
    program = tmp_path / name
    program.write_text('#!/bin/sh\necho "called with $@"\n')
    program.chmod(0o755)
    assert re.search(f"called with {pattern}", on_terminal(fresh, "open", "softmax", EDITOR=str(program)))


# ---- check


def test_check_of_a_stub_and_of_a_solution(kit):
    out = kit.run("check", "causal_mask", status=1)
    assert "not implemented yet" in out and "failed" not in out
    assert re.search(r"Next: write `causal_mask` in exercises.ch03_attention\.py:\d+\n +headway check causal_mask", out)
    assert "Next: write `write` in exercises" in kit.run("check", "write", status=1), "the name of an exercise may be a verb"
    assert not any(word in out for word in ("test session starts", "platform", "rootdir", "collected", "deselected"))
    kit.solve("ch01_tokenizer")
    exercise = load_syllabus().exercise("build_vocab")
    for said in ("build_vocab works", "build_vocab still works"):
        out = " ".join(kit.run("check", "build_vocab").split())
        assert said in out and exercise.why in out and exercise.unlocks in out
    out = kit.run("check", "build-vocab", "softmax", "chapter", "0", status=1)
    assert re.search(r"ch00 First model .*ch01 Tokenizer .*build_vocab .*ch03 Attention .*total ", out, re.S)


def test_what_cannot_be_tested_is_said_at_once(kit):
    for path in (kit.root / "tests").glob("test_ch02*.py"):
        path.unlink()
    assert "there are no tests" in kit.run("check", "ch02", status=2)
    kit.record(softmax=10)
    kit.edit("ch03_attention", "    return None", "    return (None")
    for name in ("softmax", "attention"):
        out = kit.run("check", name, status=1)
        place = re.match(r"exercises.ch03_attention\.py, line (\d+): this is not valid Python", out)
        assert place and re.search(rf"\n +{place[1]} \|     return \(None\n {{19}}\^\n", out) and "Fix this first" in out
        assert "passed" not in out and "points" not in out
    assert "10/10  softmax" in kit.run("list")
    kit.file("ch03_attention").unlink()
    missing = "headway: exercises/ch03_attention.py is missing; `headway reset ch03` creates the stub again\n"
    assert kit.run("check", "softmax", status=2) == kit.run("check", "ch03", status=2) == missing


# ---- broken files


def test_a_broken_syllabus_is_one_sentence(kit):
    path = kit.exercises / "syllabus.toml"
    path.unlink()
    said = [kit.run(status=1)]
    path.write_text("[[chapter")
    said += [kit.run(*arguments, status=1) for arguments in (("check", "softmax"), ("reset", "ch01"), ("stubs", "--check"))]
    for out in said:
        assert out.startswith("headway: exercises") and "cannot be read" in out and out.count("\n") == 1


def test_a_broken_chapter_does_not_stop_the_pages(kit):
    for work in (b"def softmax(x:\n", b"\xff\xfe\x00"):
        kit.file("ch01_tokenizer").write_bytes(work)
        for arguments in ((), ("hint",), ("hint", "softmax")):
            kit.run(*arguments)
        assert "ch01_tokenizer.py" in kit.run("next")
    kit.run("diff", "build_vocab", "--peek", status=1)


def test_a_place_that_cannot_be_written_is_one_sentence(kit):
    kit.solve("ch03_attention")
    before = kit.file("ch03_attention").read_bytes()
    (kit.exercises / ".headway").write_text("a file where a folder should be")
    out = kit.run("hint", "softmax")
    assert "hint 1 of 3" in out and "could not write exercises/.headway/hints.json" in out
    for name in ("softmax", "ch03"):
        said = kit.run("reset", name, status=1)
        assert said.startswith("headway: nothing was changed, because your code could not be saved: could not write exercises/.headway/kept/") and said.count("\n") == 1
    assert kit.file("ch03_attention").read_bytes() == before
    for command, reason in (("handout", "could not make exercises/.headway/out.zip: "), ("gradescope", "the folder exercises/.headway does not exist")):
        said = kit.run(command, "exercises/.headway/out.zip", "--chapters", "ch01", status=2)
        assert said.startswith(f"headway: {reason}") and said.count("\n") == 1


# ---- for maintainers


def test_stubs_match_until_a_learner_works_on_one(kit):
    assert "Stubs and solutions match" in kit.run("stubs", "--check")
    kit.edit("ch01_tokenizer", "raise NotImplementedError", "return 1")
    assert "was edited" in kit.run("stubs")
    assert "was edited" in kit.run("stubs", "--check", status=1)


def test_doctor_names_a_missing_package_of_training(monkeypatch):
    from grader.cli.commands import doctor

    def about_packages():  # the first findings; the last one is that of a run
        return takewhile(lambda finding: "tests the code in" not in finding.sentence, doctor.examine(grading=False))

    assert not any("headway train" in finding.sentence for finding in about_packages())
    monkeypatch.setitem(sys.modules, "numpy", None)
    (finding,) = [finding for finding in about_packages() if "headway train" in finding.sentence]
    assert finding.state == "note" and "`headway train` needs numpy, which is not installed: run pip install" in finding.sentence


# ---- on a terminal


def on_terminal(kit: Kit, *arguments: str, columns: int = 80, **environment: str) -> str:
    pexpect = pytest.importorskip("pexpect")
    child = pexpect.spawn(
        sys.executable, ["-m", "grader.cli.main", *arguments],
        cwd=str(kit.root), env=kit.environment(**environment), dimensions=(50, columns), timeout=60, encoding="utf-8",
    )  # fmt: skip
    child.expect(pexpect.EOF)
    child.close()
    return child.before


@posix
def test_a_terminal_gets_colour_and_at_most_80_columns(fresh):
    for columns in (60, 200):
        out = on_terminal(fresh, columns=columns)
        assert "\x1b[" in out
        assert max(len(line) for line in ESCAPE.sub("", out).splitlines()) <= min(columns, 80)
    for arguments in ((), ("diff", "softmax", "--peek"), ("reset", "ch44")):
        assert "\x1b" not in on_terminal(fresh, *arguments, NO_COLOR="1")


@posix
def test_a_terminal_without_capabilities_keeps_its_width(fresh):
    out = on_terminal(fresh, columns=40, TERM="dumb")
    lines = [line.rstrip() for line in out.splitlines()]
    assert all(len(line) <= 40 for line in lines) and "\x1b" not in out and "Count how often each id follows each" in lines
