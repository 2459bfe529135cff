"""A model trained by `headway train` with a solved course, and what `headway play` says with it: the record behind the pages "Train it" and "Open it up".

`make readme` runs the commands and writes three things: the record (JSON), the picture of the losses, and the recorded parts of the two pages.
A recorded part is a code block that is marked with its name, such as ```text why, or the table of the samples.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grader.course.source import read_source
from grader.course.syllabus import ROOT
from grader.files import write_whole
from grader.teaching.drawing.charts import curves

PAGES = ROOT / "grader" / "teaching" / "book" / "pages"
RECORD, PICTURE = PAGES / "recorded" / "story_model.json", PAGES / "pictures" / "story_losses.svg"
FILLED = ("train", "play")  # the pages with recorded parts
STEPS, EARLY_STEPS, COMPARED_STEPS = 400, 40, 200
NAME, EARLY = "stories", "stories-40"
ASKED = "Omar was hungry. He wanted to make some"
TYPED = {
    "first": ["One morning, Ella was hungry."],
    "cold": ["/temperature 0", "One morning, Ella was hungry.", "/temperature 0.8"],
    "why": [f"/why {ASKED}"],
    "attend": [f"/attend LAYER HEAD {ASKED}"],
    "lens": [f"/lens {ASKED}"],
    "compare": ["/seed 0", f"/compare {EARLY}"],
}
TIMED = ("time of training", "tokens a second")  # rows that say more about the machine than about the models
PLAY = """
import json, sys, textwrap
from grader.models.play.commands import answer
from grader.models.play.opening import Opener
from grader.models.play.session import Session
from grader.teaching.walks.progress_line import hide_progress

name, asked, typed = json.loads(sys.argv[1])
opener = Opener(True, "cpu", hide_progress)
engine = opener.open_checkpoint(name)
patterns = engine.attention(engine.read(asked, 1).ids)
kinds = [[engine.head_kind(head) for head in layer] for layer in patterns]
layer, head = next((i, j) for wanted in ("previous", "sparse", "mixed") for i, layer in enumerate(kinds) for j, kind in enumerate(layer) if kind == wanted)
session = Session(engine, opener.open_other)
played = {}
for part, lines in typed.items():
    said = ""
    for line in lines:
        line = line.replace("LAYER HEAD", f"{layer + 1} {head + 1}")
        said += f"> {line}\\n" + "".join(piece.text for piece in answer(session, line)).rstrip() + "\\n"
    played[part] = "".join(textwrap.fill(line, 79) + "\\n" if len(line) > 80 else line for line in said.splitlines(keepends=True))
sys.stdout.buffer.write(json.dumps({"played": played, "heads": kinds}).encode())
opener.close()
"""

Run = Callable[[Sequence[str]], str]


def record(kit: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Train in this copy of the kit, which has a solved course, and play with the model."""

    def run(arguments: Sequence[str]) -> str:
        return subprocess.run([sys.executable, *arguments], cwd=kit, env=environment, stdout=subprocess.PIPE, check=True).stdout.decode("utf-8")

    said = run(["-m", "grader.cli", "train", "--steps", str(STEPS)])
    run(["-m", "grader.cli", "train", "--steps", str(EARLY_STEPS), "--name", EARLY])
    compared = run(["-m", "grader.cli", "compare", "learned", "rope", "--steps", str(COMPARED_STEPS)])
    trained = json.loads(read_source(kit / "checkpoints" / NAME / "checkpoint.json"))["record"]
    history = trained["history"]
    return {
        "steps": STEPS,
        "parameters": trained["parameters"],
        "tokens": history["tokens"],
        "losses": [round(loss, 3) for loss in history["losses"]],
        "validation": [[step, round(loss, 3)] for step, loss in history["validation"]],
        "samples": [[step, " ".join(text.split())] for step, text in history["samples"]],
        "begins": said[said.index("A GPT with") : said.index("step 0")].strip() + "\n",
        "ends": said[said.index("judge_fit says") :].strip() + "\n",
        "compared": comparison_table(compared),
        "files": {path.name: path.stat().st_size for path in sorted((kit / "checkpoints" / NAME).iterdir())},
        **json.loads(run(["-c", PLAY, json.dumps([NAME, ASKED, TYPED])])),
    }


def comparison_table(said: str) -> str:
    """Return what `headway compare` prints about the two models, without its rows of times."""
    lines = said[said.rindex("left\n") :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(" " * 20))
    end = next(number for number in range(start, len(lines)) if not lines[number])
    return "".join(f"{line}\n" for line in lines[start:end] if not line.startswith(TIMED))


def write_record(made: dict[str, Any]) -> None:
    """Write the record, the picture, and the recorded parts of the pages."""
    RECORD.parent.mkdir(exist_ok=True)
    PICTURE.parent.mkdir(exist_ok=True)
    write_whole(RECORD, re.sub(r"(?<=[\d.,\[])\n +(?=[\d\]])", " ", json.dumps(made, indent=1, ensure_ascii=False)) + "\n")
    write_whole(PICTURE, losses_picture(made))
    for name in FILLED:
        path = PAGES / f"{name}.md"
        if path.is_file():
            write_whole(path, fill(read_source(path), made))


def load_record() -> dict[str, Any]:
    return json.loads(read_source(RECORD))


def losses_picture(made: dict[str, Any]) -> str:
    """Draw the loss of each step, and the validation loss."""
    lines = {"loss": list(enumerate(made["losses"], 1)), "validation": [(step, loss) for step, loss in made["validation"]]}
    return curves(lines, f"The loss in {made['steps']} steps of headway train", x_name="step", y_name="loss")


def fill(page: str, made: dict[str, Any]) -> str:
    """Return the page with the recorded parts of this record. KeyError for a part that it does not have."""
    blocks = {"begins": made["begins"], "ends": made["ends"], "compared": made["compared"], **made["played"]}
    page = re.sub(r"^(```text (\w+)\n).*?(?=^```$)", lambda found: found[1] + blocks[found[2]], page, flags=re.MULTILINE | re.DOTALL)
    rows = "".join(f"| {step} | {text} |\n" for step, text in made["samples"])
    return re.sub(r"^(\| after step \| it writes \|\n\|[-: |]+\|\n)(?:\|.*\n)*", lambda found: found[1] + rows, page, flags=re.MULTILINE)
