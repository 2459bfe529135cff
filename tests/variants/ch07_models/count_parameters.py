# variant: a loop that remembers by identity what it has met, product of the shape
def count_parameters(model):
    met, total = set(), 0
    for part in model.modules():
        for parameter in part.parameters(recurse=False):
            if id(parameter) in met:
                continue
            met.add(id(parameter))
            size = 1
            for length in parameter.shape:
                size *= length
            total += size
    return total


# variant: math.prod over a dict of unique parameters
def count_parameters(model: nn.Module) -> int:
    import math

    unique = {parameter: math.prod(parameter.shape) for _, parameter in model.named_parameters(remove_duplicate=False)}
    return sum(unique.values())


# variant: one long vector, measured
def count_parameters(model: nn.Module) -> int:
    vector = torch.cat([p.detach().flatten() for p in model.parameters()] or [torch.empty(0)])
    return vector.nelement()


# variant: one at a time, by name
def count_parameters(model):
    return sum(p.nelement() for _, p in model.named_parameters())
