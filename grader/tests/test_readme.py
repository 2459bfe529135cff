"""The README's pictures show what happens today and make no request to the network; its links lead to existing targets."""

import ast
import re
from xml.etree import ElementTree

import pytest
from grader.course.known_mistakes import misconceptions
from grader.course.readme_table import check_readme_table, write_readme_table
from grader.course.source import read_source
from grader.course.syllabus import ROOT, load_syllabus
from grader.quality.devcheck.subjects import variants
from grader.quality.readme_pictures import FOLDER, unfinished_chapter
from grader.teaching.corpora import ENGLISH_HINDI

SVG = "{http://www.w3.org/2000/svg}"
README = read_source(ROOT / "README.md")


def texts(svg):
    return [mark.text for mark in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_recorded_session_is_what_a_learner_sees_today(kit):
    """The same mistake, tested now: every line of its verdict is in the picture, and so are the course's sentences after the fix."""
    shown = " ".join(" ".join(texts(read_source(FOLDER / "session.svg"))).split())
    file = kit.file("ch03_attention")
    file.write_text(unfinished_chapter(read_source(file)), encoding="utf-8")
    said = kit.run("check", "softmax", status=1)
    verdict = said[said.index("The whole tensor") : said.index("For a hint")]
    for line in filter(None, (" ".join(line.split()) for line in verdict.splitlines())):
        assert line in shown
    softmax = load_syllabus().exercise("softmax")
    for sentence in ("softmax works: all 8 tests pass.", softmax.why, softmax.unlocks, "1/10 points", "10/10 points", "total = exps.sum(dim, keepdim=True)"):
        assert sentence in shown


def test_the_attention_of_the_picture_is_attention():
    """One of the course's sentences, with a word next to each row and column, and weights that sum to 1 along each row."""
    words = texts(read_source(FOLDER / "attention.svg"))
    english, hindi = ENGLISH_HINDI[[source for source, _ in ENGLISH_HINDI].index("the boy drinks milk")]
    columns = english.split()
    assert [word for word in words if word in columns] == columns
    assert [word.partition(" ")[0] for word in words if "(" in word] == hindi.split()
    weights = [float(word) for word in words if re.fullmatch(r"[01]\.\d+", word)]
    rows = [weights[at : at + len(columns)] for at in range(0, len(weights), len(columns))]
    assert len(rows) == len(hindi.split()) + 1
    assert all(sum(row) == pytest.approx(1, abs=0.003) for row in rows)
    assert [columns[row.index(max(row))] for row in rows[:3]] == ["boy", "milk", "drinks"]  # as the README says


@pytest.mark.parametrize("name", ["session", "attention"])
def test_a_picture_is_small_and_loads_nothing(name):
    svg = read_source(FOLDER / f"{name}.svg")
    assert len(svg.encode()) < 40_000
    assert not re.search(r"https?:|url\((?!#)|@import|@font-face|<script|<image|href", svg.replace("http://www.w3.org/2000/svg", ""))
    assert ElementTree.fromstring(svg).find(f"{SVG}title").text


def test_the_readme_opens_with_its_three_pictures_and_its_links_work():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links[:3] == [".github/pictures/session.svg", ".github/pictures/attention.svg", "exercises/pictures/ch00_transformer.svg"]
    assert [link for link in links if not (ROOT / link).is_file()] == []
    headings = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert headings == ["For learners", "Compared with other courses", "For instructors", "For maintainers"]
    parts = re.split(r"^## .*$", README, flags=re.MULTILINE)
    assert max(part.count("\n") for part in parts) <= 50  # each is shorter than a page


def test_the_map_of_the_machinery_names_every_room_and_only_files_that_exist():
    guide = read_source(ROOT / "CONTRIBUTING.md")
    section = guide[guide.index("## The machinery") : guide.index("## A solution")]
    rooms = {path.name + "/" for path in (ROOT / "grader").iterdir() if any(path.glob("**/*.py"))}
    rows = re.findall(r"^\| `([\w/]+/)` \|(.*)\|$", section, re.MULTILINE)
    assert rooms <= {room for room, _ in rows}
    for room, row in rows:
        folder = ROOT / "grader" / room
        assert [name for name in re.findall(r"`([\w/]+(?:\.py|/))`", row) if not any((place / name).exists() for place in (folder, folder.parent))] == [], room


def test_the_walks_through_the_code_name_functions_that_exist_and_count_their_hops():
    guide = read_source(ROOT / "CONTRIBUTING.md")
    section = guide[guide.index("## Three walks through the code") : guide.index("## Glossary")]
    titles = re.findall(r"^### .* \((\d+) hops\)$", section, re.MULTILINE)
    walks = re.split(r"^### .*$", section, flags=re.MULTILINE)[1:]
    assert len(titles) == len(walks) == 3
    for count, walk in zip(titles, walks):
        hops = re.findall(r"^(\d+)\. `[^`]+\.py: [\w.]+` — ", walk, re.MULTILINE)
        assert hops == re.findall(r"^(\d+)\. ", walk, re.MULTILINE) == [str(number) for number in range(1, int(count) + 1)]
    named = re.findall(r"`([\w/.]+\.py): ([\w.]+)`", section)
    assert [f"{path}: {name}" for path, name in named if not (ROOT / path).is_file() or name not in _definitions(ROOT / path)] == []


def _definitions(path):
    """The functions and classes at the top level of a module, and the methods as "Class.method"."""
    for node in ast.parse(read_source(path)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{method.name}" for method in node.body if isinstance(node, ast.ClassDef) and isinstance(method, ast.FunctionDef))


def test_a_stale_table_of_the_readme_is_reported_and_written_again(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(README.replace("`top_k_filter`, ", "").replace("| 12 ", "| 13 "), encoding="utf-8")
    assert len(check_readme_table(readme)) == 1
    assert write_readme_table(readme) and readme.read_text(encoding="utf-8") == README
    assert not write_readme_table(readme) and check_readme_table(readme) == []


def test_the_readme_and_the_figures_count_what_is_there():
    """Changed with `headway dev-check`, which prints both numbers in its last line."""
    exercises = load_syllabus().exercises
    mistakes = sum(len(misconceptions(exercise.module, exercise.name)) for exercise in exercises)
    correct = sum(len(variants(exercise)) for exercise in exercises)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    figures = (ROOT / "grader" / "teaching" / "book" / "pages" / "figures.md").read_text(encoding="utf-8")
    assert f"all of the {mistakes:,} known mistakes" in readme and f"{correct} other correct implementations get full marks" in readme
    assert figures.count(f"| {mistakes:,} of {mistakes:,} |") == 2 and f"| {correct} of {correct} variants |" in figures
