# variant: a pattern over the kinds of the characters, with the published order of alternatives
import re as _re
import unicodedata as _unicodedata


def split_for_bpe(text):
    def kind(c):
        category = _unicodedata.category(c)[0]
        if category in "LN":
            return category
        return c if c == " " else "\t" if category == "Z" or c in "\t\n\v\f\r\x85" else "!"

    pieces = []
    for part in _re.split(r"(<\|endoftext\|>)", text):
        if part == "<|endoftext|>":
            pieces.append(part)
            continue
        kinds = "".join(map(kind, part))
        pattern = _re.compile(r" ?L+| ?N+| ?!+|[ \t]+(?=[ \t][^ \t])|[ \t]+$|[ \t]")
        at = 0
        while at < len(part):
            ending = _re.compile("'(?:s|t|re|ve|m|ll|d)").match(part, at)
            found = ending or pattern.match(kinds, at)
            pieces.append(part[at : found.end()])
            at = found.end()
    return pieces


# variant: one character at a time, with the piece so far
def split_for_bpe(text):
    def kind(c):
        return "letter" if c.isalpha() else "digit" if c.isnumeric() else "space" if c.isspace() else "other"

    def split_part(rest):
        while rest:
            ending = next((one for one in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d") if rest[: len(one)] == one), None)
            if ending is not None:
                yield ending
                rest = rest[len(ending) :]
                continue
            piece = ""
            if rest[0].isspace():
                whole = rest[: len(rest) - len(rest.lstrip())]
                behind = rest[len(whole) :]
                if not behind:
                    yield whole
                    return
                if len(whole) > 1:
                    yield whole[:-1]
                if whole[-1] != " ":
                    yield whole[-1]
                else:
                    piece = " "
                rest = behind
                if not piece:
                    continue
            same_kind = kind(rest[0])
            while rest and kind(rest[0]) == same_kind:
                piece, rest = piece + rest[0], rest[1:]
            yield piece

    pieces = []
    for number, part in enumerate(text.split(END_OF_TEXT)):
        pieces += [END_OF_TEXT] * (number > 0)
        pieces += split_part(part)
    return tuple(pieces)


# variant: runs by groupby, joined afterwards
from itertools import groupby as _groupby


def split_for_bpe(text):
    if END_OF_TEXT in text:
        before, _, after = text.partition(END_OF_TEXT)
        return [*split_for_bpe(before), END_OF_TEXT, *split_for_bpe(after)]
    kinds = (str.isalpha, str.isnumeric, str.isspace)
    runs = ["".join(run) for _, run in _groupby(text, key=lambda c: next((i for i, test in enumerate(kinds) if test(c)), 3))]
    pieces = []
    while runs:
        run = runs.pop(0)
        if run.isspace() and runs:
            if len(run) > 1:
                pieces.append(run[:-1])
            if run[-1] != " ":
                pieces.append(run[-1])
                continue
            ending = None
            run = " " + runs.pop(0)
        elif run == "'" and runs:
            ending = next((one for one in ENDINGS if ("'" + runs[0]).startswith(one)), None)
        else:
            ending = None
        if ending is not None:
            runs[0] = runs[0][len(ending) - 1 :]
            runs = runs[1:] if not runs[0] else runs
            run = ending
        pieces.append(run)
    return pieces
