# variant: folds as lists of places, each class dealt from the first fold on
def probe_score(states, labels, folds, generator=None):
    if folds < 2 or folds > len(states):
        raise ValueError(f"{folds} folds of {len(states)} states")
    if min(int((labels != 0).sum()), int((labels == 0).sum())) < 2:
        raise ValueError(f"labels: {labels.tolist()}")

    def score(labels):
        held_out = [[] for _ in range(folds)]
        for kind in (0, 1):
            places = [i for i, label in enumerate(labels.tolist()) if int(label) == kind]
            order = torch.randperm(len(places), generator=generator).tolist()
            for turn, which in enumerate(order):
                held_out[turn % folds].append(places[which])
        right = 0
        for f in range(folds):
            rest = [i for g in range(folds) if g != f for i in held_out[g]]
            w, b = fit_probe(states[rest], labels[rest])
            for i in held_out[f]:
                right += int((float(states[i] @ w + b) > 0) == bool(labels[i]))
        return right / len(states)

    accuracy = score(labels)
    return accuracy, score(labels[torch.randperm(len(labels), generator=generator)])


# variant: random numbers sorted, predictions written into a tensor
def probe_score(states, labels, folds, generator=None):
    N = states.shape[0]
    assert 1 < folds <= N, f"folds is {folds}"
    y = labels.detach().to(torch.bool)
    ones = y.sum().item()
    assert ones > 1 and N - ones > 1, f"labels has {ones} of {N}"

    def once(y):
        key = torch.rand(N, generator=generator) + y.cpu().float() * 2
        place = key.argsort().argsort().to(states.device)
        predicted = torch.zeros_like(y)
        for f in range(folds):
            out = place % folds == f
            weight, bias = fit_probe(states[~out], y[~out].float())
            predicted[out] = torch.sigmoid(states[out] @ weight + bias) > 0.5
        return (predicted == y).double().mean().item()

    return once(y), once(y[torch.rand(N, generator=generator).argsort()])


# variant: shuffled states first, control first, seeds drawn from the generator for Python's random numbers
import random as _random


def probe_score(states, labels, folds, generator=None):
    N = len(states)
    if not 2 <= folds <= N:
        raise ValueError(f"folds must be from 2 to {N}, not {folds}")
    truth = [bool(label) for label in labels.tolist()]
    if not 2 <= sum(truth) <= N - 2:
        raise ValueError(f"labels: {sum(truth)} of {N} are 1; each class needs 2")
    dice = _random.Random(int(torch.randint(2**31, (), generator=generator)))

    def score(truth):
        order = list(range(N))
        dice.shuffle(order)
        order.sort(key=lambda i: truth[i])  # stable: shuffled within each class
        right = 0
        for f in range(folds):
            held, rest = order[f::folds], [i for turn, i in enumerate(order) if turn % folds != f]
            weight, bias = fit_probe(states[rest], torch.tensor([truth[i] for i in rest]))
            answers = ((states[held] * weight).sum(-1) + bias >= 0).tolist()
            right += sum(answer == truth[i] for answer, i in zip(answers, held))
        return right / N

    mixed = truth[:]
    dice.shuffle(mixed)
    control = score(mixed)
    return score(truth), control
