"""Lab structured_distribution: what masking does to the distribution of models that are small enough to enumerate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor, nn

TOKENS = (b"", b"yes", b"no", b"t", b" sure", b" really", b"!")  # the first one ends a text
END = 0
ASKED = "yes!?|no!?"
NOT_SURE = {  # the probabilities of the next token, by what has been written
    b"": {b"no": 0.6, b"yes": 0.3, b"!": 0.1},
    b"no": {b"t": 0.9, b"": 0.08, b"!": 0.02},
    b"not": {b" sure": 0.6, b" really": 0.4},
    b"yes": {b"": 0.7, b"!": 0.3},
}
LETTERS = (b"", b"a", b"b", b"c", b"d")
LENGTH = 4
PATTERNS = (".+", "a.*", "a?b?c?d?", "a+b", "a.*b")
MOST = 12  # tokens of a text
Chances = dict[bytes, float]


class TableModel(nn.Module):
    """A model whose next token depends on the whole text so far, by a table; where the table has nothing, it ends."""

    def __init__(self, tokens: tuple[bytes, ...], table: Mapping[bytes, Tensor]) -> None:
        super().__init__()
        self.tokens, self.table = tokens, table
        self.device = nn.Parameter(torch.zeros(0))

    @classmethod
    def of(cls, tokens: tuple[bytes, ...], table: Mapping[bytes, Mapping[bytes, float]]) -> TableModel:
        rows = {text: torch.tensor([row.get(token, 0.0) for token in tokens]) for text, row in table.items()}
        return cls(tokens, rows)

    @classmethod
    def random(cls, generator: torch.Generator) -> TableModel:
        """Its texts have at most LENGTH letters."""
        table, texts = {}, [b""]
        for _ in range(LENGTH):
            for text in texts:
                table[text] = torch.softmax(2 * torch.randn(len(LETTERS), generator=generator), 0)
            texts = [text + letter for text in texts for letter in LETTERS[1:]]
        return cls(LETTERS, table)

    def log_probs(self, text: bytes) -> Tensor:
        """Of the next token, (V,)."""
        if text in self.table:
            return self.table[text].log()
        return torch.where(torch.arange(len(self.tokens)) == END, 0.0, -torch.inf)

    def forward(self, ids: Tensor) -> Tensor:
        """(1, T) -> (1, T, V); only the last row is filled. The first id is that of the prompt."""
        written = b"".join(self.tokens[i] for i in ids[0, 1:].tolist())
        logits = torch.zeros(1, ids.size(1), len(self.tokens))
        logits[0, -1] = self.log_probs(written)
        return logits


def enumerate_texts(parts: Any, model: TableModel, pattern: str) -> tuple[Chances, Chances]:
    """The probability of each text that matches: by the model alone, and by masked sampling."""
    automaton = parts.build_automaton(pattern)
    start, accepting, _ = automaton
    table = parts.token_table(automaton, model.tokens)
    alone, masked, todo = Chances(), Chances(), [(b"", start, 1.0, 1.0)]
    while todo:
        text, state, free, chosen = todo.pop()
        log_probs = model.log_probs(text)
        allowed = [*table[state], *([END] if state in accepting else [])]
        if not torch.isfinite(log_probs[allowed]).any():
            continue  # the model gives all of them the probability 0, and never comes here
        chances, among = log_probs.exp(), torch.softmax(parts.constrain(log_probs, allowed), -1)
        for i in allowed:
            if chances[i] > 0:
                after = (free * float(chances[i]), chosen * float(among[i]))
                if i == END:
                    alone[text], masked[text] = after
                else:
                    todo.append((text + model.tokens[i], table[state][i], *after))
    return alone, masked


def draw_texts(parts: Any, model: TableModel, pattern: str, count: int, generator: torch.Generator) -> Counter[bytes]:
    """How often generate_matching writes each text at temperature 1."""
    tokenizer, automaton = SimpleNamespace(token_bytes=model.tokens), parts.build_automaton(pattern)
    drawn: Counter[bytes] = Counter()
    for _ in range(count):
        ids = parts.generate_matching(model, tokenizer, [END], automaton, MOST, 1.0, generator, END)
        drawn[b"".join(model.tokens[i] for i in ids)] += 1
    return drawn


def greedy_text(parts: Any, model: TableModel, pattern: str) -> bytes:
    tokenizer = SimpleNamespace(token_bytes=model.tokens)
    ids = parts.generate_matching(model, tokenizer, [END], parts.build_automaton(pattern), MOST, eos_id=END)
    return b"".join(model.tokens[i] for i in ids)


def report_structured_distribution(chapters: ChapterPackage, seed: int, *, draws: int = 2000) -> Iterator[Table | str]:
    """Lesson 25: masked sampling, and the model's own probabilities of the texts that match.

    First a model that is not sure: after "no" it mostly goes on with "t sure". The pattern allows yes and no. "alone"
    is the model's probability of the text. "conditional" is the same divided by their sum: what drawing again and again
    until a text matches gives. "masked" is exact too, and "drawn" the share of generate_matching's texts. Then random
    models of short texts: "match" is the probability that a text matches without a mask, "apart" the total variation
    between masked and conditional, from 0 to 1, and "best" how often the greedy text is the likeliest one.
    """
    parts = names_of(chapters.module("ch25_structured_output"))
    model, generator = TableModel.of(TOKENS, NOT_SURE), torch.Generator().manual_seed(seed)
    alone, masked = enumerate_texts(parts, model, ASKED)
    drawn, total = draw_texts(parts, model, ASKED, draws, generator), sum(alone.values())
    rows = [
        [text.decode(), f"{alone[text]:.3f}", *(f"{share:.3f}" for share in shares)]
        for text in sorted(alone)
        for shares in [(alone[text] / total, masked[text], drawn[text] / draws)]
    ]
    rows.append(["all", f"{total:.3f}", "1.000", f"{sum(masked.values()):.3f}", "1.000"])
    yield result_table(f"The pattern {ASKED}", ("text", "alone", "conditional", "masked", "drawn"), rows)
    likeliest, greedy = max(alone, key=lambda text: alone[text]), greedy_text(parts, model, ASKED)
    yield f"The likeliest text that matches is {likeliest.decode()!r}, and the greedy one is {greedy.decode()!r}."
    models = [TableModel.random(generator) for _ in range(20)]
    rows = []
    with show_progress("enumerating texts", len(PATTERNS)) as step:
        for pattern in PATTERNS:
            found = [compare(parts, one, pattern) for one in models]
            match, apart, best = (sum(values) / len(models) for values in zip(*found))
            rows.append([pattern, f"{match:.3f}", f"{apart:.3f}", f"{best:.0%}"])
            step()
    yield result_table(f"{len(models)} random models", ("pattern", "match", "apart", "best"), rows)


def compare(parts: Any, model: TableModel, pattern: str) -> tuple[float, float, bool]:
    """The probability of a match, the total variation, and whether the greedy text is the likeliest."""
    alone, masked = enumerate_texts(parts, model, pattern)
    total = sum(alone.values())
    apart = sum(abs(masked[text] - alone[text] / total) for text in alone) / 2
    return total, apart, greedy_text(parts, model, pattern) == max(alone, key=lambda text: alone[text])
