"""Which tokens of a published model may come next in a JSON text: computed once for a schema, `.headway/tables/`.

The name of a file is a digest of the schema, the model's tokens and the code that computed it. A damaged file is
replaced. The folder keeps the newest files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch16_published_model.published.opening import Published, next_token_only
from grader.chapters.ch16_published_model.published.source import CHAT_TOKENS
from grader.course.syllabus import ROOT
from grader.execution.target import reference_of
from grader.files import write_whole
from grader.teaching.walks.parts import hidden_prints
from torch import Tensor

CHAPTER = "ch25_structured_output"
GUIDING = ("build_automaton", "token_table", "constrain", "JsonGuide")
FOLDER, FORMAT, MOST_FILES = ROOT / ".headway" / "tables", "1", 10
ENDED = -1


@dataclass(frozen=True)
class TokenGuide:
    """A row of tokens for each state; 0 is the start. Where a text may end, the token that ends it is in the row."""

    first: Tensor  # (S + 1,): where the row of each state begins
    ids: Tensor  # (N,)
    after: Tensor  # (N,): the state after this token, or ENDED
    cost: Tensor  # (N,): the least tokens to the end if this one is next, itself included; ascending in each row

    @property
    def least(self) -> int | None:
        """The tokens of the shortest text; None if no text can be written."""
        return int(self.cost[0]) if len(self.cost) else None

    def allowed(self, state: int, room: int) -> Tensor:
        """The tokens after which the text can still be completed, if there is room for so many."""
        begin, end = self.first[state : state + 2].tolist()
        if self.cost[end - 1] > room:
            end = begin + int(torch.searchsorted(self.cost[begin:end], room, right=True))
        return self.ids[begin:end]

    def next_state(self, state: int, chosen: int) -> int:
        begin, end = self.first[state : state + 2].tolist()
        return int(self.after[begin:end][self.ids[begin:end] == chosen])


def write(
    published: Published, guide: TokenGuide, prompt: Sequence[int], most: int, temperature: float
) -> Iterator[bytes]:
    """Continue the prompt by a text of at most `most` tokens that the guide accepts; yield the bytes of each token.

    This is generate_matching with the caches of `stream_answer`, and with tensors of ids, which take less time.
    """
    parts, model = published.own.parts, published.model
    tokens, caches, new, state = parts.token_bytes(published.tokenizer), model.new_caches(), list(prompt), 0
    generator = torch.Generator()
    generator.seed()
    while True:
        allowed = guide.allowed(state, most)
        if len(allowed) == 1:
            chosen = int(allowed)
        else:
            with hidden_prints(), next_token_only(published):
                logits = parts.constrain(model(torch.tensor([new]), caches)[0, -1], allowed)  # (V,)
                chosen = int(parts.sample_next_token(logits, temperature, generator=generator))
            new = []
        state, most = guide.next_state(state, chosen), most - 1
        if state == ENDED:
            return
        new.append(chosen)
        yield tokens[chosen]


def open_guide(parts: Any, tokenizer: Any, schema: Mapping[str, Any]) -> TokenGuide:
    """Read the guide of this schema, or compute and keep it."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save as to_bytes

    tokens, [end] = parts.token_bytes(tokenizer), tokenizer.encode(CHAT_TOKENS[1], allow_special=True)
    path = FOLDER / f"{_digest(parts, schema, tokens, end)}.safetensors"
    with contextlib.suppress(OSError, SafetensorError, KeyError):
        with safe_open(path, framework="pt") as file:
            rows = {name: file.get_tensor(name) for name in TokenGuide.__annotations__}
            if (file.metadata() or {}).get("checksum") == _checksum(rows):
                return TokenGuide(**{name: row.long() for name, row in rows.items()})
    with hidden_prints():
        guide = compute(parts, schema, tokens, end)
    rows = {name: row.int() for name, row in vars(guide).items()}  # half the bytes
    with contextlib.suppress(OSError):
        write_whole(path, to_bytes(rows, {"checksum": _checksum(rows)}), durable=False)
        for old in sorted(FOLDER.glob("*.safetensors"), key=_age)[MOST_FILES:]:
            old.unlink()
    return guide


def compute(parts: Any, schema: Mapping[str, Any], tokens: Sequence[bytes], end: int) -> TokenGuide:
    automaton = parts.JsonGuide(schema).automaton
    start, accepting, _ = automaton
    table = parts.token_table(automaton, [b"" if i == end else token for i, token in enumerate(tokens)])
    left = parts.tokens_to_end(table, accepting)
    order = [start, *(state for state in table if state != start)] if table else []
    number = {state: i for i, state in enumerate(order)}
    needed = torch.tensor([*(left[state] for state in order), -1])  # the last one is ENDED
    rows = []
    for state in order:
        ends = [end] if state in accepting else []
        after = torch.tensor([number[one] for one in table[state].values()] + [ENDED] * len(ends))
        cost, places = torch.sort(1 + needed[after], stable=True)
        rows.append((torch.tensor([*table[state], *ends])[places], after[places], cost))
    first = torch.tensor([0, *(len(row[0]) for row in rows)]).cumsum(0)
    return TokenGuide(first, *(torch.cat(row) for row in zip(*rows)) if rows else [torch.zeros(0).long()] * 3)


def _digest(parts: Any, schema: Mapping[str, Any], tokens: Sequence[bytes], end: int) -> str:
    texts = [text for name, text in sorted(parts.learner_texts.items()) if CHAPTER in name]
    reference, learner = reference_of(CHAPTER), sorted(parts.from_learner.intersection(GUIDING))
    code = [FORMAT, learner, texts, reference and [reference.text, reference.code.hex()]]
    return hashlib.sha256(json.dumps([schema, end, [token.hex() for token in tokens], code]).encode()).hexdigest()


def _checksum(rows: Mapping[str, Tensor]) -> str:
    return hashlib.sha256(b"".join(row.numpy().tobytes() for row in rows.values())).hexdigest()


def _age(path: Path) -> float:
    return -path.stat().st_mtime
