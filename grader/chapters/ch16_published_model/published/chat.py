"""A conversation with a published model: what was said, the commands, and the answers as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from grader.chapters.ch16_published_model.published.opening import Published, look_inside, next_token_only, show_token
from grader.console.output import without_controls
from grader.files import UserProblem
from grader.teaching.terminal_drawing import percent
from grader.teaching.walks.parts import hidden_prints

MOST_ANSWER_TOKENS = 300
MOST_CONVERSATION_TOKENS = 4096  # attention needs memory for the square of it
HIGHEST_TEMPERATURE = 10.0
SHOWN_PLACES = 6
HELP = f"""\
Type to the model. A line that begins with / is a command:
  /system TEXT      begin again, and tell the model how to behave
  /temperature N    0 always takes the likeliest token; 0.7 varies
  /inside [TEXT]    what each block would say next, and where the heads looked; with TEXT: if the answer began so
  /reset            begin again
  /help             this list
  /quit             end
An answer has at most {MOST_ANSWER_TOKENS} tokens. Control-C stops one, Control-D ends."""

Message = dict[str, str]  # its "role" and its "content"


class ChatProblem(UserProblem):
    """A line cannot be answered; the message is a sentence."""


def answer(published: Published, asked: Sequence[Message], temperature: float) -> Iterator[str]:
    """The model's answer, piece by piece. ChatProblem if the conversation is too long."""
    prompt_ids(published, asked)
    generator = torch.Generator()
    generator.seed()
    parts = published.own.parts
    pieces = parts.stream_answer(
        published.model, published.tokenizer, asked, MOST_ANSWER_TOKENS, temperature, generator=generator
    )
    while True:
        with hidden_prints(), next_token_only(published):
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def prompt_ids(published: Published, asked: Sequence[Message]) -> list[int]:
    """What the model reads before its answer. ChatProblem if that is too long, together with the answer."""
    with hidden_prints():
        ids = list(published.own.parts.chat_ids(published.tokenizer, asked))
    most = max(min(published.context, MOST_CONVERSATION_TOKENS) - MOST_ANSWER_TOKENS, 1)
    if len(ids) > most:
        says = f"the conversation has {len(ids):,} tokens, and {published.name} reads at most {most:,} here"
        raise ChatProblem(f"{says}; begin a new one, or shorten the text")
    return ids


def answer_ids(published: Published, messages: Sequence[Message]) -> list[int]:
    """The ids of a conversation that ends with an answer, without the token that ends it."""
    return [*prompt_ids(published, messages[:-1]), *published.tokenizer.encode(messages[-1]["content"])]


@dataclass
class Chat:
    published: Published
    temperature: float = 0.0
    messages: list[Message] = field(default_factory=list)

    def reply(self, line: str) -> Iterator[str]:
        """What to print for this line, piece by piece. ChatProblem if that is not possible."""
        line = line.strip()
        if not line.startswith("/"):
            yield from map(without_controls, self._answer(line))
            return
        name, _, argument = line.partition(" ")
        if name not in _COMMANDS:
            raise ChatProblem(f"there is no command {name}; /help lists them all")
        with hidden_prints():
            says = _COMMANDS[name](self, argument.strip())
        yield without_controls(says)

    def _answer(self, question: str) -> Iterator[str]:
        """The model's answer. If it is stopped, what was written so far stays in the conversation."""
        asked, written = [*self.messages, {"role": "user", "content": question}], ""
        try:
            for piece in answer(self.published, asked, self.temperature):
                written += piece
                yield piece
        finally:
            if written:
                self.messages = [*asked, {"role": "assistant", "content": written}]

    # ---- commands

    def _system(self, text: str) -> str:
        if not text:
            raise ChatProblem("/system needs a text, for example /system You answer in French.")
        self.messages = [{"role": "system", "content": text}]
        return "A new conversation begins, with this system message."

    def _reset(self, text: str) -> str:
        self.messages = [message for message in self.messages if message["role"] == "system"]
        return "A new conversation begins" + (", with the same system message." if self.messages else ".")

    def _set_temperature(self, text: str) -> str:
        try:
            temperature = float(text)
        except ValueError:
            temperature = -1.0
        if not 0 <= temperature <= HIGHEST_TEMPERATURE:
            raise ChatProblem(f"/temperature takes a number from 0 to {HIGHEST_TEMPERATURE:g}, not {text!r}")
        self.temperature = temperature
        return f"temperature is {temperature:g}"

    def _inside(self, text: str) -> str:
        if not self.messages or self.messages[-1]["role"] != "assistant":
            raise ChatProblem("there is no answer yet; ask something first, and then look inside")
        answered = {**self.messages[-1], "content": text} if text else self.messages[-1]
        ids = answer_ids(self.published, [*self.messages[:-1], answered])
        found = look_inside(self.published, ids)
        end = self.published.tokenizer.decode(ids[-12:])
        lines = [f"What each block would say after {end!r}:"]
        for number, likeliest in enumerate(found.layers):
            name = f"block {number}" if number else "embedding"
            shown = "  ".join(f"{token.text:<14.14} {percent(token.probability)}" for token in likeliest)
            lines.append(f"  {name:<9}  {shown}")
        looked = found.attention.mean((0, 1))  # (T,)
        best = looked.topk(min(SHOWN_PLACES, len(ids)))
        places = [f"{show_token(self.published, ids[i])} {weight:.0%}" for weight, i in zip(best.values, best.indices)]
        lines.append("Where all heads looked, on average: " + "   ".join(places))
        return "\n".join(lines)


_COMMANDS: dict[str, Callable[[Chat, str], str]] = {
    "/system": Chat._system,
    "/temperature": Chat._set_temperature,
    "/inside": Chat._inside,
    "/reset": Chat._reset,
    "/help": lambda chat, text: HELP,
}
