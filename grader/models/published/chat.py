"""A conversation with a published model: what was said, the commands, and the answers as they are written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from grader.models.published.inside import look_inside
from grader.models.published.opening import Published

HELP = """\
Type to the model. What begins with / is a command:
  /system TEXT       tell the model how to behave, and begin again
  /temperature X     0 always takes the likeliest token; 0.7 varies
  /inside            what each block would say next, and where the model looked
  /reset             begin again
  /help, /quit"""
MAX_NEW_TOKENS = 300


class ChatProblem(Exception):
    """A command cannot be carried out; the message is a sentence."""


@dataclass
class Chat:
    published: Published
    temperature: float = 0.0
    messages: list[dict[str, str]] = field(default_factory=list)
    tokens_a_second: float = 0.0

    def reply(self, line: str) -> Iterator[str]:
        """What to print for this line, piece by piece. ChatProblem for a command that is wrong."""
        line = line.strip()
        if line.startswith("/"):
            yield self._command(*line[1:].partition(" ")[::2])
        elif line:
            yield from self._answer(line)

    def _answer(self, question: str) -> Iterator[str]:
        """The model's answer. If it is interrupted, what was written so far stays in the conversation."""
        parts, answer, began = self.published.own.parts, "", time.perf_counter()
        asked = [*self.messages, {"role": "user", "content": question}]
        try:
            for piece in parts.stream_answer(self.published.model, self.published.tokenizer, asked, MAX_NEW_TOKENS, self.temperature):
                answer += piece
                yield piece
        finally:
            if answer:
                self.messages = [*asked, {"role": "assistant", "content": answer}]
                written = len(self.published.tokenizer.encode(answer))
                self.tokens_a_second = written / max(time.perf_counter() - began, 1e-6)

    def _command(self, name: str, argument: str) -> str:
        argument = argument.strip()
        if name == "system":
            self.messages = [{"role": "system", "content": argument}] if argument else []
            return "A new conversation begins" + (", with these instructions." if argument else ", with the usual instructions.")
        if name == "temperature":
            return self._set_temperature(argument)
        if name == "inside":
            return self._inside()
        if name == "reset":
            self.messages = [message for message in self.messages[:1] if message["role"] == "system"]
            return "A new conversation begins."
        if name == "help":
            return HELP
        raise ChatProblem(f"there is no command /{name}; /help lists them")

    def _set_temperature(self, argument: str) -> str:
        try:
            temperature = float(argument)
        except ValueError:
            raise ChatProblem("/temperature needs a number, for example /temperature 0.7") from None
        if not 0 <= temperature <= 10:
            raise ChatProblem("a temperature is between 0 and 10")
        self.temperature = temperature
        return f"The temperature is {temperature:g}."

    def _inside(self) -> str:
        if not any(message["role"] == "user" for message in self.messages):
            raise ChatProblem("nothing has been said yet; ask something first, and then look inside")
        asked = self.messages[:-1] if self.messages[-1]["role"] == "assistant" else self.messages
        ids = list(self.published.own.parts.chat_ids(self.published.tokenizer, asked))
        found = look_inside(self.published, ids)
        lines = ["How the first token of the last answer was made. After each block, the likeliest token:"]
        for layer in found.layers:
            shown = "  ".join(f"{_visible(token)} {chance:4.0%}" for token, chance in layer.tokens)
            lines.append(f"  block {layer.block:>2}  {shown}")
        lines.append("In the last block, the heads looked at: " + ", ".join(f"{_visible(token)} {weight:.0%}" for token, weight in found.looked_at))
        return "\n".join(lines)


def _visible(token: str) -> str:
    return "'" + token.replace("\n", "\\n") + "'"
