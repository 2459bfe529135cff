# variant: summed surprises go backward, gradients divided at the end
def accumulated_step(model, optimizer, micro_batches, max_norm=None):
    model.train()
    optimizer.zero_grad()
    total, count = 0.0, 0
    for inputs, targets in micro_batches:
        kept = int((targets != -100).sum())
        output = model(inputs)
        summed = cross_entropy(output[0] if isinstance(output, tuple) else output, targets) * kept
        summed.backward()
        total += summed.item()
        count += kept
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= max(count, 1)
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return total / max(count, 1)


# variant: cleared at both ends, the loss added up as a tensor without graph
def accumulated_step(model, optimizer, micro_batches, max_norm=None):
    model.train()
    model.zero_grad()
    pieces = tuple(micro_batches)
    n = max(1, sum(targets.ne(-100).sum() for _, targets in pieces))
    loss = 0
    for inputs, targets in pieces:
        logits = model(inputs)
        if isinstance(logits, tuple):
            logits = logits[0]
        share = cross_entropy(logits, targets) * targets.ne(-100).sum() / n
        share.backward()
        loss = loss + share.detach()
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


# variant: empty pieces skipped, torch's summed loss
def accumulated_step(model, optimizer, micro_batches, max_norm=None):
    from torch.nn import functional as F

    micro_batches = [(x, y) for x, y in micro_batches if bool((y != -100).any())]
    tokens = sum((y != -100).sum().item() for _, y in micro_batches)
    model.train()
    model.zero_grad(set_to_none=True)
    whole = 0.0
    for x, y in micro_batches:
        logits = model(x)
        logits = logits if isinstance(logits, Tensor) else logits[0]
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1), reduction="sum") / tokens
        loss.backward()
        whole += loss.item()
    if max_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return whole


# variant: gradients added up outside the parameters
def accumulated_step(model, optimizer, micro_batches, max_norm=None):
    model.train()
    every = [p for p in model.parameters() if p.requires_grad]
    sums, total, n = [None] * len(every), 0.0, 0
    for inputs, targets in micro_batches:
        kept = (targets != -100).sum().item()
        if kept == 0:
            continue
        output = model(inputs)
        loss = cross_entropy(output[0] if isinstance(output, tuple) else output, targets)
        found = torch.autograd.grad(loss * kept, every, allow_unused=True)
        sums = [g if s is None else s if g is None else s + g for s, g in zip(sums, found)]
        total, n = total + loss.item() * kept, n + kept
    for p, s in zip(every, sums):
        p.grad = None if s is None else s / n  # without a target nothing has a gradient
    if max_norm is not None:
        clip_gradients(every, max_norm)
    optimizer.step()
    return total / n if n else 0.0
