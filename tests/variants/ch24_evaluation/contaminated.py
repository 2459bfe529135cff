# variant: words and windows by hand
def contaminated(example, corpus_ngrams, n):
    if n < 1:
        raise ValueError(f"n = {n} is too small")
    words = normalise_answer(example).split()
    if not words:
        return False
    if len(words) < n:
        return " ".join(words) in corpus_ngrams
    return any(" ".join(words[i : i + n]) in corpus_ngrams for i in range(len(words) - n + 1))


# variant: the intersection of two sets
def contaminated(example, corpus_ngrams, n):
    return bool(shingles(normalise_answer(example), n) & set(corpus_ngrams))


# variant: isdisjoint
def contaminated(example, corpus_ngrams, n):
    assert n >= 1, f"n = {n}"
    return not shingles(normalise_answer(example), n).isdisjoint(corpus_ngrams)
