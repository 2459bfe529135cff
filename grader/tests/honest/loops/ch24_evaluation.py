"""In explicit loops: token by token, word by word, answer by answer."""

import math

import torch

from .ch09_sampling import looking_at

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def choice_score(log_probs, n_bytes, kind="byte"):
    if kind != "sum" and kind != "token" and kind != "byte":
        raise ValueError(f"kind = {kind} is unknown")
    if len(log_probs) == 0:
        raise ValueError("log_probs has no tokens")
    if n_bytes < 1:
        raise ValueError(f"n_bytes = {n_bytes} is below 1")
    total = 0.0
    tokens = 0
    for log_prob in log_probs:
        total += log_prob
        tokens += 1
    if kind == "token":
        return total / tokens
    if kind == "byte":
        return total / n_bytes
    return total


def score_choices(model, tokenizer, question, choices, kind="byte"):
    if len(choices) == 0:
        raise ValueError("choices is empty")
    asked = tokenizer.encode(question)
    texts = []
    starts = []
    longest = 0
    for choice in choices:
        text = tokenizer.encode(question + choice)
        start = 0
        while start < len(asked) and start < len(text) and text[start] == asked[start]:
            start += 1
        if start == 0:
            raise ValueError(f"the question {question!r} has no token before the choice {choice!r}")
        if start == len(text):
            raise ValueError(f"the choices contain {choice!r}, which has no token")
        texts.append(text)
        starts.append(start)
        longest = max(longest, len(text))
    device = None
    for parameter in model.parameters():
        device = parameter.device
        break
    rows = []
    for text in texts:
        row = []
        for token in text:
            row.append(token)
        while len(row) < longest:
            row.append(0)
        rows.append(row)
    with looking_at(model):
        logits = model(torch.tensor(rows, device=device))
    if isinstance(logits, tuple):
        logits = logits[0]
    scores = []
    for i in range(len(choices)):
        log_probs = []
        for t in range(starts[i], len(texts[i])):
            of_place = torch.log_softmax(logits[i, t - 1].float(), dim=0)
            log_probs.append(float(of_place[texts[i][t]]))
        n_bytes = 0
        for _ in choices[i].encode("utf-8"):
            n_bytes += 1
        scores.append(choice_score(log_probs, n_bytes, kind))
    return scores


def normalise_answer(text):
    kept = ""
    for character in text.lower():
        if character not in PUNCTUATION:
            kept += character
    words = []
    for word in kept.split():
        if word != "a" and word != "an" and word != "the":
            words.append(word)
    result = ""
    for word in words:
        if result != "":
            result += " "
        result += word
    return result


def exact_match(text, answers):
    if len(answers) == 0:
        raise ValueError("answers is empty")
    for answer in answers:
        if normalise_answer(answer) == normalise_answer(text):
            return True
    return False


def token_f1(text, answers):
    if len(answers) == 0:
        raise ValueError("answers is empty")
    best = 0.0
    for answer in answers:
        mine = normalise_answer(text).split()
        theirs = normalise_answer(answer).split()
        if len(mine) == 0 and len(theirs) == 0:
            best = 1.0
            continue
        used = [False] * len(theirs)
        shared = 0
        for word in mine:
            for j in range(len(theirs)):
                if theirs[j] == word and not used[j]:
                    used[j] = True
                    shared += 1
                    break
        if shared > 0:
            p = shared / len(mine)
            r = shared / len(theirs)
            f1 = 2 * p * r / (p + r)
            if f1 > best:
                best = f1
    return best


def pass_at_k(n, correct, k):
    if correct < 0 or correct > n:
        raise ValueError(f"correct = {correct} is not from 0 to {n}")
    if k < 1 or k > n:
        raise ValueError(f"k = {k} is not from 1 to {n}")
    all_wrong = 1.0
    wrong = n - correct
    left = n
    for _ in range(k):
        if wrong <= 0:
            return 1.0
        all_wrong = all_wrong * wrong / left
        wrong -= 1
        left -= 1
    return 1.0 - all_wrong


def contaminated(example, corpus_ngrams, n):
    if n < 1:
        raise ValueError(f"n = {n} is below 1")
    words = normalise_answer(example).split()
    if len(words) == 0:
        return False
    if len(words) < n:
        return " ".join(words) in corpus_ngrams
    for i in range(len(words) - n + 1):
        run = words[i]
        for j in range(i + 1, i + n):
            run = run + " " + words[j]
        if run in corpus_ngrams:
            return True
    return False


def agreement(a, b):
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} labels, and b has {len(b)}")
    if len(a) == 0:
        raise ValueError("a and b have no labels")
    equal = 0
    expected = 0
    for i in range(len(a)):
        if a[i] == b[i]:
            equal += 1
        for j in range(len(b)):
            if a[i] == b[j]:
                expected += 1
    o = equal / len(a)
    e = expected / len(a) ** 2
    if math.isclose(e, 1.0):
        return 1.0
    return (o - e) / (1 - e)


def judge_both_orders(judge, a, b):
    first_time = judge(a, b)
    second_time = judge(b, a)
    for word in [first_time, second_time]:
        if word != "first" and word != "second" and word != "tie":
            raise ValueError(f"the judge said {word!r}")
    a_wins = 0
    b_wins = 0
    if first_time == "first":
        a_wins += 1
    if first_time == "second":
        b_wins += 1
    if second_time == "second":
        a_wins += 1
    if second_time == "first":
        b_wins += 1
    if a_wins == 2:
        return "a"
    if b_wins == 2:
        return "b"
    return "tie"
