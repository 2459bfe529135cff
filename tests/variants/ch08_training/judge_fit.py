# variant: as ratios, one expression
def judge_fit(train_losses, val_losses):
    rise = val_losses[-1] / min(val_losses) - 1
    fall = 1 - train_losses[-1] / train_losses[0]
    return "overfitting" if rise > 0.05 and train_losses[-1] <= min(train_losses) else "underfitting" if fall < 0.1 else "learning"


# variant: tensors
def judge_fit(train_losses, val_losses):
    train, val = torch.tensor(train_losses, dtype=torch.float64), torch.tensor(val_losses, dtype=torch.float64)
    if bool(val[-1] > val.min() * 1.05) and bool(train[-1] == train.min()):
        return "overfitting"
    if bool((train[0] - train[-1]) / train[0] < 0.1):
        return "underfitting"
    return "learning"


# variant: facts first
def judge_fit(train_losses, val_losses):
    *_, last_train = train_losses
    *_, last_val = val_losses
    turned = last_val - min(val_losses) > 0.05 * min(val_losses)
    at_its_best = all(last_train <= loss for loss in train_losses)
    hardly_moved = train_losses[0] - last_train < 0.1 * train_losses[0]
    verdicts = {(True, True): "overfitting", (True, False): "overfitting", (False, True): "underfitting"}
    return verdicts.get((turned and at_its_best, hardly_moved), "learning")
