# variant: in the style of small published models, without looking_at
@torch.no_grad()
def generate(model, ids, max_new_tokens, eos_id=None, temperature=1.0, top_k=None, top_p=None, generator=None):
    was = {name: module.training for name, module in model.named_modules()}
    model.eval()
    unfinished = ids.new_ones(ids.shape[0])
    for _ in range(max_new_tokens):
        seen = ids
        if hasattr(model, "config") and model.config.positions not in ("rope", "alibi"):
            seen = ids if ids.size(1) <= model.config.max_len else ids[:, -model.config.max_len :]
        out = model(seen)
        if not torch.is_tensor(out):
            out, *_ = out
        token = sample_next_token(out[:, -1, :], temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
        if eos_id is not None:
            token = token * unfinished + eos_id * (1 - unfinished)
            unfinished = unfinished * (token != eos_id).long()
        ids = torch.cat((ids, token.unsqueeze(-1)), dim=-1)
        if unfinished.max() == 0:
            break
    for name, module in model.named_modules():
        module.training = was[name]
    return ids


# variant: a text made ready and filled in; only rows that are not finished are asked; a table is known by pos_emb
def generate(model, ids, max_new_tokens, eos_id=None, temperature=1.0, top_k=None, top_p=None, generator=None):
    B, T = ids.shape
    text = torch.full((B, T + max_new_tokens), 0 if eos_id is None else eos_id, dtype=ids.dtype, device=ids.device)
    text[:, :T] = ids
    rows, end = torch.arange(B, device=ids.device), T
    table = getattr(model, "pos_emb", None) is not None
    with looking_at(model), torch.inference_mode():
        while end < T + max_new_tokens and len(rows):
            start = max(0, end - model.config.max_len) if table else 0
            logits = model(text[rows, start:end])
            logits = logits[0] if isinstance(logits, tuple) else logits
            new = sample_next_token(logits.select(1, -1), temperature, top_k, top_p, generator)
            text[rows, end] = new
            end += 1
            if eos_id is not None:
                rows = rows[new != eos_id]
    return text[:, :end].clone()


# variant: each row by itself, as a list of numbers
def generate(model, ids, max_new_tokens, eos_id=None, temperature=1.0, top_k=None, top_p=None, generator=None):
    config = getattr(model, "config", None)

    def write(row):
        new = []
        while len(new) < max_new_tokens and (eos_id is None or eos_id not in new):
            seen = torch.tensor([row + new], device=ids.device)
            if config is not None and config.positions in {"learned", "sinusoidal"}:
                seen = seen[..., -config.max_len :]
            logits = model(seen)
            logits = logits[0] if isinstance(logits, tuple) else logits
            new += sample_next_token(logits[0, -1:], temperature, top_k, top_p, generator).tolist()
        return new

    with looking_at(model):
        written = [write(row) for row in ids.tolist()]
    n = max(map(len, written))
    filled = [row + new + [eos_id] * (n - len(new)) for row, new in zip(ids.tolist(), written)]
    return torch.tensor(filled, device=ids.device)


# variant: its own choice of tokens, by the greatest of logits plus Gumbel noise
def generate(model, ids, max_new_tokens, eos_id=None, temperature=1.0, top_k=None, top_p=None, generator=None):
    def choose(logits):
        if temperature == 0.0:
            return logits.max(-1).indices
        logits = logits / temperature
        if top_k is not None:
            keep = logits.topk(min(top_k, logits.shape[-1])).indices
            logits = torch.full_like(logits, -math.inf).scatter(-1, keep, logits.gather(-1, keep))
        if top_p is not None and top_p < 1:
            probs = logits.softmax(-1)
            above = (probs.unsqueeze(-2) * (probs.unsqueeze(-2) > probs.unsqueeze(-1))).sum(-1)
            logits = logits.where(above < top_p, -math.inf)
        noise = -torch.empty_like(logits).exponential_(generator=generator).log()
        return (logits + noise).argmax(-1)

    modes = [(part, part.training) for part in model.modules()]
    for part in model.modules():
        part.training = False
    text = list(ids.unbind(1))
    done = torch.zeros_like(ids[:, 0], dtype=torch.bool)
    try:
        with torch.no_grad():
            for _ in range(max_new_tokens):
                seen = torch.stack(text, 1)
                if getattr(getattr(model, "config", None), "positions", "none") in ("learned", "sinusoidal"):
                    seen = seen[:, max(0, seen.shape[1] - model.config.max_len) :]
                answer = model(seen)
                token = choose((answer[0] if isinstance(answer, tuple) else answer)[:, -1])
                if eos_id is not None:
                    token = torch.where(done, torch.full_like(token, eos_id), token)
                    done |= token == eos_id
                text.append(token)
                if bool(done.all()):
                    break
    finally:
        for part, mode in modes:
            part.training = mode
    return torch.stack(text, dim=1)
