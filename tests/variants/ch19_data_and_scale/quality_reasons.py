# variant: regular expressions, whole numbers and products instead of shares
import re
from collections import Counter


def quality_reasons(text):
    words = re.findall(r"\S+", text)
    lines = [line.strip() for line in text.splitlines() if not line.isspace() and line]
    n, m, size = len(words), len(lines), sum(len(word) for word in words)
    found = []
    if n < 50 or n > 100_000:
        found.append("words")
    if n == 0 or size < 3 * n or size > 10 * n:
        found.append("word length")
    if 10 * text.count("#") > n or 10 * len(re.findall(r"\.\.\.|…", text)) > n:
        found.append("symbols")
    if 10 * len([line for line in lines if re.match(r"[-*•]", line)]) > 9 * m:
        found.append("bullets")
    if 10 * len([line for line in lines if re.search(r"(\.\.\.|…)$", line)]) > 3 * m:
        found.append("ellipses")
    if n == 0 or 10 * len([word for word in words if any(c.isalpha() for c in word)]) < 8 * n:
        found.append("letters")
    if len({word.lower() for word in words} & {"the", "be", "to", "of", "and", "that", "have", "with"}) < 2:
        found.append("stop words")
    if 10 * (m - len(set(lines))) > 3 * m:
        found.append("repeated lines")
    for length, percent in ((2, 20), (3, 18), (4, 16)):
        grams = Counter(tuple(words[i : i + length]) for i in range(n - length + 1))
        times = max(grams.values(), default=0)
        held = max((times * sum(len(word) for word in gram) for gram, count in grams.items() if count == times), default=0)
        if times >= 2 and 100 * held > percent * size:
            found.append("repeated n-grams")
            break
    return found


# variant: one small function for each rule
from collections import defaultdict


def quality_reasons(text):
    words = text.split()
    lines = [stripped for stripped in (line.strip() for line in text.splitlines()) if stripped]

    def part(items, of):
        return len(list(items)) / len(of) if of else 0.0

    def too_repetitive(n, limit):
        counts = defaultdict(int)
        for start in range(len(words) - n + 1):
            counts[tuple(words[start : start + n])] += 1
        if not counts:
            return False
        run = max(counts, key=lambda gram: (counts[gram], len("".join(gram))))
        return counts[run] > 1 and counts[run] * len("".join(run)) / len("".join(words)) > limit

    def repeats():
        seen = set()
        for line in lines:
            if line in seen:
                yield line
            seen.add(line)

    mean = len("".join(words)) / len(words) if words else 0
    dots = len(text.split("...")) - 1 + len(text.split("…")) - 1
    rules = {
        "words": lambda: len(words) not in range(50, 100_001),
        "word length": lambda: mean < 3 or mean > 10,
        "symbols": lambda: bool(words) and max(text.count("#"), dots) / len(words) > 0.1,
        "bullets": lambda: part((line for line in lines if line[:1] in {"-", "*", "•"}), lines) > 0.9,
        "ellipses": lambda: part((line for line in lines if line[-3:] == "..." or line[-1:] == "…"), lines) > 0.3,
        "letters": lambda: part((word for word in words if word.lower() != word.upper() or any(map(str.isalpha, word))), words) < 0.8,
        "stop words": lambda: sum(stop in text.lower().split() for stop in "the be to of and that have with".split()) < 2,
        "repeated lines": lambda: part(repeats(), lines) > 0.3,
        "repeated n-grams": lambda: any(too_repetitive(n, limit) for n, limit in zip((2, 3, 4), (0.2, 0.18, 0.16))),
    }
    return [reason for reason in rules if rules[reason]()]


# variant: counted in one pass over the lines and one over the words
def quality_reasons(text):
    line_count = bullet_count = open_count = repeat_count = 0
    earlier = set()
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        line_count += 1
        bullet_count += line.startswith("-") or line.startswith("*") or line.startswith("•")
        open_count += line.endswith("...") or line.endswith("…")
        repeat_count += line in earlier
        earlier.add(line)
    word_count = letter_count = characters = 0
    stops, words = set(), []
    for word in text.split():
        words.append(word)
        word_count += 1
        characters += len(word)
        letter_count += any(c.isalpha() for c in word)
        if word.lower() in ["the", "be", "to", "of", "and", "that", "have", "with"]:
            stops.add(word.lower())
    shares = {}
    for n in (2, 3, 4):
        counts, best = {}, (0, 0)
        for i in range(word_count - n + 1):
            gram = "\0".join(words[i : i + n])
            counts[gram] = counts.get(gram, 0) + 1
            best = max(best, (counts[gram], len(gram) - n + 1))
        shares[n] = best[0] * best[1] / characters if best[0] > 1 else 0
    w, k = max(word_count, 1), max(line_count, 1)
    reasons = []
    reasons += ["words"] * (word_count < 50 or word_count > 100_000)
    reasons += ["word length"] * (characters / w < 3 or characters / w > 10)
    reasons += ["symbols"] * (word_count > 0 and (text.count("#") / w > 0.1 or (text.count("...") + text.count("…")) / w > 0.1))
    reasons += ["bullets"] * (bullet_count / k > 0.9)
    reasons += ["ellipses"] * (open_count / k > 0.3)
    reasons += ["letters"] * (letter_count / w < 0.8)
    reasons += ["stop words"] * (len(stops) < 2)
    reasons += ["repeated lines"] * (repeat_count / k > 0.3)
    reasons += ["repeated n-grams"] * (shares[2] > 0.2 or shares[3] > 0.18 or shares[4] > 0.16)
    return reasons
