# variant: columns of shifted words
def shingles(text, n):
    if n < 1:
        raise ValueError(f"n must be at least 1, and it is {n}")
    words = text.lower().split()
    if 0 < len(words) < n:
        return {" ".join(words)}
    return {" ".join(run) for run in zip(*(words[i:] for i in range(n)))}


# variant: a window that moves on
from collections import deque


def shingles(text, n):
    assert n >= 1, f"n = {n} is too small"
    window, found = deque(maxlen=n), set()
    for word in text.split():
        window.append(word.lower())
        if len(window) == n:
            found.add(" ".join(window))
    if window and not found:
        found.add(" ".join(window))
    return frozenset(found)


# variant: by recursion
def shingles(text, n):
    if n <= 0:
        raise ValueError("n is " + str(n))

    def runs(words):
        return {" ".join(words[:n])} | (runs(words[1:]) if len(words) > n else set()) if words else set()

    return runs(text.lower().split())
