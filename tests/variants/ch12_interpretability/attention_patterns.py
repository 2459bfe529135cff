# variant: pre-hooks record the input of every attention, which is called again afterwards
def attention_patterns(model, ids):
    read = []
    hooks = [block.attn.register_forward_pre_hook(lambda module, args: read.append(args[0])) for block in model.blocks]
    try:
        with looking_at(model):
            model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    with looking_at(model):
        return torch.stack([block.attn(x, return_weights=True)[1] for block, x in zip(model.blocks, read)])


# variant: each attention is called with return_weights, and a hook collects the weights, in one run
def attention_patterns(model, ids):
    weights, hooks = [], []

    def ask(module, args, kwargs):
        return args, {**kwargs, "return_weights": True}

    def take(module, args, kwargs, output):
        weights.append(output[1])
        return output[0]

    for block in model.blocks:
        hooks.append(block.attn.register_forward_pre_hook(ask, with_kwargs=True))
        hooks.append(block.attn.register_forward_hook(take, with_kwargs=True))
    try:
        with looking_at(model):
            model(ids)
    finally:
        [hook.remove() for hook in hooks]
    return torch.stack(weights)


# variant: scores computed again from queries and keys, with einsum
import math


def attention_patterns(model, ids):
    from .ch04_positions_in_attention import alibi_bias, apply_rope

    T, patterns = ids.size(1), []
    with looking_at(model):
        for block, x in zip(model.blocks, residual_stream(model, ids)):
            attn, x = block.attn, block.ln1(x)
            q, k = (W(x).unflatten(-1, (attn.n_heads, -1)).transpose(1, 2) for W in (attn.W_q, attn.W_k))
            if attn.positions == "rope":
                q, k = (apply_rope(part, torch.arange(T, device=x.device)) for part in (q, k))
            scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.size(-1))
            if attn.positions == "alibi":
                scores = scores + alibi_bias(attn.n_heads, T, T).to(scores)
            future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
            patterns.append(scores.masked_fill(future, -math.inf).softmax(-1))
    return torch.stack(patterns)


# variant: walked by hand, in inference mode, stream and weights side by side
def attention_patterns(model, ids):
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            x = model.token_emb(ids)
            if model.pos_emb:
                x = model.pos_emb(x)
            rows = []
            for block in model.blocks:
                found, weights = block.attn(block.ln1(x), return_weights=True)
                rows += [weights]
                x = x + found
                x = x + block.ffn(block.ln2(x))
    finally:
        for module, mode in modes:
            module.training = mode
    return torch.cat([w.unsqueeze(0) for w in rows], dim=0)
