# variant: rows as lists, finished rows get pads
def generate_batch(model, prompts, max_new_tokens, eos_id=None, pad_id=0):
    longest = max(map(len, prompts))
    config = model.config
    if config.positions in ("learned", "sinusoidal") and longest + max_new_tokens > config.max_len:
        raise ValueError(f"{longest} + {max_new_tokens} tokens are more than max_len = {config.max_len}")
    pads = torch.tensor([longest - len(prompt) for prompt in prompts])
    written, going = [[] for _ in prompts], set(range(len(prompts)))
    rows = [[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    with looking_at(model):
        for _ in range(max_new_tokens):
            if not going:
                break
            best = model(torch.tensor(rows), pads)[:, -1].argmax(-1).tolist()
            for i, token in enumerate(best):
                rows[i].append(token if i in going else pad_id)
                if i in going:
                    written[i].append(token)
                    if token == eos_id:
                        going.discard(i)
    return [list(prompt) + new for prompt, new in zip(prompts, written)]


# variant: finished rows leave the batch
def generate_batch(model, prompts, max_new_tokens, eos_id=None, pad_id=0):
    refuse_too_long(model, max(len(prompt) for prompt in prompts), max_new_tokens)
    texts = [list(prompt) for prompt in prompts]
    active = list(range(len(texts)))
    with looking_at(model):
        for _ in range(max_new_tokens):
            if not active:
                break
            width = max(len(texts[i]) for i in active)
            n_pad = torch.tensor([width - len(texts[i]) for i in active])
            ids = torch.tensor([[pad_id] * (width - len(texts[i])) + texts[i] for i in active])
            new = model(ids, n_pad)[:, -1].argmax(dim=-1).tolist()
            for i, token in zip(active, new):
                texts[i].append(token)
            active = [i for i, token in zip(active, new) if eos_id is None or token != eos_id]
    return texts


# variant: one tensor of the full size from the start
def generate_batch(model, prompts, max_new_tokens, eos_id=None, pad_id=0):
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    longest = int(lengths.max())
    assert model.pos_emb is None or longest + max_new_tokens <= model.config.max_len, f"max_len = {model.config.max_len}"
    ids = torch.full((len(prompts), longest + max_new_tokens), pad_id)
    for row, prompt in zip(ids, prompts):
        row[longest - len(prompt) : longest] = torch.tensor(prompt)
    ends = torch.full((len(prompts),), longest + max_new_tokens)
    with looking_at(model):
        for step in range(longest, longest + max_new_tokens):
            ids[:, step] = model(ids[:, :step], longest - lengths)[:, -1].argmax(-1)
            if eos_id is not None:
                just = (ids[:, step] == eos_id) & (ends > step + 1)
                ends[just] = step + 1
                if bool((ends <= step + 1).all()):
                    break
    return [row[longest - n : end].tolist() for row, n, end in zip(ids, lengths.tolist(), ends.tolist())]
