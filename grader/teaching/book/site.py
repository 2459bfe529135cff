"""Build the book: every page, picture and script in one folder, which replaces the previous folder when it is complete."""

from __future__ import annotations

import ast
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from grader.course.progress import format_points
from grader.course.source import Definition, parse, read_source
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, Chapter, Exercise, is_handout, load_syllabus
from grader.teaching.book import front, glossary, search_index, shapes
from grader.teaching.book.code import find_stub, highlight_python
from grader.teaching.book.inline_pictures import place_pictures
from grader.teaching.book.lessons import Card, Heading, Page, make_page, make_slug, nest
from grader.teaching.book.rules import Links
from grader.teaching.book.search_index import Entry
from grader.teaching.drawing.palette import theme_rules
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

FOLDER = ROOT / "build" / "book"
MARK = ".made-from"  # a file in the folder with the fingerprint of the sources
HERE = Path(__file__).parent
LEVELS = ("a question", "the idea", "how to write it")
BEFORE = ("ch00_big_picture", "ch00_refresher")  # lessons without exercises, before chapter 1
GUIDES = ("learning", "notebook", "pytest", "sandbox", "grading", "figures")  # of pages/; the last two are not in a handout
USING = {"train": 9, "play": 12}  # of pages/: models of the learner's own, and the chapter after which the course has all that they run
LAST = 10**6  # a chapter number: links to all words of the glossary
DRAWN_WITH = ("teaching/corpora.toml", "course/stubs.py", "course/source.py")


def build(folder: Path = FOLDER) -> int:
    """Build the whole book in `folder`; return the number of pages. OSError if the folder cannot be written."""
    made_from, folder = fingerprint(), folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    try:  # made inside: a TemporaryDirectory stays if Control-C comes while it is being made
        beside.mkdir()
        new = beside / "new"
        shutil.copytree(HERE / "static", new)
        pages = _Book().pages()
        for name, text in pages.items():
            (new / name).write_text(text, encoding="utf-8", newline="\n")
        (new / MARK).write_text(made_from, encoding="utf-8")
        if folder.exists():
            os.replace(folder, beside / "old")
        os.replace(new, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return sum(name.endswith(".html") for name in pages)


def is_current() -> bool:
    """Return whether the book exists and was built from the kit's present sources."""
    try:
        return (FOLDER / MARK).read_text(encoding="utf-8") == fingerprint()
    except OSError:
        return False


def fingerprint() -> str:
    """Return the sha256 of all sources of the book; a learner's own code is not one of them."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterable[Path]:
    kit = ROOT / "grader"
    lessons = (*EXERCISES.glob("*.md"), *EXERCISES.glob("walks/*.md"), *EXERCISES.glob("pictures/*.svg"))
    yield from sorted([*lessons, EXERCISES / "syllabus.toml", *SOLUTIONS.glob("*.py"), *(kit / "teaching").glob("*.py")])
    for folder in ("show", "walks", "drawing"):
        yield from sorted((kit / "teaching" / folder).rglob("*.py"))
    yield from (kit / name for name in DRAWN_WITH)
    yield from sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc")


def _pictures() -> dict[str, str]:
    """Return the lessons' stored pictures, drawn again from the reference where there is one; a handout has none."""
    folders = (EXERCISES / "pictures", HERE / "pages" / "pictures")
    stored = {path.name: read_source(path) for folder in folders for path in sorted(folder.glob("*.svg"))}
    if is_handout():
        return stored
    from grader.teaching.pictures import lesson_pictures

    return stored | lesson_pictures()


class _Book:
    """All pages, with the data that they share."""

    def __init__(self) -> None:
        self._chapters = [chapter for chapter in load_syllabus().chapters if (EXERCISES / f"{chapter.name}.md").is_file()]
        self._exercises = {exercise.name: exercise for chapter in self._chapters for exercise in chapter.exercises}
        self._code = {name: exercise_address(exercise) for name, exercise in self._exercises.items()}
        self._entries: list[Entry] = []
        from grader.teaching.book.exercise_pictures import draw_exercises  # these two take torch, which a book that is there already can do without
        from grader.teaching.book.walks import walks

        self._drawn = draw_exercises(self._exercises.values())
        self._pictures = _pictures() | {name: svg for one in self._drawn.values() for name, svg in one.files.items()}
        self._walks = walks(self._exercises)
        self._html = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        self._html.globals |= {"number": format_points}
        guides = GUIDES[:-2] if is_handout() else GUIDES
        numbers = {chapter.number for chapter in self._chapters}
        using = [name for name, last in USING.items() if numbers >= set(range(1, last + 1))]
        before = [name for name in BEFORE if (EXERCISES / f"{name}.md").is_file()]
        afterwards = ["AFTERWARDS"] if (EXERCISES / "AFTERWARDS.md").is_file() else []
        self._names = {f"{name}.html" for name in (*before, *(chapter.name for chapter in self._chapters), *using, *afterwards, *guides, "shapes", "glossary")}
        self._lessons = {chapter.id: self._lesson(chapter) for chapter in self._chapters}
        self._before = {name: self._render_markdown(EXERCISES / f"{name}.md") for name in before}
        self._others = {name: self._render_markdown(HERE / "pages" / f"{name}.md", LAST) for name in using}
        self._others |= {name: self._render_markdown(EXERCISES / f"{name}.md", LAST) for name in afterwards}
        self._guides = {name: self._render_markdown(HERE / "pages" / f"{name}.md") for name in guides}

    def pages(self) -> dict[str, str]:
        """Return each file with its text, including the script of the search."""
        made = {f"{chapter.name}.html": self._render_page(f"{chapter.name}.html", self._lessons[chapter.id], chapter) for chapter in self._chapters}
        for name, page in (self._before | self._others | self._guides).items():
            made[f"{name}.html"] = self._render_page(f"{name}.html", page)
        if self._walks:
            made["walks.html"] = self._render_page("walks.html", self._walks_page())
        made["shapes.html"] = self._render_page("shapes.html", self._shapes())
        made["glossary.html"] = self._render_page("glossary.html", self._glossary())
        made["index.html"] = self._render_page("index.html", self._front())
        made[search_index.NAME] = search_index.write_script(self._entries)
        made["drawings.css"] = theme_rules(self._pictures.values())
        return made

    def _render_page(self, address: str, page: Page, chapter: Chapter | None = None) -> str:
        titles = {"index.html": "Headway"} | {f"{name}.html": other.title for name, other in self._before.items()}
        titles |= {f"{c.name}.html": f"{c.number} {c.title}" for c in self._chapters} | {f"{name}.html": other.title for name, other in self._others.items()}
        order = list(titles)
        at = order.index(address) if address in order else None
        around = {"previous": order[at - 1] if at else None, "after": order[at + 1] if at is not None and at + 1 < len(order) else None}
        return self._html.get_template("page.html").render(
            address=address, page=page, body=Markup(place_pictures(page.body, self._pictures)), chapter=chapter, chapters=self._chapters,
            titles=titles, before_first=self._before, others=self._others, guides=self._guides, has_walks=bool(self._walks), outline=nest(page.outline),
            walks=[walk for walk in self._walks if chapter and walk.chapter == chapter.id], **around,
        )  # fmt: skip

    def _lesson(self, chapter: Chapter) -> Page:
        places: set[str] = set()

        def card(name: str) -> Card | None:
            exercise = self._exercises.get(name)
            if exercise is None or exercise.chapter != chapter.id or name in places:
                return None
            places.add(name)
            return self._card(exercise)

        address = f"{chapter.name}.html"
        page = make_page(read_source(EXERCISES / f"{chapter.name}.md"), self._links(address, chapter.number), card, self._exercises)
        self._add_to_index(page, f"{chapter.number} {chapter.title}", address)
        where = f"{chapter.number} {chapter.title}, exercise"
        self._entries += [Entry(e.name, where, exercise_address(e), f"{e.promise} {_docstring(e)}") for e in chapter.exercises]
        outline = page.outline + [Heading(e.name, e.name, 3, exercise=True) for e in chapter.exercises if e.name not in places]
        left = [self._card(exercise) for exercise in chapter.exercises if exercise.name not in places]  # those a lesson says nothing about
        return Page(page.title, page.body + "".join(one.before + one.after for one in left), page.parts, outline)

    def _render_markdown(self, path: Path, number: int = 0) -> Page:
        address = f"{path.stem}.html"
        page = make_page(read_source(path), self._links(address, number))
        self._add_to_index(page, page.title, address)
        return page

    def _links(self, address: str, number: int = 0) -> Links:
        """Return the link targets for the page at `address`, which has no chapter link to itself; a glossary word is a link from its chapter on."""
        chapters = {chapter.number: f"{chapter.name}.html" for chapter in self._chapters if f"{chapter.name}.html" != address}
        return Links(self._code, glossary.word_addresses(number), chapters, glossary.words_near(), self._names)

    def _add_to_index(self, page: Page, where: str, address: str) -> None:
        for part in page.parts:
            self._entries.append(Entry(part.title, where, f"{address}#{part.anchor}" if part.anchor else address, part.text))

    def _card(self, exercise: Exercise) -> Card:
        card = self._html.get_template("card.html")
        made = card.render(exercise=exercise, code=Markup(highlight_python(find_stub(exercise))), levels=LEVELS, drawn=self._drawn.get(exercise.name))
        before, _, after = made.partition("<!-- what the lesson says -->")
        return Card(before, after)

    def _front(self) -> Page:
        intro, links = front.read_introduction(), self._links("index.html")
        body = self._html.get_template("front.html").render(
            chapters=self._chapters, before_first=self._before, others=self._others,
            hours={chapter.number: intro.hours[chapter.number] for chapter in self._chapters if chapter.number in intro.hours},
            diagram=Markup(make_page(intro.diagram, links).body), needs=Markup(make_page(intro.needs, links).body),
        )  # fmt: skip
        return Page("Headway", body, [])

    def _walks_page(self) -> Page:
        body = self._html.get_template("walks.html").render(walks=self._walks, places=self._code)
        self._entries += [Entry(f"headway walk {walk.name}", "Walks", f"walks.html#{walk.name}", walk.title) for walk in self._walks]
        return Page("Walks", body, [], [Heading(walk.name, walk.name, 2) for walk in self._walks])

    def _shapes(self) -> Page:
        rows = {chapter: [row for e in chapter.exercises for row in shapes.list_rows(e, find_stub(e))] for chapter in self._chapters if chapter.exercises}
        by_shape: dict[str, list[shapes.Row]] = {}
        for row in (row for several in rows.values() for row in several):
            for shape in dict.fromkeys(row.shapes):
                by_shape.setdefault(shape, []).append(row)
        several = {shape: found for shape, found in sorted(by_shape.items()) if len(found) > 1}
        body = self._html.get_template("shapes.html").render(rows=rows, by_shape=several, places=self._code, sizes=glossary.load_sizes())
        self._entries.append(Entry("Index of shapes", "What goes in and what comes out", "shapes.html", " ".join(by_shape)))
        headings = [("The letters", "letters"), *((f"{c.number} {c.title}", c.id) for c in rows), ("By shape", "by-shape")]
        return Page("Index of shapes", body, [], [Heading(title, anchor, 2) for title, anchor in headings])

    def _glossary(self) -> Page:
        chapters = {chapter.id: chapter for chapter in self._chapters}
        body = self._html.get_template("glossary.html").render(words=glossary.load_words(), chapters=chapters, slug=make_slug)
        self._entries += [Entry(word.name, "Glossary", word.address, " ".join((*word.also, word.says))) for word in glossary.load_words()]
        return Page("Glossary", body, [])


def _docstring(exercise: Exercise) -> str:
    """Return the docstring on one line, for the search."""
    node = parse(find_stub(exercise)).body[-1]
    assert isinstance(node, Definition)
    return " ".join((ast.get_docstring(node) or "").split())


def exercise_address(exercise: Exercise) -> str:
    """Return the address of an exercise in the book."""
    return f"{exercise.module}.html#{exercise.name}"
