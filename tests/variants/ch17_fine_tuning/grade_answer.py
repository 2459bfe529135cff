# variant: a named pattern, exact fractions of decimals
import re
from decimal import Decimal

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
ANSWER = re.compile(rf"(?P<top>{NUMBER})(?:/(?P<bottom>{NUMBER}))?")


def grade_answer(text, expected):
    def read(words):
        match = None
        for match in ANSWER.finditer(words):
            pass
        if match is None:
            return None
        top, bottom = (float(Decimal((match[part] or "1").replace(",", ""))) for part in ("top", "bottom"))
        if not bottom:
            return None
        before = words[: match.start()]
        negative = before.endswith("-") and not (before[-2:-1].isalnum() or before[-2:-1] in tuple(")]}"))
        return (-top if negative else top) / bottom

    answer = read(text)
    if isinstance(expected, str):
        expected = read(expected)
    return 1.0 if answer is not None and answer == expected else 0.0


# variant: a reader that goes through the text by hand
def grade_answer(text, expected):
    def digits(words, i):
        start = i
        while i < len(words) and words[i] in "0123456789":
            i += 1
        return words[start:i], i

    def number(words, i):
        whole, i = digits(words, i)
        if len(whole) <= 3:
            groups, end = [], i
            while words[end : end + 1] == ",":
                group, next_end = digits(words, end + 1)
                if len(group) != 3:
                    break
                groups.append(group)
                end = next_end
            if groups:
                whole, i = whole + "".join(groups), end
        if words[i : i + 1] == ".":
            decimals, end = digits(words, i + 1)
            if decimals:
                whole, i = f"{whole}.{decimals}", end
        return float(whole), i

    def last(words):
        found, i = None, 0
        while i < len(words):
            if words[i] not in "0123456789":
                i += 1
                continue
            sign = 1
            if i and words[i - 1] == "-":
                before = words[i - 2 : i - 1] if i > 1 else ""
                if not before.isalpha() and not before.isdigit() and before not in list(")]}"):
                    sign = -1
            value, i = number(words, i)
            if words[i : i + 1] == "/" and words[i + 1 : i + 2] in tuple("0123456789"):
                below, i = number(words, i + 1)
                value = value / below if below else float("nan")
            found = sign * value
        return found

    answer, wanted = last(text), last(expected) if type(expected) is str else expected
    return float(answer is not None and wanted is not None and answer == wanted)


# variant: all numbers into a list, the sign by its own pattern
import re


def grade_answer(text, expected):
    plain = r"\d{1,3}(?:,\d\d\d)+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?"
    both = re.compile(f"({plain})/({plain})|{plain}")

    def values(words):
        for match in both.finditer(words):
            top, bottom = match.groups() if match[1] else (match[0], "1")
            value = float(top.replace(",", ""))
            try:
                value /= float(bottom.replace(",", ""))
            except ZeroDivisionError:
                yield None
                continue
            signed = re.search(r"(?:^|[^\w)\]}])-$", words[max(match.start() - 2, 0) : match.start()])
            yield -value if signed else value

    found = [None, *values(text)][-1]
    wanted = [None, *values(expected)][-1] if isinstance(expected, str) else expected
    return float(found is not None and found == wanted)
