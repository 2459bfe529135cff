# variant: a target made ready and filled in; only rows that are not finished are decoded
def translate(model, src, sos_id, eos_id, max_new_tokens):
    text = torch.full((len(src), 1 + max_new_tokens), model.config.pad_id, dtype=torch.long, device=src.device)
    text[:, 0] = sos_id
    rows, end = torch.arange(len(src), device=src.device), 1
    with looking_at(model), torch.inference_mode():
        memory = model.encode(src)
        while end <= max_new_tokens and len(rows) > 0:
            logits = model.decode(text[rows, :end], memory[rows], src[rows])
            text[rows, end] = logits[:, -1].topk(1).indices.squeeze(-1)
            rows = rows[text[rows, end] != eos_id]
            end += 1
    return text[:, :end].clone()


# variant: each row by itself, filled up at the end
def translate(model, src, sos_id, eos_id, max_new_tokens):
    rows = []
    with looking_at(model):
        for sentence in src.split(1):
            memory, words = model.encode(sentence), [sos_id]
            for _ in range(max_new_tokens):
                scores = model.decode(torch.tensor([words], device=src.device), memory, sentence)[0, -1]
                words.append(int(scores.log_softmax(-1).argmax()))
                if words[-1] == eos_id:
                    break
            rows.append(words)
    longest = max(len(words) for words in rows)
    return torch.tensor([words + [model.config.pad_id] * (longest - len(words)) for words in rows], device=src.device)


# variant: refuses at once what could outgrow the model; flags as numbers, words in a list
@torch.no_grad()
def translate(model, src, sos_id, eos_id, max_new_tokens):
    if 1 + max_new_tokens > model.config.max_len:
        raise ValueError(f"1 + {max_new_tokens} tokens do not fit into max_len = {model.config.max_len}")
    modes = [module.training for module in model.modules()]
    model.eval()
    memory = model.encode(src)
    text, alive = [torch.full_like(src[:, 0], sos_id)], torch.ones_like(src[:, 0])
    for _ in range(max_new_tokens):
        token = model.decode(torch.stack(text, dim=1), memory, src)[:, -1, :].max(dim=-1)[1]
        text.append(alive * token + (1 - alive) * model.config.pad_id)
        alive = alive * (token != eos_id)
        if alive.sum() == 0:
            break
    for module, mode in zip(model.modules(), modes):
        module.training = mode
    return torch.stack(text, dim=1)
