"""The pictures of the book: of the lessons, and of what each exercise computes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS, Exercise, is_handout
from grader.teaching.drawing.palette import without_style


def draw_exercises(exercises: Iterable[Exercise]) -> dict[str, SimpleNamespace]:
    """Draw the reference's panels of `headway show`; return them by the name of the exercise."""
    # these take torch, which a book that is there already can do without
    from grader.execution.target import Target
    from grader.teaching.show.catalog import find_subject, has_picture
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


def lesson_pictures() -> dict[str, str]:
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
