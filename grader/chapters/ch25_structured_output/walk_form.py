"""A form: a walk from a pattern to a text that a model cannot write wrongly, and to a call of a tool."""

from __future__ import annotations

import json
import textwrap
from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import table
from grader.teaching.walks.parts import MixedChapters
from rich.text import Text
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    "build_automaton", "token_table", "constrain", "generate_matching", "JsonGuide", "parse_call", "run_tools",
)  # fmt: skip
PATTERN = "-?(0|[1-9][0-9]*)"
NUMBERS = ("7", "-12", "007", "1.5", "-")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"enum": ["cat", "cow"]}},
    "required": ["name", "age", "kind"],
}
SHOWN_SCHEMA = json.dumps(SCHEMA)
PIECES = (b'{"', b'": ', b'": "', b'", "', b', "', b"name", b"age", b"kind", b"cat", b"cow", b'"}', b"the", b"ing")
TOKENS = (b"", *(bytes([code]) for code in range(32, 127)), *PIECES)  # the first one ends a text
END = 0
FREE_TOKENS, SHOWN_STEPS = 40, 14


class Bigram(nn.Module):
    """A model that knows nothing: random logits for the next token, by the last one. It counts its passes."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.logits = nn.Parameter(1.5 * torch.randn(len(TOKENS), len(TOKENS), generator=generator))
        self.passes = 0

    def forward(self, ids: Tensor) -> Tensor:
        self.passes += 1
        return self.logits[ids]


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    generator = torch.Generator().manual_seed(seed)
    model, tokenizer = Bigram(generator), SimpleNamespace(token_bytes=TOKENS)
    start, accepting, step = parts.build_automaton(PATTERN)
    accepted = [(text, matches((start, accepting, step), text.encode())) for text in NUMBERS]

    automaton = parts.JsonGuide(SCHEMA).automaton
    tokens = parts.token_table(automaton, TOKENS)
    left = parts.tokens_to_end(tokens, automaton[1])
    free = [END]
    for _ in range(FREE_TOKENS):
        chances = torch.softmax(model.logits[free[-1]].detach(), 0)
        free.append(int(torch.multinomial(chances, 1, generator=generator)))

    least, texts = left[automaton[0]], {}
    with report_progress("writing forms", 4) as advance:
        for budget in (least, least + 6, least + 20, least + 60):
            model.passes = 0
            ids = parts.generate_matching(model, tokenizer, [END], automaton, budget, 1.0, generator, END)
            texts[budget] = b"".join(TOKENS[i] for i in ids).decode(), len(ids), model.passes
            advance()
    steps, state, before = [], automaton[0], END
    for i in ids:
        allowed = list(tokens[state])
        logits = model.logits[before].detach()
        share = float(torch.softmax(logits, 0)[allowed].sum())
        masked = parts.constrain(logits, allowed)
        steps.append((TOKENS[i].decode(), len(allowed), share, float(torch.softmax(masked, 0)[i])))
        state, before = tokens[state][i], i
    try:
        parts.generate_matching(model, tokenizer, [END], automaton, least - 1)
        refusal = "no error"
    except ValueError as problem:
        refusal = str(problem)

    a, b = torch.randint(100, 1000, (2,), generator=generator).tolist()
    call = f'<tool_call>{{"name": "multiply", "arguments": {{"a": {a}, "b": {b}}}}}</tool_call>'
    said = iter((call.replace("multiply", "times"), call, f"{a} times {b} is {a * b}."))
    asked = [{"role": "user", "content": f"What is {a} times {b}?"}]
    messages = parts.run_tools(lambda chat: next(said), {"multiply": lambda a, b: a * b}, asked, 4)
    name, arguments = parts.parse_call(call)
    return SimpleNamespace(
        accepted=accepted,
        states=len(tokens),
        free=b"".join(TOKENS[i] for i in free).decode(),
        least=least,
        texts=texts,
        steps=steps,
        refusal=refusal,
        valid=all(is_json(text) for text, _, _ in texts.values()),
        messages=messages,
        name=name,
        arguments=json.dumps(arguments),
    )


def matches(automaton: Any, text: bytes) -> bool:
    state, accepting, step = automaton
    for byte in text:
        state = None if state is None else step(state, byte)
    return state in accepting


def is_json(text: str) -> bool:
    try:
        return set(json.loads(text)) == set(SCHEMA["properties"])  # type: ignore[arg-type]
    except ValueError:
        return False


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 76, initial_indent="  ", subsequent_indent="    ")


def describe(n: SimpleNamespace) -> dict[str, Any]:
    form_rows = [(budget, tokens, passes, text[:60]) for budget, (text, tokens, passes) in n.texts.items()]
    steps = [(token.replace(" ", "·"), *numbers) for token, *numbers in n.steps[:SHOWN_STEPS]]
    return {
        "number_table": table([(text, "yes" if fits else "no") for text, fits in n.accepted], ["text", "matches"]),
        "form_table": table(form_rows, ["most", "tokens", "passes", "form"]),
        "step_table": table(steps, ["token", "allowed", "before", "after"], "- d .4f .2f"),
        "chat": [Text(part) for one in n.messages for part in wrapped(f"{one['role']}: {one['content']}")],
        "free_text": [Text(part) for part in wrapped(n.free)],
        "vocabulary": len(TOKENS),
    }
