# variant: no hooks: the corrupted run is walked by hand, and patched on the way
def patch_residual(model, clean_ids, corrupted_ids, layer, position=None):
    if layer not in range(len(model.blocks)):
        raise ValueError(f"no layer {layer} among {len(model.blocks)}")
    if clean_ids.size() != corrupted_ids.size():
        raise ValueError(f"{list(clean_ids.size())} is not {list(corrupted_ids.size())}")
    with looking_at(model):
        clean, x = (model.token_emb(ids) for ids in (clean_ids, corrupted_ids))
        if model.pos_emb is not None:
            clean, x = model.pos_emb(clean), model.pos_emb(x)
        for i, block in enumerate(model.blocks):
            clean, x = block(clean), block(x)
            if i == layer:
                if position is None:
                    x = clean
                else:
                    x[:, position] = clean[:, position]
        return model.lm_head(model.ln_f(x))


# variant: the patch goes into whatever reads the stream next, with a pre-hook; positions chosen by a mask
def patch_residual(model, clean_ids, corrupted_ids, layer, position=None):
    readers = [*model.blocks, model.ln_f]
    assert 0 <= layer < len(readers) - 1, f"layer {layer}"
    assert clean_ids.shape == corrupted_ids.shape, "the two texts differ in shape"
    source = residual_stream(model, clean_ids)[1:][layer]
    chosen = torch.ones(clean_ids.size(1), dtype=torch.bool, device=clean_ids.device)
    if position is not None:
        chosen = torch.arange(clean_ids.size(1), device=clean_ids.device) == position
    handle = readers[layer + 1].register_forward_pre_hook(lambda m, args: (torch.where(chosen[:, None], source, args[0]),))
    try:
        with looking_at(model):
            return model(corrupted_ids)[0]
    finally:
        handle.remove()


# variant: the output changed in place, and both runs hooked
def patch_residual(model, clean_ids, corrupted_ids, layer, position=None):
    if layer < 0 or layer >= len(model.blocks):
        raise ValueError(f"layer must be in [0, {len(model.blocks)}), got {layer}")
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError("clean_ids and corrupted_ids must have the same shape")
    store, modes = {}, [module.training for module in model.modules()]
    block = model.blocks[layer]

    def run(ids, hook):
        handle = block.register_forward_hook(hook)
        try:
            model.eval()
            with torch.inference_mode():
                return model(ids)
        finally:
            handle.remove()
            for module, mode in zip(model.modules(), modes):
                module.training = mode

    def keep(module, args, output):
        store["clean"] = output.clone()

    def put(module, args, output):
        positions = range(output.size(1)) if position is None else [position]
        for p in positions:
            output[:, p].copy_(store["clean"][:, p])

    run(clean_ids, keep)
    logits, _ = run(corrupted_ids, put)
    return logits


# variant: both texts in one batch, the first half clean
def patch_residual(model, clean_ids, corrupted_ids, layer, position=None):
    if not -1 < layer < len(model.blocks):
        raise ValueError(f"layer {layer} of {len(model.blocks)}")
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"{clean_ids.shape} {corrupted_ids.shape}")
    B = len(clean_ids)

    def patch(module, args, output):
        clean, corrupted = output.split(B)
        if position is None:
            return torch.cat([clean, clean])
        column = clean[:, position : position + 1]
        patched = torch.cat([corrupted[:, :position], column, corrupted[:, position + 1 :]], dim=1)
        return torch.cat([clean, patched])

    hook = model.blocks[layer].register_forward_hook(patch)
    try:
        with looking_at(model):
            return model(torch.cat([clean_ids, corrupted_ids]))[0][B:]
    finally:
        hook.remove()
