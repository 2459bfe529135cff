"""The labs: ungraded investigations, each written near the end of its chapter's lesson.

## Lab heads: is one wide head better than four narrow ones?

The question, in a paragraph or more.

**Predict.** What to write down before the experiment.

    headway compare heads=1 heads=4 --steps 600

What to look at in its result; may be left out.

<details>
<summary>What was found here</summary>

The numbers of one run of this command.

</details>

**Open question.** One that the experiment does not answer.

**To start.** What these commands or these lines of Python do; they run as they are, from the folder of the kit.

    headway compare heads=1 heads=4 --steps 1200
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from grader.course.source import SourceProblem, read_source
from grader.course.syllabus import EXERCISES, Chapter, load_syllabus
from grader.files import UserProblem, write_whole

PREDICTIONS = EXERCISES / ".headway" / "predictions.json"
LAB = re.compile(r"^## Lab ([\w-]+): ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PARTS = re.compile(
    r"""\s*(?P<question>\S.*?)
    \n\n\*\*Predict\.\*\*\s(?P<predict>\S.*?)
    \n\n+(?P<experiment>[ ]{4}\S[^\n]*\n(?:[ ]{4}[^\n]*\n|\n)*)(?P<look_at>.*?)
    <details>\n<summary>What\ was\ found\ here</summary>\s+(?P<found>(?!</details>)\S.*?)\s+</details>
    \n\n\*\*Open\ question\.\*\*\s(?P<open_question>\S.*?)
    \n\n\*\*To\ start\.\*\*\s(?P<to_start>\S.*?)
    \n\n+(?P<start>[ ]{4}\S[^\n]*\n(?:[ ]{4}[^\n]*\n|\n)*)\s*\Z""",
    re.VERBOSE | re.DOTALL,
)
CODE = ("experiment", "start")


class LabProblem(SourceProblem):
    """A lab is not written as the docstring above shows."""


@dataclass(frozen=True)
class Lab:
    """Texts are Markdown; `experiment` and `start` are code."""

    name: str
    title: str
    chapter: Chapter
    question: str
    predict: str
    experiment: str
    look_at: str
    found: str
    open_question: str
    to_start: str
    start: str

    @property
    def is_command(self) -> bool:
        """Whether the experiment is one command of `headway`; otherwise it is Python."""
        return self.experiment.startswith("headway ") and "\n" not in self.experiment


def list_labs() -> dict[str, Lab]:
    """Return the labs by name, in the order of the course. A handout has those of its own lessons. LabProblem if two
    have the same name."""
    found: dict[str, Lab] = {}
    for chapter in load_syllabus().chapters:
        path = EXERCISES / f"{chapter.name}.md"
        for match in LAB.finditer(read_source(path)) if path.is_file() else ():
            if other := found.get(match[1]):
                both = f"{other.chapter.name}.md and {chapter.name}.md"
                raise LabProblem(f"{both} both have a lab {match[1]}; rename one of them")
            found[match[1]] = _read_lab(chapter, *match.groups())
    return found


def _read_lab(chapter: Chapter, name: str, title: str, text: str) -> Lab:
    match = PARTS.match(text)
    if match is None:
        raise LabProblem(f"the lab {name} of {chapter.name}.md lacks a part; grader/course/labs.py shows all parts")
    parts = {part: _unindented(words) if part in CODE else words.strip() for part, words in match.groupdict().items()}
    return Lab(name, title, chapter, **parts)


def _unindented(block: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in block.strip("\n").splitlines())


def load_predictions() -> dict[str, str]:
    """Return what the learner expects, by the name of the lab; nothing if the file is missing or damaged."""
    try:
        data = json.loads(PREDICTIONS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: text for name, text in data.items() if isinstance(text, str)} if isinstance(data, dict) else {}


def keep_prediction(name: str, text: str) -> None:
    """UserProblem if the text says nothing."""
    if not any(map(str.isalnum, text)):
        raise UserProblem(f"{text!r} predicts nothing; write down what you expect in a few words")
    write_whole(PREDICTIONS, json.dumps(load_predictions() | {name: text}, indent=1, ensure_ascii=False))
