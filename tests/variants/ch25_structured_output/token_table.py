# variant: a tree of nested dicts, walked by a recursive function; dead ends taken out until none is left
def token_table(automaton, tokens):
    start, accepting, step = automaton
    tree = {}
    for number, token in enumerate(tokens):
        if not token:
            continue
        place = tree
        for byte in token:
            place = place.setdefault(byte, {})
        place.setdefault("ids", []).append(number)

    def walk(place, state, row):
        for key, below in place.items():
            if key == "ids":
                row.update((number, state) for number in below)
            else:
                following = step(state, key)
                if following is not None:
                    walk(below, following, row)
        return row

    table, waiting = {}, {start}
    while waiting:
        state = waiting.pop()
        table[state] = walk(tree, state, {})
        waiting |= set(table[state].values()) - table.keys()
    alive, before = set(accepting) & table.keys(), None
    while alive != before:
        before = set(alive)
        alive |= {state for state, row in table.items() if before & set(row.values())}
    if start not in alive:
        return {}
    return {state: {i: after for i, after in table[state].items() if after in alive} for state in table if state in alive}


# variant: the tokens in alphabetical order, and a stack of the states after each byte of the last one
from collections import defaultdict


def token_table(automaton, tokens):
    start, accepting, step = automaton
    ids = defaultdict(list)
    for i, token in enumerate(tokens):
        ids[bytes(token)].append(i)
    ids.pop(b"", None)
    ordered = sorted(ids)

    def row_of(state):
        row, last, states = {}, b"", [state]
        for token in ordered:
            shared = 0
            while shared < min(len(token), len(last)) and token[shared] == last[shared]:
                shared += 1
            if len(states) <= shared:  # a step in the shared beginning was None
                continue
            del states[shared + 1 :]
            last = token
            for byte in token[shared:]:
                following = step(states[-1], byte)
                if following is None:
                    last = token[: len(states)]
                    break
                states.append(following)
            else:
                row |= dict.fromkeys(ids[token], states[-1])
        return row

    table, order = {}, [start]
    for state in order:
        if state not in table:
            table[state] = row_of(state)
            order.extend(table[state].values())
    alive = set(tokens_to_end(table, accepting))
    result = {}
    for state in table:
        if state in alive:
            result[state] = dict(item for item in table[state].items() if item[1] in alive)
    return result


# variant: a step for each beginning, which a cache remembers; backwards from the ends through all that leads there
from functools import lru_cache


def token_table(automaton, tokens):
    start, accepting, step = automaton

    @lru_cache(maxsize=None)
    def one_step(state, byte):
        return step(state, byte)

    @lru_cache(maxsize=None)
    def after(state, beginning):
        if beginning == b"":
            return state
        before = after(state, beginning[:-1])
        return None if before is None else one_step(before, beginning[-1])

    rows = {}

    def explore(state):
        rows[state] = {}
        for i, token in enumerate(tokens):
            end = after(state, bytes(token)) if len(token) > 0 else None
            if end is not None:
                rows[state][i] = end
                if end not in rows:
                    explore(end)

    explore(start)
    leads_to = {state: set() for state in rows}
    for state, row in rows.items():
        for end in row.values():
            leads_to[end].add(state)
    good, todo = set(), [state for state in rows if state in accepting]
    while todo:
        state = todo.pop()
        if state not in good:
            good.add(state)
            todo.extend(leads_to[state])
    for state in list(rows):
        if state not in good:
            del rows[state]
        else:
            for i in [i for i, end in rows[state].items() if end not in good]:
                del rows[state][i]
    return rows
