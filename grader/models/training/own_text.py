"""A file or folder of the user's as paragraphs, or a sentence about why that is not possible."""

from __future__ import annotations

import re
from pathlib import Path

from grader.files import UserProblem, problem

SUFFIXES = (".txt", ".md", ".text", ".rst")
MOST_TEXT_BYTES = 8_000_000  # more would not be read in an evening
MOST_PARAGRAPH_CHARACTERS = 1200  # longer ones are cut between lines or words
LEAST_CHARACTERS = 1000


class TextProblem(UserProblem):
    """The text cannot be trained on; the message is a sentence."""

    exit_status = 1


def read_paragraphs(path: Path) -> tuple[list[str], list[str]]:
    """The paragraphs of a text file, or of all text files in a folder; and notes about what was left out. TextProblem
    if there is no usable text."""
    notes: list[str] = []
    try:
        if path.is_dir():
            texts = _read_folder(path, notes)
        elif path.exists():
            texts = [_read_file(path, MOST_TEXT_BYTES, notes)]
        else:
            raise TextProblem(f"there is no file or folder {path}")
    except OSError as error:
        raise TextProblem(problem(error, f"read {error.filename or path}")) from None
    paragraphs = [piece for text in texts for piece in split_paragraphs(text)]
    count = sum(map(len, paragraphs))
    if count < LEAST_CHARACTERS:
        raise TextProblem(
            f"{path} has {count} characters of text, which is too short to train on; give at least {LEAST_CHARACTERS}"
        )
    return paragraphs, notes


def split_paragraphs(text: str) -> list[str]:
    """Paragraphs are separated by empty lines; long ones are cut."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = []
    for paragraph in re.split(r"\n[ \t]*\n+", text):
        paragraph = paragraph.strip("\n")
        while len(paragraph) > MOST_PARAGRAPH_CHARACTERS:
            ends = (paragraph.rfind(end, 0, MOST_PARAGRAPH_CHARACTERS) for end in "\n ")
            cut = next((end for end in ends if end > 0), MOST_PARAGRAPH_CHARACTERS)
            found.append(paragraph[:cut])
            paragraph = paragraph[cut:].lstrip("\n")
        found.append(paragraph)
    return [paragraph for paragraph in found if paragraph.strip()]


def _read_folder(folder: Path, notes: list[str]) -> list[str]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")
    )
    if not files:
        others = any(folder.iterdir())
        raise TextProblem(
            f"{folder} has no text file"
            + (f"; their names end in {', '.join(SUFFIXES)}" if others else ", because it is empty")
        )
    texts, left = [], MOST_TEXT_BYTES
    for number, path in enumerate(files):
        if left <= 0:
            notes.append(f"The first {number} files are read: {MOST_TEXT_BYTES:,} bytes are enough.")
            break
        try:
            text = _read_file(path, left, notes)
        except TextProblem as trouble:
            notes.append(f"Left out: {trouble}.")
            continue
        left -= len(text.encode("utf-8"))
        texts.append(text)
    if not texts:
        raise TextProblem(f"none of the {len(files)} text files in {folder} can be read. {notes[0]}")
    return texts


def _read_file(path: Path, most: int, notes: list[str]) -> str:
    if not path.is_file():
        raise TextProblem(f"{path} is not a regular file")
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        notes.append(f"Only the first {most:,} bytes of {path} are read.")
        content = content[: content.rfind(b"\n", 0, most) + 1] or content[:most]
    if b"\x00" in content[:100_000]:
        raise TextProblem(f"{path} is a binary file, not a text in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as trouble:
        line = content[: trouble.start].count(b"\n") + 1
        raise TextProblem(
            f"{path} is not UTF-8: see byte {trouble.start} in line {line}; save it as UTF-8 in your editor"
        ) from None
    if sum(not (c.isprintable() or c.isspace()) for c in text[:20_000]) > 0.05 * len(text[:20_000]):
        raise TextProblem(f"{path} is a binary file, not a text")
    return text
