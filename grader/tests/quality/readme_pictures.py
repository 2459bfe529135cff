"""Makes the README's recorded pictures (`make readme`): a session of `headway watch`, a hunt, and a translator's
attention.

All come from real runs in a copy of the kit: one exercise fails and is fixed; a mistake is found in a solved chapter; a
translator is trained with a solved course.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from grader.course.known_mistakes import misconceptions
from grader.course.source import definition, read_source, replace_definition
from grader.course.syllabus import ROOT, load_syllabus
from grader.files import write_whole
from grader.teaching.drawing import MONO
from grader.tests.quality.benchmarks.workplace import copied_kit, environment, solved_chapter
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

FOLDER = ROOT / ".github" / "pictures"
COLUMNS, ROWS, SCREEN_SECONDS = 80, 60, 300.0
DARK, RED, GREEN, YELLOW = (22, 25, 29), (255, 155, 142), (126, 226, 168), (242, 204, 96)
BLUE, MAGENTA, CYAN, LIGHT = (121, 189, 240), (216, 162, 232), (121, 200, 240), (227, 231, 235)
THEME = TerminalTheme(DARK, LIGHT, [DARK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, LIGHT])
WINDOW = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{width}} {{height}}" width="720" role="img">
<title>{{title}}</title>
<style>text {{{{ font: {{char_height}}px {MONO} }}}} {{styles}}</style>
<defs>{{lines}}</defs>
{{chrome}}
<g transform="translate({{terminal_x}}, {{terminal_y}})">{{backgrounds}}
{{matrix}}</g>
</svg>
"""
SESSION_TITLE = "headway watch: an exercise fails, one line is fixed and saved, and it passes"
HUNT_TITLE = "headway hunt: a call goes wrong, one line of its function is repaired, and all tests pass"
MISTAKEN = "total = exps.sum()"
FIXED = "total = exps.sum(dim, keepdim=True)"
[HUNTED] = [each for each in misconceptions("ch03_attention") if each.id == "attention_masked_score_zero"]
TRANSLATE = """
import sys
from grader.teaching.walks import guide
from grader.chapters.ch09_sampling import walk_translation as translation
from grader.teaching.walks.parts import find_status
from grader.console.output import show_progress
made = guide.measure(translation, find_status(translation.REQUIRED_EXERCISES, show_progress), 0, show_progress)
assert not made.from_reference, made.notes
picture = translation.draw_attended(made.numbers.attended[0], "Where the translator attends while it writes")
sys.stdout.buffer.write(picture.encode())
"""


def session() -> str:
    """`headway watch`: a failing verdict, one line fixed and saved, and the verdict after that."""
    with copied_kit(solved=False) as kit:
        file = kit / "exercises" / "ch03_attention.py"
        file.write_text(unfinished_chapter(read_source(file)), encoding="utf-8")
        failing, passing = _watched(kit, file)
    saved = [Text(f"-   {MISTAKEN}", "red"), Text(f"+   {FIXED}", "green")]
    panes = {
        "$ headway watch": failing, "saved in exercises/ch03_attention.py:": saved,
        "headway watch, a moment later": passing,
    }  # fmt: skip
    return _window(_panes(panes), SESSION_TITLE, "session")


def hunt() -> str:
    """`headway hunt`: a call that goes wrong, the line that is repaired, and the verdict after that."""
    exercise = load_syllabus().exercise(HUNTED.exercise)
    with copied_kit() as kit:
        folder = kit / "exercises"
        passed = load_syllabus().chapter(exercise.chapter).exercises
        (folder / "progress.txt").write_text("".join(f"{each.name} {each.points}/{each.points}\n" for each in passed))
        done = {"exercise": exercise.name, "told": "call", "mine": False, "begun": 1.0, "ended": "2026-11-30"}
        known = [each.id for each in misconceptions(exercise.module, exercise.name) if each != HUNTED]
        write_whole(folder / ".headway/hunts/hunts.json", json.dumps([done | {"mistake": each} for each in known]))
        begun = _printed(kit, "hunt", exercise.name)
        file = folder / "hunts" / f"{exercise.module}.py"
        file.write_text(read_source(file).replace(HUNTED.with_, HUNTED.replace), encoding="utf-8")
        repaired = _printed(kit, "hunt")
    saved = [Text(f"-   {HUNTED.with_}", "red"), Text(f"+   {HUNTED.replace}", "green")]
    panes = {
        f"$ headway hunt {exercise.name}": begun,
        f"repaired in exercises/hunts/{exercise.module}.py:": saved,
        "$ headway hunt": [line for line in repaired if "You changed" not in line.plain],  # the time differs
    }
    return _window(_panes(panes), HUNT_TITLE, "hunt")


def _printed(kit: Path, *words: str) -> list[Text]:
    """What the command prints, in its colours."""
    colours = environment(kit) | {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "grader.cli", *words]
    done = subprocess.run(command, cwd=kit, env=colours, stdout=subprocess.PIPE, check=True)
    return _lines(done.stdout.decode("utf-8").split("\nTo hunt for")[0])


def _panes(panes: dict[str, list[Text]]) -> Console:
    """The parts of a session below each other, each with its heading."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for heading, lines in panes.items():
        console.print(Text(heading.ljust(COLUMNS), "bold on #353d48"))
        console.print(*lines, "", sep="\n", no_wrap=True, overflow="crop")
    return console


def _window(console: Console, title: str, name: str) -> str:
    form = WINDOW.replace("{title}", title)
    return console.export_svg(title=title.partition(":")[0], theme=THEME, code_format=form, unique_id=name)


def unfinished_chapter(stub: str) -> str:
    """The chapter of a learner who has solved softmax but for one mistake."""
    right = definition(solved_chapter("ch03_attention"), "softmax").text
    assert FIXED in right
    return replace_definition(stub, "softmax", right.replace(FIXED, MISTAKEN))


def attention() -> str:
    """The cross-attention of a translator that a solved course has trained, for one sentence."""
    with copied_kit() as kit:
        command = [sys.executable, "-c", TRANSLATE]
        done = subprocess.run(command, cwd=kit, env=environment(kit), stdout=subprocess.PIPE, check=True)
    return done.stdout.decode("utf-8")


def _watched(kit: Path, file: Path) -> tuple[list[Text], list[Text]]:
    """The screen after the first verdict, and after the one that follows the save."""
    import pexpect

    command = ["-m", "grader.cli", "watch"]
    size = {"dimensions": (ROWS, COLUMNS)}
    child = pexpect.spawn(sys.executable, command, cwd=str(kit), env=environment(kit), encoding="utf-8", **size)
    try:
        first = _screen_with(child, "FAILED")  # this one includes the time for loading
        child.send("r")
        failing = _screen_with(child, "FAILED", other_than=first)
        text = read_source(file)
        file.write_text(text.replace(MISTAKEN, FIXED), encoding="utf-8")
        return failing, _screen_with(child, "softmax works")
    finally:
        child.send("q")
        child.expect(pexpect.EOF, timeout=SCREEN_SECONDS)
        child.close()


def _screen_with(child, wanted: str, other_than: Sequence[Text] = ()) -> list[Text]:
    """The lines of the screen, in their colours, when a new verdict that contains `wanted` is on it."""
    import pexpect

    seen, end = "", time.monotonic() + SCREEN_SECONDS
    while time.monotonic() < end:
        try:
            seen += child.read_nonblocking(1 << 16, 0.2)
        except pexpect.TIMEOUT:
            frame = seen.rpartition("\x1b[H")[2].replace("\r", "")
            lines = _lines(frame)
            if wanted in frame and "verdict after" in frame and lines != other_than:
                return lines
    raise TimeoutError(f"the watch did not show {wanted!r}; its last output:\n{seen[-3000:]}")


def _lines(frame: str) -> list[Text]:
    """Keep the colours, and remove other terminal commands (such as clearing the line)."""
    lines = [Text.from_ansi(re.sub(r"\x1b\[[0-9;?]*[A-Za-ln-z]", "", line)) for line in frame.split("\n")]
    for line in lines:
        line.rstrip()
    folded = [line for at, line in enumerate(lines) if line.plain or (at and lines[at - 1].plain)]
    while folded and not folded[-1].plain:
        folded.pop()
    return folded


if __name__ == "__main__":
    for name, make in {"session": session, "hunt": hunt, "attention": attention}.items():
        print(f"making {name}.svg ...", flush=True)
        write_whole(FOLDER / f"{name}.svg", make())
