"""Automata with a few states, given by their steps, and what tokens do with them: computed in the plainest way, token by token."""

from __future__ import annotations


def rows_of(steps):
    """{state: {"a": next state}} with numbers for bytes, and a row for each state: {state: {97: next state}}."""
    states = [*steps, *(after for row in steps.values() for after in row.values())]
    return {state: {ord(character): after for character, after in steps.get(state, {}).items()} for state in states}


def row_of_state(rows, state, tokens):
    """Where each token leads from a state, and how many different beginnings of tokens an automaton can be asked for."""
    found, asked = {}, set()
    for i, token in enumerate(tokens):
        here = state
        for n, byte in enumerate(token):
            asked.add(token[: n + 1])
            here = rows[here].get(byte)
            if here is None:
                break
        if token and here is not None:
            found[i] = here
    return found, len(asked)


def table_by_hand(rows, start, accepting, tokens):
    """The table of tokens: reached states, less those from which nothing can end."""
    reached, todo = {}, [start]
    while todo:
        state = todo.pop()
        if state not in reached:
            reached[state] = row_of_state(rows, state, tokens)[0]
            todo += reached[state].values()
    left = tokens_left(reached, accepting)
    return {state: {i: after for i, after in row.items() if after in left} for state, row in reached.items() if state in left}


def tokens_left(table, accepting):
    """How many tokens each state is away from the end, at least; states without a way to the end are missing."""
    left = {state: 0 for state in table if state in accepting}
    for n in range(1, len(table) + 1):
        for state, row in table.items():
            if state not in left and any(left.get(after) == n - 1 for after in row.values()):
                left[state] = n
    return left
