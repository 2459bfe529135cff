"""Texts under a constraint, against Hugging Face's `generate` and Python's `re`, by enumeration of all short texts."""

from __future__ import annotations

import re
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from test_generation import V, hugging_face, pair
from transformers import PrefixConstrainedLogitsProcessor

USED = [b"a", b"b", b"ab", b"ba", "é".encode()[:1], "é".encode()[1:], "éa".encode()[1:]]
EOS = len(USED)
TOKENS = [*USED, *[b""] * (V - len(USED))]
PATTERNS = ["(ab|é)*", "a*b", "(a|b)*é?", "(ba|aé)+", "é{1,2}a?", "[^a]*"]


def matching(pattern: str, most: int) -> set[tuple[int, ...]]:
    """All sequences of at most `most` tokens whose text matches."""
    found = set()
    for length in range(most + 1):
        for ids in product(range(len(USED)), repeat=length):
            try:
                text = b"".join(USED[i] for i in ids).decode()
            except UnicodeDecodeError:
                continue
            if re.fullmatch(pattern, text):
                found.add(ids)
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_table_has_the_sequences_whose_text_matches(ours, pattern):
    start, accepting, step = ours.build_automaton(pattern)
    table = ours.token_table((start, accepting, step), TOKENS)
    found, todo = set(), [((), start)]
    for ids, state in todo:  # it grows meanwhile
        if state in accepting:
            found.add(ids)
        if len(ids) < 4:
            todo += [((*ids, i), after) for i, after in table[state].items()]
    assert found == matching(pattern, 4)
    assert len(found) > 3


@pytest.mark.parametrize("pattern", PATTERNS)
def test_greedy_text_is_hugging_faces_with_the_ids_that_enumeration_allows(ours, pattern):
    """The ids that may come next are those with which one of all matching texts within the budget goes on."""
    theirs, mine = pair(ours)
    prompt, texts = torch.randint(V, (1, 4)), set()
    tokenizer = SimpleNamespace(token_bytes=TOKENS)
    for most in (2, 3, 4):
        sequences = {(*ids, EOS) for ids in matching(pattern, most)}

        def allowed(_, ids, sequences=sequences):
            new = tuple(ids[4:].tolist())
            return sorted({each[len(new)] for each in sequences if each[: len(new)] == new and len(each) > len(new)})

        expected = hugging_face(theirs, prompt, most + 1, EOS, prefix_allowed_tokens_fn=allowed)[0, 4:].tolist()
        automaton = ours.build_automaton(pattern)
        ids = ours.generate_matching(mine, tokenizer, prompt[0].tolist(), automaton, most, eos_id=EOS)
        assert [*ids, EOS] == expected, f"max_new_tokens = {most}"
        texts.add(tuple(ids))
    assert texts <= matching(pattern, 4)


def test_logits_are_hugging_faces(ours):
    logits, ids = torch.randn(3, V), [5, 0, V - 1, 12]
    theirs = PrefixConstrainedLogitsProcessor(lambda row, text: ids, num_beams=1)(torch.zeros(3, 1).long(), logits)
    assert torch.equal(ours.constrain(logits, ids), theirs)
