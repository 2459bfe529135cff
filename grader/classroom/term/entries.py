"""Reads entries of course.toml, and collects what does not fit, each with its line."""

from __future__ import annotations

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.toml_values import show_value, suggest
from grader.classroom.sanitize import shorten
from grader.classroom.term.toml_lines import Path as KeyPath
from grader.classroom.term.toml_lines import find_line


class Problems:
    """Collects what does not fit, each with its line."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.found: list[tuple[int, str]] = []
        self.paths: list[KeyPath] = []

    def add(self, path: KeyPath, sentence: str) -> None:
        line = self.line(path)
        self.found.append((line, f"{self.file}, line {line}: {sentence}"))
        self.paths.append(path)

    def line(self, path: KeyPath) -> int:
        return find_line(self.text, path)

    def has(self, path: KeyPath) -> bool:
        """Whether something here or below does not fit: it may be the cause of another problem, which is then not worth a sentence."""
        return any(found[: len(path)] == path for found in self.paths)

    def sentences(self) -> list[str]:
        return [sentence for _, sentence in sorted(self.found, key=lambda one: one[0])]


def read_names(entry: dict, key: str, where: str, path: KeyPath, problems: Problems) -> list[str]:
    names = entry.get(key, [])
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    problems.add((*path, key), f'{where}{key}: {show_value(names)} is not a list of names; write it like ["ch03"]')
    return []


def read_table(data: dict, key: str, problems: Problems) -> dict:
    table = data.get(key, {})
    if isinstance(table, dict):
        return table
    problems.add((key,), f"{key}: this must be a table; write [{key}] and put its keys below")
    return {}


def read_text(entry: dict, key: str, path: KeyPath, problems: Problems) -> str:
    value = entry.get(key, "")
    if isinstance(value, str):
        return value
    problems.add((*path, key), f"{key}: {show_value(value)} is not a text; put it in quotes")
    return ""


def check_keys(entry: dict, known: tuple[str, ...], path: KeyPath, where: str, problems: Problems) -> None:
    for key in entry:
        if key not in known:
            problems.add((*path, key), f"{where}{shorten(key)}: this key is unknown{suggest(key, known) or '; the keys are ' + ', '.join(known)}")


def guard(problems: Problems, path: KeyPath, parse, missing):
    try:
        return parse()
    except GradingProblem as problem:
        problems.add(path, str(problem))
        return missing
