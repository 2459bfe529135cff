# variant: all states in one tensor first, read in one go
@torch.no_grad()
def logit_lens(model, ids):
    return model.lm_head(model.ln_f(torch.stack(residual_stream(model, ids))))


# variant: the head as a plain product, into a tensor made beforehand
def logit_lens(model, ids):
    states = residual_stream(model, ids)
    out = states[0].new_empty(len(states), *ids.shape, model.lm_head.weight.size(0))
    with torch.inference_mode():
        for row, x in zip(out, states):
            row.copy_(model.ln_f(x) @ model.lm_head.weight.T)
    return out


# variant: blocks walked by hand; the last row is taken from the model itself
def logit_lens(model, ids):
    with looking_at(model):
        x = model.token_emb(ids)
        if model.pos_emb is not None:
            x = model.pos_emb(x)
        rows = []
        for block in model.blocks:
            rows.append(torch.nn.functional.linear(model.ln_f(x), model.lm_head.weight))
            x = block(x)
        rows.append(model(ids)[0])
    return torch.cat([row[None] for row in rows])


# variant: with gradient, detached at the end
def logit_lens(model, ids):
    read = torch.nn.Sequential(model.ln_f, model.lm_head)
    modes = [(m, m.training) for m in read.modules()]
    read.eval()
    try:
        return torch.stack(tuple(map(read, residual_stream(model, ids)))).detach()
    finally:
        for module, training in modes:
            module.training = training
