# variant: from the mean of all states
def mean_direction(positive, negative):
    middle = torch.cat([positive, negative]).sum(dim=0) / (len(positive) + len(negative))
    raw = positive.mean(0) - negative.mean(0)
    if not raw.any():
        raise ValueError("equal means")
    toward = positive.mean(0) - middle
    return toward / toward.square().sum().sqrt() if toward.any() else raw / raw.square().sum().sqrt()


# variant: as a product with weights
def mean_direction(positive, negative):
    weights = torch.cat([positive.new_full((len(positive),), 1 / len(positive)), negative.new_full((len(negative),), -1 / len(negative))])
    plus, minus = torch.mean(positive, 0), torch.mean(negative, 0)
    assert not torch.equal(plus, minus), "there is no direction between equal means"
    direction = weights @ torch.cat([positive - plus.detach(), negative - plus.detach()])
    return torch.nn.functional.normalize(direction, dim=0, eps=1e-30)


# variant: sums divided by counts, torch.linalg
def mean_direction(positive, negative):
    vector = positive.sum(0).div(positive.shape[0]).sub(negative.sum(0).div(negative.shape[0]))
    size = torch.linalg.vector_norm(vector)
    if not size > 0:
        raise ValueError("no direction: the means are equal")
    return vector.div(size)
