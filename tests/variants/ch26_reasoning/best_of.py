# variant: a loop that keeps the best score
def best_of(candidates, score):
    best, best_score = None, None
    for candidate in candidates:
        if candidate is None:
            continue
        mine = score(candidate)
        if best is None or mine > best_score:
            best, best_score = candidate, mine
    return best


# variant: a list of scores, and its first largest
def best_of(candidates, score):
    kept = [c for c in candidates if c is not None]
    scores = list(map(score, kept))
    return kept[scores.index(max(scores))] if scores else None


# variant: a stable sort
def best_of(candidates, score):
    pairs = [(score(c), c) for c in candidates if c is not None]
    pairs.sort(key=lambda pair: -pair[0])
    return pairs[0][1] if pairs else None


# variant: reduce over pairs
from functools import reduce


def best_of(candidates, score):
    scored = [(candidate, score(candidate)) for candidate in candidates if candidate is not None]
    if not scored:
        return None
    return reduce(lambda best, new: new if new[1] > best[1] else best, scored)[0]
