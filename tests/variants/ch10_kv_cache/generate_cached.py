# variant: the prompt before the loop, in inference mode, modes stored by name
def generate_cached(model, ids, max_new_tokens, eos_id=None, temperature=1.0, top_k=None, top_p=None, generator=None):
    T = ids.shape[1]
    if model.config.positions in ("learned", "sinusoidal") and T + max_new_tokens > model.config.max_len:
        raise ValueError(f"prompt of {T} and {max_new_tokens} new tokens: more than max_len={model.config.max_len}")
    if max_new_tokens == 0:
        return ids
    was = {name: part.training for name, part in model.named_modules()}
    model.eval()
    with torch.inference_mode():
        caches = model.new_caches()
        logits = model(ids, caches=caches)
        done = ids.new_zeros(ids.shape[0], dtype=torch.bool)
        for step in range(max_new_tokens):
            token = sample_next_token(logits[:, -1, :], temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
            if eos_id is not None:
                token = torch.where(done, torch.full_like(token, eos_id), token)
                done |= token == eos_id
            ids = torch.cat((ids, token.unsqueeze(1)), dim=1)
            if bool(done.all()) or step == max_new_tokens - 1:
                break
            logits = model(token.unsqueeze(1), caches=caches)
    for name, part in model.named_modules():
        part.training = was[name]
    return ids.clone()


# variant: tokens in a list, caches made by hand, one needless pass at the end, an assertion for the length
@torch.no_grad()
def generate_cached(
    model, ids, max_new_tokens: int, eos_id: int | None = None, temperature: float = 1.0, top_k=None, top_p=None, generator=None
):
    B, T = ids.shape
    limit = model.config.max_len if model.pos_emb is not None else None
    assert limit is None or T + max_new_tokens <= limit, f"{T} + {max_new_tokens} > {limit}"
    modes = [part.training for part in model.modules()]
    try:
        model.eval()
        caches = [KVCache() for _ in model.blocks]
        tokens, finished = list(ids.unbind(1)), [False] * B
        last = model(ids, caches)[:, -1] if max_new_tokens else None
        while len(tokens) < T + max_new_tokens:
            new = sample_next_token(last, temperature, top_k, top_p, generator).clone()
            for row in range(B):
                if finished[row]:
                    new[row] = eos_id
                elif eos_id is not None and int(new[row]) == eos_id:
                    finished[row] = True
            tokens.append(new)
            if all(finished):
                break
            last = model(new.view(B, 1), caches)[:, -1]
        return torch.stack(tokens, dim=1)
    finally:
        for part, mode in zip(model.modules(), modes):
            part.training = mode


# variant: the prompt token by token, the text in a tensor with room for all of it, chance written out
def generate_cached(model, ids, max_new_tokens, eos_id=None, temperature=1.0, top_k=None, top_p=None, generator=None):
    B, T = ids.shape
    if model.pos_emb is not None and model.config.max_len - T < max_new_tokens:
        raise ValueError(f"max_len is {model.config.max_len}")
    text = torch.full((B, T + max_new_tokens), -1 if eos_id is None else eos_id, dtype=ids.dtype)
    text[:, :T] = ids
    going, caches, end = torch.ones(B, dtype=torch.bool), model.new_caches(), T + max_new_tokens
    with looking_at(model):
        for place in range(T + max_new_tokens - 1):
            logits = model.forward(text[:, place : place + 1], caches)[:, 0]
            if place < T - 1:
                continue
            if temperature == 0:
                choice = logits.max(dim=-1).indices
            else:
                logits = logits / temperature
                logits = logits if top_k is None else top_k_filter(logits, top_k)
                logits = logits if top_p is None else top_p_filter(logits, top_p)
                choice = torch.multinomial(logits.softmax(-1), num_samples=1, generator=generator).squeeze(1)
            text[going, place + 1] = choice[going]
            if eos_id is not None:
                going &= choice != eos_id
            if not going.any():
                end = place + 2
                break
    return text[:, :end]


from .ch09_sampling import top_k_filter, top_p_filter


# variant: an inner generator of steps, the prompt in two chunks
def generate_cached(model, ids, max_new_tokens, eos_id=None, temperature=1.0, top_k=None, top_p=None, generator=None):
    total = ids.size(1) + max_new_tokens
    has_table = model.pos_emb is not None
    if has_table and total > model.config.max_len:
        raise ValueError(f"{total} tokens, but max_len is {model.config.max_len}")

    def steps():
        caches, finished = model.new_caches(), torch.zeros_like(ids[:, 0], dtype=torch.bool)
        half = ids.size(1) // 2
        if half and max_new_tokens:
            model(ids[:, :half], caches)
        unseen = ids[:, half:]
        for _ in range(max_new_tokens):
            new = sample_next_token(model(unseen, caches)[:, -1], temperature, top_k, top_p, generator)
            if eos_id is not None:
                new[finished] = eos_id
                finished = finished.logical_or(new.eq(eos_id))
            unseen = new[:, None]
            yield unseen
            if finished.all():
                return

    with looking_at(model):
        return torch.cat([ids, *steps()], dim=1)
