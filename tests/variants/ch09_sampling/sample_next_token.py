# variant: Gumbel noise and argmax
def sample_next_token(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0:
        return logits.argmax(-1)
    logits = apply_temperature(logits, temperature)
    logits = logits if top_k is None else top_k_filter(logits, top_k)
    logits = logits if top_p is None else top_p_filter(logits, top_p)
    u = torch.rand(logits.shape, generator=generator, device=logits.device, dtype=torch.float64).clamp(min=1e-300)
    return (logits.double() - torch.log(-torch.log(u))).argmax(dim=-1)


# variant: one uniform number a row, looked up in the running sum
def sample_next_token(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature < 1e-9:
        return torch.max(logits, dim=-1).indices
    logits = apply_temperature(logits, temperature)
    if top_k is not None:
        logits = top_k_filter(logits, top_k)
    if top_p is not None:
        logits = top_p_filter(logits, top_p)
    sums = torch.softmax(logits.double(), -1).cumsum(-1)
    u = torch.rand(logits.shape[:-1], generator=generator, dtype=torch.float64, device=logits.device) * sums[..., -1]
    return torch.searchsorted(sums, u[..., None], right=True)[..., 0].clamp(max=logits.size(-1) - 1)


# variant: row by row
def sample_next_token(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0.0:
        return logits.argmax(dim=-1)
    scores = apply_temperature(logits, temperature)
    if top_k is not None:
        scores = top_k_filter(scores, top_k)
    if top_p is not None:
        scores = top_p_filter(scores, top_p)
    rows = scores.softmax(-1).reshape(-1, scores.shape[-1])
    ids = [torch.multinomial(row, num_samples=1, generator=generator) for row in rows]
    return torch.cat(ids).reshape(scores.shape[:-1])


# variant: exponential races
def sample_next_token(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if not temperature:
        return logits.topk(1, dim=-1).indices.squeeze(-1)
    logits = logits / temperature
    if top_k:
        logits = top_k_filter(logits, top_k)
    if top_p:
        logits = top_p_filter(logits, top_p)
    probs = torch.softmax(logits.float(), dim=-1)
    race = torch.empty_like(probs).exponential_(1, generator=generator)
    return torch.argmax(probs / race, dim=-1)


# variant: numpy's chance, seeded from the generator
def sample_next_token(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    import numpy as np

    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = apply_temperature(logits, temperature)
    if top_k is not None:
        logits = top_k_filter(logits, top_k)
    if top_p is not None:
        logits = top_p_filter(logits, top_p)
    seed = int(torch.randint(2**31, (1,), generator=generator))
    chance = np.random.default_rng(seed)
    probs = torch.softmax(logits.double(), dim=-1).cpu()
    rows = probs.reshape(-1, probs.size(-1)).numpy()
    ids = [int(chance.choice(len(row), p=row / row.sum())) for row in rows]
    return torch.tensor(ids, device=logits.device).reshape(logits.shape[:-1])


# variant: the log-probabilities, exponentiated, all rows under each other
@torch.no_grad()
def sample_next_token(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    *leading, vocab = logits.shape
    rows = logits.reshape(-1, vocab)
    if temperature == 0:
        return rows.argmax(1).reshape(leading)
    rows = apply_temperature(rows, temperature)
    rows = top_k_filter(rows, vocab if top_k is None else top_k)
    rows = top_p_filter(rows, 1.0 if top_p is None else top_p)
    drawn = torch.multinomial(rows.log_softmax(1).exp(), 1, replacement=True, generator=generator)
    return drawn.squeeze(1).reshape(leading)
