# variant: no hooks: the blocks are walked by hand, and the states are leaves or have a graph
def attribution_patching(model, clean_ids, corrupted_ids, metric):
    if tuple(clean_ids.shape) != tuple(corrupted_ids.shape):
        raise ValueError(f"{tuple(clean_ids.shape)} is not {tuple(corrupted_ids.shape)}")
    table = getattr(model, "pos_emb", None)
    with looking_at(model):
        x = model.token_emb(clean_ids)
        x = x if table is None else table(x)
        clean = [x]
        for block in model.blocks:
            clean.append(block(clean[-1]))
        y = model.token_emb(corrupted_ids)
        y = (y if table is None else table(y)).detach().clone()
        with torch.enable_grad():
            states = [y.requires_grad_()]
            for block in model.blocks:
                states.append(block(states[-1]))
            result = metric(model.lm_head(model.ln_f(states[-1])))
            if not torch.is_tensor(result) or result.numel() > 1 or result.grad_fn is None:
                raise ValueError(f"metric gave {result}, which is not one number with a graph")
            slopes = torch.autograd.grad(result, states)
        rows = [torch.einsum("btd,btd->t", slope, a - b.detach()) for slope, a, b in zip(slopes, clean, states)]
    return torch.stack(rows).detach()


# variant: a zero is added to each state, and the gradients are those of the zeros
def attribution_patching(model, clean_ids, corrupted_ids, metric):
    assert clean_ids.shape == corrupted_ids.shape, "the texts have different shapes"
    layers, D = len(model.blocks), model.token_emb.weight.size(1)
    like = model.token_emb.weight
    zeros = like.new_zeros(layers + 1, *clean_ids.shape, D).requires_grad_()
    records = {"clean": [], "corrupted": []}

    def run(name, ids):
        def before(block, inputs):
            records[name].append(inputs[0].detach())
            return (inputs[0] + zeros[0], *inputs[1:]) if name == "corrupted" else None

        def after(i):
            def hook(block, inputs, output):
                records[name].append(output.detach())
                return output + zeros[i + 1] if name == "corrupted" else None

            return hook

        handles = [model.blocks[0].register_forward_pre_hook(before)]
        try:
            handles += [block.register_forward_hook(after(i)) for i, block in enumerate(model.blocks)]
            found = model(ids)
        finally:
            while handles:
                handles.pop().remove()
        return found if isinstance(found, torch.Tensor) else found[0]

    with looking_at(model):
        run("clean", clean_ids)
        with torch.enable_grad():
            number = metric(run("corrupted", corrupted_ids))
            if not (isinstance(number, torch.Tensor) and number.nelement() == 1 and number.requires_grad):
                raise ValueError("what metric returns cannot be used")
            [slopes] = torch.autograd.grad(number, [zeros])
    difference = torch.stack(records["clean"]) - torch.stack(records["corrupted"])
    return (slopes * difference).sum(-1).sum(1)


# variant: both texts in one batch
def attribution_patching(model, clean_ids, corrupted_ids, metric):
    if clean_ids.ndim != corrupted_ids.ndim or any(a != b for a, b in zip(clean_ids.shape, corrupted_ids.shape)):
        raise ValueError(f"{list(clean_ids.shape)} and {list(corrupted_ids.shape)} differ")
    B, store = len(clean_ids), []

    def start(block, inputs):
        store.append(inputs[0].detach().clone().requires_grad_(True))
        return store[:1] and (store[0],)

    modes = {module: module.training for module in model.modules()}
    handles = [model.blocks[0].register_forward_pre_hook(start)]
    for block in model.blocks:
        handles.append(block.register_forward_hook(lambda module, args, output: store.append(output)))
    try:
        model.eval()
        with torch.enable_grad():
            result = model(torch.cat([clean_ids, corrupted_ids], dim=0))
            logits = result[0] if isinstance(result, tuple) else result
            value = metric(logits[B:])
            try:
                gradients = torch.autograd.grad(value, store)
            except (TypeError, RuntimeError, AttributeError, IndexError) as problem:
                raise ValueError(f"metric must return one number with a graph: {problem}") from None
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
    with torch.no_grad():
        return torch.stack([((state[:B] - state[B:]) * slope[B:]).sum(dim=-1).sum(dim=0) for state, slope in zip(store, gradients)])
