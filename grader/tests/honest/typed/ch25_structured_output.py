"""In the typed style: named steps, a dataclass where values belong together, every type written down."""

# What the stub gives and this file does not define, such as parse_pattern, is the reference's.
# ruff: noqa: F821

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypedDict

import torch
from torch import Tensor, nn

from .ch09_sampling import looking_at, sample_next_token
from .ch16_published_model import byte_names

CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
RESULT, END_OF_RESULT = "<tool_response>", "</tool_response>"

Step = Callable[[int, int], "int | None"]


@dataclass
class Places:
    """A nondeterministic automaton: for each place, where it leads without a byte, and with one."""

    silent: list[list[int]] = field(default_factory=list)
    reading: list[list[tuple[frozenset[int], int]]] = field(default_factory=list)

    def add(self) -> int:
        self.silent.append([])
        self.reading.append([])
        return len(self.silent) - 1

    def connect(self, node: Tree, begin: int) -> int:
        """Add everything for a node behind `begin`, and return where it ends."""
        if isinstance(node, Byte):
            end: int = self.add()
            self.reading[begin].append((node.values, end))
            return end
        if isinstance(node, Concat):
            for part in node.parts:
                begin = self.connect(part, begin)
            return begin
        if isinstance(node, Choice):
            end = self.add()
            for part in node.parts:
                self.silent[self.connect(part, begin)].append(end)
            return end
        return self._connect_repeat(node, begin)

    def _connect_repeat(self, node: Repeat, begin: int) -> int:
        for _ in range(node.least):
            begin = self.connect(node.part, begin)
        end: int = self.add()
        if node.most is None:
            self.silent[begin].append(end)
            self.silent[self.connect(node.part, end)].append(end)
            return end
        for _ in range(node.most - node.least):
            self.silent[begin].append(end)
            begin = self.connect(node.part, begin)
        self.silent[begin].append(end)
        return end

    def closure(self, places: Collection[int]) -> frozenset[int]:
        seen: set[int] = set(places)
        waiting: deque[int] = deque(seen)
        while waiting:
            for following in self.silent[waiting.popleft()]:
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return frozenset(seen)


def build_automaton(pattern: str | Tree) -> tuple[int, set[int], Step]:
    tree: Tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    places: Places = Places()
    start: int = places.add()
    end: int = places.connect(tree, start)
    closures: dict[frozenset[int], frozenset[int]] = {}

    def moves(state: frozenset[int]) -> dict[int, frozenset[int]]:
        targets: dict[int, set[int]] = {}
        for place in state:
            for values, following in places.reading[place]:
                for byte in values:
                    targets.setdefault(byte, set()).add(following)
        row: dict[int, frozenset[int]] = {}
        for byte, found in targets.items():
            key: frozenset[int] = frozenset(found)
            if key not in closures:
                closures[key] = places.closure(key)
            row[byte] = closures[key]
        return row

    return number_states(places.closure([start]), moves, lambda state: end in state)


@dataclass
class Node:
    """A place in the tree of the tokens."""

    longer: dict[int, Node] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)

    def add(self, token: bytes, number: int) -> None:
        node: Node = self
        for byte in token:
            node = node.longer.setdefault(byte, Node())
        node.ids.append(number)

    def follow(self, state: int, step: Step) -> Iterator[tuple[int, int]]:
        yield from ((number, state) for number in self.ids)
        for byte, node in self.longer.items():
            following: int | None = step(state, byte)
            if following is not None:
                yield from node.follow(following, step)


def token_table(
    automaton: tuple[int, set[int], Step], tokens: Sequence[bytes]
) -> dict[int, dict[int, int]]:
    start, accepting, step = automaton
    tree: Node = Node()
    for number, token in enumerate(tokens):
        if token != b"":
            tree.add(token, number)
    reached: dict[int, dict[int, int]] = {}
    queue: deque[int] = deque([start])
    while queue:
        state: int = queue.popleft()
        if state in reached:
            continue
        reached[state] = dict(tree.follow(state, step))
        queue.extend(reached[state].values())
    alive: dict[int, int] = tokens_to_end(reached, accepting)
    table: dict[int, dict[int, int]] = {}
    for state in alive:
        table[state] = {number: after for number, after in reached[state].items() if after in alive}
    return table if start in alive else {}


def _checked_ids(allowed: Collection[int] | Tensor, vocabulary: int) -> list[int]:
    ids: list[int] = allowed.tolist() if isinstance(allowed, Tensor) else list(allowed)
    if not ids:
        raise ValueError("allowed must not be empty")
    for number in ids:
        if not 0 <= number < vocabulary:
            raise ValueError(f"allowed contains {number}, but ids go from 0 to {vocabulary - 1}")
    return ids


def constrain(logits: Tensor, allowed: Collection[int] | Tensor) -> Tensor:
    vocabulary: int = logits.shape[-1]
    ids: list[int] = _checked_ids(allowed, vocabulary)
    possible: Tensor = torch.zeros(vocabulary, dtype=torch.bool, device=logits.device)
    possible[ids] = True
    impossible: Tensor = torch.full((), -math.inf, dtype=logits.dtype, device=logits.device)
    return torch.where(possible, logits, impossible)


@dataclass
class Writer:
    """The state of a text while it is written."""

    table: dict[int, dict[int, int]]
    needs: dict[int, int]
    accepting: Collection[int]
    state: int
    left: int
    eos_id: int | None

    def choices(self) -> list[int]:
        found: list[int] = [
            number for number, after in self.table[self.state].items() if self.needs[after] <= self.left - 1
        ]
        if self.eos_id is not None and self.state in self.accepting:
            found.append(self.eos_id)
        return found

    def take(self, number: int) -> None:
        self.state = self.table[self.state][number]
        self.left -= 1


def generate_matching(
    model: nn.Module,
    tokenizer: Any,
    prompt_ids: Sequence[int],
    automaton: tuple[int, set[int], Step],
    max_new_tokens: int,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    eos_id: int | None = None,
) -> list[int]:
    start, accepting, _ = automaton
    written_bytes: list[bytes] = token_bytes(tokenizer)
    if eos_id is not None:
        written_bytes[eos_id] = b""
    table: dict[int, dict[int, int]] = token_table(automaton, written_bytes)
    needs: dict[int, int] = tokens_to_end(table, accepting)
    if start not in needs or needs[start] > max_new_tokens:
        raise ValueError(f"expected a larger max_new_tokens than {max_new_tokens}")
    writer: Writer = Writer(table, needs, accepting, start, max_new_tokens, eos_id)
    result: list[int] = []
    while choices := writer.choices():
        chosen: int = choices[0]
        if len(choices) > 1:
            logits: Tensor = constrain(next_logits(model, [*prompt_ids, *result]), choices)
            chosen = int(sample_next_token(logits, temperature=temperature, generator=generator).item())
        if chosen == eos_id:
            break
        result.append(chosen)
        writer.take(chosen)
    return result


@dataclass(frozen=True)
class Rest:
    """What may follow inside an object: if it is empty so far, and behind a property."""

    alone: Tree
    behind: Tree

    def before(self, name: str, value: Tree, required: bool) -> Rest:
        member: Tree = Concat((literal(f"{dumps(name)}: "), value, self.behind))
        separated: Tree = Concat((literal(", "), member))
        if required:
            return Rest(member, separated)
        return Rest(Choice((member, self.alone)), Choice((separated, self.behind)))


class JsonGuide:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        check_schema(schema)
        self.automaton: tuple[int, set[int], Step] = build_automaton(self.tree_of(schema))

    def tree_of(self, schema: Mapping[str, Any]) -> Tree:
        if "enum" in schema:
            return Choice(tuple(literal(dumps(value)) for value in schema["enum"]))
        kind: str = schema["type"]
        if kind == "array":
            return self._array(schema["items"])
        if kind == "object":
            return self._object(schema.get("properties", {}), schema.get("required", ()))
        return parse_pattern(JSON_PATTERNS[kind])

    def _array(self, items: Mapping[str, Any]) -> Tree:
        item: Tree = self.tree_of(items)
        more: Tree = Repeat(Concat((literal(", "), item)), 0, None)
        return Concat((literal("["), Choice((Concat((item, more)), Concat(()))), literal("]")))

    def _object(self, properties: Mapping[str, Mapping[str, Any]], required: Sequence[str]) -> Tree:
        rest: Rest = Rest(literal("}"), literal("}"))
        for name in reversed(list(properties)):
            rest = rest.before(name, self.tree_of(properties[name]), name in required)
        return Concat((literal("{"), rest.alone))

    def allowed(self, text_so_far: bytes) -> set[bytes]:
        state: int | None
        state, accepting, step = self.automaton
        for byte in text_so_far:
            if state is None:
                return set()
            state = step(state, byte)
        if state is None:
            return set()
        ends: set[bytes] = {b""} if state in accepting else set()
        return ends | {bytes((byte,)) for byte in range(256) if step(state, byte) is not None}


class Call(TypedDict):
    name: str
    arguments: dict[str, Any]


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _check_call(value: object) -> Call:
    if not isinstance(value, dict):
        raise ValueError(f"a call is an object, got {type(value).__name__}")
    if value.keys() ^ Call.__annotations__.keys():
        raise ValueError(f"expected the keys name and arguments, got {list(value)}")
    name: object = value["name"]
    arguments: object = value["arguments"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError("the name must be a text and the arguments an object")
    return Call(name=name, arguments=arguments)


def parse_call(text: str) -> tuple[str, dict[str, Any]] | None:
    begin: int = text.find(CALL)
    if begin < 0:
        return None
    first: int = begin + len(CALL)
    last: int = text.find(END_OF_CALL, first)
    if last < 0:
        raise ValueError(f"expected {END_OF_CALL}")
    try:
        value: object = json.loads(text[first:last], parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("the call is nested too deeply") from error
    call: Call = _check_call(value)
    return call["name"], call["arguments"]


class Message(TypedDict):
    role: str
    content: str


def _outcome(text: str, tools: Mapping[str, Callable[..., Any]]) -> str:
    try:
        call: tuple[str, dict[str, Any]] | None = parse_call(text)
        assert call is not None
        name, arguments = call
        tool: Callable[..., Any] | None = tools.get(name)
        if tool is None:
            return f"error: {name!r} is not one of the tools {', '.join(tools)}"
        return str(tool(**arguments))
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def run_tools(
    model_step: Callable[[list[Message]], str],
    tools: Mapping[str, Callable[..., Any]],
    messages: Sequence[Message],
    limit: int,
) -> list[Message]:
    if limit < 1:
        raise ValueError(f"limit must be positive, got {limit}")
    chat: list[Message] = [Message(role=message["role"], content=message["content"]) for message in messages]
    answer: str = f"The limit of {limit} was reached without an answer."
    for asked in range(1, limit + 1):
        text: str = model_step(chat.copy())
        if CALL not in text:
            answer = text
            break
        if asked < limit:
            chat.append(Message(role="assistant", content=text))
            chat.append(Message(role="user", content=f"{RESULT}{_outcome(text, tools)}{END_OF_RESULT}"))
    chat.append(Message(role="assistant", content=answer))
    return chat


# ---- given


def token_bytes(tokenizer: Any) -> list[bytes]:
    """Return the bytes of each id of a tokenizer; those of a special token are empty."""
    if hasattr(tokenizer, "token_bytes"):
        return list(tokenizer.token_bytes)
    if hasattr(tokenizer, "id_to_bytes"):
        return [tokenizer.id_to_bytes[i] for i in range(tokenizer.vocab_size)]
    byte_of = {name: byte for byte, name in byte_names().items()}
    special = set(tokenizer.special)
    return [b"" if token in special else bytes(byte_of[name] for name in token) for token in tokenizer.tokens]


def tokens_to_end(table: Mapping[int, Mapping[int, int]], accepting: Collection[int]) -> dict[int, int]:
    """Return for each state of the table the least number of tokens to an accepting state; others are left out."""
    before: dict[int, list[int]] = {}
    for state, row in table.items():
        for after in set(row.values()):
            before.setdefault(after, []).append(state)
    left = {state: 0 for state in table if state in accepting}
    todo = list(left)
    for state in todo:  # it grows meanwhile
        for earlier in before.get(state, ()):
            if earlier not in left:
                left[earlier] = left[state] + 1
                todo.append(earlier)
    return left


def next_logits(model: nn.Module, ids: Sequence[int]) -> Tensor:
    """Call the model once, and return the logits of the token after `ids`, (V,)."""
    config = getattr(model, "config", None)
    window = config.max_len if getattr(config, "positions", None) in ("learned", "sinusoidal") else len(ids)
    with looking_at(model):
        logits = model(torch.tensor([ids[-window:]], device=next(model.parameters()).device))
    return (logits[0] if isinstance(logits, tuple) else logits)[0, -1]
