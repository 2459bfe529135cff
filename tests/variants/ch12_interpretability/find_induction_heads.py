# variant: one sequence after another
def find_induction_heads(model, period, n_sequences, generator=None):
    V, total = model.config.vocab_size, 0
    for _ in range(n_sequences):
        if V >= period:
            half = torch.randperm(V, generator=generator)[:period]
        else:
            half = torch.randint(0, V, (period,), generator=generator)
        patterns = attention_patterns(model, torch.cat([half, half])[None])[:, 0]  # (n_layers, H, T, T)
        total = total + patterns.new_tensor([[induction_score(head, period) for head in layer] for layer in patterns])
    return total / n_sequences


# variant: multinomial, and the mean pattern scored once
def find_induction_heads(model, period, n_sequences, generator=None):
    V = model.config.vocab_size
    halves = torch.multinomial(torch.ones(n_sequences, V), period, replacement=V < period, generator=generator)
    ids = torch.cat((halves, halves), 1).to(next(model.parameters()).device)
    mean = attention_patterns(model, ids).mean(dim=1)  # (n_layers, H, T, T)
    return torch.stack([torch.tensor([induction_score(head, period) for head in layer], dtype=mean.dtype) for layer in mean])


# variant: random numbers sorted, one diagonal of all patterns at once
def find_induction_heads(model, period, n_sequences, generator=None):
    V = model.token_emb.weight.shape[0]
    if period > V:
        halves = (torch.rand(n_sequences, period, generator=generator) * V).long()
    else:
        halves = torch.rand(n_sequences, V, generator=generator).argsort(dim=1)[:, :period]
    patterns = attention_patterns(model, halves.tile((1, 2)))
    return patterns.diagonal(1 - period, dim1=-2, dim2=-1)[..., 1:].mean(-1).mean(1)


# variant: scores written into a float64 table, sequences in small batches
def find_induction_heads(model, period, n_sequences, generator=None):
    V, H = model.config.vocab_size, model.config.n_heads
    table = torch.zeros(len(model.blocks), H, dtype=torch.float64)
    if V < period:
        halves = torch.randint(V, (n_sequences, period), generator=generator)
    else:
        halves = torch.stack([torch.randperm(V, generator=generator)[:period] for _ in range(n_sequences)])
    for some in halves.split(2):
        for layer, patterns in enumerate(attention_patterns(model, some.repeat(1, 2))):
            for heads in patterns:
                for h in range(H):
                    table[layer, h] += induction_score(heads[h], period) / n_sequences
    return table.to(model.token_emb.weight)
