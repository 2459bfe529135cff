"""In explicit loops: words one by one, pairs one by one, products one after the other."""

import hashlib
import math

import torch


def seeded_hash(text, seed):
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, salt=(seed % 2**64).to_bytes(8, "big"))
    return int.from_bytes(digest.digest(), "big")


def jaccard(one, other):
    return len(one & other) / len(one | other) if one or other else 1.0


def shingles(text, n):
    if n < 1:
        raise ValueError(f"a run of n = {n} words is impossible")
    words = text.lower().split()
    found = set()
    start = 0
    while start + n <= len(words):
        run = words[start]
        for word in words[start + 1 : start + n]:
            run = run + " " + word
        found.add(run)
        start += 1
    if len(words) > 0 and len(found) == 0:
        found.add(" ".join(words))
    return found


def minhash(shingles, seeds):
    signature = []
    for seed in seeds:
        smallest = 2**64
        for shingle in shingles:
            number = seeded_hash(shingle, seed)
            if number < smallest:
                smallest = number
        signature.append(smallest)
    return signature


def candidate_pairs(signatures, bands):
    if bands < 1:
        raise ValueError(f"bands = {bands} is below 1")
    for signature in signatures:
        if len(signature) % bands != 0:
            raise ValueError(f"bands = {bands} does not divide {len(signature)}")
    pairs = []
    for band in range(bands):
        meeting = {}
        for i, signature in enumerate(signatures):
            rows = len(signature) // bands
            key = tuple(signature[band * rows : (band + 1) * rows])
            for earlier in meeting.get(key, []):
                if (earlier, i) not in pairs:
                    pairs.append((earlier, i))
            meeting.setdefault(key, []).append(i)
    pairs.sort()
    return pairs


def deduplicate(texts, threshold, n=3, seeds=range(64), bands=16):
    sets = []
    signatures = []
    for text in texts:
        sets.append(shingles(text, n))
        signatures.append(minhash(sets[-1], seeds))
    pairs = candidate_pairs(signatures, bands)
    stays = [True] * len(texts)
    for j in range(len(texts)):
        for i in range(j):
            if stays[i] and (i, j) in pairs and jaccard(sets[i], sets[j]) >= threshold:
                stays[j] = False
    kept = []
    for j in range(len(texts)):
        if stays[j]:
            kept.append(j)
    return kept


def quality_reasons(text):
    reasons = []
    words = text.split()
    lines = []
    for line in text.splitlines():
        if line.strip() != "":
            lines.append(line.strip())

    if len(words) < 50 or len(words) > 100000:
        reasons.append("words")

    characters = 0
    for word in words:
        characters += len(word)
    mean = 0
    if words:
        mean = characters / len(words)
    if mean < 3 or mean > 10:
        reasons.append("word length")

    hashes = text.count("#")
    ellipses = text.count("...") + text.count("…")
    if words and (hashes / len(words) > 0.1 or ellipses / len(words) > 0.1):
        reasons.append("symbols")

    bullets = 0
    open_lines = 0
    repeated = 0
    seen = []
    for line in lines:
        if line[0] in ("-", "*", "•"):
            bullets += 1
        if line.endswith("...") or line.endswith("…"):
            open_lines += 1
        if line in seen:
            repeated += 1
        seen.append(line)
    if lines and bullets / len(lines) > 0.9:
        reasons.append("bullets")
    if lines and open_lines / len(lines) > 0.3:
        reasons.append("ellipses")

    with_letter = 0
    for word in words:
        for character in word:
            if character.isalpha():
                with_letter += 1
                break
    if not words or with_letter / len(words) < 0.8:
        reasons.append("letters")

    different = set()
    for word in words:
        if word.lower() in ("the", "be", "to", "of", "and", "that", "have", "with"):
            different.add(word.lower())
    if len(different) < 2:
        reasons.append("stop words")
    if lines and repeated / len(lines) > 0.3:
        reasons.append("repeated lines")

    too_much = False
    for n, limit in ((2, 0.2), (3, 0.18), (4, 0.16)):
        counts = {}
        for start in range(len(words) - n + 1):
            run = tuple(words[start : start + n])
            counts[run] = counts.get(run, 0) + 1
        most, longest = 1, 0
        for run, often in counts.items():
            length = len("".join(run))
            if often > most or (often == most and length > longest):
                most, longest = often, length
        if most > 1 and most * longest / characters > limit:
            too_much = True
    if too_much:
        reasons.append("repeated n-grams")
    return reasons


def mixture(streams, weights, generator):
    total = 0
    for weight in weights:
        if weight < 0:
            raise ValueError(f"weights has {weight}, which is negative")
        total += weight
    if total == 0 or len(weights) != len(streams):
        raise ValueError(f"weights {weights} do not fit {len(streams)} streams")
    return draw_from(streams, list(weights), generator)


def draw_from(streams, weights, generator):
    running = []
    for stream in streams:
        running.append(iter(stream))
    while sum(weights) > 0:
        place = torch.rand((), generator=generator, dtype=torch.float64).item() * sum(weights)
        chosen = None
        for number, weight in enumerate(weights):
            if weight == 0:
                continue
            chosen = number
            if place < weight:
                break
            place -= weight
        found = []
        for item in running[chosen]:
            found.append(item)
            break
        if found:
            yield found[0]
        else:
            weights[chosen] = 0


def bits_per_byte(loss_sum, n_bytes):
    if n_bytes < 1:
        raise ValueError(f"n_bytes is {n_bytes}")
    bits = loss_sum / math.log(2)
    return bits / n_bytes


def training_flops(config, n_tokens, length):
    D = config.d_model
    d_ff = 4 * D
    if config.d_ff is not None:
        d_ff = config.d_ff
    forward = 0
    parameters = 0
    for _ in range(config.n_layers):
        for n_in, n_out in ((D, D), (D, D), (D, D), (D, D), (D, d_ff), (d_ff, D)):
            forward += 2 * n_in * n_out
            parameters += n_in * n_out + n_out
        forward += 2 * length * D  # scores
        forward += 2 * length * D  # averages
        parameters += 2 * (D + D)  # two norms
    forward += 2 * D * config.vocab_size
    parameters += D + D
    parameters += config.vocab_size * D
    if not config.tie_weights:
        parameters += config.vocab_size * D
    if config.positions == "learned":
        parameters += config.max_len * D
    backward = 2 * forward
    return n_tokens * (forward + backward), 6 * parameters * n_tokens


def fit_power_law(x, y):
    different = []
    for value in x:
        if value not in different:
            different.append(value)
    if len(different) < 3:
        raise ValueError(f"only {len(different)} different x")
    count = len(x)
    middle = 0.0
    for value in x:
        middle += math.log(value) / count
    mean_y = sum(y) / count

    def solve(c):
        powers = []
        for value in x:
            powers.append(math.exp(-c * (math.log(value) - middle)))
        mean_p = sum(powers) / count
        above, below = 0.0, 0.0
        for p, v in zip(powers, y):
            above += (p - mean_p) * (v - mean_y)
            below += (p - mean_p) ** 2
        b = above / below
        a = mean_y - b * mean_p
        error = 0.0
        for p, v in zip(powers, y):
            error += (a + b * p - v) ** 2
        return error, a, b

    low, high = math.log(0.01), math.log(3)
    best = 0
    for _ in range(9):
        step = (high - low) / 40
        tried = []
        for k in range(41):
            tried.append((solve(math.exp(low + k * step))[0], low + k * step))
        best = min(tried)[1]
        low, high = max(best - step, math.log(0.01)), min(best + step, math.log(3))
    c = math.exp(best)
    _, a, b = solve(c)
    return a, b * math.exp(c * middle), c


def line_through(x, y):
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above, below = 0.0, 0.0
    for u, v in zip(x, y):
        above += (u - mean_x) * (v - mean_y)
        below += (u - mean_x) ** 2
    slope = above / below
    return mean_y - slope * mean_x, slope


def lowest_point(x, y):
    """Of the best parabola, by Cramer's rule; None if it opens downwards."""
    mean = sum(x) / len(x)
    sums = [0.0] * 5
    heights = [0.0] * 3
    for u, v in zip(x, y):
        for power in range(5):
            sums[power] += (u - mean) ** power
        for power in range(3):
            heights[power] += v * (u - mean) ** power

    def determinant(m):
        return (
            m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
        )

    matrix = [[sums[row + column] for column in range(3)] for row in range(3)]
    whole = determinant(matrix)
    found = []
    for column in range(3):
        changed = [list(row) for row in matrix]
        for row in range(3):
            changed[row][column] = heights[row]
        found.append(determinant(changed) / whole)
    if found[2] <= 0:
        return None
    return mean - found[1] / (2 * found[2])


def compute_optimal(runs):
    budgets = []
    for run in runs:
        if run[0] not in budgets:
            budgets.append(run[0])
    if len(budgets) < 2:
        raise ValueError("two budgets are needed")
    sizes, tokens = [], []
    for budget in budgets:
        own = []
        for run in runs:
            if run[0] == budget:
                own.append(run)
        for which, found in ((1, sizes), (2, tokens)):
            x = [math.log(run[which]) for run in own]
            if len(set(x)) < 3:
                raise ValueError(f"too few different runs with {budget} FLOPs")
            point = lowest_point(x, [run[3] for run in own])
            if point is None:
                raise ValueError(f"no minimum at {budget} FLOPs")
            found.append(point)
    logs = [math.log(budget) for budget in budgets]
    start_n, a = line_through(logs, sizes)
    start_d, b = line_through(logs, tokens)

    def predict(budget):
        return math.exp(start_n + a * math.log(budget)), math.exp(start_d + b * math.log(budget))

    return (a, b), predict


def memorised(model, texts, n_prompt):
    if n_prompt < 1:
        raise ValueError(f"n_prompt = {n_prompt} is below 1")
    for text in texts:
        if len(text) <= n_prompt:
            raise ValueError(f"n_prompt = {n_prompt} leaves nothing of a text of {len(text)} tokens")
    modes = []
    for module in model.modules():
        modes.append((module, module.training))
    model.eval()
    counts = []
    with torch.no_grad():
        for text in texts:
            written = list(text[:n_prompt])
            count = 0
            for expected in text[n_prompt:]:
                output = model(torch.tensor([written]))
                if isinstance(output, tuple):
                    output = output[0]
                new = int(output[0, -1].argmax())
                if new != expected:
                    break
                count += 1
                written.append(new)
            counts.append(count)
    for module, mode in modes:
        module.training = mode
    return counts
