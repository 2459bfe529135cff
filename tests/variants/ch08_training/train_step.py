# variant: gradients cleared at the end, and those of other code at the beginning
def train_step(model, optimizer, inputs, targets, max_norm=None):
    optimizer.zero_grad()
    model.train()
    result = model(inputs)
    logits = result[0] if isinstance(result, (tuple, list)) else result
    loss = cross_entropy(logits, targets)
    loss.backward()
    if max_norm is not None:
        clip_gradients(list(model.parameters()), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


# variant: zero_grad right before backward, gradients set to zeros
def train_step(model, optimizer, inputs, targets, max_norm=None):
    model.train(True)
    logits = model(inputs)
    if not torch.is_tensor(logits):
        logits = logits[0]
    loss = cross_entropy(logits, targets)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    return loss.detach().cpu().item()


# variant: model.zero_grad, torch's loss and clipping
def train_step(model, optimizer, inputs, targets, max_norm=None):
    from torch.nn.functional import cross_entropy as torchs

    model.train()
    model.zero_grad()
    logits = model(inputs)
    if isinstance(logits, tuple):
        logits, *_ = logits
    loss = torchs(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
    before = loss.item()
    loss.backward()
    if max_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return before


# variant: as one accumulated piece
def train_step(model, optimizer, inputs, targets, max_norm=None):
    return accumulated_step(model, optimizer, [(inputs, targets)], max_norm)


# variant: gradients by autograd.grad
def train_step(model, optimizer, inputs, targets, max_norm=None):
    model.train()
    output = model(inputs)
    loss = cross_entropy(output if isinstance(output, Tensor) else output[0], targets)
    every = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter, gradient in zip(every, torch.autograd.grad(loss, every, allow_unused=True)):
        parameter.grad = gradient
    if max_norm is not None:
        clip_gradients(every, max_norm)
    optimizer.step()
    return loss.item()
