# variant: drafts as many as are missing and cuts the text, tokens in a list, drafts stop at eos
def generate_speculative(model, draft, ids, max_new_tokens, n_draft=4, eos_id=None, temperature=1.0, generator=None):
    if n_draft < 1:
        raise ValueError(f"n_draft must be at least 1, not {n_draft}")
    for which in (model, draft):
        config = getattr(which, "config", None)
        if config is not None and config.positions in ("learned", "sinusoidal") and ids.shape[1] + max_new_tokens > config.max_len:
            raise ValueError(f"the text would be longer than max_len = {config.max_len}")

    def distributions(which, tokens):
        logits = logits_of(which, torch.tensor([tokens]))[0]
        if temperature == 0:
            hot = torch.zeros_like(logits)
            hot[torch.arange(len(tokens)), logits.argmax(-1)] = 1.0
            return hot
        return (logits / temperature).softmax(-1)

    tokens, new = ids[0].tolist(), []
    with looking_at(model), looking_at(draft):
        while len(new) < max_new_tokens and (eos_id is None or eos_id not in new):
            guess, rows = [], []
            while len(guess) < min(n_draft, max_new_tokens - len(new)):
                row = distributions(draft, tokens + new + guess)[-1]
                guess.append(int(torch.multinomial(row, 1, generator=generator)))
                rows.append(row)
                if guess[-1] == eos_id:
                    break
            target = distributions(model, tokens + new + guess)[-len(guess) - 1 :]
            new += accept_drafts(target, torch.stack(rows), guess, generator)
            new = new[:max_new_tokens]
            if eos_id is not None and eos_id in new:
                new = new[: new.index(eos_id) + 1]
    return torch.tensor([tokens + new], dtype=ids.dtype)


# variant: greedy texts by comparing tokens, the others by Gumbel noise
def generate_speculative(model, draft, ids, max_new_tokens, n_draft=4, eos_id=None, temperature=1.0, generator=None):
    assert n_draft >= 1, f"n_draft = {n_draft}"
    refuse_too_long(model, ids.shape[1], max_new_tokens)
    refuse_too_long(draft, ids.shape[1], max_new_tokens)

    def gumbel(probs):
        noise = torch.empty_like(probs).exponential_(generator=generator)
        return int((probs / noise).argmax(-1))

    with looking_at(model), looking_at(draft):
        text, end = ids, ids.shape[1] + max_new_tokens
        while text.shape[1] < end:
            start, rows = text.shape[1], []
            longer = text
            for _ in range(min(n_draft, end - start - 1)):
                logits = logits_of(draft, longer)[0, -1]
                if temperature == 0:
                    token = int(logits.argmax())
                else:
                    rows.append((logits / temperature).softmax(0))
                    token = gumbel(rows[-1])
                longer = torch.cat([longer, torch.tensor([[token]])], 1)
            logits = logits_of(model, longer)[0, start - 1 :]
            drafted = longer[0, start:].tolist()
            if temperature == 0:
                best = logits.argmax(-1).tolist()
                same = 0
                while same < len(drafted) and drafted[same] == best[same]:
                    same += 1
                written = best[: same + 1]
            else:
                probs = (logits / temperature).softmax(-1)
                written = accept_drafts(probs, torch.stack(rows) if rows else probs[:0], drafted, generator)
            ended = eos_id is not None and eos_id in written
            if ended:
                written = written[: written.index(eos_id) + 1]
            text = torch.cat([text, torch.tensor([written])], 1)
            if ended:
                break
    return text


# variant: the acceptance written out, without accept_drafts
def generate_speculative(model, draft, ids, max_new_tokens, n_draft=4, eos_id=None, temperature=1.0, generator=None):
    if n_draft < 1:
        raise ValueError("n_draft = " + str(n_draft))
    refuse_too_long(draft, ids.size(1), max_new_tokens)
    refuse_too_long(model, ids.size(1), max_new_tokens)

    def chances(logits):
        if temperature == 0:
            return (logits.argmax(-1, keepdim=True) == torch.arange(logits.size(-1))).double()
        return torch.softmax(logits.double() / temperature, -1)

    left = max_new_tokens
    with looking_at(draft), looking_at(model):
        while left > 0:
            T = ids.size(1)
            text, proposals = ids, []
            for _ in range(min(n_draft, left - 1)):
                proposals.append(chances(logits_of(draft, text)[0, -1]))
                text = torch.cat([text, proposals[-1].multinomial(1, generator=generator)[None]], 1)
            target = chances(logits_of(model, text)[0, T - 1 :])
            kept = 0
            while kept < len(proposals):
                token = text[0, T + kept]
                if torch.rand(1, dtype=torch.float64, generator=generator) * proposals[kept][token] >= target[kept][token]:
                    break
                kept += 1
            last = target[kept] if kept == len(proposals) else residual_distribution(target[kept], proposals[kept])
            ids = torch.cat([text[:, : T + kept], last.multinomial(1, generator=generator)[None]], 1)
            left -= kept + 1
            if eos_id is not None:
                ended = (ids[0, T:] == eos_id).nonzero()
                if len(ended):
                    return ids[:, : T + int(ended[0]) + 1]
    return ids
