"""The README, CONTRIBUTING and the pages: pictures show what happens today, links lead somewhere, numbers and names are those of the kit."""

import ast
import re
import textwrap
import tomllib
from xml.etree import ElementTree

import pytest
from grader.chapters.corpora import ENGLISH_HINDI
from grader.course.known_mistakes import misconceptions, variants
from grader.course.paths import load_paths
from grader.course.source import definition, read_source
from grader.course.stubs import check_chapter_table, write_chapter_table
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, load_syllabus
from grader.tests.quality.proof.field import attempts
from grader.tests.quality.readme_pictures import FOLDER, hunt, unfinished_chapter

SVG = "{http://www.w3.org/2000/svg}"
README, GUIDE = (read_source(ROOT / f"{name}.md") for name in ("README", "CONTRIBUTING"))
PAGES = ROOT / "grader" / "teaching" / "book" / "pages"
WRITTEN = sorted([*EXERCISES.glob("*.md"), *PAGES.glob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".github/SECURITY.md"))])


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
    earned = re.search(r"softmax +(\S+/10)", said)[1]
    for sentence in ("softmax works: all 8 tests pass.", softmax.why, softmax.unlocks, f"{earned} points", "10/10 points", "total = exps.sum(dim, keepdim=True)"):
        assert sentence in shown


def test_the_recorded_hunt_is_what_a_learner_sees_today():
    """The same hunt, made now."""
    assert texts(hunt()) == texts(read_source(FOLDER / "hunt.svg"))


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


@pytest.mark.parametrize("name", ["session", "hunt", "attention"])
def test_a_picture_is_small_and_loads_nothing(name):
    svg = read_source(FOLDER / f"{name}.svg")
    assert len(svg.encode()) < 40_000
    assert not re.search(r"https?:|url\((?!#)|@import|@font-face|<script|<image|href", svg.replace("http://www.w3.org/2000/svg", ""))
    assert ElementTree.fromstring(svg).find(f"{SVG}title").text


def test_the_readme_opens_with_its_three_pictures_and_is_short():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links[:3] == [".github/pictures/session.svg", ".github/pictures/attention.svg", "exercises/pictures/ch00_transformer.svg"]
    assert 70 <= README.count("\n") <= 115 and GUIDE.count("\n") <= 120


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_every_link_of_a_page_leads_to_a_file(page):
    prose = re.sub(r"(?ms)^```.*?^```", "", read_source(page))
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [link for link in links if not (page.parent / link).is_file() and not (EXERCISES / link).is_file()] == []


def test_the_hours_of_the_readme_are_those_of_the_paths():
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+) \|$", README, re.MULTILINE)
    assert rows == [(path.name, str(path.course.hours)) for path in load_paths().values()]
    chapters = load_syllabus().chapters
    assert f"The {len(chapters)} chapters take about {load_syllabus().hours} hours." in README


def test_the_map_names_every_room_and_only_files_that_exist():
    section = GUIDE[GUIDE.index("## Where anything lives") : GUIDE.index("Three walks")]
    rows = re.findall(r"^\| ((?:`[\w/]+/`(?:, )?)+) \|(.*)\|(.*)\|$", section, re.MULTILINE)
    named = [folder for folders, *_ in rows for folder in re.findall(r"`([\w/]+)/`", folders)]
    rooms = {f"grader/{path.name}" for path in (ROOT / "grader").iterdir() if any(path.glob("**/*.py"))}
    assert {*rooms, "exercises", "solutions", "tests"} == set(named)
    for folders, duty, first in rows:
        places = [ROOT / folder for folder in re.findall(r"`([\w/]+)/`", folders)]
        names = re.findall(r"`([\w/]+(?:\.py|\.toml|/))`", duty + first)
        assert [name for name in names if not any((place / name).exists() for place in places)] == [], folders


def test_the_walks_through_the_code_name_functions_that_exist_at_most_twelve_each():
    section = GUIDE[GUIDE.index("Three walks") : GUIDE.index("## Your first contribution")]
    head, *rows = re.search(r"```text\n(.*?)```", section, re.DOTALL)[1].splitlines()
    starts = [0, head.index("a save"), head.index("a zip"), None]
    for begin, end in zip(starts, starts[1:]):
        cells = [row[begin:end].strip() for row in rows]
        names = [cell for cell in cells if cell and not cell.startswith("── ")]
        assert 8 <= len(names) <= 12
        assert [name for name in names if _places(name) != 1] == []


def _places(name):
    """In how many modules of the kit the dotted name is a function: the end of the module's name, then the function's, with its class."""
    module, *inside = re.fullmatch(r"([a-z_.]+)\.((?:[A-Z]\w+\.)?\w+)", name).groups()
    ending = "/" + module.replace(".", "/") + ".py"
    found = [path for path in (ROOT / "grader").rglob("*.py") if f"/{path.relative_to(ROOT).as_posix()}".endswith(ending)]
    return sum(inside[0] in _definitions(path) for path in found)


def test_the_known_mistake_of_the_first_contribution_can_be_added():
    """It changes the solution at one place, and is not in the catalogue yet."""
    example = tomllib.loads(textwrap.dedent(re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[1]))
    ((exercise, mistakes),) = example.items()
    ((name, edit),) = mistakes.items()
    module = load_syllabus().exercise(exercise).module
    assert definition(read_source(SOLUTIONS / f"{module}.py"), exercise).text.count(edit["replace"]) == 1
    known = misconceptions(module, exercise)
    assert name not in {mistake.id for mistake in known} and edit["with"] not in {mistake.with_ for mistake in known}
    assert f"`{edit['with']}`" in GUIDE and f"{module}.toml" in GUIDE


def _definitions(path):
    """The functions and classes at the top level of a module, and the methods as "Class.method"."""
    for node in ast.parse(read_source(path)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{method.name}" for method in node.body if isinstance(node, ast.ClassDef) and isinstance(method, ast.FunctionDef))


def test_a_stale_table_of_chapters_is_reported_and_written_again(tmp_path):
    page, text = tmp_path / "chapters.md", read_source(PAGES / "chapters.md")
    page.write_text(text.replace("`top_k_filter`, ", "").replace("| 12 ", "| 13 "), encoding="utf-8")
    assert len(check_chapter_table(page)) == 1
    assert write_chapter_table(page) and page.read_text(encoding="utf-8") == text
    assert not write_chapter_table(page) and check_chapter_table(page) == []
    assert check_chapter_table() == []


def test_the_readme_and_the_figures_count_what_is_there():
    """Changed with `headway dev-check`, which prints the numbers of mistakes and variants in its last line."""
    exercises = load_syllabus().exercises
    mistakes = sum(len(misconceptions(exercise.module, exercise.name)) for exercise in exercises)
    correct = sum(len(variants(exercise.module, exercise.name)) for exercise in exercises)
    wrong = sum(1 for _ in attempts())
    readme, figures = " ".join(README.split()), read_source(PAGES / "figures.md")
    assert f"all of the {mistakes:,} known mistakes" in readme
    assert f"all of {wrong:,} wrong implementations" in readme
    assert f"{correct} other correct implementations get full marks" in readme
    assert figures.count(f"| {mistakes:,} of {mistakes:,} |") == 2
    assert f"{wrong:,} of {wrong:,} attempts" in figures
    assert f"| {correct} of {correct} variants |" in figures


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_no_other_page_counts_what_changes_with_the_course(page):
    """A number of known mistakes, exercises, tests or hours of the course: the README, the figures and the overview have these, and tests of them."""
    counted = r"\b\d[\d,]{2,} (?:known mistakes|mistakes|exercises(?! each)|tests|hours|wrong)\b"
    if page.name not in ("README.md", "figures.md", "ch00_big_picture.md"):
        assert re.findall(counted, re.sub(r"\s+", " ", read_source(page))) == []


def test_a_learner_is_sent_to_chapter_0_first_everywhere():
    for path in (ROOT / "README.md", PAGES / "learning.md"):
        text = read_source(path)
        assert text.index("ch00_first_model.md") < text.index("ch00_big_picture.md"), path.name


@pytest.mark.parametrize("template", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md")), ids=lambda template: template.stem)
def test_every_template_of_an_issue_asks_for_the_call_and_the_installation(template):
    text = read_source(template)
    assert re.match(r"---\nname: .+\nabout: .+\n", text)
    assert "headway repro" in text and ("headway doctor" in text or "headway report" in text)


def test_prose_has_at_most_120_characters_a_line():
    """Tables, folded questions, code and what was printed may be wider."""
    wide = {}
    for page in WRITTEN:
        prose = re.sub(r"^ *```.*?^ *```$", "", read_source(page), flags=re.MULTILINE | re.DOTALL)
        lines = [line for line in prose.splitlines() if len(line) > 120 and not line.startswith(("|", "![", "<summary>", "    "))]
        wide |= {page.name: lines} if lines else {}
    assert wide == {}
