# variant: losses and weights gathered, averaged at the end
def fit(model, optimizer, make_batches, epochs, validate=None):
    history = []
    while len(history) < epochs:
        losses, weights = [], []
        for inputs, targets in list(make_batches()):
            weights.append((targets != -100).sum().item())
            losses.append(train_step(model, optimizer, inputs, targets))
        mean = sum(loss * weight for loss, weight in zip(losses, weights)) / sum(weights)
        history.append({"train_loss": mean, "epoch": len(history) + 1})
        if validate:
            history[-1]["val_loss"] = float(validate(model))
    return history


# variant: its own training step
def fit(model, optimizer, make_batches, epochs, validate=None):
    records = []
    for epoch in range(epochs):
        model.train()
        surprise, tokens = 0.0, 0
        for batch in make_batches():
            inputs, targets = batch
            out = model(inputs)
            loss = cross_entropy(out[0] if isinstance(out, tuple) else out, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept = torch.count_nonzero(targets + 100)
            surprise, tokens = surprise + loss.detach() * kept, tokens + kept
        record = dict(epoch=epoch + 1, train_loss=surprise / tokens)
        records.append(record if validate is None else {**record, "val_loss": validate(model)})
    return records


# variant: an epoch as a generator of (loss, count), iterated with next
def fit(model, optimizer, make_batches, epochs, validate=None):
    def one_epoch():
        batches = iter(make_batches())
        while (batch := next(batches, None)) is not None:
            kept = sum(target != -100 for target in batch[1].flatten().tolist())
            yield accumulated_step(model, optimizer, [batch]) * kept, kept

    def record(epoch):
        losses, counts = zip(*one_epoch())
        told = {"epoch": epoch, "train_loss": sum(losses) / sum(counts), "tokens": sum(counts)}
        return told | ({} if validate is None else {"val_loss": validate(model)})

    return [record(epoch) for epoch in range(1, 1 + epochs)]
