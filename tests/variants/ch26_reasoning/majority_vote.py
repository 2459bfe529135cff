# variant: a Counter, which keeps the order of equal counts
from collections import Counter


def majority_vote(answers, weights=None):
    weights = [1] * len(answers) if weights is None else list(weights)
    assert len(weights) == len(answers), f"{len(weights)} weights for {len(answers)} answers"
    count = Counter()
    for i, answer in enumerate(answers):
        if answer is None:
            continue
        count[answer] += weights[i]
    return count.most_common(1)[0][0] if count else None


# variant: sort by votes and by first place
def majority_vote(answers, weights=None):
    n = len(answers)
    if weights is not None and len(weights) != n:
        raise ValueError(f"the weights, {len(weights)}, do not fit the answers, {n}")
    kept = [i for i in range(n) if answers[i] is not None]
    if not kept:
        return None

    def votes(i):
        same = [j for j in kept if answers[j] == answers[i]]
        return len(same) if weights is None else sum(weights[j] for j in same)

    order = sorted(kept, key=lambda i: (-votes(i), i))
    return answers[order[0]]


# variant: defaultdict and a loop for the winner
from collections import defaultdict
from itertools import repeat


def majority_vote(answers, weights=None):
    if weights is not None and len(weights) != len(answers):
        raise ValueError(f"weights = {weights}, but answers = {answers}")
    total = defaultdict(float)
    for answer, weight in zip(answers, repeat(1.0) if weights is None else weights):
        if answer is not None:
            total[answer] += weight
    best = None
    for answer, votes in total.items():
        if best is None or votes > total[best]:
            best = answer
    return best


# variant: lists of different answers and of their votes, without hashing
def majority_vote(answers, weights=None):
    if weights is None:
        weights = [1.0 for _ in answers]
    if len(weights) != len(answers):
        raise ValueError("weights and answers must have the same length")
    different, votes = [], []
    for answer, weight in zip(answers, weights):
        if answer is None:
            continue
        if answer in different:
            votes[different.index(answer)] += weight
        else:
            different.append(answer)
            votes.append(weight)
    return different[votes.index(max(votes))] if different else None
