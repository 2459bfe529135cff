"""Chapter 25: text that a program can read.

A model writes tokens, and a token is a string of bytes. So everything here goes byte by byte, in UTF-8: "é" is two
bytes, and one token may end between them. An automaton is a tuple (start, accepting, step): the state before the first
byte, the set of states in which a text may end, and a function. `step(state, byte)` returns the state after one more
byte, 0 to 255, or None if this byte cannot come next. States are ints, in any numbering.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .ch09_sampling import looking_at, sample_next_token
from .ch16_published_model import byte_names

Automaton = tuple[int, set[int], Callable[[int, int], "int | None"]]
Table = dict[int, dict[int, int]]
Stack = tuple[Any, ...]  # what is still to be matched, the next part first
Found = TypeVar("Found", bound=Hashable)

MAX_STATES = 1_000  # of an automaton
MAX_CHARACTERS = 1_000  # of a pattern
MAX_SIZE = 2_000  # of a pattern, with all copies of what is repeated; and of a schema
MAX_DEPTH = 30  # of groups in a pattern, and of values in a schema
CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
RESULT, END_OF_RESULT = "<tool_response>", "</tool_response>"


def build_automaton(pattern: str | Tree) -> Automaton:
    """Return an automaton that accepts the UTF-8 bytes of exactly those texts that the whole pattern matches.

    Its step returns None exactly where no text that matches goes on like this.

    `parse_pattern` (below) reads a pattern for you, and its docstring says which patterns there are. It returns a tree,
    and you may also be given such a tree. There are four kinds of nodes. Byte(values) matches one byte that is in
    `values`. Concat(parts) matches its parts one after the other, and without parts the empty text. Choice(parts)
    matches one of its parts. A Byte has at least one value, and a Choice at least one part. Repeat(part, least, most)
    matches `least` to `most` copies of its part, without an upper limit if `most` is None; the attribute `rest` is the
    Repeat that remains behind one copy. A node may be in several places of a tree. Two nodes are equal only if they are
    the same object, so take `rest` and do not make another Repeat: then a stack that comes back is equal to the one
    that you have seen.

    One way: a stack is a tuple of what is still to be matched, the next part first. Because of Choice and Repeat there
    may be several stacks after the same bytes, so a state is a set of stacks.

    For a pattern that is wrong, parse_pattern raises a ValueError that names its place. Raises a ValueError if your
    automaton has more than MAX_STATES states; `number_states` (below) does that.
    """
    # TODO 1: parse the pattern if it is a str
    # TODO 2: write a function that replaces the top of stacks until every stack is empty or has a Byte at the top.
    #         Handle each stack once: a part that matches the empty text may lead back to the same stack
    # TODO 3: write a function that returns, for each byte that can follow a set of stacks, the set after it.
    #         group_bytes (below) finds the bytes that lead to the same stacks, so that you open these only once
    # TODO 4: give numbers to the sets with number_states (below); a text may end in a set with the empty stack
    ### BEGIN SOLUTION
    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern

    def top_kind(stack: Stack) -> str:
        """The name of the class, because another copy of this file may have made the tree."""
        return type(stack[0]).__name__ if stack else "empty"

    @cache  # many bytes lead to the same stacks
    def opened(stacks: frozenset[Stack]) -> frozenset[Stack]:
        seen, todo = set(stacks), list(stacks)
        while todo:
            stack = todo.pop()
            if top_kind(stack) in ("Byte", "empty"):
                continue
            top, below = stack[0], stack[1:]
            if top_kind(stack) == "Concat":
                instead = [top.parts + below]
            elif top_kind(stack) == "Choice":
                instead = [(part, *below) for part in top.parts]
            else:
                instead = [below] if top.least == 0 else []
                if top.most != 0:
                    instead.append((top.part, top.rest, *below))
            todo += [stack for stack in instead if stack not in seen]
            seen.update(instead)
        return frozenset(stack for stack in seen if top_kind(stack) in ("Byte", "empty"))

    def moves(stacks: frozenset[Stack]) -> dict[int, frozenset[Stack]]:
        groups = group_bytes([(stack[0].values, stack[1:]) for stack in stacks if stack])
        found: dict[int, frozenset[Stack]] = {}
        for values, rests in groups:
            after = opened(rests)
            found.update((byte, after) for byte in values)
        return found

    return number_states(opened(frozenset([(tree,)])), moves, lambda stacks: () in stacks)
    ### END SOLUTION


def token_table(automaton: Automaton, tokens: Sequence[bytes]) -> Table:
    """Return for each state which tokens may come next, and the state after each: {state: {token id: next state}}.

    `tokens[i]` are the bytes of the token with the id i. A token may come next if the automaton can make all its steps,
    and if after it some sequence of tokens, perhaps none, leads to an accepting state. The keys are the start and all
    states that such tokens reach; a state where nothing may follow has an empty dict. If no sequence of tokens leads
    from the start to an accepting state, the table is empty. Tokens without bytes, such as special tokens, never come
    next; tokens with equal bytes come next together.

    Tokens that begin alike share their steps: for each state of the table, `step` is called at most once for each
    different beginning of a token, and never behind a None.
    """
    # TODO 1: make a tree of the tokens: from each beginning, a dict from the next byte to the longer beginning; and the
    #         ids that end here
    # TODO 2: write a function that goes through this tree with the automaton, from one state, and returns where each
    #         token leads
    # TODO 3: begin with the start, and do the same for each new state that a token leads to
    # TODO 4: with tokens_to_end (below), leave out the states from which nothing can end, and the tokens that lead
    #         there
    ### BEGIN SOLUTION
    start, accepting, step = automaton
    root: tuple[dict, list[int]] = ({}, [])
    for i, token in enumerate(tokens):
        node = root
        for byte in token:
            node = node[0].setdefault(byte, ({}, []))
        node[1].append(i)
    root[1].clear()  # tokens without bytes

    def row(state: int) -> dict[int, int]:
        found, todo = {}, [(root, state)]
        while todo:
            (longer, ids), here = todo.pop()
            for i in ids:
                found[i] = here
            for byte, node in longer.items():
                after = step(here, byte)
                if after is not None:
                    todo.append((node, after))
        return found

    table: Table = {}
    todo = [start]
    while todo:
        state = todo.pop()
        if state not in table:
            table[state] = row(state)
            todo += set(table[state].values())
    left = tokens_to_end(table, accepting)
    living = {state: found for state, found in table.items() if state in left}
    return {state: {i: after for i, after in found.items() if after in left} for state, found in living.items()}
    ### END SOLUTION


def constrain(logits: Tensor, allowed: Collection[int] | Tensor) -> Tensor:
    """Keep the logits of the allowed ids, and set the others to -inf: (..., V) -> (..., V), a new tensor.

    `allowed` is a list, a set, the keys of a dict or an int64 tensor (n,), whose ids may repeat; with a tensor it takes
    less time. After a softmax, the allowed ids have the same proportions as before, and the others have probability 0.
    Logits that stay are unchanged, with the same dtype and device. Whether the result has a gradient does not matter.
    Raises a ValueError that names `allowed` if it is empty, and one that names an id that is below 0 or not below V.
    """
    # TODO 1: make an int64 tensor of the ids, on the device of the logits, and check it
    # TODO 2: make a new tensor of -inf, and copy the allowed logits into it
    ### BEGIN SOLUTION
    ids = allowed if isinstance(allowed, Tensor) else torch.tensor(list(allowed), dtype=torch.int64)
    if len(ids) == 0:
        raise ValueError("allowed is empty, but at least one token must be possible")
    for extreme in (int(ids.min()), int(ids.max())):
        if not 0 <= extreme < logits.size(-1):
            raise ValueError(f"the allowed id {extreme} is not one of 0 to {logits.size(-1) - 1}")
    ids = ids.to(logits.device)
    constrained = torch.full_like(logits, -math.inf)
    constrained[..., ids] = logits[..., ids]
    return constrained
    ### END SOLUTION


def generate_matching(
    model: nn.Module,
    tokenizer: Any,
    prompt_ids: Sequence[int],
    automaton: Automaton,
    max_new_tokens: int,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    eos_id: int | None = None,
) -> list[int]:
    """Let a model continue a prompt with at most max_new_tokens tokens whose bytes together match; return their ids.

    `token_bytes(tokenizer)` (below) returns the bytes of each id. The prompt need not match anything. A token may come
    next if, after it, the text can still be completed within max_new_tokens. If the text matches, eos_id may come next
    too, also without room for a token: it ends the text, is not in the result, and its own bytes are never written. The
    text also ends where no token may come next. So without eos_id, the model goes on as long as it can, up to
    max_new_tokens tokens.

    If only one id may come next, it is taken without asking the model. Otherwise next_logits (below) calls the model
    once for the prompt with all new tokens, and sample_next_token chooses from the constrained logits, with the
    temperature and the generator. The result always matches. Raises a ValueError that names max_new_tokens, before the
    model is called, if no text of so few tokens matches. Runs in eval mode without gradient, and restores each module's
    mode. The model may be on any device.
    """
    # TODO 1: make the table from token_bytes (below); eos_id has no bytes there. With tokens_to_end (below), check that
    #         max_new_tokens suffices
    # TODO 2: repeat: collect the ids that may come next; stop if there are none
    # TODO 3: with one id, take it; otherwise get the logits from next_logits (below), constrain them, and choose
    # TODO 4: stop at eos_id; otherwise keep the id, and go to the state after it
    ### BEGIN SOLUTION
    state, accepting, _ = automaton
    table = token_table(automaton, [b"" if i == eos_id else token for i, token in enumerate(token_bytes(tokenizer))])
    left = tokens_to_end(table, accepting)
    if state not in table or left[state] > max_new_tokens:
        need = f"the shortest has {left[state]}" if state in table else "these tokens can write none at all"
        raise ValueError(f"no text of at most max_new_tokens = {max_new_tokens} tokens matches; {need}")
    prompt, new = list(prompt_ids), list[int]()
    while True:
        room = max_new_tokens - len(new) - 1  # after the next token
        allowed = [i for i, after in table[state].items() if left[after] <= room]
        if eos_id is not None and state in accepting:
            allowed.append(eos_id)
        if not allowed:
            return new
        if len(allowed) == 1:
            chosen = allowed[0]
        else:
            logits = constrain(next_logits(model, prompt + new), allowed)  # (V,)
            chosen = int(sample_next_token(logits, temperature, generator=generator))
        if chosen == eos_id:
            return new
        new.append(chosen)
        state = table[state][chosen]
    ### END SOLUTION


class JsonGuide:
    """Says byte by byte how a JSON text may go on, so that the schema holds for it.

    A schema is a dict. It has an "enum", a list of texts, numbers, booleans or None: the value is one of them. Or it
    has a "type": "string", "number", "integer", "boolean", "null", "array" with the schema of all "items", or "object"
    with "properties", a dict from names to schemas, and "required", a list of names; both may be missing. For
    everything else, `check_schema` (below) raises a ValueError that names the place, such as $.address.city, and says
    what is wrong.

    The text is written as by json.dumps(value, ensure_ascii=False): ", " and ": " are the only white space outside
    texts. The properties of an object come in the order of the schema, each at most once, those that are not required
    perhaps not at all, and no others. Names and the values of an enum are written exactly as by `dumps` (below). How
    the other texts and numbers are written is in JSON_PATTERNS (below).

    Attribute: `automaton`, which accepts exactly these texts, for token_table and generate_matching. Raises a
    ValueError if it would have more than MAX_STATES states.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # TODO 1: check the schema, and build the automaton of its tree
        ### BEGIN SOLUTION
        check_schema(schema)
        self.automaton = build_automaton(self.tree_of(schema))
        ### END SOLUTION

    def tree_of(self, schema: Mapping[str, Any]) -> Tree:
        """Return a tree (see build_automaton) for the JSON texts of a schema. (Not tested by itself.)"""
        # TODO 2: an enum: `literal` (below) makes the tree of a fixed text
        # TODO 3: an array: perhaps nothing between [ and ], or one item and any number of items behind a comma
        # TODO 4: an object, from its last property to the first: build what may follow if nothing has been written yet,
        #         and what may follow behind a value, which begins with ", " or is empty; a property that is not
        #         required may be left out
        # TODO 5: the other types have their patterns in JSON_PATTERNS
        ### BEGIN SOLUTION
        if "enum" in schema:
            return Choice(tuple(literal(dumps(value)) for value in schema["enum"]))
        if schema["type"] == "array":
            item = self.tree_of(schema["items"])
            more = Repeat(Concat((literal(", "), item)), 0, None)
            return Concat((literal("["), Repeat(Concat((item, more)), 0, 1), literal("]")))
        if schema["type"] == "object":
            first: Tree = Concat(())  # what may follow if nothing has been written yet
            later: Tree = Concat(())  # what may follow behind a value
            for name, inner in reversed(schema.get("properties", {}).items()):
                member = Concat((literal(dumps(name) + ": "), self.tree_of(inner), later))
                behind = Concat((literal(", "), member))
                needed = name in schema.get("required", ())
                first = member if needed else Choice((member, first))
                later = behind if needed else Choice((behind, later))
            return Concat((literal("{"), first, literal("}")))
        return parse_pattern(JSON_PATTERNS[schema["type"]])
        ### END SOLUTION

    def allowed(self, text_so_far: bytes) -> set[bytes]:
        """Return what may come next: single bytes such as b"a", and b"" if the text may end here.

        A byte may come next if the text with it can still be completed. If text_so_far is itself no beginning of a text
        that the guide accepts, the result is the empty set.
        """
        # TODO 6: make the steps of the text with the automaton; then find the bytes that can follow, and whether the
        #         text may end
        ### BEGIN SOLUTION
        state, accepting, step = self.automaton
        for byte in text_so_far:
            after = step(state, byte)
            if after is None:
                return set()
            state = after
        found = {bytes([byte]) for byte in range(256) if step(state, byte) is not None}
        return found | {b""} if state in accepting else found
        ### END SOLUTION


def parse_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Read the first call of a tool in a model's text: return the tool's name and the arguments, or None without one.

    A call begins with CALL and ends before the next END_OF_CALL, also if that is inside a text of the arguments.
    Between them is a JSON object with exactly two keys: "name", a text, and "arguments", an object. What is before and
    behind the call does not matter. A text without CALL has no call. Raises a ValueError that says what is wrong if
    END_OF_CALL is missing, if what is between is no JSON or too deeply nested for json.loads, or if it is another
    value. NaN and Infinity are no JSON. Nothing in the text is ever run.
    """
    # TODO 1: find CALL; without it, return None. Find END_OF_CALL behind it
    # TODO 2: read what is between with json.loads; it may raise a RecursionError too, and its parse_constant is for NaN
    # TODO 3: check the keys and both types
    ### BEGIN SOLUTION
    _, begins, rest = text.partition(CALL)
    if not begins:
        return None
    inner, ends, _ = rest.partition(END_OF_CALL)
    if not ends:
        raise ValueError(f"the call has no {END_OF_CALL} at its end")

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        call = json.loads(inner, parse_constant=refuse)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"what is between {CALL} and {END_OF_CALL} cannot be read: {problem}") from None
    if not isinstance(call, dict) or set(call) != {"name", "arguments"}:
        raise ValueError('a call is an object with exactly the keys "name" and "arguments"')
    if not isinstance(call["name"], str) or not isinstance(call["arguments"], dict):
        raise ValueError('the "name" of a call must be a text, and its "arguments" an object')
    return call["name"], call["arguments"]
    ### END SOLUTION


def run_tools(
    model_step: Callable[[list[dict[str, str]]], str],
    tools: Mapping[str, Callable[..., Any]],
    messages: Sequence[Mapping[str, str]],
    limit: int,
) -> list[dict[str, str]]:
    """Let a model call tools until it answers; return all messages, first those given, at the end the answer.

    A message has a "role" and a "content". `model_step` gets a list of all messages so far and returns the next text of
    the model, a message of the role "assistant". A text without a call is the answer. A call runs
    tools[name](**arguments), and the next message has the role "user" and the content RESULT, what came back,
    END_OF_RESULT, without anything between them. What came back is str(result). If something went wrong, it is a text
    that begins with "error: " and says what: for an unknown tool its name and the names of the tools; otherwise the
    class and the message of the exception, whether parse_call raised it or the call of the tool, for example because of
    wrong arguments.

    The model is asked at most `limit` times. If its last text has a call too, right or wrong, that call does not run,
    and instead of the text, the last message of the assistant is a sentence with the number `limit`. `messages` is not
    changed. An exception that is no Exception, such as KeyboardInterrupt, ends everything, and so does every exception
    of model_step. Raises a ValueError that names `limit` if it is below 1.
    """
    # TODO 1: check the limit, and copy the messages
    # TODO 2: at most `limit` times: ask the model. If parse_call finds no call, add the text and return
    # TODO 3: at the last time, add a sentence and return. Otherwise run the tool; what goes wrong in a call becomes a text
    # TODO 4: add the model's text and what came back
    ### BEGIN SOLUTION
    if limit < 1:
        raise ValueError(f"limit = {limit}, but the model must be asked at least once")
    chat = [dict(message) for message in messages]

    def run(text: str) -> str:
        try:
            name, arguments = parse_call(text)
            if name not in tools:
                return f"error: there is no tool {name!r}; the tools are {', '.join(tools)}"
            return str(tools[name](**arguments))
        except Exception as problem:
            return f"error: {type(problem).__name__}: {problem}"

    for _ in range(limit - 1):
        text = model_step(chat)
        if CALL not in text:
            return [*chat, {"role": "assistant", "content": text}]
        content = RESULT + run(text) + END_OF_RESULT
        chat = [*chat, {"role": "assistant", "content": text}, {"role": "user", "content": content}]
    text = model_step(chat)
    if CALL in text:
        text = f"I have no answer: the limit of {limit} texts is reached, and the last one is still a call of a tool."
    return [*chat, {"role": "assistant", "content": text}]
    ### END SOLUTION


# ---- given: the rest of the file is complete, and you need not change it


def token_bytes(tokenizer: Any) -> list[bytes]:
    """Return the bytes of each id of a tokenizer; those of a special token are empty.

    A tokenizer may have them as a list `token_bytes`. The BPETokenizer of chapter 1 has them in `id_to_bytes`; if yours
    has another name for it, add this one. The tokenizer of chapter 16 has their names in `tokens`, and its special
    tokens in `special`.
    """
    if hasattr(tokenizer, "token_bytes"):
        return list(tokenizer.token_bytes)
    if hasattr(tokenizer, "id_to_bytes"):
        return [tokenizer.id_to_bytes[i] for i in range(tokenizer.vocab_size)]
    byte_of = {name: byte for byte, name in byte_names().items()}
    special = set(tokenizer.special)
    return [b"" if token in special else bytes(byte_of[name] for name in token) for token in tokenizer.tokens]


def tokens_to_end(table: Table, accepting: Collection[int]) -> dict[int, int]:
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
    """Call the model once, and return the logits of the token after `ids`, (V,).

    The model sees as much as in `generate` of chapter 9.
    """
    config = getattr(model, "config", None)
    window = config.max_len if getattr(config, "positions", None) in ("learned", "sinusoidal") else len(ids)
    with looking_at(model):
        logits = model(torch.tensor([ids[-window:]], device=next(model.parameters()).device))
    return (logits[0] if isinstance(logits, tuple) else logits)[0, -1]


def number_states(
    start: Found, moves: Callable[[Found], Mapping[int, Found]], accepts: Callable[[Found], bool]
) -> Automaton:
    """Give the start and everything that moves lead to a number, and return them as an automaton.

    `moves(state)` returns the next state for each byte that can follow. Raises a ValueError for more than MAX_STATES
    states.
    """
    numbers, found, table = {start: 0}, [start], []
    for state in found:  # it grows meanwhile
        row = {}
        for byte, after in moves(state).items():
            if after not in numbers:
                if len(found) == MAX_STATES:
                    raise ValueError(f"the automaton has more than {MAX_STATES} states; allow simpler texts")
                numbers[after] = len(found)
                found.append(after)
            row[byte] = numbers[after]
        table.append(row)
    accepting = {numbers[state] for state in found if accepts(state)}
    return 0, accepting, lambda state, byte: table[state].get(byte)


def group_bytes(pairs: Collection[tuple[Collection[int], Stack]]) -> list[tuple[list[int], frozenset[Stack]]]:
    """Group the bytes that lead to the same stacks.

    Each pair is a set of bytes, and one stack to which each of them leads. Returns pairs: bytes, and all stacks to
    which they lead.
    """
    stacks: dict[frozenset[int], set[Stack]] = {}
    for values, stack in pairs:
        stacks.setdefault(frozenset(values), set()).add(stack)
    alike: dict[tuple[frozenset[int], ...], list[int]] = {}
    for byte in set().union(*stacks):
        alike.setdefault(tuple(values for values in stacks if byte in values), []).append(byte)
    return [(found, frozenset().union(*(stacks[values] for values in sets))) for sets, found in alike.items()]


@dataclass(frozen=True, eq=False)
class Byte:
    """One byte that is in `values`."""

    values: frozenset[int]


@dataclass(frozen=True, eq=False)
class Concat:
    """All parts, one after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """One of the parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, eq=False)
class Repeat:
    """`least` to `most` copies of the part; without an upper limit if `most` is None."""

    part: Tree
    least: int
    most: int | None

    @cached_property
    def rest(self) -> Repeat:
        """What remains behind one copy, always the same object."""
        if self.most is None and self.least == 0:
            return self
        return Repeat(self.part, max(self.least - 1, 0), None if self.most is None else self.most - 1)


Tree = Byte | Concat | Choice | Repeat
LAST_CHARACTER = 0x10FFFF
CLASSES = {"d": [(48, 57)], "w": [(48, 57), (65, 90), (95, 95), (97, 122)], "s": [(9, 13), (32, 32)]}
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
SPECIAL = "\\.[](){}?*+|^$"


def parse_pattern(pattern: str) -> Tree:
    """Return the tree of a pattern, which is a part of the regular expressions of `re`, for the whole text.

    A character stands for itself. A backslash comes before one of \\ . [ ] ( ) { } ? * + | ^ $ or another character
    that is no letter or digit and means it; \\n, \\r and \\t are a line end, a return and a tabulator. `.` is every
    character but a line end. [abx-z] is one of these characters, [^abx-z] every other one; there \\ ] ^ and - need a
    backslash, but - not as the first or last character. \\d is [0-9], \\w is [A-Za-z0-9_], and \\s is a space or one of
    the characters 9 to 13, also inside [ ]. Behind a character, a class or a group ( ) come at most one of ? * + {m}
    {m,} {m,n}. a|b is a or b, and each side may be empty.

    Raises a ValueError with the place for everything else, for more than MAX_CHARACTERS characters, for groups more
    than MAX_DEPTH deep, and for a tree of more than MAX_SIZE bytes with all copies of what is repeated.
    """
    return _PatternReader(pattern).read()


class _PatternReader:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.place, self.depth = pattern, 0, 0
        if len(pattern) > MAX_CHARACTERS:
            raise self.error(MAX_CHARACTERS, f"the pattern has more than {MAX_CHARACTERS} characters")
        for place, character in enumerate(pattern):
            if "\ud800" <= character <= "\udfff":
                raise self.error(place, "half of a surrogate pair has no bytes")

    def error(self, place: int, problem: str) -> ValueError:
        return ValueError(f"the pattern {self.pattern[:60]!r} is wrong at {place}: {problem}")

    def next_is(self, characters: str) -> bool:
        return self.place < len(self.pattern) and self.pattern[self.place] in characters

    def take(self) -> str:
        self.place += 1
        return self.pattern[self.place - 1]

    def read(self) -> Tree:
        tree, _ = self.choice()
        if self.place < len(self.pattern):
            raise self.error(self.place, "this ) closes no group")
        return tree

    def choice(self) -> tuple[Tree, int]:
        """A tree and its size, here and in the other methods."""
        parts: list[Tree] = []
        size = 0
        while True:
            sequence, more = self.sequence()
            parts.append(sequence)
            size += more
            if not self.next_is("|"):
                return (parts[0] if len(parts) == 1 else Choice(tuple(parts))), size
            self.take()

    def sequence(self) -> tuple[Tree, int]:
        parts: list[Tree] = []
        size = 1
        while self.place < len(self.pattern) and not self.next_is("|)"):
            began = self.place
            part, more = self.repeated()
            parts.append(part)
            size += more
            if size > MAX_SIZE:
                raise self.error(began, f"the pattern has more than {MAX_SIZE} bytes")
        return (parts[0] if len(parts) == 1 else Concat(tuple(parts))), size

    def repeated(self) -> tuple[Tree, int]:
        if self.next_is("?*+{"):
            raise self.error(self.place, f"there is nothing that {self.pattern[self.place]} could repeat")
        part, size = self.single()
        if not self.next_is("?*+{"):
            return part, size
        place = self.place
        least, most = self.bounds()
        if self.next_is("?*+{"):
            raise self.error(self.place, "a repetition cannot be repeated; put ( ) around it")
        size *= max(least + 1 if most is None else most, 1)
        if size > MAX_SIZE:
            raise self.error(place, f"the repetition makes more than {MAX_SIZE} bytes")
        return Repeat(part, least, most), size

    def bounds(self) -> tuple[int, int | None]:
        place, sign = self.place, self.take()
        if sign != "{":
            return {"?": (0, 1), "*": (0, None), "+": (1, None)}[sign]
        inner, ends, _ = self.pattern[self.place :].partition("}")
        first, comma, second = inner.partition(",")
        numbers = [first, second] if second else [first]
        if not ends or not all(number.isascii() and number.isdigit() for number in numbers):
            raise self.error(place, "{ must be {m}, {m,} or {m,n}; a backslash before it makes it a character")
        self.place += len(inner) + 1
        least = int(first)
        most = int(second) if second else None if comma else least
        if most is not None and most < least:
            raise self.error(place, f"{{{inner}}} has its larger number first")
        return least, most

    def single(self) -> tuple[Tree, int]:
        place, character = self.place, self.take()
        if character == "(":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self.error(place, f"groups are more than {MAX_DEPTH} deep")
            found = self.choice()
            if not self.next_is(")"):
                raise self.error(place, "this ( is never closed")
            self.take()
            self.depth -= 1
            return found
        if character == "[":
            ranges = self.character_class(place)
        elif character == ".":
            ranges = others([(10, 10)])
        elif character == "\\":
            ranges = self.escape(place)
        elif character in SPECIAL:
            raise self.error(place, f"a backslash must stand before {character} here")
        else:
            ranges = [(ord(character), ord(character))]
        sequences = byte_sequences(ranges)
        if not sequences:
            raise self.error(place, "no character is left")
        return self.characters(sequences)

    def characters(self, sequences: list[tuple[frozenset[int], ...]]) -> tuple[Tree, int]:
        """One of the sequences; those that end with the same bytes share them."""
        beginnings: dict[frozenset[int], list[tuple[frozenset[int], ...]]] = {}
        for sequence in sequences:
            beginnings.setdefault(sequence[-1], []).append(sequence[:-1])
        parts: list[Tree] = []
        size = len(beginnings)
        for last, before in beginnings.items():
            if before == [()]:
                parts.append(Byte(last))
            else:
                tree, more = self.characters(before)
                parts.append(Concat((tree, Byte(last))))
                size += more
        return (parts[0] if len(parts) == 1 else Choice(tuple(parts))), size

    def escape(self, place: int) -> list[tuple[int, int]]:
        if self.place == len(self.pattern):
            raise self.error(place, "nothing stands behind the backslash")
        character = self.take()
        if character in CLASSES:
            return CLASSES[character]
        if character in ESCAPES or not character.isalnum():
            code = ord(ESCAPES.get(character, character))
            return [(code, code)]
        raise self.error(place, f"\\{character} is not supported")

    def character_class(self, place: int) -> list[tuple[int, int]]:
        ranges: list[tuple[int, int]] = []
        inverted = self.next_is("^")
        if inverted:
            self.take()
        first = self.place
        while not self.next_is("]"):
            began = self.place
            if began == len(self.pattern):
                raise self.error(place, "this [ is never closed")
            low = self.class_character(first)
            if self.next_is("-") and self.pattern[self.place + 1 : self.place + 2] not in ("]", ""):
                self.take()
                high = self.class_character(first)
                if len(low) > 1 or len(high) > 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1]:
                    raise self.error(began, "a range goes from one character to another")
                if high[0][0] < low[0][0]:
                    raise self.error(began, "this range has its larger character first")
                low = [(low[0][0], high[0][0])]
            ranges += low
        self.take()
        if not ranges:
            raise self.error(place, "there is no character between [ and ]")
        return others(ranges) if inverted else ranges

    def class_character(self, first: int) -> list[tuple[int, int]]:
        place, character = self.place, self.take()
        if character == "\\":
            return self.escape(place)
        if character == "^" or character == "-" and place != first and not self.next_is("]"):
            raise self.error(place, f"a backslash must stand before {character} here")
        return [(ord(character), ord(character))]


def others(ranges: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """All characters that are in none of the ranges (first, last) of code points, as ranges."""
    found, begin = [], 0
    for first, last in sorted(ranges):
        if begin < first:
            found.append((begin, first - 1))
        begin = max(begin, last + 1)
    return [*found, (begin, LAST_CHARACTER)] if begin <= LAST_CHARACTER else found


def byte_sequences(ranges: Collection[tuple[int, int]]) -> list[tuple[frozenset[int], ...]]:
    """How UTF-8 writes the characters of these ranges: as one of these sequences of sets of bytes."""
    single: set[int] = set()
    found: list[tuple[frozenset[int], ...]] = []
    for first, last in ranges:
        # characters of one to four bytes, without the surrogates
        for low, high in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, LAST_CHARACTER)):
            low, high = max(low, first), min(high, last)
            if low <= high:
                sequences = _between(chr(low).encode(), chr(high).encode())
                single.update(*(sequence[0] for sequence in sequences if len(sequence) == 1))
                found += [sequence for sequence in sequences if len(sequence) > 1]
    return [*([(frozenset(single),)] if single else []), *dict.fromkeys(found)]


def _between(low: bytes, high: bytes) -> list[tuple[frozenset[int], ...]]:
    """Sequences of sets of bytes for everything from `low` to `high`, two characters of equally many bytes."""
    if len(low) == 1:
        return [(frozenset(range(low[0], high[0] + 1)),)]
    least, most = b"\x80" * (len(low) - 1), b"\xbf" * (len(low) - 1)
    if low[0] == high[0]:
        return [(frozenset(low[:1]), *rest) for rest in _between(low[1:], high[1:])]
    found, begin, end = [], low[0], high[0]
    if low[1:] != least:
        found += [(frozenset([begin]), *rest) for rest in _between(low[1:], most)]
        begin += 1
    if high[1:] != most:
        found += [(frozenset([end]), *rest) for rest in _between(least, high[1:])]
        end -= 1
    if begin <= end:
        found += [(frozenset(range(begin, end + 1)), *rest) for rest in _between(least, most)]
    return found


def dumps(value: Any) -> str:
    """A value as JSON, on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def literal(text: str) -> Tree:
    """The tree of a fixed text."""
    return Concat(tuple(Byte(frozenset([byte])) for byte in text.encode()))


# In a text: every character but ", \ and the first 32, or an escape of two characters. A number has at most 15 digits
# before the point and at most 15 behind it, and no exponent.
INTEGER = "-?(0|[1-9][0-9]{0,14})"
JSON_PATTERNS = {
    "string": '"([^"\\\\\0-\x1f]|\\\\["\\\\/bfnrt])*"',
    "integer": INTEGER,
    "number": INTEGER + "(\\.[0-9]{1,15})?",
    "boolean": "true|false",
    "null": "null",
}
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
NOTES = ("title", "description", "default", "examples", "$schema", "$comment")  # they change nothing
KEYS = {"object": ("properties", "required", "additionalProperties"), "array": ("items",)}


def check_schema(schema: Any, place: str = "$", depth: int = 1, size: list[int] | None = None) -> None:
    """Raise a ValueError that says what and where if JsonGuide does not support a schema.

    `place` is such as $.address.city or $.names[]. "title", "description", "default", "examples", "$schema" and
    "$comment" change nothing, and so does a boolean "additionalProperties". An enum may have a "type", and its values
    must fit it. Schemas are at most MAX_DEPTH deep. Schemas, names, values and the characters in them are together at
    most MAX_SIZE.
    """
    size = size or [0]

    def wrong(problem: str) -> ValueError:
        return ValueError(f"the schema cannot be used at {place[:200]}: {problem}")

    def count(text: str) -> None:
        size[0] += 1 + len(text)
        if size[0] > MAX_SIZE:
            raise wrong(f"the names and values of the schema have more than {MAX_SIZE} characters")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise wrong("half of a surrogate pair has no bytes")

    if not isinstance(schema, Mapping):
        raise wrong(f"a schema is an object, not {type(schema).__name__}")
    if depth > MAX_DEPTH:
        raise wrong(f"it is more than {MAX_DEPTH} schemas deep")
    kind = schema.get("type")
    if kind is not None and kind not in TYPES:
        raise wrong(f"the type {kind!r} is not one of {', '.join(TYPES)}")
    if kind is None and "enum" not in schema:
        raise wrong('it has neither a "type" nor an "enum"')
    known = ("type", "enum") if "enum" in schema else ("type", *KEYS.get(kind or "", ()))
    for key in schema:
        if key not in known and key not in NOTES:
            raise wrong(f"{key!r} is not supported here")
    count("")
    if "enum" in schema:
        if not isinstance(schema["enum"], list | tuple) or not schema["enum"]:
            raise wrong('"enum" is a list of at least one value')
        for i, value in enumerate(schema["enum"]):
            if not _fits(value, kind):
                raise wrong(f"value {i} of \"enum\" is no {kind or 'text, number, boolean or null'}")
            count(dumps(value))
    elif kind == "array":
        if "items" not in schema:
            raise wrong('an array needs "items"')
        check_schema(schema["items"], f"{place}[]", depth + 1, size)
    elif kind == "object":
        properties, required = schema.get("properties", {}), schema.get("required", ())
        if not isinstance(properties, Mapping) or not all(isinstance(name, str) for name in properties):
            raise wrong('"properties" is an object from names to schemas')
        if not isinstance(required, list | tuple):
            raise wrong('"required" is a list of names')
        if not isinstance(schema.get("additionalProperties", False), bool):
            raise wrong('"additionalProperties" is true or false')
        for name in required:
            if not isinstance(name, str) or name not in properties:
                raise wrong(f"the required name {str(name)[:60]!r} is not in \"properties\"")
        for name, inner in properties.items():
            count(name)
            check_schema(inner, f"{place}.{name}", depth + 1, size)


def _fits(value: Any, kind: str | None) -> bool:
    """Is this a text, a finite number, a boolean or None, and of this JSON type if there is one?"""
    if isinstance(value, bool):
        return kind in (None, "boolean")
    if isinstance(value, int | float):
        finite = abs(value) < 1e308  # a longer whole number might be more than Python reads
        return finite and (kind in (None, "number") or kind == "integer" and value == int(value))
    return kind in (None, "string") if isinstance(value, str) else value is None and kind in (None, "null")
