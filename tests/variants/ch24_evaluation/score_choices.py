# variant: pad_sequence, and a loop with an index for the first difference
from torch.nn.utils.rnn import pad_sequence


def score_choices(model, tokenizer, question, choices, kind="byte"):
    if not choices:
        raise ValueError("there are no choices")
    asked = tokenizer.encode(question)
    device = next(model.parameters()).device
    rows, starts = [], []
    for choice in choices:
        ids = tokenizer.encode(question + choice)
        i = 0
        while i < len(asked) and i < len(ids) and asked[i] == ids[i]:
            i += 1
        if i == 0:
            raise ValueError(f"the question {question!r} leaves nothing before the choice {choice!r}")
        if i == len(ids):
            raise ValueError(f"one of the choices is without a token: {choice!r}")
        rows.append(torch.tensor(ids, device=device))
        starts.append(i)
    batch = pad_sequence(rows, batch_first=True, padding_value=1)
    with looking_at(model):
        logits = model(batch)
    if isinstance(logits, tuple):
        logits = logits[0]
    scores = []
    for choice, ids, start, its_logits in zip(choices, rows, starts, logits):
        logs = its_logits.float().log_softmax(-1)
        log_probs = [logs[t - 1, ids[t]].item() for t in range(start, len(ids))]
        scores.append(choice_score(log_probs, len(choice.encode("utf-8")), kind))
    return scores


# variant: cross_entropy, modes by hand, and the last id repeated as padding
from torch.nn import functional as F


def score_choices(model, tokenizer, question, choices, kind="byte"):
    assert len(choices) > 0, "choices has nothing"
    q = list(tokenizer.encode(question))
    device = next(iter(model.parameters())).device
    texts = [list(tokenizer.encode(question + c)) for c in choices]
    longest = max(len(t) for t in texts)
    begins = []
    for text in texts:
        same = [x == y for x, y in zip(q, text)]
        begins.append(same.index(False) if False in same else len(same))
        assert begins[-1] > 0, f"question {question!r}: no token is common"
        assert begins[-1] < len(text), f"choices = {choices}: one adds no token"
    ids = torch.tensor([t + [t[-1]] * (longest - len(t)) for t in texts]).to(device)
    modes = {m: m.training for m in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            out = model(ids)
    finally:
        for m, mode in modes.items():
            m.training = mode
    logits = out[0] if isinstance(out, (tuple, list)) else out
    nll = F.cross_entropy(logits[:, :-1].float().transpose(1, 2), ids[:, 1:], reduction="none").cpu()
    return [choice_score((-nll[i, b - 1 : len(t) - 1]).tolist(), len(bytes(c, "utf8")), kind) for i, (b, t, c) in enumerate(zip(begins, texts, choices))]


# variant: the whole texts without their last token are read; os.path.commonprefix finds what is in common
from os.path import commonprefix


def score_choices(model, tokenizer, question, choices, kind="byte"):
    if len(choices) < 1:
        raise ValueError(f"choices = {choices}")
    asked = list(tokenizer.encode(question))
    encoded = [list(tokenizer.encode(f"{question}{choice}")) for choice in choices]
    lengths = [len(commonprefix([asked, ids])) for ids in encoded]
    if 0 in lengths:
        raise ValueError(f"question = {question!r} has no first token of its own")
    for choice, ids, length in zip(choices, encoded, lengths):
        if len(ids) == length:
            raise ValueError(f"choices: {choice!r} is empty")
    width = max(len(ids) for ids in encoded) - 1
    batch = torch.zeros((len(encoded), width), dtype=torch.int64)
    for i, ids in enumerate(encoded):
        batch[i, : len(ids) - 1] = torch.tensor(ids[:-1])
    parameter = next(model.parameters())
    with looking_at(model):
        result = model(batch.to(parameter.device))
        logits = result if isinstance(result, torch.Tensor) else result[0]
        logits = logits.to(torch.float32)
        log_probs = logits - logits.logsumexp(dim=-1, keepdim=True)
    log_probs = log_probs.cpu()
    found = []
    for i, (ids, length) in enumerate(zip(encoded, lengths)):
        places = torch.arange(length, len(ids))
        own = log_probs[i, places - 1, torch.tensor(ids)[places]]
        found.append(choice_score([float(x) for x in own], len(choices[i].encode()), kind))
    return found
