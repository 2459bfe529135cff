# variant: the largest activation of each feature
def dead_features(features_seen, window):
    N = features_seen.size(0)
    if window < 1 or window > N:
        raise ValueError(f"the window must be from 1 to {N}, not {window}")
    return features_seen[N - window :].amax(dim=0) <= 0


# variant: no activation is positive
def dead_features(features_seen, window):
    assert window in range(1, len(features_seen) + 1), f"{window=}"
    recent = features_seen.narrow(0, len(features_seen) - window, window)
    return torch.all(recent <= 0, dim=0)


# variant: counted
def dead_features(features_seen, window):
    if not 0 < window <= features_seen.shape[0]:
        raise ValueError(f"window is {window}")
    return (features_seen.flip(0)[:window] > 0).sum(0) == 0
