"""Chapter 15 in small expressions without loops over positions, where that is possible; the other exercises are the reference's."""

import torch

from .ch07_models import GPT
from .ch09_sampling import looking_at


def logits_of(model, ids):
    output = model(ids)
    return output[0] if isinstance(output, tuple) else output


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


def residual_distribution(target, draft):
    left = target - torch.minimum(target, draft)
    total = left.sum(-1, keepdim=True)
    nothing = total == 0
    return left / total.masked_fill(nothing, 1.0) + target * nothing


def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    n = len(drafted)
    if n == 0:
        return torch.multinomial(target_probs[0], 1, generator=generator).tolist()
    ids = torch.tensor(list(drafted))
    rows = torch.arange(n)
    chances = target_probs[rows, ids] / draft_probs[rows, ids]
    luck = torch.rand(n, generator=generator)
    kept = int((luck < chances).long().cumprod(0).sum())
    last = target_probs[n] if kept == n else residual_distribution(target_probs[kept], draft_probs[kept])
    return ids[:kept].tolist() + [int(torch.multinomial(last, 1, generator=generator))]


class PaddedGPT(GPT):
    def forward(self, ids, n_pad=None):
        if n_pad is None:
            return super().forward(ids)[0]
        T = ids.shape[1]
        columns = (torch.arange(T) + n_pad[:, None]) % T
        logits = super().forward(ids.gather(1, columns))[0]
        back = (torch.arange(T) - n_pad[:, None]) % T
        return logits.gather(1, back[..., None].expand_as(logits))


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


def continuous_batches(requests, max_batch):
    assert max_batch >= 1, f"max_batch = {max_batch}"
    free_at = [0] * max_batch
    first = {}
    for arrival, number in sorted((arrival, number) for number, (arrival, _) in enumerate(requests)):
        seat = min(range(max_batch), key=lambda i: free_at[i])
        first[number] = max(arrival, free_at[seat])
        free_at[seat] = first[number] + requests[number][1]
    end = max((first[number] + requests[number][1] for number in first), default=0)
    return [[n for n in range(len(requests)) if first[n] <= step < first[n] + requests[n][1]] for step in range(end)]
