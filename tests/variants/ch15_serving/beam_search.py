# variant: topk over the flattened table of texts and tokens, beams as tensors
def beam_search(model, ids, max_new_tokens, n_beams, eos_id=None):
    if n_beams < 1:
        raise ValueError(f"n_beams must be at least 1, not {n_beams}")
    texts, scores = ids.clone(), None
    prompt, ended = ids.shape[1], []  # the finished texts, with their scores
    with looking_at(model):
        for _ in range(max_new_tokens):
            if texts.shape[0] == 0:
                break
            logits = model(texts)
            logits = logits[0] if isinstance(logits, tuple) else logits
            table = torch.log_softmax(logits[:, -1], dim=-1)
            if scores is None:
                scores = table.new_zeros(1)
            total = (scores[:, None] + table).flatten()
            values, where = total.topk(min(n_beams, total.numel()))
            V = table.shape[1]
            candidates = torch.cat([texts[where // V], (where % V)[:, None]], dim=1)
            everything = [(s, t, True) for s, t in ended] + [(values[i], candidates[i], False) for i in range(len(values))]
            everything.sort(key=lambda one: float(one[0]), reverse=True)
            everything = everything[:n_beams]
            ended = [(s, t) for s, t, old in everything if old or (eos_id is not None and int(t[-1]) == eos_id)]
            open_ones = [(s, t) for s, t, old in everything if not old and not (eos_id is not None and int(t[-1]) == eos_id)]
            scores = torch.stack([s for s, _ in open_ones]) if open_ones else scores[:0]
            texts = torch.stack([t for _, t in open_ones]) if open_ones else texts[:0]
    result = ended + ([(s, t) for s, t in zip(scores, texts)] if scores is not None else [(0.0, ids[0])])
    result.sort(key=lambda one: float(one[0]), reverse=True)
    return [(t[prompt:].tolist(), float(s)) for s, t in result]


# variant: n_beams equal rows from the start, of which all but the first have the score -inf; finished rows are padded
def beam_search(model, ids, max_new_tokens, n_beams, eos_id=None):
    assert n_beams >= 1, f"n_beams = {n_beams} is below 1"
    rows = [{"new": [], "score": 0.0 if i == 0 else -math.inf, "done": False} for i in range(n_beams)]
    with looking_at(model):
        for step in range(max_new_tokens):
            if all(row["done"] for row in rows if row["score"] > -math.inf):
                break
            filler = 0 if eos_id is None else eos_id
            batch = [ids[0].tolist() + row["new"] + [filler] * (step - len(row["new"])) for row in rows]
            output = model(torch.tensor(batch))
            log_probs = (output if torch.is_tensor(output) else output[0])[:, -1].log_softmax(-1)
            candidates = []
            for row, chances in zip(rows, log_probs):
                if row["done"]:
                    candidates.append(row)
                    continue
                for token in range(len(chances)):
                    new = row["new"] + [token]
                    candidates.append({"new": new, "score": row["score"] + chances[token].item(), "done": token == eos_id})
            rows = sorted(candidates, key=lambda row: -row["score"])[:n_beams]
    return [(row["new"], row["score"]) for row in rows if row["score"] > -math.inf]


# variant: a heap keeps the best candidates, and texts are tuples
def beam_search(model, ids, max_new_tokens, n_beams, eos_id=None):
    import heapq

    if not n_beams >= 1:
        raise ValueError(f"n_beams is {n_beams}")
    prompt = tuple(ids[0].tolist())
    best = {(): 0.0}
    with looking_at(model):
        for _ in range(max_new_tokens):
            ended = {text: score for text, score in best.items() if text and text[-1] == eos_id and eos_id is not None}
            others = [text for text in best if text not in ended]
            if not others:
                break
            logits = logits_of(model, torch.tensor([prompt + text for text in others]))[:, -1, :]
            log_probs = logits - logits.logsumexp(dim=-1, keepdim=True)
            grown = {text + (token,): best[text] + float(value) for text, row in zip(others, log_probs) for token, value in enumerate(row)}
            grown.update(ended)
            best = dict(heapq.nlargest(n_beams, grown.items(), key=lambda item: item[1]))
    return sorted(((list(text), score) for text, score in best.items()), key=lambda item: item[1], reverse=True)
