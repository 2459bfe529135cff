"""A model trained by `headway train`, and what `headway play` says with it: the record behind two pages of the book.

`make readme` runs the commands and writes three things: the record (JSON), the picture of the losses, and the
recorded parts of the two pages. A recorded part is a code block that is marked with its name, such as ```text why, or
the table of the samples.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
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
NAME, EARLY_NAME = "stories", "stories-40"
PROMPT = "Omar was hungry. He wanted to make some"
COMMANDS = {
    "first": ["One morning, Ella was hungry."],
    "cold": ["/temperature 0", "One morning, Ella was hungry.", "/temperature 0.8"],
    "why": [f"/why {PROMPT}"],
    "attend": [f"/attend LAYER HEAD {PROMPT}"],
    "lens": [f"/lens {PROMPT}"],
    "compare": ["/seed 0", f"/compare {EARLY_NAME}"],
}
TIME_ROWS = ("time of training", "tokens a second")  # rows that say more about the machine than about the models
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
heads = [(i, j) for i, layer in enumerate(kinds) for j in range(len(layer))]
layer, head = next((i, j) for wanted in ("previous", "sparse", "mixed") for i, j in heads if kinds[i][j] == wanted)
session = Session(engine, opener.open_other)
played = {}
for part, lines in typed.items():
    said = ""
    for line in lines:
        line = line.replace("LAYER HEAD", f"{layer + 1} {head + 1}")
        said += f"> {line}\\n" + "".join(piece.text for piece in answer(session, line)).rstrip() + "\\n"
    lines = [textwrap.fill(line, 79) if len(line) > 79 else line for line in said.splitlines()]
    played[part] = "".join(line + "\\n" for line in lines)
sys.stdout.buffer.write(json.dumps({"played": played, "heads": kinds}).encode())
opener.close()
"""


def output_of(kit: Path, environment: dict[str, str], arguments: Sequence[str]) -> str:
    """What Python prints with these arguments in this copy of the kit."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=kit, env=environment, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode("utf-8")


def record(kit: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Train in this copy of the kit, which has a solved course, and play with the model."""
    run = partial(output_of, kit, environment)
    said = run(["-m", "grader.cli", "train", "--steps", str(STEPS)])
    run(["-m", "grader.cli", "train", "--steps", str(EARLY_STEPS), "--name", EARLY_NAME])
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
        **json.loads(run(["-c", PLAY, json.dumps([NAME, PROMPT, COMMANDS])])),
    }


def comparison_table(said: str) -> str:
    """Return what `headway compare` prints about the two models, without its rows of times."""
    lines = said[said.rindex("left\n") :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(" " * 20))
    end = next(number for number in range(start, len(lines)) if not lines[number])
    return "".join(f"{line}\n" for line in lines[start:end] if not line.startswith(TIME_ROWS))


def write_record(made: dict[str, Any]) -> None:
    """Write the record, the picture, and the recorded parts of the pages."""
    RECORD.parent.mkdir(exist_ok=True)
    PICTURE.parent.mkdir(exist_ok=True)
    text = json.dumps(made, indent=1, ensure_ascii=False)
    write_whole(RECORD, re.sub(r"(?<=[\d.,\[])\n +(?=[\d\]])", " ", text) + "\n")
    write_whole(PICTURE, losses_picture(made))
    for name in FILLED:
        path = PAGES / f"{name}.md"
        if path.is_file():
            write_whole(path, fill(read_source(path), made))


def load_record() -> dict[str, Any]:
    return json.loads(read_source(RECORD))


def losses_picture(made: dict[str, Any]) -> str:
    """Draw the loss of each step, and the validation loss."""
    validation = [(step, loss) for step, loss in made["validation"]]
    lines = {"loss": list(enumerate(made["losses"], 1)), "validation": validation}
    return curves(lines, f"The loss in {made['steps']} steps of headway train", x_name="step", y_name="loss")


def fill(page: str, made: dict[str, Any]) -> str:
    """Return the page with the recorded parts of this record. KeyError for a part that it does not have."""
    blocks = {"begins": made["begins"], "ends": made["ends"], "compared": made["compared"], **made["played"]}
    block = re.compile(r"^(```text (\w+)\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
    page = block.sub(lambda found: found[1] + blocks[found[2]], page)
    rows = "".join(f"| {step} | {text} |\n" for step, text in made["samples"])
    samples = re.compile(r"^(\| after step \| it writes \|\n\|[-: |]+\|\n)(?:\|.*\n)*", re.MULTILINE)
    return samples.sub(lambda found: found[1] + rows, page)
