# variant: a number between 0 and the sum of the weights
def mixture(streams, weights, generator):
    if len(weights) != len(streams):
        raise ValueError(f"{len(weights)} weights for {len(streams)} streams")
    if any(weight < 0 for weight in weights) or all(weight == 0 for weight in weights):
        raise ValueError(f"weights = {weights} cannot be shares")
    return _draw([[weight, iter(stream)] for weight, stream in zip(weights, streams) if weight > 0], generator)


def _draw(left, generator):
    while left:
        point = torch.rand(1, generator=generator, dtype=torch.float64).item() * sum(weight for weight, _ in left)
        for place, (weight, stream) in enumerate(left):
            point -= weight
            if point < 0 or place == len(left) - 1:
                break
        try:
            yield next(stream)
        except StopIteration:
            left.pop(place)


# variant: an object with __next__
class _Mixer:
    def __init__(self, streams, weights, generator):
        self.streams, self.weights, self.generator = list(streams), list(weights), generator
        self.started = {}

    def __iter__(self):
        return self

    def __next__(self):
        while any(self.weights):
            i = torch.multinomial(torch.tensor(self.weights, dtype=torch.double), 1, generator=self.generator).item()
            if i not in self.started:
                self.started[i] = iter(self.streams[i])
            for item in self.started[i]:
                return item
            self.weights[i] = 0
        raise StopIteration


def mixture(streams, weights, generator):
    assert len(streams) == len(weights) and min(weights) >= 0 and max(weights) > 0, f"weights = {weights}"
    return _Mixer(streams, weights, generator)


# variant: streams that have ended are left out
def mixture(streams, weights, generator):
    if len(list(weights)) != len(streams):
        raise ValueError(f"weights: {len(list(weights))} of them for {len(streams)} streams")
    if not all(weight >= 0 for weight in weights) or sum(weights) <= 0:
        raise ValueError(f"weights: {list(weights)}")
    nothing = object()

    def items():
        alive = {number: iter(stream) for number, stream in enumerate(streams) if weights[number] > 0}
        while alive:
            numbers = list(alive)
            shares = torch.tensor([float(weights[number]) for number in numbers])
            number = numbers[int(torch.multinomial(shares / shares.sum(), 1, generator=generator))]
            item = next(alive[number], nothing)
            if item is nothing:
                del alive[number]
            else:
                yield item

    return items()
