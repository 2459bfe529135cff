"""A conversation in which each answer is a form: JSON that a schema accepts, whatever the model is."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.chapters.ch16_published_model.published import chat
from grader.chapters.ch16_published_model.published.opening import Published
from grader.chapters.ch25_structured_output.writing.token_guide import TokenGuide, open_guide, write
from grader.counts import format_count
from grader.files import UserProblem, problem, short_path

ADVICE = "--json takes a file with a JSON schema"
SYSTEM = "Read the text and answer with JSON that has what the text says. The schema of the JSON is:"


def read_schema(path: Path) -> Any:
    """The JSON in this file. UserProblem if there is none."""
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise UserProblem(f"{problem(error, f'read {short_path(path)}')}; {ADVICE}") from None
    except (ValueError, RecursionError) as error:
        raise UserProblem(f"{short_path(path)} is no JSON: {error}; {ADVICE}") from None


def check_schema(parts: Any, schema: Any, path: Path) -> None:
    """UserProblem if chapter 25 does not support the schema; the sentence says what and where."""
    try:
        parts.check_schema(schema)
        parts.JsonGuide(schema)
    except ValueError as error:
        raise UserProblem(f"{short_path(path)}: {error}") from None


@dataclass
class FormChat(chat.Chat):
    """Each text is a form of its own, and earlier ones do not count. /system replaces the instructions."""

    guide: TokenGuide = field(kw_only=True)
    schema: Mapping[str, Any] = field(kw_only=True)

    @classmethod
    def open(cls, published: Published, temperature: float, schema: Any, path: Path) -> FormChat:
        """UserProblem if no text that the schema accepts is short enough."""
        guide, most = open_guide(published.own.parts, published.tokenizer, schema), chat.MOST_ANSWER_TOKENS
        if guide.least is None or guide.least > most:
            needed = f"at least {format_count(guide.least, 'token')}" if guide.least else "bytes that no token has"
            has = f"and an answer of {published.name} has at most {most} tokens"
            raise UserProblem(f"{short_path(path)} needs {needed}, {has}; ask for less in one form")
        return cls(published, temperature, guide=guide, schema=schema)

    def _answer(self, question: str) -> Iterator[str]:
        system = {"role": "system", "content": f"{SYSTEM} {json.dumps(self.schema, ensure_ascii=False)}"}
        asked = [self.messages[0] if self.messages else system, {"role": "user", "content": question}]
        prompt, decoder, written = chat.prompt_ids(self.published, asked), codecs.getincrementaldecoder("utf-8")(), ""
        try:
            for data in write(self.published, self.guide, prompt, chat.MOST_ANSWER_TOKENS, self.temperature):
                written += (piece := decoder.decode(data))
                yield piece
        finally:
            if written:
                self.messages = [*asked, {"role": "assistant", "content": written}]
