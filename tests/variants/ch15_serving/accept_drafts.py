# variant: all random numbers at once, and the number of kept tokens counted by cumprod
def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    n = len(drafted)
    if n == 0:
        return torch.multinomial(target_probs[0], 1, generator=generator).tolist()
    ids = torch.tensor(list(drafted))
    rows = torch.arange(n)
    chances = target_probs[rows, ids] / draft_probs[rows, ids]
    luck = torch.rand(n, generator=generator)
    kept = int((luck < chances).long().cumprod(0).sum())
    last = target_probs[n] if kept == n else residual_distribution(target_probs[kept], draft_probs[kept])
    return ids[:kept].tolist() + [int(torch.multinomial(last, 1, generator=generator))]


# variant: multiplied instead of divided, and draws by the inverse of the distribution function
def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    def draw(probs):
        position = torch.rand(1, generator=generator, dtype=torch.float64) * probs.double().sum()
        return min(int((probs.double().cumsum(0) <= position).sum()), len(probs) - 1)

    result = []
    for target, draft, token in zip(target_probs, draft_probs, drafted):
        if torch.rand(1, generator=generator).item() * draft[token].item() < target[token].item():
            result.append(token)
        else:
            result.append(draw(residual_distribution(target, draft)))
            break
    else:
        result.append(draw(target_probs[len(drafted)]))
    return result


# variant: exponential race for the draws, recursion over the rows
def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    def race(probs):
        waits = torch.empty(probs.shape, dtype=torch.float64).exponential_(generator=generator)
        return int((probs / waits).argmax())

    if len(drafted) == 0:
        return [race(target_probs[0])]
    first = int(drafted[0])
    chance = min(1.0, float(target_probs[0, first] / draft_probs[0, first]))
    if float(torch.rand((), generator=generator, dtype=torch.float64)) < chance:
        return [first] + accept_drafts(target_probs[1:], draft_probs[1:], list(drafted)[1:], generator)
    return [race(residual_distribution(target_probs[0], draft_probs[0]))]
