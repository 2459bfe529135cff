"""Chapter 25 in the terse style: as short as it can be read."""

# What the stub gives and this file does not define, such as parse_pattern, is the reference's.
# ruff: noqa: F821

from __future__ import annotations

import json
from functools import cache

import torch

from .ch09_sampling import looking_at, sample_next_token
from .ch16_published_model import byte_names

CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
RESULT, END_OF_RESULT = "<tool_response>", "</tool_response>"


def build_automaton(pattern):
    def top(s):
        return [s] if not s or isinstance(s[0], Byte) else None

    def ways(s):
        t, *below = s
        if isinstance(t, Concat):
            return [(*t.parts, *below)]
        if isinstance(t, Choice):
            return [(p, *below) for p in t.parts]
        return [tuple(below)] * (t.least == 0) + [(t.part, t.rest, *below)] * (t.most != 0)

    @cache
    def opened(stacks):
        seen = dict.fromkeys(stacks)
        todo = list(seen)
        for s in todo:
            if not top(s):
                new = [w for w in ways(s) if w not in seen]
                seen |= dict.fromkeys(new)
                todo += new
        return frozenset(filter(top, seen)) | ({()} & seen.keys())

    def moves(stacks):
        reached = {b: frozenset(s[1:] for s in stacks if s and b in s[0].values) for b in range(256)}
        return {b: opened(r) for b, r in reached.items() if r}

    tree = parse_pattern(pattern) if isinstance(pattern, str) else pattern
    return number_states(opened(frozenset([(tree,)])), moves, lambda stacks: () in stacks)


def token_table(automaton, tokens):
    start, accepting, step = automaton
    step = cache(step)

    @cache
    def run(s, b):
        return s if not b else None if (r := run(s, b[:-1])) is None else step(r, b[-1])

    table, todo = {}, [start]
    for s in todo:
        if s not in table:
            table[s] = {i: r for i, b in enumerate(tokens) if b and (r := run(s, bytes(b))) is not None}
            todo += table[s].values()
    left = tokens_to_end(table, accepting)
    return {s: {i: r for i, r in row.items() if r in left} for s, row in table.items() if s in left}


def constrain(logits, allowed):
    ids = [int(i) for i in allowed]
    assert ids, "allowed is empty"
    for i in ids:
        assert 0 <= i < logits.size(-1), f"no id {i}"
    where = torch.tensor(ids, device=logits.device)
    return torch.full_like(logits, -torch.inf).index_copy(-1, where, logits[..., where])


def generate_matching(
    model, tokenizer, prompt_ids, automaton, max_new_tokens, temperature=0.0, generator=None, eos_id=None
):
    s, accepting, _ = automaton
    table = token_table(automaton, [b * (i != eos_id) for i, b in enumerate(token_bytes(tokenizer))])
    left, new = tokens_to_end(table, accepting), []
    assert left.get(s, max_new_tokens + 1) <= max_new_tokens, f"max_new_tokens {max_new_tokens}"
    while True:
        ids = [i for i, r in table[s].items() if len(new) + left[r] < max_new_tokens]
        ids += [eos_id] * (eos_id is not None and s in accepting)
        i = ids[0] if ids else eos_id
        if len(ids) > 1:
            logits = constrain(next_logits(model, [*prompt_ids, *new]), ids)
            i = sample_next_token(logits, temperature, generator=generator).item()
        if not ids or i == eos_id:
            return new
        s, new = table[s][i], [*new, i]


class JsonGuide:
    def __init__(self, schema):
        check_schema(schema)
        self.automaton = build_automaton(self.tree_of(schema))

    def tree_of(self, s):
        if "enum" in s:
            return Choice(tuple(literal(dumps(v)) for v in s["enum"]))
        if s["type"] == "array":
            item = self.tree_of(s["items"])
            return Concat((literal("["), Repeat(Concat((item, Repeat(Concat((literal(", "), item)), 0, None))), 0, 1), literal("]")))
        if s["type"] != "object":
            return parse_pattern(JSON_PATTERNS[s["type"]])
        rests = [literal("}")] * 2  # behind nothing, and behind a property
        for name, inner in [*s.get("properties", {}).items()][::-1]:
            pair = Concat((literal(dumps(name) + ": "), self.tree_of(inner), rests[1]))
            least = int(name in s.get("required", []))
            rests = [Choice((new, old)[: 2 - least]) for new, old in zip((pair, Concat((literal(", "), pair))), rests)]
        return Concat((literal("{"), rests[0]))

    def allowed(self, text_so_far):
        state, accepting, step = self.automaton
        for byte in text_so_far:
            if (state := step(state, byte)) is None:
                return set()
        return {bytes([b]) for b in range(256) if step(state, b) is not None} | ({b""} if state in accepting else set())


def parse_call(text):
    if CALL not in text:
        return None
    inner, end, _ = text.split(CALL, 1)[1].partition(END_OF_CALL)
    assert end, "no end"
    bad = []
    try:
        call = json.loads(inner, parse_constant=bad.append)
    except RecursionError:
        call = None
    assert not bad and isinstance(call, dict) and sorted(call) == ["arguments", "name"], "no call"
    assert isinstance(call["name"], str) and isinstance(call["arguments"], dict), "wrong types"
    return call["name"], call["arguments"]


def run_tools(model_step, tools, messages, limit):
    assert limit > 0, f"limit {limit}"
    chat = [{**m} for m in messages]
    while CALL in (text := model_step([*chat])) and (len(chat) - len(messages)) // 2 < limit - 1:
        try:
            name, arguments = parse_call(text)
            back = str(tools[name](**arguments)) if name in tools else f"error: no {name} in {list(tools)}"
        except Exception as e:
            back = f"error: {type(e).__name__} {e}"
        chat += [{"role": "assistant", "content": text}, {"role": "user", "content": RESULT + back + END_OF_RESULT}]
    return [*chat, {"role": "assistant", "content": f"no answer in {limit}" if CALL in text else text}]


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
