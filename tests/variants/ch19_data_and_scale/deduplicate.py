# variant: candidates as a set of pairs
def deduplicate(texts, threshold, n=3, seeds=range(64), bands=16):
    sets = [shingles(text, n) for text in texts]
    candidates = set(candidate_pairs([minhash(each, seeds) for each in sets], bands))
    kept = []
    for j in range(len(texts)):
        alike = [i for i in kept if (i, j) in candidates and jaccard(sets[i], sets[j]) >= threshold]
        if not alike:
            kept.append(j)
    return kept


# variant: marks, pair by pair in the order of the second text
def deduplicate(texts, threshold, n=3, seeds=range(64), bands=16):
    sets = [shingles(text, n) for text in texts]
    signatures = [minhash(each, seeds) for each in sets]
    stays = [True] * len(texts)
    for i, j in sorted(candidate_pairs(signatures, bands), key=lambda pair: (pair[1], pair[0])):
        both, either = len(sets[i] & sets[j]), len(sets[i] | sets[j])
        if stays[i] and (either == 0 or both / either >= threshold):
            stays[j] = False
    return [j for j, stay in enumerate(stays) if stay]


# variant: the first text removes its duplicates
def deduplicate(texts, threshold, n=3, seeds=range(64), bands=16):
    sets = [shingles(text, n) for text in texts]
    partners = {}
    for i, j in candidate_pairs([minhash(each, seeds) for each in sets], bands):
        partners.setdefault(i, []).append(j)
    left = dict.fromkeys(range(len(texts)))
    for i in range(len(texts)):
        if i in left:
            for j in partners.get(i, []):
                if jaccard(sets[i], sets[j]) >= threshold:
                    left.pop(j, None)
    return sorted(left)
