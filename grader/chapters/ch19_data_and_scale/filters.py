"""Good and bad pages, and what `quality_reasons` says about them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from grader.chapters.stories.corpus import story
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

STORIES_A_PAGE = 3
ADVICE = ("Buy now and save", "Click here to get your offer", "Sign in to read more", "Share this with your friends")

Page = Callable[[int, int], str]  # of a seed and a number


def _stories(seed: int, number: int, count: int = STORIES_A_PAGE) -> list[str]:
    return [story(seed, count * number + i) for i in range(count)]


def prose(seed: int, number: int) -> str:
    return "\n\n".join(_stories(seed, number))


def as_list(seed: int, number: int) -> str:
    return "\n".join(f"- {line}" for line in prose(seed, number).replace(". ", ".\n").splitlines() if line)


def teasers(seed: int, number: int) -> str:
    return "\n".join(" ".join(text.split()[:12]) + "..." for text in _stories(seed, number, 6))


def with_menu(seed: int, number: int) -> str:
    """A story between the links of a page, which come again below it."""
    menu = "\n".join(("Home", "News", "Sport", "Weather", "About us", "Contact"))
    return "\n".join((menu, *_stories(seed, number, 1), menu))


def repeated(seed: int, number: int) -> str:
    """A page with one sentence again and again."""
    first, *_ = prose(seed, number).split(". ")
    return f"{prose(seed, number)}\n" + f"{first}. " * 12


def hashtags(seed: int, number: int) -> str:
    words = prose(seed, number).split()
    return " ".join(f"#{word}" if i % 6 == 0 else word for i, word in enumerate(words))


def shuffled(seed: int, number: int, pieces: str = " ") -> str:
    words = prose(seed, number).replace("\n\n", " ").split(pieces)
    draw = random.Random(f"{seed} {number}").random
    return pieces.join(sorted(words, key=lambda _: draw()))


def backwards(seed: int, number: int) -> str:
    return " ".join(reversed(prose(seed, number).split()))


def advertising(seed: int, number: int) -> str:
    """Each line is another one, and all say the same."""
    draw = random.Random(f"{seed} {number}").random
    things = " ".join(_stories(seed, number)).split()
    lines = [
        f"{ADVICE[i % 4]} with the {things[int(draw() * len(things))]} of {i + 1} that we have!" for i in range(20)
    ]
    return "\n".join(lines)


PAGES: dict[str, Page] = {
    "one story": lambda seed, number: _stories(seed, number, 1)[0],
    "three stories": prose,
    "as a list with -": as_list,
    "six beginnings with ...": teasers,
    "one story between menus": with_menu,
    "a sentence 12 times": repeated,
    "every sixth word a hashtag": hashtags,
    "words in another order": shuffled,
    "sentences in another order": partial(shuffled, pieces=". "),
    "words backwards": backwards,
    "advertising": advertising,
}


def report_data_filters(chapters: ChapterPackage, seed: int, *, pages: int = 200) -> Iterator[Table | str]:
    """Lesson 19: which share of good and of bad pages the quality rules remove, and by which rules.

    All pages are made of little stories. A page can be removed for several reasons; the two most frequent ones are
    shown, with the share of the pages that they apply to.
    """
    chapter = chapters.module("ch19_data_and_scale")
    rows = []
    for name, make in PAGES.items():
        reasons = [chapter.quality_reasons(make(seed, number)) for number in range(pages)]
        counts = Counter(reason for some in reasons for reason in some)
        frequent = [f"{reason} {count / pages:.0%}" for reason, count in counts.most_common(2)]
        rows.append([name, f"{sum(map(bool, reasons)) / pages:.0%}", ", ".join(frequent) or "none"])
    yield result_table(f"{pages} pages of each kind", ("page", "removed", "most frequent reasons"), rows)
