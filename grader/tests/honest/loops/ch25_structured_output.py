"""In explicit loops: tokens one by one, bytes one after the other, every case with its own branch."""

# What the stub gives and this file does not define, such as parse_pattern, is the reference's.
# ruff: noqa: F821

from __future__ import annotations

import json
import math

import torch

from .ch09_sampling import looking_at, sample_next_token
from .ch16_published_model import byte_names

CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
RESULT, END_OF_RESULT = "<tool_response>", "</tool_response>"


def build_automaton(pattern):
    if isinstance(pattern, str):
        tree = parse_pattern(pattern)
    else:
        tree = pattern
    first = open_stacks([(tree,)])
    states = [first]
    rows = []
    i = 0
    while i < len(states):
        row = [None] * 256
        behind = {}  # sets of stacks that were opened for this state
        for byte in range(256):
            rests = []
            for stack in states[i]:
                if len(stack) > 0 and byte in stack[0].values and stack[1:] not in rests:
                    rests.append(stack[1:])
            if len(rests) == 0:
                continue
            key = frozenset(rests)
            if key not in behind:
                after = open_stacks(rests)
                number = None
                for j in range(len(states)):
                    if states[j] == after:
                        number = j
                        break
                if number is None:
                    if len(states) == MAX_STATES:
                        raise ValueError(f"more than {MAX_STATES} states are needed")
                    number = len(states)
                    states.append(after)
                behind[key] = number
            row[byte] = behind[key]
        rows.append(row)
        i = i + 1
    accepting = set()
    for i in range(len(states)):
        if () in states[i]:
            accepting.add(i)

    def step(state, byte):
        return rows[state][byte]

    return 0, accepting, step


def open_stacks(stacks):
    seen = set()
    todo = []
    for stack in stacks:
        todo.append(stack)
    ready = set()
    while len(todo) > 0:
        stack = todo.pop()
        if stack in seen:
            continue
        seen.add(stack)
        if len(stack) == 0:
            ready.add(stack)
            continue
        top = stack[0]
        below = stack[1:]
        if isinstance(top, Byte):
            ready.add(stack)
        elif isinstance(top, Concat):
            todo.append(top.parts + below)
        elif isinstance(top, Choice):
            for part in top.parts:
                todo.append((part,) + below)
        elif isinstance(top, Repeat):
            if top.least == 0:
                todo.append(below)
            if top.most is None or top.most > 0:
                todo.append((top.part, top.rest) + below)
    return frozenset(ready)


def token_table(automaton, tokens):
    start = automaton[0]
    accepting = automaton[1]
    step = automaton[2]
    tree = {"next": {}, "ids": []}
    for i in range(len(tokens)):
        if len(tokens[i]) == 0:
            continue
        node = tree
        for byte in tokens[i]:
            if byte not in node["next"]:
                node["next"][byte] = {"next": {}, "ids": []}
            node = node["next"][byte]
        node["ids"].append(i)
    table = {}
    todo = [start]
    while len(todo) > 0:
        state = todo.pop(0)
        if state in table:
            continue
        row = {}
        places = [(tree, state)]
        while len(places) > 0:
            node, here = places.pop(0)
            for i in node["ids"]:
                row[i] = here
            for byte in node["next"]:
                after = step(here, byte)
                if after is not None:
                    places.append((node["next"][byte], after))
        table[state] = row
        for i in row:
            todo.append(row[i])
    left = tokens_to_end(table, accepting)
    result = {}
    for state in table:
        if state in left:
            result[state] = {}
            for i in table[state]:
                if table[state][i] in left:
                    result[state][i] = table[state][i]
    return result


def constrain(logits, allowed):
    ids = []
    for i in allowed:
        ids.append(int(i))
    if len(ids) == 0:
        raise ValueError("allowed must have at least one id")
    V = logits.shape[-1]
    for i in ids:
        if i < 0:
            raise ValueError(f"the id {i} in allowed is below 0")
        if i >= V:
            raise ValueError(f"the id {i} in allowed is too large for {V} logits")
    result = torch.full_like(logits, -math.inf)
    for i in ids:
        result[..., i] = logits[..., i]
    return result


def generate_matching(
    model, tokenizer, prompt_ids, automaton, max_new_tokens, temperature=0.0, generator=None, eos_id=None
):
    tokens = token_bytes(tokenizer)
    for i in range(len(tokens)):
        if i == eos_id:
            tokens[i] = b""
    state = automaton[0]
    accepting = automaton[1]
    table = token_table(automaton, tokens)
    left = tokens_to_end(table, accepting)
    if state not in left:
        raise ValueError(f"no text matches, whatever max_new_tokens = {max_new_tokens} is")
    if left[state] > max_new_tokens:
        raise ValueError(f"max_new_tokens = {max_new_tokens} is not enough, {left[state]} are needed")
    text = []
    for token in prompt_ids:
        text.append(token)
    result = []
    while True:
        allowed = []
        for i in table[state]:
            if len(result) + 1 + left[table[state][i]] <= max_new_tokens:
                allowed.append(i)
        if eos_id is not None and state in accepting:
            allowed.append(eos_id)
        if len(allowed) == 0:
            return result
        if len(allowed) == 1:
            token = allowed[0]
        else:
            logits = constrain(next_logits(model, text), allowed)
            token = int(sample_next_token(logits, temperature, generator=generator))
        if token == eos_id:
            return result
        result.append(token)
        text.append(token)
        state = table[state][token]


class JsonGuide:
    def __init__(self, schema):
        check_schema(schema)
        self.automaton = build_automaton(self.tree_of(schema))

    def tree_of(self, schema):
        if "enum" in schema:
            values = []
            for value in schema["enum"]:
                values.append(literal(dumps(value)))
            return Choice(tuple(values))
        if schema["type"] == "array":
            item = self.tree_of(schema["items"])
            following = Concat((literal(", "), item))
            filled = Concat((literal("["), item, Repeat(following, 0, None), literal("]")))
            return Choice((literal("[]"), filled))
        if schema["type"] == "object":
            names = []
            if "properties" in schema:
                for name in schema["properties"]:
                    names.append(name)
            required = []
            if "required" in schema:
                required = schema["required"]
            begin = literal("}")  # the rest of the object while it is empty
            go_on = literal("}")  # the rest of the object behind a property
            i = len(names) - 1
            while i >= 0:
                pair = Concat((literal(dumps(names[i])), literal(": "), self.tree_of(schema["properties"][names[i]]), go_on))
                with_comma = Concat((literal(", "), pair))
                if names[i] in required:
                    begin = pair
                    go_on = with_comma
                else:
                    begin = Choice((pair, begin))
                    go_on = Choice((with_comma, go_on))
                i = i - 1
            return Concat((literal("{"), begin))
        return parse_pattern(JSON_PATTERNS[schema["type"]])

    def allowed(self, text_so_far):
        state = self.automaton[0]
        for byte in text_so_far:
            state = self.automaton[2](state, byte)
            if state is None:
                return set()
        result = set()
        for byte in range(256):
            if self.automaton[2](state, byte) is not None:
                result.add(bytes([byte]))
        if state in self.automaton[1]:
            result.add(b"")
        return result


def parse_call(text):
    begin = text.find(CALL)
    if begin == -1:
        return None
    begin = begin + len(CALL)
    end = text.find(END_OF_CALL, begin)
    if end == -1:
        raise ValueError("the call does not end")

    def no_number(word):
        raise ValueError(f"{word} is not allowed in JSON")

    try:
        call = json.loads(text[begin:end], parse_constant=no_number)
    except RecursionError:
        raise ValueError("the call is nested too deeply") from None
    if not isinstance(call, dict):
        raise ValueError("the call is not an object")
    if len(call) != 2 or "name" not in call or "arguments" not in call:
        raise ValueError("the call must have a name and arguments, and nothing else")
    if not isinstance(call["name"], str):
        raise ValueError("the name must be a text")
    if not isinstance(call["arguments"], dict):
        raise ValueError("the arguments must be an object")
    return call["name"], call["arguments"]


def run_tools(model_step, tools, messages, limit):
    if limit < 1:
        raise ValueError(f"limit = {limit} is below 1")
    chat = []
    for message in messages:
        chat.append(dict(message))
    for n in range(1, limit + 1):
        given = []
        for message in chat:
            given.append(message)
        text = model_step(given)
        if CALL not in text:
            break
        if n == limit:
            text = f"The limit of {limit} is reached, and there is no answer."
            break
        chat.append({"role": "assistant", "content": text})
        try:
            name, arguments = parse_call(text)
            if name in tools:
                result = str(tools[name](**arguments))
            else:
                result = f"error: there is no tool {name}. There are:"
                for other in tools:
                    result = result + " " + other
        except Exception as error:
            result = "error: " + type(error).__name__ + ": " + str(error)
        chat.append({"role": "user", "content": RESULT + result + END_OF_RESULT})
    chat.append({"role": "assistant", "content": text})
    return chat


# ---- given


def token_bytes(tokenizer):
    """Return the bytes of each id of a tokenizer; those of a special token are empty."""
    if hasattr(tokenizer, "token_bytes"):
        return list(tokenizer.token_bytes)
    if hasattr(tokenizer, "id_to_bytes"):
        return [tokenizer.id_to_bytes[i] for i in range(tokenizer.vocab_size)]
    byte_of = {name: byte for byte, name in byte_names().items()}
    special = set(tokenizer.special)
    return [b"" if token in special else bytes(byte_of[name] for name in token) for token in tokenizer.tokens]


def tokens_to_end(table, accepting):
    """Return for each state of the table the least number of tokens to an accepting state; others are left out."""
    before = {}
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


def next_logits(model, ids):
    """Call the model once, and return the logits of the token after `ids`, (V,)."""
    config = getattr(model, "config", None)
    window = config.max_len if getattr(config, "positions", None) in ("learned", "sinusoidal") else len(ids)
    with looking_at(model):
        logits = model(torch.tensor([ids[-window:]], device=next(model.parameters()).device))
    return (logits[0] if isinstance(logits, tuple) else logits)[0, -1]
