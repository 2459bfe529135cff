"""The headway command as a learner runs it: real files, real processes, a real terminal."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from grader.course.progress import Score
from grader.course.syllabus import load_syllabus
from kit_copy import Kit, posix

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


# ---- the status page


def test_a_fresh_clone_shows_every_chapter_and_one_next_thing(kit):
    out = kit.run()
    for chapter in load_syllabus().chapters:
        assert f"{chapter.number:>2}  {chapter.title}" in out
    assert re.search(r"Next: count_bigrams \(\d+ points\), exercises[/\\]ch00_first_model\.py:\d+", out)
    assert kit.run("status") == out
    assert "headway check count_bigrams" in out and "You have not passed an exercise yet" in out
    assert "read exercises/ch00_first_model.md, or open the book with `headway book`" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80 and "\x1b" not in out
    assert not (kit.exercises / "progress.txt").exists()


def test_the_status_page_leaves_torch_alone(kit):
    """Importing torch would take most of two seconds."""
    code = "import sys; from grader.cli.main import app; app(standalone_mode=False); sys.exit('torch' in sys.modules)"
    environment = kit.environment()
    assert subprocess.run([sys.executable, "-c", code], cwd=kit.root, env=environment, capture_output=True).returncode == 0


def test_it_says_which_headway_it_is(kit):
    assert re.fullmatch(r"headway \d+\.\d+\.\d+\n", kit.run("--version"))


def test_the_next_thing_follows_the_record_and_the_chapter_worked_on(kit):
    kit.record(build_vocab=10)
    assert "Next: WordTokenizer" in kit.run("next")
    kit.edit("ch03_attention", "    raise NotImplementedError", "    return x")
    assert "Next: softmax" in kit.run("next")
    kit.record(build_vocab=10, softmax=10)
    assert "Next: causal_mask" in kit.run("next")


def test_the_line_is_where_the_exercise_is_now(kit):
    kit.edit("ch01_tokenizer", "def build_vocab", "# a comment\n\n\ndef build_vocab")
    line = kit.file("ch01_tokenizer").read_text().split("def build_vocab")[0].count("\n") + 1
    assert f"ch01_tokenizer.py:{line}\n" in kit.run("next")


def test_all_done_says_so(kit):
    kit.record(**{exercise.name: exercise.points for exercise in load_syllabus().exercises})
    assert "You have passed every exercise" in kit.run()
    assert "You have passed every exercise" in kit.run("check")
    assert "You have passed every exercise" in kit.run("hint")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_without_these_characters_gets_ascii(kit, encoding):
    kit.record(build_vocab=10, WordTokenizer=20)
    assert "##" in kit.run(PYTHONIOENCODING=encoding, PYTHONUTF8="0")


def test_from_another_folder_paths_lead_to_the_file(kit, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    out = kit.run("next", cwd=tmp_path / "elsewhere")
    place = re.search(r"points\), (.*):\d+", out)[1]
    assert (tmp_path / "elsewhere" / place).resolve() == kit.file("ch00_first_model")


def test_list_names_every_exercise(kit):
    kit.record(build_vocab=10)
    out = kit.run("list")
    assert all(exercise.name in out for exercise in load_syllabus().exercises)
    assert re.search(r"x +10/10  build_vocab", out) and re.search(r"> +0/\d+  WordTokenizer", out)


# ---- names


@pytest.mark.parametrize(
    ("arguments", "offer"),
    [
        (("check", "sofmax"), "did you mean softmax"),
        (("hint", "Sofmax"), "did you mean softmax"),
        (("diff", "spilt_heads"), "did you mean split_heads"),
        (("reset", "ch33"), "ch03"),
        (("open", "MultiheadAtention"), "did you mean MultiHeadAttention"),
        (("dev-check", "merge_haeds"), "did you mean merge_heads"),
        (("check", "xyzzy"), "`headway list` lists them all"),
        (("check", "kv"), "may mean ch10 (KV cache), KVCache or kv_cache_bytes"),
        (("diff", "attention"), "is a chapter (ch03 Attention), and an exercise is needed here: softmax, "),
        (("chekc",), "Did you mean 'check'"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(kit, arguments, offer):
    assert offer in kit.run(*arguments, status=2)


@posix
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("headway check soft", ["softmax"]),
        ("headway open ch0", ["ch01", "ch02", "ch03"]),
        ("headway diff xy", []),
        ("headway hint merge_", ["merge_pair", "merge_heads"]),
    ],
)
def test_names_complete(kit, words, expected):
    code = "import sys; sys.argv[0] = 'headway'; from grader.cli.main import app; app(prog_name='headway')"
    completion = {"_HEADWAY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    out = subprocess.run([sys.executable, "-c", code], cwd=kit.root, env=kit.environment(**completion), capture_output=True, text=True).stdout
    assert set(expected) <= set(out.split()) and (expected or not out.split())


# ---- hints


def test_hints_come_one_after_the_other(kit):
    hints = load_syllabus().exercise("softmax").hints
    for level in (1, 2, 3, 3):
        out = " ".join(kit.run("hint", "softmax").split())
        assert f"hint {level} of 3" in out and " ".join(hints[level - 1].split()) in out
    assert "hint 1 of 3" in kit.run("hint", "softmax", "--level", "1")
    assert "hint 1 of 3" in kit.run("hint", "causal_mask")
    assert "hint 1 of 3" in kit.run("hint") and "count_bigrams" in kit.run("hint")
    assert "causal_mask, hint 2 of 3" in kit.run("hint", "causal_mask", "--level", "2") and "softmax, hint" in kit.run("hint", "Attention")
    kit.run("hint", "softmax", "--level", "4", status=2)


# ---- diff


def test_diff_waits_until_the_exercise_is_passed(kit):
    assert "--peek" in kit.run("diff", "softmax", status=1)
    out = kit.run("diff", "softmax", "--peek")
    assert "-    raise NotImplementedError" in out and "+    return" in out and "SOLUTION" not in out
    kit.solve("ch03_attention")
    kit.pass_chapter("ch03")
    assert "identical to the reference" in kit.run("diff", "softmax")


# ---- open


def test_without_a_terminal_or_an_editor_the_place_is_printed(kit):
    assert re.fullmatch(r"exercises.ch03_attention\.py:\d+\n", kit.run("open", "softmax", EDITOR="vi"))
    assert re.fullmatch(r"exercises.ch03_attention\.py:1\n", kit.run("open", "ch03", PATH=""))


@posix
@pytest.mark.parametrize(("name", "pattern"), [("code", r"-g \S+ch03_attention\.py:\d+"), ("subl", r"\S+ch03_attention\.py:\d+")])
def test_an_editor_is_called_at_the_line(kit, tmp_path, name, pattern):
    program = tmp_path / name
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\n')
    program.chmod(0o755)
    kit.run("open", "softmax", VISUAL=str(program))
    assert re.fullmatch(pattern, (tmp_path / "called").read_text().strip())


def test_a_missing_editor_is_one_sentence(kit):
    assert "'nosuch/code'" in kit.run("open", "softmax", VISUAL="nosuch/code --wait", status=1)


# ---- check


def test_check_of_a_stub_and_of_a_solution(kit):
    out = kit.run("check", status=1)
    assert "not implemented yet" in out and "count_bigrams" in out and "failed" not in out
    assert not any(word in out for word in ("test session starts", "platform", "rootdir", "collected", "deselected"))
    kit.solve("ch01_tokenizer")
    out = " ".join(kit.run("check", "build_vocab").split())
    exercise = load_syllabus().exercise("build_vocab")
    assert exercise.why in out and exercise.unlocks in out
    assert exercise.why in " ".join(kit.run("check", "build_vocab").split())
    assert "Next: WordTokenizer" in kit.run("next")
    kit.edit("ch01_tokenizer", "def build_vocab(corpus", "def build_vocab(corpus_is_wrong")
    assert kit.run("check", "build_vocab", status=1)


def test_a_chapter_is_tested_by_all_its_files(kit):
    (kit.root / "tests" / "test_ch02_embeddings.py").rename(kit.root / "tests" / "test_ch02_embeddings_again.py")
    kit.solve("ch02_embeddings")
    assert "100/100" in kit.run("check", "ch02")


def test_check_of_a_chapter_without_tests(kit):
    for path in (kit.root / "tests").glob("test_ch02*.py"):
        path.unlink()
    assert "there are no tests" in kit.run("check", "ch02", status=2)


# ---- broken files


@pytest.mark.parametrize("syllabus", [None, b"[[chapter", b"\xff", b"[[chapter]]\nid = 'ch01'\n", b"x = 1\n", b"chapter = 3\n"])
def test_a_broken_syllabus_is_one_sentence(kit, syllabus):
    path = kit.exercises / "syllabus.toml"
    path.unlink() if syllabus is None else path.write_bytes(syllabus)
    assert one_sentence(kit.run(status=1))


@pytest.mark.parametrize("arguments", [("next",), ("list",), ("check", "softmax"), ("hint",), ("reset", "ch01"), ("stubs", "--check")])
def test_every_command_reports_it_in_the_same_way(kit, arguments):
    (kit.exercises / "syllabus.toml").write_text("[[chapter")
    assert one_sentence(kit.run(*arguments, status=1))


def one_sentence(out: str) -> bool:
    return out.startswith("headway: exercises") and "cannot be read" in out and out.count("\n") == 1


def test_check_of_a_broken_file_shows_the_line_at_once(kit):
    kit.record(softmax=10)
    kit.edit("ch03_attention", "    return None", "    return (None")
    for name in ("softmax", "attention"):
        out = kit.run("check", name, status=1)
        place = re.match(r"exercises.ch03_attention\.py, line (\d+): this is not valid Python", out)
        assert place and re.search(rf"\n +{place[1]} \|     return \(None\n {{19}}\^\n", out) and "Fix this first" in out
        assert "passed" not in out and "points" not in out
    assert "10/10  softmax" in kit.run("list")


def test_the_next_exercise_is_one_of_those_that_were_tested(kit):
    assert re.search(r"Next: write causal_mask in exercises.ch03_attention\.py:\d+\n +headway check causal_mask", kit.run("check", "causal_mask", status=1))


@pytest.mark.parametrize("work", [b"def softmax(x:\n", b"\xff\xfe\x00", b"x = '\0'\n"])
def test_a_broken_chapter_does_not_stop_the_pages(kit, work):
    kit.file("ch01_tokenizer").write_bytes(work)
    for arguments in ((), ("next",), ("list",), ("hint",), ("hint", "softmax")):
        kit.run(*arguments)
    assert "ch01_tokenizer.py" in kit.run("next")
    kit.run("diff", "build_vocab", "--peek", status=1)


def test_a_hint_is_shown_although_its_level_cannot_be_saved(kit):
    (kit.exercises / ".headway").write_text("a file where a folder should be")
    out = kit.run("hint", "softmax")
    assert "hint 1 of 3" in out and "could not write exercises/.headway/hints.json" in out


# ---- for maintainers


def test_stubs_match_until_a_learner_works_on_one(kit):
    assert "Stubs and solutions match" in kit.run("stubs", "--check")
    kit.edit("ch01_tokenizer", "raise NotImplementedError", "return 1")
    assert "was edited" in kit.run("stubs")
    assert "was edited" in kit.run("stubs", "--check", status=1)


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
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_terminal_gets_colour_and_at_most_80_columns(kit, columns):
    kit.record(build_vocab=10)
    out = on_terminal(kit, columns=columns)
    assert "\x1b[" in out
    assert max(len(line) for line in ESCAPE.sub("", out).splitlines()) <= min(columns, 80)


@posix
def test_no_color_means_no_escape_codes(kit):
    for arguments in ((), ("list",), ("hint",), ("diff", "softmax", "--peek"), ("reset", "ch44")):
        assert "\x1b" not in on_terminal(kit, *arguments, NO_COLOR="1")


@posix
def test_an_editor_on_the_terminal_gets_the_line(kit, tmp_path):
    program = tmp_path / "nano"
    program.write_text('#!/bin/sh\necho "called with $@"\n')
    program.chmod(0o755)
    assert re.search(r"called with \+\d+ \S+ch03_attention\.py", on_terminal(kit, "open", "softmax", EDITOR=str(program)))


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_points_are_read_on_a_narrow_terminal_too(kit, columns):
    kit.record(softmax=10, split_heads=1.25)
    page = kit.run(COLUMNS=str(columns)).splitlines()
    assert all(len(line) <= columns for line in page[:15]) and not any("…" in line for line in page[:15])
    assert [line.strip() for line in page if " points" in line][0].endswith(f"11.25 of {sum(chapter.points for chapter in load_syllabus().chapters):g} points")
    line = next(line for line in page if " Attention " in line)
    assert " 11.25/100" in line and ("█" in line) == (columns > 40) and ("1 of 11 passed" in line) == (columns == 80)


def test_a_missing_chapter_is_reported_before_anything_is_tested(kit):
    kit.file("ch03_attention").unlink()
    for name in ("softmax", "ch03"):
        assert kit.run("check", name, status=2) == "headway: exercises/ch03_attention.py is missing; `headway reset ch03` creates the stub again\n"


def test_if_the_old_code_cannot_be_saved_nothing_is_changed(kit):
    kit.solve("ch03_attention")
    before = kit.file("ch03_attention").read_bytes()
    (kit.exercises / ".headway").write_text("a file where a folder belongs")
    for name in ("softmax", "ch03"):
        said = kit.run("reset", name, status=1)
        assert said.startswith("headway: nothing was changed, because your code could not be saved: could not write exercises/.headway/kept/") and said.count("\n") == 1
    assert kit.file("ch03_attention").read_bytes() == before


@pytest.mark.parametrize(("command", "reason"), [("handout", "could not make file/out.zip: "), ("gradescope", "the folder file does not exist")])
def test_output_that_cannot_be_written_is_one_sentence(kit, command, reason):
    (kit.root / "file").write_text("no folder")
    said = kit.run(command, "file/out.zip", "--chapters", "ch01", status=2)
    assert said.startswith(f"headway: {reason}") and said.count("\n") == 1


def test_every_command_describes_itself_in_one_whole_line(kit):
    said = kit.run("--help", COLUMNS="80")
    assert "..." not in said[said.index("Commands:") :] and "dev-check" in said and "(for instructors)" in said


@posix
def test_a_terminal_without_capabilities_keeps_its_width(kit):
    out = on_terminal(kit, columns=40, TERM="dumb")
    lines = [line.rstrip() for line in out.splitlines()]
    assert all(len(line) <= 40 for line in lines) and "\x1b" not in out and "Count how often each id follows each" in lines


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


def test_an_exercise_of_an_earlier_chapter_that_is_not_imported_is_named_with_its_chapter(kit):
    kit.solve("ch09_sampling")
    kit.edit("ch09_sampling", "probs = torch.softmax(logits, dim=-1)  # (..., V)", "probs = softmax(logits, dim=-1)")
    said = " ".join(kit.run("check", "min_p_filter", status=1).split())
    assert "`softmax` is in chapter 3. To use it here, write `from .ch03_attention import softmax` at the top of the file." in said


def test_the_diff_ignores_todo_comments(kit):
    kit.solve("ch03_attention")
    path = kit.file("ch03_attention")
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "# TODO" not in line) + "\n")
    assert "Your softmax is identical to the reference." in kit.run("diff", "softmax", "--peek")


def test_after_the_last_exercise_of_a_chapter_its_open_ones_are_next(monkeypatch):
    from grader.course import status

    chapter = load_syllabus().chapter("ch15")
    monkeypatch.setattr(status, "current_scores", lambda: {each.name: Score(1, 1) for each in chapter.exercises if each.name != "beam_search"})
    assert status.next_unpassed(chapter.exercises[-1]).name == "beam_search"


def test_doctor_names_a_missing_package_of_training(monkeypatch):
    from grader.cli.commands import doctor

    assert not any("headway train" in finding.sentence for finding in doctor._packages())
    monkeypatch.setitem(sys.modules, "numpy", None)
    (finding,) = [finding for finding in doctor._packages() if "headway train" in finding.sentence]
    assert finding.state == "note" and "`headway train` needs numpy, which is not installed: run pip install" in finding.sentence
