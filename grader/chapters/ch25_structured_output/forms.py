"""Lab structured_accuracy: forms that SmolLM2 fills in from a sentence, with and without the constraint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from grader.chapters.ch16_published_model.labs import open_published
from grader.chapters.ch16_published_model.published.opening import Published
from grader.chapters.ch16_published_model.published.source import CHAT_TOKENS, PublishedProblem
from grader.chapters.ch25_structured_output.writing.form import SYSTEM
from grader.chapters.ch25_structured_output.writing.token_guide import TokenGuide, compute, write
from grader.console.output import show_progress
from grader.counts import format_count
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "city": {"type": "string"},
        "pet": {"enum": ["dog", "cat", "none"]},
    },
    "required": ["name", "age", "city", "pet"],
}
EXAMPLE = {"name": "Sara", "age": 28, "city": "Madrid", "pet": "cat"}
INSTRUCTIONS = {
    "schema": f"{SYSTEM} {json.dumps(SCHEMA)}",
    "example": f'Read the text and answer only with JSON such as {json.dumps(EXAMPLE)}; "pet" is dog, cat or none.',
}
FORMS = (
    ("Anna is 31 years old. She lives in Oslo with her dog.", "Anna", 31, "Oslo", "dog"),
    ("My name is Karim, I am 22, and I live in Cairo. I have no pets.", "Karim", 22, "Cairo", "none"),
    ("Lucia turned 45 last week. She and her cat have a flat in Rome.", "Lucia", 45, "Rome", "cat"),
    ("In Lima there is a boy of 9 who has a dog. He is called Pedro.", "Pedro", 9, "Lima", "dog"),
    ("Mei, 67, never had an animal. She moved from Beijing to Paris.", "Mei", 67, "Paris", "none"),
    ("The cat of Tom sleeps all day. Tom is 18 and studies in Dublin.", "Tom", 18, "Dublin", "cat"),
    ("Ines has lived in Lisbon for 50 of her 58 years. Her dog is old.", "Ines", 58, "Lisbon", "dog"),
    ("Olga is 36. Her son wants a cat, but in Kyiv they have no animals.", "Olga", 36, "Kyiv", "none"),
)
MOST_TOKENS = 60
KEYS = tuple(SCHEMA["properties"])  # type: ignore[arg-type]


@dataclass
class Tally:
    """Of one way to answer: of how many answers what is true."""

    answers: int = 0
    valid: int = 0  # the whole answer is JSON that the schema accepts
    inside: int = 0  # so is what stands from the first { to the last }
    fields: int = 0  # that are right, in the JSON that was found
    right: int = 0  # all of them

    def count(self, text: str, expected: Mapping[str, Any]) -> None:
        found = read_form(text[text.find("{") : text.rfind("}") + 1]) or {}
        same = sum(found.get(key) == value for key, value in expected.items())
        self.answers += 1
        self.valid += read_form(text) is not None
        self.inside += bool(found)
        self.fields += same
        self.right += same == len(KEYS)

    def row(self) -> list[str]:
        shares = (self.valid, self.inside, self.fields / len(KEYS), self.right)
        return [f"{share / self.answers:.0%}" for share in shares]


def read_form(text: str) -> dict[str, Any] | None:
    """The form that a text is, or None if it is no JSON or not what SCHEMA says."""
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(form, dict) or set(form) != set(KEYS):
        return None
    texts = isinstance(form["name"], str) and isinstance(form["city"], str)
    return form if texts and type(form["age"]) is int and form["pet"] in ("dog", "cat", "none") else None


def answer(published: Published, instruction: str, text: str, guide: TokenGuide | None) -> str:
    """The likeliest tokens, of all that the guide allows if there is one."""
    parts, tokenizer = published.own.parts, published.tokenizer
    asked = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
    if guide is None:
        return "".join(parts.stream_answer(published.model, tokenizer, asked, MOST_TOKENS))
    return b"".join(write(published, guide, parts.chat_ids(tokenizer, asked), MOST_TOKENS, 0.0)).decode()


def report_structured_accuracy(chapters: ChapterPackage, seed: int, *, forms: int = 6) -> Iterator[Table | str]:
    """Lesson 25: SmolLM2 fills in a form of four fields from a sentence, freely and with the constraint.

    Both have the same instructions, with the schema or with an example of a form; the seed draws the sentences.
    "valid": the whole answer is JSON that the schema accepts. "inside": so is the part from the first { to the last }.
    "fields": those that are right, in this part. "right": all four are. It needs the weights of SmolLM2.
    """
    try:
        published = open_published(chapters, "ch25_structured_output")
    except PublishedProblem as problem:
        yield f"Not measured: {problem}."
        return
    parts, tokenizer = published.own.parts, published.tokenizer
    [end] = tokenizer.encode(CHAT_TOKENS[1], allow_special=True)
    guide, rows, samples = compute(parts, SCHEMA, parts.token_bytes(tokenizer), end), [], []
    drawn = torch.randperm(len(FORMS), generator=torch.Generator().manual_seed(seed)).tolist()[:forms]
    with show_progress("answering", 2 * len(INSTRUCTIONS) * len(drawn)) as step:
        for asked, instruction in INSTRUCTIONS.items():
            for name, one in (("free", None), ("constrained", guide)):
                tally = Tally()
                for text, *values in (FORMS[i] for i in drawn):
                    said = answer(published, instruction, text, one)
                    tally.count(said, dict(zip(KEYS, values)))
                    step()
                rows.append([name, asked, *tally.row()])
                samples.append(f"{name}, with the {asked}, the last answer: {said!r}")
    columns = ("writing", "instruction", "valid", "inside", "fields", "right")
    yield result_table(f"Forms from {format_count(len(drawn), 'sentence')}", columns, rows)
    yield from samples
