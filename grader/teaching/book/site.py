"""Build the book: every page, picture and script in one folder, which replaces the previous one when it is complete.

First what the pages have from the course's data: the glossary, the letters of shapes, chapter 0, the walks, pictures.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import secrets
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace

from grader.chapters import FOLDER as CHAPTERS
from grader.chapters import find_files
from grader.course.chapter_source import Definition
from grader.course.paths import load_paths
from grader.course.progress import format_points
from grader.course.source import parse, read_source
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, Chapter, Exercise, is_handout, load_syllabus
from grader.teaching.book.markdown_page import (
    Card,
    Heading,
    Links,
    Page,
    find_stub,
    highlight_python,
    make_page,
    make_slug,
    nest,
)
from grader.teaching.drawing import theme_rules, without_style
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

# ---- words


@dataclass(frozen=True)
class Word:
    name: str
    chapter: str
    says: str
    also: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"glossary.html#{make_slug(self.name)}"

    @property
    def forms(self) -> list[str]:
        return [form.lower() for form in (self.name, *self.also)]


@cache
def load_words() -> list[Word]:
    """Return the words of the chapters' glossary.toml, sorted by name."""
    found = []
    for path in find_files("glossary.toml"):
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["word"]
        found += [Word(chapter=path.parent.name[:4], **entry) for entry in entries]
    return sorted(found, key=lambda word: word.name.lower())


def load_sizes() -> dict[str, str]:
    """Return what each letter of a shape means."""
    return tomllib.loads((CHAPTERS / "sizes.toml").read_text(encoding="utf-8"))


def word_addresses(until: int) -> dict[str, str]:
    """Return the address of the explanation for every form of every word of the chapters up to number `until`."""
    known = [word for word in load_words() if int(word.chapter.removeprefix("ch")) <= until]
    return {form: word.address for word in known for form in word.forms}


def words_near() -> dict[str, list[str]]:
    """Return for each form of a word with other meanings the words that occur beside its meaning here."""
    return {form: word.near for word in load_words() if word.near for form in word.forms}


# ---- chapter 0


def read_introduction() -> tuple[str, str]:
    """Return chapter 0's diagram and what a reader needs, as Markdown; empty where the lesson is missing."""
    path = EXERCISES / "ch00_big_picture.md"
    text = read_source(path) if path.is_file() else ""
    diagram = re.search(r"^!\[[^\]]*\]\(pictures/ch00_\w+\.svg\)$", text, re.MULTILINE)
    needs = re.search(r"^## What you need\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return diagram[0] if diagram else "", needs[1].strip() if needs else ""


# ---- walks


@dataclass(frozen=True)
class Walk:
    name: str
    title: str
    needs: tuple[Exercise, ...]  # in the order of the course

    @property
    def chapter(self) -> str:
        """The last chapter that it needs: after it, the whole walk can run on the reader's code."""
        return self.needs[-1].chapter


def find_walks(exercises: Mapping[str, Exercise]) -> list[Walk]:
    """Return the walks whose exercises are all available: a handout may leave some out."""
    from grader.teaching.walks import list_walks, load  # takes torch, which a book that is there already can do without

    found = []
    for name, title in list_walks().items():
        try:
            needed = set(load(name).REQUIRED_EXERCISES)
        except ModuleNotFoundError:  # of a chapter that is not in this handout
            continue
        if needed <= exercises.keys():
            found.append(Walk(name, title, tuple(exercises[each] for each in exercises if each in needed)))
    return found


def draw_exercises(exercises: Iterable[Exercise]) -> dict[str, SimpleNamespace]:
    """Draw the reference's panels of `headway show`; return them by the name of the exercise."""
    # these take torch, which a book that is there already can do without
    from grader.execution.target import Target
    from grader.teaching.show import find_subject, has_picture
    from grader.teaching.show.panels import Bars, Span
    from grader.teaching.show.svg import panel_to_svg
    from grader.verdict.trial import Trial

    found = {}
    with closing(Trial(Target("solutions", SOLUTIONS))) as trial:
        for exercise in exercises:
            if not has_picture(exercise.name):
                continue
            subject = find_subject(exercise.name)
            trial.begin_test(exercise, "the picture")
            trial.begin_example()
            panels = subject.function(trial.reference(exercise.chapter))
            longest = Span.of(value for panel in panels if isinstance(panel, Bars) for value in panel.values).high
            drawn = enumerate((panel_to_svg(panel, longest=longest) for panel in panels), start=1)
            files = {f"{exercise.name}-{number}.svg": svg for number, svg in drawn}
            text = {"titles": [panel.title for panel in panels], "about": subject.about, "look": subject.look}
            found[exercise.name] = SimpleNamespace(files=files, **text)
    return found


def _lesson_pictures() -> dict[str, str]:
    """Return the lessons' stored pictures, drawn again from the reference where there is one; a handout has none."""
    folders = (EXERCISES / "pictures", Path(__file__).parent / "pages" / "pictures")
    stored = {path.name: read_source(path) for folder in folders for path in sorted(folder.glob("*.svg"))}
    if is_handout():
        return stored
    from grader.teaching.pictures import lesson_pictures

    return stored | lesson_pictures()


def place_pictures(html: str, pictures: Mapping[str, str]) -> str:
    """Return the page with each of its pictures in it; one that is not there gives its description.

    A picture in a file of its own would follow the reader's system only, and not the page's theme.
    """

    def place(match: re.Match) -> str:
        svg, alt = pictures.get(match[1]), match[2]
        if svg is None:
            return f"<em>{alt}</em>"
        inside = re.sub(r"<title>.*?</title>\n?", "", without_style(svg), flags=re.DOTALL).strip()
        return inside.replace('class="drawing"', f'class="drawing" aria-label="{alt}"', 1)

    return re.sub(r'<img src="pictures/([^"]+)" alt="([^"]*)">', place, html)


FOLDER = ROOT / "build" / "book"
FINGERPRINT_FILE = ".made-from"  # in the folder
HERE = Path(__file__).parent
HINT_LEVELS = ("a question", "the idea", "how to write it")
BEFORE_FIRST = ("ch00_big_picture", "ch00_refresher")  # lessons without exercises
GUIDES = ("learning", "editor", "tutor", "notebook", "pytest", "writing_tests", "sandbox")  # of pages/
# of pages/, too
NOT_IN_HANDOUTS = ("chapters", "comparison", "grading", "anonymous", "similarity", "figures", "hosted")
GUIDE = ", about the kit"  # search.js puts these parts after the lessons and exercises
# of pages/: what models need
LAST_CHAPTER_USED = {"train": 9, "trainings": 9, "training_runs": 11, "play": 12, "capstone": 17}
ALL_WORDS = 10**6  # a chapter number: links to all words of the glossary


def build(folder: Path = FOLDER) -> int:
    """Build the whole book in `folder`; return the number of pages. OSError if the folder cannot be written."""
    made_from, folder = fingerprint(), folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    try:  # made inside: a TemporaryDirectory stays if Control-C comes while it is being made
        beside.mkdir()
        new = beside / "new"
        shutil.copytree(HERE / "static", new)
        files = _Book().files()
        for name, text in files.items():
            (new / name).write_text(text, encoding="utf-8", newline="\n")
        (new / FINGERPRINT_FILE).write_text(made_from, encoding="utf-8")
        if folder.exists():
            os.replace(folder, beside / "old")
        os.replace(new, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return sum(name.endswith(".html") for name in files)


def is_current() -> bool:
    """Return whether the book exists and was built from the kit's present sources."""
    try:
        return (FOLDER / FINGERPRINT_FILE).read_text(encoding="utf-8") == fingerprint()
    except OSError:
        return False


def fingerprint() -> str:
    """Return the sha256 of all sources of the book; a learner's own code is not one of them."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterable[Path]:
    yield from sorted([*EXERCISES.glob("*.md"), *EXERCISES.glob("walks/*.md"), *EXERCISES.glob("pictures/*.svg")])
    yield from sorted([*EXERCISES.glob("*.toml"), *SOLUTIONS.glob("*.py")])
    yield from (ROOT / "grader" / "course" / name for name in ("stubs.py", "source.py"))
    for folder in (HERE.parent, CHAPTERS):
        yield from sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


class _Book:
    """All pages, with the data that they share."""

    def __init__(self) -> None:
        self._chapters = [chapter for chapter in load_syllabus().chapters if _lesson(chapter.name).is_file()]
        self._exercises = {exercise.name: exercise for chapter in self._chapters for exercise in chapter.exercises}
        self._addresses = {name: f"{exercise.module}.html#{name}" for name, exercise in self._exercises.items()}
        self._index: list[tuple[str, str, str, str]] = []  # of the search: title, what it belongs to, address, text
        self._walks = find_walks(self._exercises)
        self._drawn = draw_exercises(self._exercises.values())
        self._pictures = _lesson_pictures()
        self._pictures |= {name: svg for one in self._drawn.values() for name, svg in one.files.items()}
        self._html = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._html.globals |= {"number": format_points, "addresses": self._addresses}
        before, after, guides = ({path.stem: path for path in paths} for paths in self._find_pages())
        names = [*before, *(chapter.name for chapter in self._chapters), *after, *guides, "glossary"]
        self._page_addresses = {f"{name}.html" for name in names}
        self._lessons = {chapter.name: self._chapter_page(chapter) for chapter in self._chapters}
        self._before = {name: self._markdown_page(path) for name, path in before.items()}
        self._after = {name: self._markdown_page(path, ALL_WORDS) for name, path in after.items()}
        self._guides = {name: self._markdown_page(path, about=GUIDE) for name, path in guides.items()}

    def _find_pages(self) -> tuple[list[Path], list[Path], list[Path]]:
        """Return the Markdown files before the first chapter, after the last one, and of the guides."""
        numbers = {chapter.number for chapter in self._chapters}
        after = [name for name, last in LAST_CHAPTER_USED.items() if numbers >= set(range(1, last + 1))]
        guides = GUIDES if is_handout() else GUIDES + NOT_IN_HANDOUTS
        return (
            [_lesson(name) for name in BEFORE_FIRST if _lesson(name).is_file()],
            [*map(_guide, after), *([_lesson("AFTERWARDS")] if _lesson("AFTERWARDS").is_file() else [])],
            [_guide(name) for name in guides],
        )

    def files(self) -> dict[str, str]:
        """Return each file with its text, including the script of the search and the colours of the pictures."""
        chapters = {chapter.name: chapter for chapter in self._chapters}
        pages = self._before | self._lessons | self._after | self._guides
        pages |= {"walks": self._walks_page()} if self._walks else {}
        pages |= {"glossary": self._glossary_page(), "index": self._front_page()}
        made = {f"{name}.html": self._html_page(name, page, chapters.get(name)) for name, page in pages.items()}
        # a script and not JSON: a page that was opened from a folder may load a script only
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in self._index)
        script = f"window.headwayIndex = [\n{lines}\n];\n".replace("\u2028", " ").replace("\u2029", " ")
        return made | {"search-index.js": script, "drawings.css": theme_rules(self._pictures.values())}

    @cached_property
    def _titles(self) -> dict[str, str]:
        """The titles of the pages that follow each other, by address."""
        chapters = {chapter.name: f"{chapter.number} {chapter.title}" for chapter in self._chapters}
        first = {chapter.name: chapters[chapter.name] for chapter in self._chapters if not chapter.number}
        titles = {"index": "Headway"} | first | {name: page.title for name, page in self._before.items()} | chapters
        titles |= {name: page.title for name, page in self._after.items()}
        return {f"{name}.html": title for name, title in titles.items()}

    def _html_page(self, name: str, page: Page, chapter: Chapter | None) -> str:
        address, order = f"{name}.html", list(self._titles)
        around: list[str | None] = [None, None]
        if address in order:
            at = order.index(address)
            around = [order[at - 1] if at else None, order[at + 1] if at + 1 < len(order) else None]
        return self._render(
            "page.html",
            address=address,
            page=page,
            body=Markup(place_pictures(page.body, self._pictures)),
            outline=nest(page.outline),
            chapters=self._chapters,
            titles=self._titles,
            before_first=self._before,
            others=self._after,
            guides=self._guides,
            has_walks=bool(self._walks),
            walks=[walk for walk in self._walks if chapter and walk.chapter == chapter.id],
            previous=around[0],
            after=around[1],
        )

    def _render(self, template: str, **values: object) -> str:
        return self._html.get_template(template).render(**values)

    def _chapter_page(self, chapter: Chapter) -> Page:
        left = {exercise.name: exercise for exercise in chapter.exercises}

        def card(name: str) -> Card | None:
            return self._card(left.pop(name)) if name in left else None

        title, address = f"{chapter.number} {chapter.title}", f"{chapter.name}.html"
        links = self._links(address, chapter.number)
        page = make_page(read_source(_lesson(chapter.name)), links, card, self._exercises)
        self._index_parts(page, title, address)
        for one in chapter.exercises:
            entry = (one.name, f"{title}, exercise", self._addresses[one.name], f"{one.promise} {_docstring(one)}")
            self._index.append(entry)
        cards = [self._card(exercise) for exercise in left.values()]  # of those that the lesson says nothing about
        outline = page.outline + [Heading(name, name, 3, exercise=True) for name in left]
        return Page(page.title, page.body + "".join(before + after for before, after in cards), page.parts, outline)

    def _markdown_page(self, path: Path, number: int = 0, about: str = "") -> Page:
        address = f"{path.stem}.html"
        page = make_page(read_source(path), self._links(address, number))
        self._index_parts(page, page.title + about, address)
        return page

    def _links(self, address: str, number: int = 0) -> Links:
        """Return the link targets for the page at `address`, which has no chapter link to itself.

        A glossary word is a link from its chapter on.
        """
        chapters = {one.number: f"{one.name}.html" for one in self._chapters if f"{one.name}.html" != address}
        words = word_addresses(number)
        return Links(self._addresses, words, chapters, words_near(), self._page_addresses)

    def _index_parts(self, page: Page, where: str, address: str) -> None:
        for part in page.parts:
            self._index.append((part.title, where, f"{address}#{part.anchor}".rstrip("#"), part.text))

    def _card(self, exercise: Exercise) -> Card:
        code, drawn = Markup(highlight_python(find_stub(exercise))), self._drawn.get(exercise.name)
        made = self._render("card.html", exercise=exercise, code=code, levels=HINT_LEVELS, drawn=drawn)
        before, _, after = made.partition("<!-- what the lesson says -->")
        return before, after

    def _front_page(self) -> Page:
        (diagram, needs), links = read_introduction(), self._links("index.html")
        body = self._render(
            "front.html",
            chapters=self._chapters,
            before_first=self._before,
            others=self._after,
            hours={one.number: one.hours for one in self._chapters if one.hours},
            paths=load_paths().values(),
            diagram=Markup(make_page(diagram, links).body),
            needs=Markup(make_page(needs, links).body),
        )
        return Page("Headway", body)

    def _walks_page(self) -> Page:
        for walk in self._walks:
            self._index.append((f"headway walk {walk.name}", "Walks", f"walks.html#{walk.name}", walk.title))
        outline = [Heading(walk.name, walk.name, 2) for walk in self._walks]
        return Page("Walks", self._render("walks.html", walks=self._walks), outline=outline)

    def _glossary_page(self) -> Page:
        words, chapters = load_words(), {chapter.id: chapter for chapter in self._chapters}
        for word in words:
            self._index.append((word.name, "Glossary", word.address, " ".join((*word.also, word.says))))
        values = {"words": words, "chapters": chapters, "sizes": load_sizes(), "slug": make_slug}
        outline = [Heading("Letters of shapes", "letters", 2)]
        return Page("Glossary", self._render("glossary.html", **values), outline=outline)


def _lesson(name: str) -> Path:
    return EXERCISES / f"{name}.md"


def _guide(name: str) -> Path:
    return HERE / "pages" / f"{name}.md"


def _docstring(exercise: Exercise) -> str:
    node = parse(find_stub(exercise)).body[-1]
    assert isinstance(node, Definition)
    return " ".join((ast.get_docstring(node) or "").split())
