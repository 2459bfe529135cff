"""`headway update`: new lessons and tests come into a learner's clone; the learner's code and points stay."""

import subprocess

import pytest
from grader.course.source import definition, read_source, replace_definition
from grader.course.syllabus import SOLUTIONS
from grader.tests.quality.benchmarks.workplace import copy_kit, without_markers
from kit_copy import Kit

MODULE, OTHER = "ch03_attention", "ch04_positions_in_attention"


def git(folder, *words):
    done = subprocess.run(["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    root = tmp_path_factory.mktemp("origin") / "kit"
    copy_kit(root)
    (root / "CHANGELOG.md").write_text("# Changes\n\n- The first version.\n")
    (root / ".gitignore").write_text("__pycache__/\n.headway/\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        git(root, *words)
    return root


@pytest.fixture
def clone(origin, tmp_path):
    """A learner's clone of which softmax is written, and points recorded; and the kit that it came from, to change."""
    for source, place in ((origin, tmp_path / "origin"), (tmp_path / "origin", tmp_path / "clone")):
        subprocess.run(["git", "clone", "-q", str(source), str(place)], check=True)
    kit = Kit(tmp_path / "clone")
    git(kit.root, "config", "user.name", "A")
    git(kit.root, "config", "user.email", "a@example.org")
    right = definition(without_markers(read_source(SOLUTIONS / f"{MODULE}.py")), "softmax").text
    path = kit.file(MODULE)
    path.write_text(replace_definition(read_source(path), "softmax", right))
    kit.record(softmax=10)
    return kit


def release(clone, **edits):
    """Change files of the kit that it came from, by (old, new), and commit."""
    root = clone.root.parent / "origin"
    paths = {root / "exercises" / f"{name}.py": edit for name, edit in edits.items()}
    for path, (old, new) in (paths | {root / "CHANGELOG.md": ("- The first", "- A new lesson.\n- The first")}).items():
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    git(root, "commit", "-qam", "second")


def points(clone):
    return (clone.exercises / "progress.txt").read_text()


def test_new_text_comes_in_around_the_learners_code(clone):
    own, earned = clone.file(MODULE).read_text(), points(clone)
    release(clone, ch03_attention=("Build the mask that hides later positions", "Build the mask that hides what is later"), ch04_positions_in_attention=("distance inside", "DISTANCE INSIDE"))
    said = " ".join(clone.run("update").split())
    assert "Updated: 1 change from origin/main." in said and "exercises/ch03_attention.py has your code, and the new text of its stub." in said
    assert "New: - A new lesson." in said
    assert clone.file(MODULE).read_text() == own.replace("Build the mask that hides later positions", "Build the mask that hides what is later")
    assert "DISTANCE INSIDE" in clone.file(OTHER).read_text() and points(clone) == earned
    assert git(clone.root, "rev-parse", "HEAD") == git(clone.root, "rev-parse", "origin/main")
    assert "Nothing is new" in clone.run("update")


def test_a_chapter_stays_where_both_have_changed_the_same_lines(clone):
    own = clone.file(MODULE).read_text().replace("    # TODO 1: subtract", "    # my comment: subtract")
    clone.file(MODULE).write_text(own)
    release(clone, ch03_attention=("# TODO 1: subtract each slice's", "# TODO 1: take from each slice its"))
    said = " ".join(clone.run("update").split())
    assert "exercises/ch03_attention.py stays as you left it." in said and "`git show origin/main:exercises/ch03_attention.py` shows the new one" in said
    assert clone.file(MODULE).read_text() == own


def test_half_written_code_stays(clone):
    own = clone.file(MODULE).read_text() + "\ndef half(\n"
    clone.file(MODULE).write_text(own)
    release(clone, ch03_attention=("Build the mask that hides later positions", "Build the mask that hides what is later"))
    clone.run("update")
    assert clone.file(MODULE).read_text() == own


def test_a_clone_with_commits_of_its_own_is_merged(clone):
    git(clone.root, "add", "-A")
    git(clone.root, "commit", "-qm", "mine")
    own = clone.file(MODULE).read_text()
    release(clone, ch03_attention=("# TODO 1: subtract each slice's", "# TODO 1: take from each slice its"), ch04_positions_in_attention=("distance inside", "DISTANCE INSIDE"))
    assert "Updated: 1 change" in clone.run("update")
    assert definition(clone.file(MODULE).read_text(), "softmax").text == definition(own, "softmax").text.replace("# TODO 1: subtract each slice's", "# TODO 1: take from each slice its")
    assert "DISTANCE INSIDE" in clone.file(OTHER).read_text() and "mine" in git(clone.root, "log", "--format=%s")


def test_what_the_update_would_overwrite_is_refused_and_nothing_changes(clone):
    lesson = clone.exercises / "ch03_attention.md"
    lesson.write_text("my notes\n" + lesson.read_text())
    (clone.root.parent / "origin" / "exercises" / "ch03_attention.md").write_text("new\n")
    git(clone.root.parent / "origin", "commit", "-qam", "lesson")
    own = clone.file(MODULE).read_text()
    said = " ".join(clone.run("update", status=2).split())
    assert "you have changed exercises/ch03_attention.md, and so does the update" in said and "git checkout" in said
    assert lesson.read_text().startswith("my notes") and clone.file(MODULE).read_text() == own


def test_a_new_file_in_the_way_is_said_and_the_code_stays(clone):
    origin = clone.root.parent / "origin"
    (origin / "exercises" / "ch30_new.md").write_text("new\n")
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "new file")
    (clone.exercises / "ch30_new.md").write_text("mine\n")
    own = clone.file(MODULE).read_text()
    assert "the new version could not be merged" in " ".join(clone.run("update", status=2).split())
    assert clone.file(MODULE).read_text() == own and (clone.exercises / "ch30_new.md").read_text() == "mine\n"


def test_without_git_or_a_source_it_says_what_to_do(kit, clone):
    assert "is not a clone that git can update" in " ".join(kit.run("update", status=2).split())
    git(clone.root, "branch", "--unset-upstream")
    assert "git does not know where this clone is from" in " ".join(clone.run("update", status=2).split())
    assert "git is not installed" in " ".join(clone.run("update", status=2, PATH="/nowhere").split())
