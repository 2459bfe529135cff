# variant: log-probabilities looked up only at targets
def perplexity(model, batches):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    surprise = []
    try:
        with torch.inference_mode():
            for inputs, targets in batches:
                out = model(inputs)
                logits = out[0] if isinstance(out, (tuple, list)) else out
                kept = targets != -100
                surprise += (-logits[kept].log_softmax(-1).gather(1, targets[kept].unsqueeze(1))).flatten().tolist()
    finally:
        for module, was in modes.items():
            module.training = was
    if not surprise:
        raise ValueError("nothing to predict")
    return math.exp(sum(surprise) / len(surprise))


# variant: torch's own loss, summed, as a decorated function
@torch.no_grad()
def perplexity(model, batches):
    modes = [module.training for module in model.modules()]
    total, count = torch.zeros((), dtype=torch.float64), 0
    try:
        model.eval()
        for inputs, targets in batches:
            logits = model(inputs)
            if isinstance(logits, tuple):
                logits, *_ = logits
            total += nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-100, reduction="sum")
            count += (targets != -100).sum()
    finally:
        for module, training in zip(model.modules(), modes):
            module.training = training
    assert count > 0, "no targets"
    return (total / count).exp()


# variant: a running mean, over a list of batches
def perplexity(model, batches):
    batches = list(batches)
    before = {name: module.training for name, module in model.named_modules()}
    mean, seen = 0.0, 0
    try:
        for module in model.modules():
            module.training = False
        for inputs, targets in batches:
            with torch.no_grad():
                logits = model(inputs)
            if not torch.is_tensor(logits):
                logits = logits[0]
            kept = int(torch.count_nonzero(targets != -100))
            if kept:
                seen += kept
                mean += (float(cross_entropy(logits, targets)) - mean) * kept / seen
    finally:
        for name, module in model.named_modules():
            module.training = before[name]
    if seen == 0:
        raise ValueError("no token at all")
    return math.e**mean
