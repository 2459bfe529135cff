# variant: a dictionary for each band
def candidate_pairs(signatures, bands):
    if bands < 1 or any(len(signature) % bands for signature in signatures):
        raise ValueError(f"bands = {bands} is not possible")
    found = set()
    for band in range(bands):
        seen = {}
        for i, signature in enumerate(signatures):
            rows = len(signature) // bands
            part = tuple(signature[band * rows : (band + 1) * rows])
            found.update((earlier, i) for earlier in seen.get(part, ()))
            seen.setdefault(part, []).append(i)
    return sorted(found)


# variant: bands as texts
from itertools import combinations


def candidate_pairs(signatures, bands):
    k = len(signatures[0]) if len(signatures) else 0
    assert bands > 0 and k % bands == 0, f"bands = {bands} does not divide {k}"
    meeting = {}
    for i, signature in enumerate(signatures):
        for start in range(0, k, max(k // bands, 1)):
            meeting.setdefault(f"{start}: {list(signature[start : start + k // bands])}", set()).add(i)
    pairs = {pair for group in meeting.values() for pair in combinations(sorted(group), 2)}
    return sorted(pairs, key=lambda pair: (pair[0], pair[1]))


# variant: sorted bands, where equal ones are neighbours
def candidate_pairs(signatures, bands):
    if bands < 1:
        raise ValueError(f"bands is {bands}")
    if not len(signatures):
        return []
    rows, rest = divmod(len(signatures[0]), bands)
    if rest:
        raise ValueError(f"bands is {bands}, which leaves {rest} numbers over")
    pairs = []
    for start in range(0, bands * rows, rows):
        order = sorted(range(len(signatures)), key=lambda i: (list(signatures[i][start : start + rows]), i))
        for place, i in enumerate(order):
            for j in order[place + 1 :]:
                if list(signatures[i][start : start + rows]) != list(signatures[j][start : start + rows]):
                    break
                pairs.append((i, j))
    return sorted(set(pairs))
