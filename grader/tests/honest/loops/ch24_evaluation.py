"""In explicit loops: token by token, resample by resample, game by game."""

import math
from statistics import NormalDist

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


def bootstrap_interval(values, level=0.95, resamples=2000, generator=None, clusters=None):
    if len(values) == 0:
        raise ValueError("there are no values")
    if level <= 0 or level >= 1:
        raise ValueError(f"level = {level} is not between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples = {resamples} is below 1")
    names = []
    for i in range(len(values)):
        names.append(i)
    if clusters is not None:
        if len(clusters) != len(values):
            raise ValueError(f"there are {len(clusters)} clusters and {len(values)} values")
        for i in range(len(values)):
            names[i] = clusters[i]
    order = []
    sums = {}
    counts = {}
    for i in range(len(values)):
        name = names[i]
        if name not in sums:
            order.append(name)
            sums[name] = 0.0
            counts[name] = 0
        sums[name] += float(values[i])
        counts[name] += 1
    means = []
    for _ in range(resamples):
        places = torch.randint(0, len(order), (len(order),), generator=generator).tolist()
        total = 0.0
        count = 0
        for place in places:
            total += sums[order[place]]
            count += counts[order[place]]
        means.append(total / count)
    means.sort()
    ends = []
    for q in [(1 - level) / 2, (1 + level) / 2]:
        position = q * (len(means) - 1)
        left = int(position)
        right = left + 1
        if right == len(means):
            right = left
        part = position - left
        ends.append(means[left] * (1 - part) + means[right] * part)
    return ends[0], ends[1]


def paired_test(a, b, generator=None):
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} scores and b has {len(b)}")
    if len(a) == 0:
        raise ValueError("a and b have no scores")
    differences = []
    size = 0.0
    seen = 0.0
    for i in range(len(a)):
        difference = float(a[i]) - float(b[i])
        if difference != 0:
            differences.append(difference)
            seen += difference
            size += abs(difference)
    limit = abs(seen) - 1e-10 * size
    if len(differences) <= 20:
        sums = [0.0]
        for difference in differences:
            longer = []
            for total in sums:
                longer.append(total + difference)
                longer.append(total - difference)
            sums = longer
        far = 0
        for total in sums:
            if total >= limit or -total >= limit:
                far += 1
        return far / len(sums)
    far = 1
    for _ in range(10000):
        signs = torch.randint(0, 2, (len(differences),), generator=generator).tolist()
        total = 0.0
        for i in range(len(differences)):
            if signs[i] == 1:
                total += differences[i]
            else:
                total -= differences[i]
        if abs(total) >= limit:
            far += 1
    return far / 10001


def questions_needed(accuracy, difference, power=0.8):
    if accuracy < 0 or accuracy > 1:
        raise ValueError(f"accuracy = {accuracy} is not from 0 to 1")
    if difference <= 0:
        raise ValueError(f"difference = {difference} is not above 0")
    if accuracy + difference > 1.000001:
        raise ValueError(f"difference = {difference} is too large")
    if power <= 0.5 or power >= 1:
        raise ValueError(f"power = {power} is not between 0.5 and 1")
    variance = 0.0
    for p in [accuracy, accuracy + difference]:
        if p < 1:
            variance += p * (1 - p)
    z = 0.0
    for share in [0.975, power]:
        z += NormalDist(0, 1).inv_cdf(share)
    n = math.ceil(z * z * variance / (difference * difference))
    if n < 1:
        n = 1
    return n


def calibration_error(confidence, correct, bins=10):
    if bins < 1:
        raise ValueError(f"bins = {bins} is below 1")
    if confidence.shape != correct.shape:
        raise ValueError(f"correct has another shape, {tuple(correct.shape)}, than {tuple(confidence.shape)}")
    n = len(confidence)
    if n == 0:
        raise ValueError("confidence is empty")
    sums = [0.0] * bins
    for k in range(n):
        c = confidence[k].item()
        if not (c >= 0 and c <= 1):
            raise ValueError(f"confidence has {c}, which is no probability")
        i = 0
        while i < bins - 1 and c >= (i + 1) / bins:
            i += 1
        sums[i] += c
        if correct[k].item() == 1:
            sums[i] -= 1
    total = 0.0
    for i in range(bins):
        total += abs(sums[i])
    return total / n


def fit_temperature(logits, targets):
    if len(logits) == 0:
        raise ValueError("logits has no rows")
    rows = logits.double().tolist()
    right = targets.tolist()
    low = 0.01
    high = 100.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        slope = 0.0
        for n in range(len(rows)):
            largest = max(rows[n])
            total = 0.0
            average = 0.0
            for z in rows[n]:
                weight = math.exp((z - largest) / middle)
                total += weight
                average += weight * (z - largest)
            slope += average / total - (rows[n][right[n]] - largest)
        if slope > 0:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


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


def bradley_terry(wins):
    if wins.dim() != 2 or wins.shape[0] != wins.shape[1]:
        raise ValueError(f"wins has the shape {tuple(wins.shape)}")
    P = wins.shape[0]
    table = wins.tolist()
    for i in range(P):
        for j in range(P):
            if table[i][j] < 0:
                raise ValueError(f"wins has {table[i][j]}, which is below 0")
            table[i][j] += 0.5
    ratings = [0.0] * P
    # one player after the other: Newton's step for its own rating, again and again
    for _ in range(20000):
        largest = 0.0
        for i in range(P):
            slope = 0.0
            curvature = 0.0
            for j in range(P):
                if j != i:
                    games = table[i][j] + table[j][i]
                    chance = 1 / (1 + math.exp(ratings[j] - ratings[i]))
                    slope += table[i][j] - games * chance
                    curvature += games * chance * (1 - chance)
            if curvature > 0:
                step = slope / curvature
                if step > 1:
                    step = 1.0
                if step < -1:
                    step = -1.0
                ratings[i] += step
                largest = max(largest, abs(step))
        if largest < 1e-9:
            break
    mean = sum(ratings) / P
    for i in range(P):
        ratings[i] -= mean
    return torch.tensor(ratings, dtype=torch.float32, device=wins.device)


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
