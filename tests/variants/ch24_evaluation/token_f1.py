# variant: as in the published script, with precision and recall
def token_f1(text, answers):
    if not answers:
        raise ValueError("answers must not be empty")
    scores = []
    for answer in answers:
        prediction_tokens = normalise_answer(text).split()
        ground_truth_tokens = normalise_answer(answer).split()
        if len(prediction_tokens) == 0 or len(ground_truth_tokens) == 0:
            scores.append(int(prediction_tokens == ground_truth_tokens))
            continue
        common = Counter(prediction_tokens) & Counter(ground_truth_tokens)
        num_same = sum(common.values())
        if num_same == 0:
            scores.append(0)
            continue
        precision = 1.0 * num_same / len(prediction_tokens)
        recall = 1.0 * num_same / len(ground_truth_tokens)
        scores.append((2 * precision * recall) / (precision + recall))
    return float(max(scores))


# variant: shared words are removed from a copy of the answer's list
def token_f1(text, answers):
    assert answers, "no answers"
    best = 0.0
    mine = normalise_answer(text).split()
    for answer in answers:
        theirs = normalise_answer(answer).split()
        if not mine and not theirs:
            return 1.0
        left, shared = list(theirs), 0
        for word in mine:
            if word in left:
                left.remove(word)
                shared += 1
        if shared:
            p, r = shared / len(mine), shared / len(theirs)
            best = max(best, 2 / (1 / p + 1 / r))
    return best


# variant: the smaller count of each word
def token_f1(text, answers):
    if len(answers) == 0:
        raise ValueError("answers is empty")
    a = normalise_answer(text).split()

    def compare(b):
        if len(a) + len(b) == 0:
            return 1.0
        return 2 * sum(min(a.count(word), b.count(word)) for word in {*a}) / (len(a) + len(b))

    return sorted(compare(normalise_answer(answer).split()) for answer in answers)[-1]
