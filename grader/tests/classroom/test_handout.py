"""`headway handout`: the learners' folder works like the whole kit, gives the same marks, and reveals no solution."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path

import forked_python
import pytest
from grader.classroom.handout.handout_folder import find_all_hidden, make_handout, plan_handout, reduce_suites
from grader.classroom.intake.submissions import GradingProblem
from grader.course.source import definition, read_source, replace_definition
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, UnknownName, load_syllabus
from grader.verdict.needed_examples import NEEDED, needed_examples
from kit_copy import Kit
from pytest_runs import solution

MODULE = "ch03_attention"
HIDDEN = ("fuse_qkv", "split_qkv")


@pytest.fixture(scope="module")
def said_and_made(module_kit, tmp_path_factory):
    """Made by an instructor who has edited a stub."""
    folder = tmp_path_factory.mktemp("given") / "out"
    module_kit.solve(MODULE)
    said = module_kit.run("handout", str(folder), "--chapters", "ch03", "--hidden", "fuse_qkv")
    return said, Kit(folder)


@pytest.fixture(scope="module")
def made(said_and_made):
    return said_and_made[1]


@pytest.fixture
def handout(made, tmp_path):
    """A handout to write in."""
    shutil.copytree(made.root, tmp_path / "handout")
    return Kit(tmp_path / "handout")


def run_pytest(kit: Kit, *arguments: str) -> subprocess.CompletedProcess:
    """`python -m pytest ARGUMENTS` in this folder."""
    return forked_python.run("pytest", list(arguments), kit.root, kit.environment())


def run_there(kit: Kit, *arguments: str, results: Path) -> dict:
    """The results of `python -m pytest ARGUMENTS` in this folder, without times and without the target."""
    done = run_pytest(kit, "-p", "no:cacheprovider", *arguments, f"--results={results}")
    assert results.exists(), done.stdout + done.stderr
    data = json.loads(results.read_text(encoding="utf-8"))
    for exercise in data["exercises"]:
        for test in exercise["tests"]:
            test["seconds"] = 0
    return {exercise["name"]: exercise for exercise in data["exercises"]}


def test_it_has_chapter_0_with_links_only_to_what_is_there(made):
    lesson = read_source(made.exercises / "ch00_big_picture.md")
    assert "[Attention](ch03_attention.md)" in lesson and "| 1 Tokenizer |" in lesson and "| 0 First model |" in lesson
    for name in ("ch00_big_picture", "ch00_refresher"):
        for target in re.findall(r"\]\((\S+)\)", read_source(made.exercises / f"{name}.md")):
            assert (made.exercises / target).is_file() or not (EXERCISES / target).is_file(), target
    assert "read exercises/ch00_big_picture.md" in " ".join(made.run("status").split())


def test_it_has_the_needed_examples_of_its_exercises(made):
    """A hidden exercise is not named."""
    found = tomllib.loads(read_source(made.root / "tests" / NEEDED.name))
    shown = {exercise.name for exercise in load_syllabus().chapter("ch03").exercises} - set(HIDDEN)
    assert found == {name: tests for name, tests in needed_examples().items() if name in shown} and "softmax" in found


# ---- the same marks


@pytest.mark.thorough
def test_code_gets_the_same_marks_as_from_the_whole_kit(handout, tmp_path):
    text = solution("ch03")
    wrong = definition(text, "softmax").text.replace("exps.sum(dim, keepdim=True)", "exps.sum()")
    text = replace_definition(text, "softmax", wrong)
    text = replace_definition(text, "causal_mask", definition(read_source(handout.file(MODULE)), "causal_mask").text)
    handout.file(MODULE).write_text(text, encoding="utf-8")
    chosen = [word for name in ("softmax", "causal_mask", "padding_mask", "split_heads", "merge_heads") for word in ("--exercise", name)]
    there = run_there(handout, "--worker", *chosen, results=tmp_path / "there.json")
    here = run_there(Kit(ROOT), "--target", str(handout.exercises), *chosen, results=tmp_path / "here.json")
    assert there == here
    assert {name: result["outcome"] for name, result in there.items()} == {
        "softmax": "failed", "causal_mask": "todo", "padding_mask": "passed", "split_heads": "passed", "merge_heads": "passed",
    }  # fmt: skip
    assert there["softmax"]["diagnosis"], "a known mistake is named in a handout too"


@pytest.mark.thorough
def test_several_chapters_run_on_the_sealed_earlier_ones(tmp_path):
    handout = Kit(make_handout(tmp_path / "out", ["ch05", "4"], ["CausalSelfAttention"]).folder)
    assert sorted(path.name for path in handout.exercises.glob("*.py")) == ["ch04_positions_in_attention.py", "ch05_layers.py"]
    handout.file("ch05_layers").write_text(solution("ch05"), encoding="utf-8")
    handout.file("ch04_positions_in_attention").write_text(solution("ch04"), encoding="utf-8")
    chosen = ["--exercise", "alibi_bias", "--exercise", "RMSNorm", "--exercise", "gelu"]
    there = run_there(handout, "--worker", *chosen, results=tmp_path / "there.json")
    assert {name: result["outcome"] for name, result in there.items()} == dict.fromkeys(["alibi_bias", "gelu", "RMSNorm"], "passed")


def test_check_hint_reset_and_list_work_in_a_handout(handout):
    stub = handout.file(MODULE).read_text()
    handout.edit(MODULE, "raise NotImplementedError", "return x")
    assert "softmax" in handout.run("check", "softmax", status=1)
    assert "9 of 9" not in handout.run("list")
    assert handout.run("hint", "softmax")
    assert "is the stub again" in handout.run("reset", "softmax")
    assert handout.file(MODULE).read_text() == stub


def test_commands_that_need_the_whole_kit_say_so(made):
    assert "headway: `headway dev-check` does not work in a handout" in made.run("dev-check", status=2)
    said = made.run("diff", "softmax", "--peek", status=1)
    assert "a handout does not show the reference" in said and "To see the reference anyway" not in said
    assert "dev-check" not in made.run("--help")
    assert "ch01 Tokenizer: text becomes numbers (not in this handout)" in made.run("list")
    for command, status in (("check", 2), ("reset", 1)):
        assert "ch01_tokenizer is not part of this handout" in made.run(command, "ch01", status=status)


# ---- no solutions inside


def test_it_contains_no_line_of_a_solution(made):
    secret = [line for module in chapters_written() for line in lines_of_blocks(module)]
    assert len(secret) > 300
    for path in made.root.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            assert [line for line in secret if line in text] == [], path


def test_it_contains_only_what_a_learner_needs(made, module_kit):
    names = {str(path.relative_to(made.root)) for path in made.root.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    unwanted = ("solutions", "tests/misconceptions", "variants", "grader/tests", "devcheck", ".git/", ".pyc", "progress.txt")
    assert not any(part in name for name in names for part in unwanted)
    assert {name for name in names if name.startswith("reference/")} == {
        "reference/ch00_first_model.sealed", "reference/ch01_tokenizer.sealed", "reference/ch02_embeddings.sealed", f"reference/{MODULE}.sealed", f"reference/{MODULE}.mistakes",
        f"reference/{MODULE}.stub",
    }  # fmt: skip
    assert {".gitlab-ci.yml", "README.md", "Makefile", ".github/workflows/classroom.yml", f"exercises/{MODULE}.md", f"exercises/pictures/{MODULE}.svg"} <= names
    assert str(module_kit.root) not in "".join(path.read_bytes().decode("utf-8", "replace") for path in made.root.rglob("*") if path.is_file())


def test_it_contains_no_tests_reference_or_mistakes_of_a_hidden_exercise(said_and_made):
    said, made = said_and_made
    assert "hidden: fuse_qkv\nhidden: split_qkv (its tests use fuse_qkv)\n" in said
    suites = "".join(path.read_text() for path in (made.root / "tests").glob("test_*.py"))
    assert '@exercise("MultiHeadAttention"' in suites
    assert not any(f'@exercise("{name}"' in suites for name in HIDDEN)
    tree = ast.parse(zlib.decompress((made.root / "reference" / f"{MODULE}.sealed").read_bytes()))
    whole = {node.name: len(node.body) for node in ast.parse(read_source(SOLUTIONS / f"{MODULE}.py")).body if isinstance(node, ast.FunctionDef)}
    left = {node.name: node.body for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert all(whole[name] > 1 and isinstance(left[name][0], ast.Raise) and len(left[name]) == 1 for name in HIDDEN)
    mistakes = json.loads(zlib.decompress((made.root / "reference" / f"{MODULE}.mistakes").read_bytes()))
    left = {exercise.name for exercise in load_syllabus().chapter("3").exercises} - set(HIDDEN)
    assert set(mistakes["misconceptions"]) == left and set(mistakes["bases"]) <= left
    assert "def fuse_qkv(" in made.file(MODULE).read_text(), "its stub is there"
    assert "fuse_qkv has no tests here, because only your instructor grades it" in made.run("check", "fuse_qkv", status=2)
    done = run_pytest(made, "-p", "no:cacheprovider", "--exercise", "fuse_qkv")
    assert done.returncode == 4 and b"only your instructor grades it" in done.stderr


def test_hiding_an_exercise_also_hides_those_that_need_it_with_the_reason():
    course = load_syllabus()
    chapter = course.chapter("9").exercises
    assert find_all_hidden(["top_k_filter"], chapter) == {
        "top_k_filter": "",
        "sample_next_token": "its reference is built on top_k_filter",
        "generate": "its reference is built on top_k_filter",
    }
    blocks = [exercise for number in "56" for exercise in course.chapter(number).exercises]
    assert "PreNormBlock" in find_all_hidden(["gelu"], blocks), "through chapters that build on it"
    backwards = find_all_hidden(["accumulated_step"], course.chapter("8").exercises)
    assert backwards["train_step"] == "its tests use accumulated_step", "which comes after it"
    assert list(find_all_hidden(["CachedSelfAttention"], [course.exercise("KVCache")])) == ["CachedSelfAttention"], "which no test of KVCache uses"


def test_suites_without_a_hidden_exercise_are_complete(tmp_path):
    for name in ("build_vocab", "MultiHeadAttention", "route"):
        chapter = load_syllabus().chapter(load_syllabus().exercise(name).chapter)
        for file, text in reduce_suites([chapter], find_all_hidden([name], chapter.exercises)).items():
            (tmp_path / file).write_text(text)
    ruff = shutil.which("ruff") or str(Path(sys.executable).with_name("ruff"))
    done = subprocess.run([ruff, "check", "--isolated", "--select", "F821,F822,E9", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# ---- sealing


def test_a_damaged_reference_gives_a_message_and_no_mark(handout):
    path = handout.root / "reference" / f"{MODULE}.sealed"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = run_pytest(handout, "--exercise", "softmax")
    assert done.returncode == 4 and f"reference/{MODULE}.sealed is damaged".encode() in done.stderr and b"Traceback" not in done.stdout + done.stderr


# ---- wrong use


def test_unknown_names_get_a_suggestion(tmp_path):
    with pytest.raises(UnknownName, match="did you mean ch03_attention"):
        make_handout(tmp_path / "out", ["ch03_atention"], [])
    assert not (tmp_path / "out").exists()
    with pytest.raises(GradingProblem, match="ch05, which is not in this handout"):
        plan_handout(["3"], ["gelu"])
    with pytest.raises(GradingProblem, match="hide all exercises"):
        plan_handout(["5"], ["gelu", "dropout", "LayerNorm", "RMSNorm", "SwiGLU"])


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(GradingProblem, match="choose another folder"):
        make_handout(tmp_path, ["3"], [], True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(GradingProblem, match="contains this kit"):
        make_handout(ROOT, ["3"], [], True)
    again = tmp_path / "again"
    make_handout(again, ["1"], [])
    (again / "exercises" / "old.txt").write_text("old")
    with pytest.raises(GradingProblem, match="--force"):
        make_handout(again, ["1"], [])
    make_handout(again, ["1"], [], force=True)
    assert not (again / "exercises" / "old.txt").exists() and (again / "README.md").exists()


def chapters_written() -> list[str]:
    return sorted(path.stem for path in SOLUTIONS.glob("ch*.py"))


def _is_statement(line: str) -> bool:
    try:
        return bool(ast.parse(line).body)
    except SyntaxError:  # the beginning or the end of a longer one
        return False


def lines_of_blocks(module: str) -> list[str]:
    """The lines between the solution marks that are whole statements, and long enough to be recognised."""
    found, inside = [], False
    for line in read_source(SOLUTIONS / f"{module}.py").splitlines():
        inside = (inside or "BEGIN SOLUTION" in line) and "END SOLUTION" not in line
        line = line.partition("  #")[0].strip()
        if inside and len(line) > 28 and "SOLUTION" not in line and _is_statement(line):
            found.append(line)
    return found


def test_a_handout_of_a_path_has_its_chapters_and_has_chosen_it(module_kit, tmp_path):
    said = module_kit.run("handout", str(tmp_path / "out"), "--path", "inside")
    assert "ch04 Positions in attention" in said and "ch08" not in said, "the chapters to read first are there"
    made = Kit(tmp_path / "out")
    page = made.run()
    assert "The path inside takes about" in page and "Positions in attention" not in page and "Next: softmax" in page
    assert "interview" not in made.run("path"), "its chapters are not all there"
    made.run("path", "all")
    assert "Positions in attention" in made.run()
    for arguments, sentence in ((("--path", "insde"), "did you mean inside?"), (("--path", "inside", "--chapters", "ch03"), "give --chapters or --path, not both")):
        assert sentence in module_kit.run("handout", str(tmp_path / "no"), *arguments, status=2)


def test_a_template_for_github_needs_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GradingProblem, match="--github makes a git repository, and git is not installed"):
        make_handout(tmp_path / "handout", ["ch05"], [], as_repository=True)
    assert not (tmp_path / "handout").exists()
