"""What a chapter has besides its lesson, its reference and its tests: one folder a chapter, named like its module.

Nothing lists these folders. The kit looks into each one for the following; a chapter has what it needs of it:

walk_NAME.py   a walk; its template is exercises/walks/chNN_NAME.md (grader/teaching/walks/ says how to write both)
show.py        functions that draw for `headway show`; show.toml says which of them draws which exercise
pictures.py    chNN_NAME(chapter) draws exercises/pictures/chNN_NAME.svg, whose numbers the reference computes
glossary.toml  a [[word]] for each term that the lesson explains: name, says, `also` with its other forms, and `near`
               for a word with other meanings: it is a link only in a paragraph with one of these words
report_NAME    in any module of the folder, a function for `headway measure NAME` (grader/teaching/measurements.py)
other modules  named by their subject: what the folder's other files and the lesson's labs import
a folder       what the command of this chapter runs: ch16's published/ (`headway chat`), ch17's tuning/ (`headway
               tune`) and capstone/ (`headway capstone`), ch19's scaling/ (`headway scale`), ch22's layer_comparison/
               (`headway compare attention recurrent hybrid`), ch23's features/ (`headway features`), ch24's evaluation/
               (`headway evaluate`), ch25's writing/ (`headway chat --json` and `--tools`), ch26's reasoning/ (`headway
               reason`)

A folder imports from folders of earlier chapters, and never from later ones. So what needs several chapters lies in the
folder of the last one, also if an earlier lesson shows it. What serves several chapters lies beside the folders:

corpora.py     small texts, from corpora.toml; small_models.py memorises them
stories/       an endless corpus of small stories; story_model.py learns to write them
training_runs/ small trainings with a known mistake in one part, and recordings of what they showed
sizes.toml     the letters of shapes
interruptible_run.py, run_file.py: the loop of `headway tune`, `features` and `reason`, with checkpoints and Control-C,
               and the file that a run goes on from

Tests are in grader/tests/chapters/; test_folders.py checks these rules.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def find_files(pattern: str, chapter: str = "ch*") -> list[Path]:
    """Return the files of this name in the folders of chapters, in the order of the course; * matches any text."""
    return sorted(FOLDER.glob(f"{chapter}/{pattern}"))


def module_name(path: Path) -> str:
    """Return the name to import a file by."""
    return f"{__name__}.{path.parent.name}.{path.stem}"
