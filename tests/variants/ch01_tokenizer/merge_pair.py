# variant: a stack whose top is merged with the next id
def merge_pair(ids, pair, new_id):
    merged, fresh = [], False
    for i in ids:
        if merged and not fresh and (merged[-1], i) == tuple(pair):
            merged[-1], fresh = new_id, True
        else:
            merged.append(i)
            fresh = False
    return merged


# variant: in place, on a copy
def merge_pair(ids, pair, new_id):
    merged = list(ids)
    i = 0
    while i < len(merged) - 1:
        if merged[i] == pair[0] and merged[i + 1] == pair[1]:
            merged[i : i + 2] = [new_id]
        i += 1
    return merged


# variant: a generator that delays one id
def merge_pair(ids, pair, new_id):
    def walk():
        held = []
        for i in ids:
            if held and held[0] == pair[0] and i == pair[1]:
                held = []
                yield new_id
            else:
                yield from held
                held = [i]
        yield from held

    return list(walk())


# variant: characters of a string, replaced
def merge_pair(ids, pair, new_id):
    written = "".join(map(chr, ids)).replace(chr(pair[0]) + chr(pair[1]), chr(new_id))
    return [ord(character) for character in written]


# variant: marks first, a tuple last
def merge_pair(ids, pair, new_id):
    starts = set()
    for i in range(len(ids) - 1):
        if i - 1 not in starts and (ids[i], ids[i + 1]) == (pair[0], pair[1]):
            starts.add(i)
    return tuple(new_id if i in starts else ids[i] for i in range(len(ids)) if i - 1 not in starts)
