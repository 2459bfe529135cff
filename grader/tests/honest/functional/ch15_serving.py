"""Chapter 15 in small expressions without loops over positions, where that is possible."""

import math

import torch
import torch.nn.functional as F
from torch import nn

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


def check_length(model, length):
    config = getattr(model, "config", None)
    if config is not None and config.positions in {"learned", "sinusoidal"} and length > config.max_len:
        raise ValueError(f"{length} tokens are more than max_len = {config.max_len}")


def generate_speculative(model, draft, ids, max_new_tokens, n_draft=4, eos_id=None, temperature=1.0, generator=None):
    if n_draft < 1:
        raise ValueError(f"n_draft is {n_draft}")
    check_length(model, ids.size(1) + max_new_tokens)
    check_length(draft, ids.size(1) + max_new_tokens)

    def probs(which, text):
        logits = logits_of(which, text)[0]
        return F.one_hot(logits.argmax(-1), logits.size(-1)).to(logits) if temperature == 0 else F.softmax(logits / temperature, dim=-1)

    def drafts(text, n):
        if n == 0:
            return text, []
        row = probs(draft, text)[-1:]
        longer, rows = drafts(torch.cat([text, torch.multinomial(row, 1, generator=generator)], dim=1), n - 1)
        return longer, [row, *rows]

    def grown(text, room):
        if room == 0:
            return text
        longer, rows = drafts(text, min(n_draft, room - 1))
        judged = probs(model, longer)[text.size(1) - 1 :]
        new = accept_drafts(judged, torch.cat([*rows, judged[:0]]), longer[0, text.size(1) :].tolist(), generator)
        if eos_id in new:
            return torch.cat([text, text.new_tensor([new[: new.index(eos_id) + 1]])], dim=1)
        return grown(torch.cat([text, text.new_tensor([new])], dim=1), room - len(new))

    with looking_at(model), looking_at(draft):
        return grown(ids, max_new_tokens)


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


class BlockPool:
    """One list of holders; what is free is computed from it."""

    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        self.block_size = block_size
        self.k, self.v = torch.zeros(2, n_blocks, n_heads, block_size, d_head, dtype=dtype).unbind(0)
        self.counts = (0,) * n_blocks

    n_free = property(lambda self: self.counts.count(0))

    def holders(self, block):
        return self.counts[block]

    def _set(self, block, count):
        self.counts = (*self.counts[:block], count, *self.counts[block + 1 :])

    def _in_use(self, block):
        if block not in range(len(self.counts)) or self.counts[block] == 0:
            raise ValueError(f"block {block} is not held by anyone")
        return self.counts[block]

    def allocate(self):
        if self.n_free == 0:
            raise RuntimeError("there is no free block")
        block = self.counts.index(0)
        self._set(block, 1)
        return block

    def share(self, block):
        self._set(block, self._in_use(block) + 1)

    def free(self, block):
        self._set(block, self._in_use(block) - 1)


class PagedKVCache:
    """The pool is seen as one row of places; the block table gives the place of each position."""

    def __init__(self, pool):
        self.pool, self.blocks, self.length = pool, [], 0

    def places(self, start, end):
        size = self.pool.block_size
        positions = torch.arange(start, end)
        return torch.tensor(self.blocks, dtype=torch.long).gather(0, positions // size), positions % size

    def append(self, k, v):
        end, size, pool = self.length + k.size(1), self.pool.block_size, self.pool
        shared = k.size(1) > 0 and self.length % size > 0 and pool.holders(self.blocks[-1]) > 1
        missing = (end + size - 1) // size - len(self.blocks)
        if pool.n_free < missing + shared:
            raise RuntimeError(f"{missing + shared} blocks are needed and {pool.n_free} are free")
        if shared:
            old = self.blocks[-1]
            self.blocks = [*self.blocks[:-1], pool.allocate()]
            for x in (pool.k, pool.v):
                x[self.blocks[-1]].copy_(x[old])
            pool.free(old)
        self.blocks = self.blocks + [pool.allocate() for _ in range(missing)]
        block, place = self.places(self.length, end)
        pool.k[block, :, place] = k.transpose(0, 1)
        pool.v[block, :, place] = v.transpose(0, 1)
        self.length = end

    def gather(self):
        block, place = self.places(0, self.length)
        return self.pool.k[block, :, place].movedim(0, 1), self.pool.v[block, :, place].movedim(0, 1)

    def fork(self):
        other = PagedKVCache(self.pool)
        other.blocks, other.length = self.blocks, self.length  # a table is never changed, only replaced
        for block in self.blocks:
            self.pool.share(block)
        return other

    def free(self):
        for block in self.blocks:
            self.pool.free(block)
        self.blocks, self.length = [], 0


def quantize_int8(weight):
    scale = torch.linalg.norm(weight, ord=math.inf, dim=1).div(127)
    codes = torch.div(weight, scale.where(scale > 0, torch.ones_like(scale)).unsqueeze(1))
    return torch.clamp(torch.round(codes), -127, 127).to(torch.int8), scale


class QuantizedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        codes, scale = quantize_int8(linear.weight.detach().clone())
        buffers = {"weight": codes, "scale": scale, "bias": linear.bias if linear.bias is None else linear.bias.detach().clone()}
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, x):
        bias = torch.zeros((), dtype=x.dtype) if self.bias is None else self.bias.to(x.dtype)
        return torch.add(bias, torch.mul(torch.matmul(x, self.weight.t().to(x.dtype)), self.scale.to(x.dtype)))


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
