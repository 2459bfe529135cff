# variant: any
def exact_match(text, answers):
    if not answers:
        raise ValueError("there are no answers")
    return any(normalise_answer(text) == normalise_answer(answer) for answer in answers)


# variant: a set of normalised answers
def exact_match(text, answers):
    assert len(answers) > 0, f"answers = {answers}"
    return normalise_answer(text) in {normalise_answer(answer) for answer in answers}


# variant: a loop with an early return
def exact_match(text, answers):
    if len(answers) < 1:
        raise ValueError(f"answers has {len(answers)} entries")
    normal = normalise_answer(text)
    for answer in answers:
        if normalise_answer(answer) == normal:
            return True
    return False
