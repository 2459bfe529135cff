"""Chapter 15 with as few reshapes as possible."""

import math

import torch
from torch import Tensor, nn

from .ch03_attention import merge_heads, split_heads
from .ch04_positions_in_attention import alibi_bias, apply_rope
from .ch07_models import GPT
from .ch09_sampling import looking_at


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


def residual_distribution(target, draft):
    left = torch.relu(target - draft)
    scaled = left / left.sum(dim=-1, keepdim=True)
    return torch.where(scaled.isnan(), target, scaled)


def draw(probs: Tensor, generator) -> int:
    """The inverse of the distribution function at a random number."""
    edges = probs.double().cumsum(0)
    place = torch.rand((), generator=generator, dtype=torch.float64) * edges[-1]
    return int(torch.searchsorted(edges, place, right=True).clamp(max=len(edges) - 1))


def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    luck = torch.rand(len(drafted), generator=generator, dtype=torch.float64).tolist()
    refused = [i for i, token in enumerate(drafted) if luck[i] * float(draft_probs[i, token]) >= float(target_probs[i, token])]
    stay = refused[0] if refused else len(drafted)
    last = residual_distribution(target_probs[stay], draft_probs[stay]) if refused else target_probs[stay]
    return [*(int(token) for token in drafted[:stay]), draw(last, generator)]


def generate_speculative(model, draft, ids, max_new_tokens, n_draft=4, eos_id=None, temperature=1.0, generator=None):
    if n_draft < 1:
        raise ValueError(f"n_draft must be at least 1, not {n_draft}")
    for each in (model, draft):
        table = getattr(each, "pos_emb", None)
        if table is not None and ids.shape[1] + max_new_tokens > each.config.max_len:
            raise ValueError(f"the text does not fit into max_len = {each.config.max_len}")

    def distribution(which, text):
        logits = which(text)
        logits = (logits[0] if isinstance(logits, tuple) else logits)[0]
        if temperature:
            return (logits / temperature).softmax(-1)
        return (logits == logits.amax(-1, keepdim=True)).to(logits.dtype)

    text, room, over = ids, max_new_tokens, False
    with looking_at(model), looking_at(draft):
        while room and not over:
            guess, rows = text, []
            for _ in range(min(n_draft, room - 1)):
                rows.append(distribution(draft, guess)[-1])
                token = draw(rows[-1], generator)
                guess = torch.cat([guess, guess.new_tensor([[token]])], 1)
                if token == eos_id:  # nothing is needed after it
                    break
            judged = distribution(model, guess)[text.shape[1] - 1 :]
            for token in accept_drafts(judged, torch.stack(rows) if rows else judged[:0], guess[0, text.shape[1] :].tolist(), generator):
                if not over:
                    text = torch.cat([text, text.new_tensor([[token]])], 1)
                    room, over = room - 1, token == eos_id
    return text


class PaddedGPT(GPT):
    def forward(self, ids, n_pad=None):
        B, T = ids.shape
        n_pad = torch.zeros(B, dtype=torch.long) if n_pad is None else n_pad
        if self.pos_emb is not None and T - int(n_pad.min()) > self.config.max_len:
            raise ValueError(f"a text is longer than max_len = {self.config.max_len}")
        places = (torch.arange(T) - n_pad[:, None]).clamp(min=0)
        i, j = torch.arange(T)[:, None], torch.arange(T)
        allowed = ((j <= i) & (j >= n_pad[:, None, None])) | (i == j)
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            shifted = [self.pos_emb(x.new_zeros(1, int(row.max()) + 1, x.shape[-1]))[0][row] for row in places]
            x = x + torch.stack(shifted)
        extra = torch.zeros(B, 1, T, T, dtype=x.dtype).masked_fill(~allowed[:, None], -math.inf)
        for block in self.blocks:
            attn, y = block.attn, block.ln1(x)
            q, k, v = (split_heads(W(y), attn.n_heads) for W in (attn.W_q, attn.W_k, attn.W_v))
            if attn.positions == "rope":
                q = torch.stack([apply_rope(one, row) for one, row in zip(q, places)])
                k = torch.stack([apply_rope(one, row) for one, row in zip(k, places)])
            bias = extra + alibi_bias(attn.n_heads, T, T).to(x) if attn.positions == "alibi" else extra
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias
            weights = attn.dropout(torch.softmax(scores, dim=-1))
            x = x + attn.W_out(merge_heads(weights @ v))
            x = x + block.ffn(block.ln2(x))
        return self.lm_head(self.ln_f(x))


def generate_batch(model, prompts, max_new_tokens, eos_id=None, pad_id=0):
    lengths = [len(prompt) for prompt in prompts]
    if model.pos_emb is not None and max(lengths) + max_new_tokens > model.config.max_len:
        raise ValueError(f"the longest text does not fit into max_len = {model.config.max_len}")
    n_pad = max(lengths) - torch.tensor(lengths)
    ids = nn.utils.rnn.pad_sequence([torch.tensor(prompt).flip(0) for prompt in prompts], batch_first=True, padding_value=pad_id).flip(1)
    alive = torch.ones(len(prompts), dtype=torch.bool)
    counts = torch.zeros(len(prompts), dtype=torch.long)
    with looking_at(model):
        for _ in range(max_new_tokens):
            if not alive.any():
                break
            new = torch.einsum("bv->bv", model(ids, n_pad)[:, -1]).max(-1).indices
            ids, counts = torch.cat([ids, new.unsqueeze(1)], 1), counts + alive
            alive = alive & (new != (-1 if eos_id is None else eos_id))
    return [row[pad : max(lengths) + count].tolist() for row, pad, count in zip(ids, n_pad, counts)]


class BlockPool:
    """One tensor of counts: a block with the count 0 is free."""

    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        self.k = torch.rand(n_blocks, n_heads, block_size, d_head, dtype=torch.float32).to(dtype)
        self.v = self.k.clone()
        self.counts = torch.zeros(n_blocks, dtype=torch.long)

    @property
    def block_size(self):
        return self.k.shape[2]

    @property
    def n_free(self):
        return int((self.counts == 0).sum())

    def allocate(self):
        if self.n_free == 0:
            raise RuntimeError("every block has a holder")
        block = int(self.counts.argmin())
        self.counts[block] = 1
        return block

    def change(self, block, by):
        if not (0 <= block < len(self.counts) and self.counts[block] > 0):
            raise ValueError(f"nobody holds a block {block}")
        self.counts[block] += by

    def share(self, block):
        self.change(block, 1)

    def free(self, block):
        self.change(block, -1)

    def holders(self, block):
        return int(self.counts[block])


class PagedKVCache:
    def __init__(self, pool):
        self.pool = pool
        self.table = ()
        self.length = 0

    @property
    def blocks(self):
        return list(self.table)

    def append(self, k, v):
        T, size = k.shape[1], self.pool.block_size
        if T == 0:
            return
        whole, rest = divmod(self.length, size)
        must_copy = rest != 0 and self.pool.holders(self.table[-1]) != 1
        more = (self.length + T + size - 1) // size - len(self.table)
        if more + must_copy > self.pool.n_free:
            raise RuntimeError(f"the pool has too few free blocks for {T} positions")
        if must_copy:
            new = self.pool.allocate()
            self.pool.k[new, :, :rest] = self.pool.k[self.table[-1], :, :rest]
            self.pool.v[new, :, :rest] = self.pool.v[self.table[-1], :, :rest]
            self.pool.free(self.table[-1])
            self.table = self.table[:-1] + (new,)
        self.table += tuple(self.pool.allocate() for _ in range(more))
        where = torch.arange(self.length, self.length + T)
        rows, places = torch.tensor(self.table)[where // size], where % size
        self.pool.k[rows, :, places] = k.transpose(0, 1)
        self.pool.v[rows, :, places] = v.transpose(0, 1)
        self.length += T

    def gather(self):
        where = torch.arange(self.length)
        rows = torch.tensor(self.table, dtype=torch.int64)[where // self.pool.block_size]
        return tuple(store[rows, :, where % self.pool.block_size].transpose(0, 1) for store in (self.pool.k, self.pool.v))

    def fork(self):
        branch = PagedKVCache(self.pool)
        branch.table, branch.length = self.table, self.length
        [self.pool.share(block) for block in self.table]
        return branch

    def free(self):
        [self.pool.free(block) for block in self.table]
        self.table, self.length = (), 0


def quantize_int8(weight):
    wide = weight.double()
    largest = torch.maximum(wide.amax(-1), -wide.amin(-1))
    scale = largest / 127
    scale = scale.masked_fill(largest == 0, 1.0)
    return (wide / scale[:, None]).round().char(), scale.to(weight.dtype)


class QuantizedLinear(nn.Module):
    bias: Tensor | None

    def __init__(self, linear: nn.Linear):
        super().__init__()
        with torch.no_grad():
            codes, scale = quantize_int8(linear.weight)
        self.register_buffer("weight", codes)
        self.register_buffer("scale", scale)
        if linear.bias is None:
            self.register_buffer("bias", None)
        else:
            self.register_buffer("bias", torch.clone(linear.bias.detach()))

    def forward(self, x):
        scaled = torch.einsum("...n,mn,m->...m", x, self.weight.to(x), self.scale.to(x))
        return scaled if self.bias is None else scaled.add(self.bias.to(x))


def continuous_batches(requests, max_batch):
    """The end of each request first; then a table of steps and requests."""
    if max_batch < 1:
        raise ValueError(f"max_batch must be at least 1, not {max_batch}")
    spans = {}
    for number in sorted(range(len(requests)), key=lambda number: (requests[number][0], number)):
        arrival, tokens = requests[number]
        ends = sorted((end for _, end in spans.values()), reverse=True)
        start = max(arrival, ends[max_batch - 1] if len(ends) >= max_batch else 0)
        spans[number] = start, start + tokens
    last = max((end for _, end in spans.values()), default=0)
    return [[number for number in sorted(spans) if spans[number][0] <= step < spans[number][1]] for step in range(last)]
