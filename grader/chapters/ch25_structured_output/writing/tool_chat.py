"""A conversation in which the model may call a tool: the calculator, or a look-up in the book's glossary.

The model decides by itself whether it writes a call. Once it has begun one, a guide makes it complete.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from grader.chapters import find_files
from grader.chapters.ch16_published_model.published import chat
from grader.chapters.ch16_published_model.published.opening import Published
from grader.chapters.ch25_structured_output.writing.calculator import calculator
from grader.chapters.ch25_structured_output.writing.token_guide import TokenGuide, open_guide, write
from grader.console.output import without_controls
from grader.teaching.walks.parts import hidden_prints

CALLING = ("parse_call", "run_tools")
MOST_CALL_TOKENS = 80
MOST_TEXTS = 4  # of the model for one question: calls, and the answer


@cache
def glossary() -> dict[str, str]:
    """What the words of the book mean, in lower case, with their other forms."""
    entries = [word for path in find_files("glossary.toml") for word in tomllib.loads(path.read_text("utf-8"))["word"]]
    return {form.lower(): entry["says"] for entry in entries for form in (entry["name"], *entry.get("also", ()))}


def look_up(input: str) -> str:
    """What a word of the book means. Raises a ValueError for other words, with those that are similar."""
    words = glossary()
    if isinstance(input, str) and (says := words.get(" ".join(input.lower().split()))):
        return says
    similar = difflib.get_close_matches(str(input)[:100].lower(), words, 3)
    raise ValueError("the book does not explain this word" + (f"; it has {', '.join(similar)}" if similar else ""))


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TOOLS = {"calculator": calculator, "look_up": look_up}
CALL_SCHEMA = _object(name={"enum": list(TOOLS)}, arguments=_object(input={"type": "string"}))
SYSTEM = """\
You have two tools. calculator computes with + - * / ** and parentheses; look_up says what a word of machine learning \
means. To use a tool, write only a call, as in the examples; its result comes back to you. Then answer in a sentence."""


def _example(question: str, tool: str, text: str, result: str, says: str) -> list[chat.Message]:
    call = f'<tool_call>{{"name": "{tool}", "arguments": {{"input": "{text}"}}}}</tool_call>'
    contents = (question, call, f"<tool_response>{result}</tool_response>", says)
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


EXAMPLES = [  # the last ones count most
    *_example("What does logit mean?", "look_up", "logit", "A score before the softmax.", "A logit is a score."),
    *_example("What is a token?", "look_up", "token", "A piece of text.", "A token is a piece of text."),
    *_example("Compute 3 + 4 * 25.", "calculator", "3 + 4 * 25", "103", "3 + 4 * 25 is 103."),
    *_example("What is 12 times 7?", "calculator", "12 * 7", "84", "12 times 7 is 84."),
]


@dataclass
class ToolChat(chat.Chat):
    """/system replaces the explanation of the tools; the examples before the first question stay."""

    guide: TokenGuide = field(kw_only=True)  # of CALL_SCHEMA
    show: Callable[[str], None] = field(kw_only=True)  # a sentence beside the conversation, such as a call

    @classmethod
    def open(cls, published: Published, temperature: float, show: Callable[[str], None]) -> ToolChat:
        guide = open_guide(published.own.parts, published.tokenizer, CALL_SCHEMA)
        return cls(published, temperature, guide=guide, show=show)

    def _answer(self, question: str) -> Iterator[str]:
        parts, before = self.published.own.parts, self.messages
        if len(before) < 2:
            before = [*(before or [{"role": "system", "content": SYSTEM}]), *EXAMPLES]
        asked = [*before, {"role": "user", "content": question}]

        def next_text(messages: list[chat.Message]) -> str:
            if len(messages) > len(asked):
                self.show(without_controls(messages[-1]["content"]))
            text = self._write(messages)
            if parts.CALL in text:
                self.show(without_controls(text))
            return text

        self.messages = parts.run_tools(next_text, TOOLS, asked, MOST_TEXTS)
        if len(self.messages) == len(asked) + 1:
            self.show("The model used no tool.")
        yield self.messages[-1]["content"]

    def _write(self, messages: list[chat.Message]) -> str:
        """The model's next text: an answer, or what it wrote before a call, and the call."""
        parts, text = self.published.own.parts, ""
        for piece in chat.answer(self.published, messages, self.temperature):
            text += piece
            if parts.CALL in text:
                break
        else:
            return text
        begun = text[: text.index(parts.CALL)] + parts.CALL
        with hidden_prints():
            prompt = [*chat.prompt_ids(self.published, messages), *self.published.tokenizer.encode(begun)]
        call = b"".join(write(self.published, self.guide, prompt, MOST_CALL_TOKENS, self.temperature))
        return begun + call.decode() + parts.END_OF_CALL
