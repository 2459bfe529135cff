"""The numbers and texts that lesson 25 works out by hand are what the reference computes."""

from __future__ import annotations

import re

import torch
from grader.course.syllabus import EXERCISES
from lesson_tables import says, shows, table_in

LESSON = (EXERCISES / "ch25_structured_output.md").read_text(encoding="utf-8")
FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"enum": ["S", "M"]}, "age": {"type": "integer"}},
    "required": ["age"],
}


def table(heading, place=0):
    return table_in("ch25", heading, place)


def quoted(text):
    return re.findall(r'"([^"]*)"', text)


def reach(automaton):
    """All states of an automaton."""
    start, _, step = automaton
    found = [start]
    for state in found:
        found += {step(state, byte) for byte in range(256)} - {None, *found}
    return found


def state_after(automaton, text):
    state, accepting, step = automaton
    for byte in text.encode():
        state = step(state, byte)
    return state, state in accepting


def test_what_is_still_to_come(ours):
    automaton = ours.build_automaton("(ab|ac)d")
    places = set()
    for read, _, ends in table("What is still to come"):
        [(state, accepting)] = {state_after(automaton, text) for text in quoted(read) or [""]}
        assert accepting == (ends == "yes")
        places.add(state)
    assert len(places) == len(reach(automaton)) and says("ch25", "and the automaton has {} states.", len(places))
    assert len(reach(ours.build_automaton("(a|b)*a(a|b){2}"))) == 8 and len(reach(ours.build_automaton("(a|b)*a(a|b){8}"))) == 512


def test_bytes_not_characters(ours):
    assert "é".encode() == bytes([0xC3, 0xA9]) and len(reach(ours.build_automaton("é"))) == 3
    assert says("ch25", "and has {} states: some first bytes", len(reach(ours.build_automaton("."))))
    assert len(reach(ours.build_automaton("[0-9]{2,4}"))) == 5


def test_tokens_in_the_table(ours):
    start, accepting, step = ours.build_automaton("a(bc)*")
    after_a = step(start, ord("a"))
    number = {start: 0, after_a: 1, step(after_a, ord("b")): 2}
    for place, tokens in enumerate((["a", "ab", "b", "c"], ["a", "ab", "b"])):
        found = ours.token_table((start, accepting, step), [token.encode() for token in tokens])
        rows = {(number[state], tokens[i], number[after]) for state, row in found.items() for i, after in row.items()}
        assert rows == {(int(state), quoted(token)[0], int(to)) for state, token, to in table("Tokens in the table", place)}


def test_proportions(ours):
    probabilities = torch.softmax(ours.constrain(torch.tensor([0.5, 0.3, 0.2]).log(), [1, 2]), 0)
    assert says("ch25", "the softmax gives {}, {} and {}:", *probabilities.tolist())


def test_what_a_mask_does():
    first, then = {"no": 0.6, "yes": 0.4}, {"no": 0.1, "yes": 0.9}
    both = sum(first[text] * then[text] for text in first)
    for text, alone, among, masked in table("What a mask does"):
        [text] = quoted(text)
        chance = first[text] * then[text]
        assert shows(alone, chance) and shows(among, chance / both) and shows(masked, first[text])


def test_a_budget(ours):
    """Which first tokens a model with a free hand may write is seen from the texts that its two wishes give."""

    class Wish(torch.nn.Module):
        def __init__(self, wanted):
            super().__init__()
            self.wanted, self.asked, self.weight = wanted, 0, torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids):
            self.asked += 1
            logits = torch.zeros(1, ids.size(1), 2)
            logits[..., self.wanted] = 1
            return logits

    class Tokenizer:
        token_bytes = (b"a", b"b")

    automaton = ours.build_automaton("a*b")
    longest, shortest = Wish(0), Wish(1)
    assert ours.generate_matching(longest, Tokenizer(), [0], automaton, 5) == [0, 0, 0, 0, 1]
    assert longest.asked == 4, "the b at the end is written without a pass"
    assert ours.generate_matching(shortest, Tokenizer(), [0], automaton, 5) == [1]
    assert [row[1] for row in table("A budget")] == ["4", "1", "0"]


def test_a_form(ours):
    guide = ours.JsonGuide(FORM)
    rows = re.findall(r"^\| `(.*)` \| (.*) \|$", LESSON.partition("### A form")[2].partition("### ")[0], re.MULTILINE)
    assert len(rows) == 9
    for text, following in rows:
        found = guide.allowed(text.encode())
        if "147 bytes" in following:
            assert len(found) == 147
        elif following == "the end":
            assert found == {b""}
        else:
            wanted = set(re.findall("`(.)`", following)) | (set("0123456789") if "to" in following else set())
            assert found == {character.encode() for character in wanted}, text


def test_a_tool(ours):
    rows = re.findall(r"^\| (user|model|result) \| `?(.*?)`? \|$", LESSON, re.MULTILINE)
    texts = iter([text for who, text in rows if who == "model"])
    chat = ours.run_tools(lambda _: next(texts), {"add": lambda a, b: a + b}, [{"role": "user", "content": rows[0][1]}], 5)
    assert [message["content"] for message in chat] == [text for _, text in rows]


def test_the_answer_about_sixty_booleans(ours):
    def states(count):
        names = [f"n{i:02}" for i in range(count)]
        return ours.JsonGuide({"type": "object", "properties": {name: {"type": "boolean"} for name in names}, "required": names})

    states(30)
    try:
        states(60)
    except ValueError as problem:
        assert "1000" in str(problem).replace(",", "")
    else:
        raise AssertionError("60 booleans are possible")
