# variant: token by token, as it would write
def memorised(model, texts, n_prompt):
    if n_prompt < 1 or any(len(text) <= n_prompt for text in texts):
        raise ValueError(f"n_prompt = {n_prompt} does not fit these texts")

    def repeated(text):
        for end in range(n_prompt, len(text)):
            if logits_of(model, torch.tensor([list(text[:end])]))[0, -1].argmax().item() != text[end]:
                return end - n_prompt
        return len(text) - n_prompt

    with looking_at(model):
        return [repeated(text) for text in texts]


# variant: a cumulative product of right choices
def memorised(model, texts, n_prompt):
    for text in texts:
        assert 1 <= n_prompt < len(text), f"n_prompt = {n_prompt}"
    if n_prompt < 1:
        raise ValueError(f"n_prompt = {n_prompt}")
    counts = []
    with looking_at(model):
        for text in texts:
            ids = torch.tensor(list(text))
            logits = logits_of(model, ids[None])[0]
            right = logits[:-1].max(dim=-1).indices.eq(ids[1:])[n_prompt - 1 :]
            counts.append(right.cumprod(0).sum().item())
    return counts


# variant: lists and takewhile
from itertools import takewhile


def memorised(model, texts, n_prompt):
    if n_prompt < 1:
        raise ValueError(f"n_prompt is {n_prompt}, which is below 1")
    if texts and min(len(text) for text in texts) <= n_prompt:
        raise ValueError(f"n_prompt is {n_prompt}, and a text is not longer")
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        found = []
        for text in texts:
            with torch.no_grad():
                output = model(torch.tensor(list(text)).unsqueeze(0))
            logits = output if torch.is_tensor(output) else output[0]
            choices = logits.squeeze(0).argmax(1).tolist()[n_prompt - 1 : -1]
            found.append(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(choices, list(text)[n_prompt:]))))
        return found
    finally:
        for module, mode in modes.items():
            module.train(mode) if not list(module.children()) else setattr(module, "training", mode)
