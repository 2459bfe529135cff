# variant: no hooks: the blocks are walked by hand, and the scale is the norm's own formula
def logit_attribution(model, ids, target):
    V, D = model.lm_head.weight.shape
    if ids.shape[0] != 1:
        raise ValueError(f"{ids.shape[0]} texts, and only one is possible")
    if target < 0 or target >= V:
        raise ValueError(f"there is no token {target} among {V}")
    centred = hasattr(model.ln_f, "bias")
    with looking_at(model):
        x = model.token_emb(ids)
        if getattr(model, "pos_emb", None) is not None:
            x = model.pos_emb(x)
        vectors, total_bias = {"embedding": x[0, -1]}, torch.zeros(D).to(x)
        for i, block in enumerate(model.blocks):
            merged = []
            handle = block.attn.W_out.register_forward_pre_hook(lambda module, inputs: merged.append(inputs[0]))
            try:
                x = x + block.attn(block.ln1(x))
            finally:
                handle.remove()
            width = D // block.attn.n_heads
            for h in range(block.attn.n_heads):
                where = slice(h * width, (h + 1) * width)
                vectors[f"head {i}.{h}"] = merged[0][0, -1, where] @ block.attn.W_out.weight[:, where].T
            if block.attn.W_out.bias is not None:
                total_bias += block.attn.W_out.bias
            added = block.ffn(block.ln2(x))
            vectors[f"ffn {i}"] = added[0, -1]
            x = x + added
        vectors["bias"] = total_bias
        last = x[0, -1]
        spread = last.var(unbiased=False) if centred else last.square().mean()
        direction = model.lm_head.weight[target] * model.ln_f.weight / torch.sqrt(spread + model.ln_f.eps)
        if centred:
            direction = direction - direction.mean()  # then a mean of a part adds nothing
        result = {name: float(vector @ direction) for name, vector in vectors.items()}
        if centred:
            result["bias"] += float(model.ln_f.bias @ model.lm_head.weight[target])
        return result


# variant: the norm is linear once its scale is fixed, so it is applied to the stream with one part taken away
def logit_attribution(model, ids, target):
    assert len(ids) == 1, f"one text is possible, not {len(ids)}"
    assert target in range(model.lm_head.out_features), f"target {target} is no token"
    store, handles = {}, []

    def keep(name, before):
        def pre(module, inputs):
            store[name] = inputs[0].detach()[0, -1].clone()

        def post(module, inputs, output):
            store[name] = output.detach()[0, -1].clone()

        return pre if before else post

    norm = model.ln_f
    places = [("embedding", model.blocks[0], True), ("in", norm, True), ("out", norm, False)]
    for i, block in enumerate(model.blocks):
        places += [(f"merged {i}", block.attn.W_out, True), (f"ffn {i}", block.ffn, False)]
    try:
        for name, module, before in places:
            register = module.register_forward_pre_hook if before else module.register_forward_hook
            handles.append(register(keep(name, before)))
        with looking_at(model):
            model(ids)
    finally:
        for handle in handles:
            handle.remove()

    shift = getattr(norm, "bias", None)
    mean = torch.zeros((), dtype=store["in"].dtype) if shift is None else store["in"].mean()
    plain = store["out"] if shift is None else store["out"] - shift.detach()
    factor = (plain @ plain) / (plain @ ((store["in"] - mean) * norm.weight.detach()))
    row = model.lm_head.weight.detach()[target]

    def share(vector):
        vector = vector if shift is None else vector - vector.mean()
        return (factor * norm.weight.detach() * vector).dot(row).tolist()

    parts, biases = {"embedding": share(store["embedding"])}, 0.0
    for i, block in enumerate(model.blocks):
        heads = block.attn.n_heads
        columns = block.attn.W_out.weight.detach().unflatten(1, (heads, -1))  # (D, H, d_head)
        features = store[f"merged {i}"].unflatten(0, (heads, -1))  # (H, d_head)
        for h, vector in enumerate(torch.einsum("khd,hd->hk", columns, features)):
            parts[f"head {i}.{h}"] = share(vector)
        parts[f"ffn {i}"] = share(store[f"ffn {i}"])
        biases += 0.0 if block.attn.W_out.bias is None else share(block.attn.W_out.bias.detach())
    parts["bias"] = biases + (0.0 if shift is None else float(shift.detach() @ row))
    return parts


# variant: a head's part is the difference that its features make to W_out
def logit_attribution(model, ids, target):
    if ids.ndim != 2 or ids.size(0) != 1:
        raise ValueError(f"ids are {ids.size(0)} texts")
    if not (0 <= target <= len(model.lm_head.weight) - 1):
        raise ValueError(f"target = {target} is not possible")
    vectors = {}

    def record(name, index=None):
        def hook(module, inputs, output=None):
            value = inputs[0] if output is None or index is not None else output
            vectors[name] = value[:, -1].squeeze(0)

        return hook

    norm, biases = model.ln_f, []
    order = ["embedding"]
    handles = [model.blocks[0].register_forward_pre_hook(record("embedding"))]
    handles.append(norm.register_forward_hook(record("stream", 0)))
    for i, block in enumerate(model.blocks):
        order += [f"head {i}.{h}" for h in range(block.attn.n_heads)] + [f"ffn {i}"]
        handles.append(block.attn.W_out.register_forward_hook(record(f"merged {i}", 0)))
        handles.append(block.ffn.register_forward_hook(record(f"ffn {i}")))
    with hooked(*handles), looking_at(model):
        model(ids)
    with torch.no_grad():
        for i, block in enumerate(model.blocks):
            W, merged = block.attn.W_out, vectors.pop(f"merged {i}")
            nothing = W(torch.zeros_like(merged))
            biases.append(nothing)
            width = len(merged) // block.attn.n_heads
            for h in range(block.attn.n_heads):
                only = torch.zeros_like(merged)
                only[h * width : (h + 1) * width] = merged[h * width : (h + 1) * width]
                vectors[f"head {i}.{h}"] = W(only) - nothing
        stream = vectors.pop("stream")
        vectors["bias"] = sum(biases)
        layer_norm = "bias" in dict(norm.named_parameters())
        centre = (lambda v: v - v.mean()) if layer_norm else (lambda v: v)
        at_zero = norm.bias if layer_norm else 0
        length = centre(stream).norm() / ((norm(stream) - at_zero) / norm.weight).norm()
        head = model.lm_head.weight[target]
        found = {name: (norm.weight * centre(vectors[name]) / length * head).sum().item() for name in [*order, "bias"]}
        if layer_norm:
            found["bias"] += (norm.bias * head).sum().item()
    return found
