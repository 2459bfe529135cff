"""Makes the recordings: `python -m grader.chapters.training_runs.recording [NAME ...]`, about four seconds a run.

Without names it trains every case at three seeds, and every setup's right run at four.
"""

from __future__ import annotations

import json
import sys

from grader.chapters.training_runs.cases import CASES
from grader.chapters.training_runs.records import FOLDER, SEEDS, USUAL
from grader.chapters.training_runs.setups import SETUPS
from grader.chapters.training_runs.training import train_and_look
from grader.files import write_whole


def record(name: str) -> None:
    """Train at each seed, and write the file."""
    case = next((case for case in CASES if case.mistake == name), None)
    setup = SETUPS[case.setup if case else name.removeprefix("right_")]
    seeds, mistake = (SEEDS, case.find_mistake()) if case else ((*SEEDS, USUAL), None)
    texts = [json.dumps(train_and_look(setup, mistake, seed), separators=(",", ":")) for seed in seeds]
    write_whole(FOLDER / f"{name}.json", "[" + ",\n".join(texts) + "]\n")


def main(names: list[str]) -> None:
    for name in names or [*(f"right_{setup}" for setup in SETUPS), *(case.mistake for case in CASES)]:
        record(name)
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
