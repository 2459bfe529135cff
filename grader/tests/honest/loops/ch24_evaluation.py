"""In explicit loops: resample by resample, sign by sign, game by game."""

import math
from statistics import NormalDist

import torch


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
