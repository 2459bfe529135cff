"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

from grader.chapters.ch25_structured_output.masking import ASKED, NOT_SURE, TOKENS, TableModel, enumerate_texts
from grader.teaching.drawing import curves, heatmap

ANSWERS = "yes|no( way)?"
PIECES = (b"y", b"ye", b"yes", b"es", b"s", b"n", b"no", b"not", b"o", b" ", b" w", b"way")
WRITTEN = (b"", b"y", b"ye", b"n", b"no", b"no ", b"yes")
GOING_ON = tuple(i / 40 for i in range(40))


def ch25_structured_output(chapter: ModuleType) -> str:
    """Draw which tokens may come next after each beginning of an answer."""
    automaton = start, _, step = chapter.build_automaton(ANSWERS)
    table, rows = chapter.token_table(automaton, PIECES), []
    for text in WRITTEN:
        state = start
        for byte in text:
            state = step(state, byte)
        rows.append([float(i in table[state]) for i in range(len(PIECES))])
    shown = [(one.decode() or "(nothing)").replace(" ", "·") for one in (*WRITTEN, *PIECES)]
    title = f"Tokens that may come next in {ANSWERS}"
    rows_of, columns = shown[: len(WRITTEN)], shown[len(WRITTEN) :]
    return heatmap(rows, rows_of, columns, title, row_name="written", column_name="next token")


def ch25_masking(chapter: ModuleType) -> str:
    """Draw how probable the answer "no" is, masked and by the model's own probabilities."""
    lines: dict[str, list[tuple[float, float]]] = {"masked token by token": [], "the model's own texts that match": []}
    for share in GOING_ON:
        after_no = {b"t": share, b"": 0.8 * (1 - share), b"!": 0.2 * (1 - share)}
        model = TableModel.of(TOKENS, NOT_SURE | {b"no": after_no})
        found = enumerate_texts(chapter, model, ASKED)
        for line, texts in zip(lines.values(), reversed(found)):
            no = sum(chance for text, chance in texts.items() if text.startswith(b"no"))
            line.append((share, no / sum(texts.values())))
    title = 'The answer "no" of a model that mostly says "not sure"'
    return curves(lines, title, x_name='probability of going on with "t sure" after "no"', y_name="probability of no")
