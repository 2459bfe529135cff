"""Chapter 15 in classes of its own."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT
from .ch09_sampling import looking_at


def logits_of(model, ids):
    output = model(ids)
    return output[0] if isinstance(output, tuple) else output


def refuse_too_long(model, n_prompt, n_new):
    config = getattr(model, "config", None)
    if getattr(config, "positions", None) in ("learned", "sinusoidal") and n_prompt + n_new > config.max_len:
        raise ValueError(f"{n_prompt} + {n_new} tokens do not fit into max_len = {config.max_len}")


@dataclass(frozen=True, order=True)
class Beam:
    score: float
    new: tuple[int, ...] = field(compare=False)
    finished: bool = field(compare=False)

    def continued(self, token: int, log_prob: float, eos_id: int | None) -> "Beam":
        return Beam(self.score + log_prob, (*self.new, token), token == eos_id)


def beam_search(model: nn.Module, ids: Tensor, max_new_tokens: int, n_beams: int, eos_id: int | None = None) -> list[tuple[list[int], float]]:
    if n_beams < 1:
        raise ValueError(f"n_beams must be positive, not {n_beams}")
    prompt: list[int] = ids[0].tolist()
    beams: list[Beam] = [Beam(0.0, (), False)]
    with looking_at(model):
        for _ in range(max_new_tokens):
            growing: list[Beam] = [beam for beam in beams if not beam.finished]
            if not growing:
                break
            batch = torch.tensor([[*prompt, *beam.new] for beam in growing])
            log_probs: Tensor = F.log_softmax(logits_of(model, batch)[:, -1], dim=-1)
            best = log_probs.topk(min(n_beams, log_probs.size(-1)))  # a beam cannot have more than n_beams among the best
            candidates: list[Beam] = [beam for beam in beams if beam.finished]
            for beam, values, tokens in zip(growing, best.values.tolist(), best.indices.tolist()):
                candidates.extend(beam.continued(token, value, eos_id) for token, value in zip(tokens, values))
            beams = sorted(candidates, reverse=True)[:n_beams]
    return [(list(beam.new), beam.score) for beam in beams]


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


class MaskedAttention(CausalSelfAttention):
    mask = None

    def forward(self, x):
        q, k, v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        where = torch.arange(x.shape[1])
        if self.positions == "rope":
            q, k = apply_rope(q, where), apply_rope(k, where)
        bias = alibi_bias(self.n_heads, len(where), len(where)).to(x) if self.positions == "alibi" else None
        weights = scaled_dot_product_attention(q, k, v, self.mask, bias)[1]
        return self.W_out(merge_heads(self.dropout(weights) @ v))


class PaddedGPT(GPT):
    def __init__(self, config):
        super().__init__(config)
        for block in self.blocks:
            old, block.attn = block.attn, MaskedAttention(config.d_model, config.n_heads, block.attn.positions, dropout=config.dropout)
            block.attn.load_state_dict(old.state_dict())

    def forward(self, ids, n_pad=None):
        B, T = ids.shape
        pads = torch.zeros(B, dtype=torch.int64) if n_pad is None else n_pad
        where = torch.arange(T)[None] - pads[:, None]
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            if T > self.config.max_len:
                raise ValueError(f"{T} positions do not fit into max_len = {self.config.max_len}")
            rows = self.pos_emb(torch.zeros_like(x[:1]))[0]
            x = x + rows[where.clamp(min=0)]
        mask = (torch.arange(T)[:, None] >= torch.arange(T)) & (where >= 0)[:, None, None, :]
        for block in self.blocks:
            block.attn.mask = mask
            x = block(x)
            block.attn.mask = None
        return self.lm_head(self.ln_f(x))


@dataclass
class Row:
    """One text of a batch."""

    text: list[int]
    n_pad: int
    finished: bool = False

    def write(self, token: int, eos_id: int | None) -> None:
        if not self.finished:
            self.text.append(token)
            self.finished = token == eos_id

    def padded(self, length: int, pad_id: int) -> list[int]:
        row = [pad_id] * self.n_pad + self.text
        return row + [pad_id] * (length - len(row))


def generate_batch(model: PaddedGPT, prompts: list[list[int]], max_new_tokens: int, eos_id: int | None = None, pad_id: int = 0) -> list[list[int]]:
    longest: int = max(len(prompt) for prompt in prompts)
    refuse_too_long(model, longest, max_new_tokens)
    rows = [Row(list(prompt), longest - len(prompt)) for prompt in prompts]
    pads = torch.tensor([row.n_pad for row in rows])
    with looking_at(model):
        for length in range(longest, longest + max_new_tokens):
            if all(row.finished for row in rows):
                break
            logits: Tensor = model(torch.tensor([row.padded(length, pad_id) for row in rows]), pads)
            for row, token in zip(rows, logits[:, -1].argmax(dim=-1).tolist()):
                row.write(token, eos_id)
    return [row.text for row in rows]


class BlockPool:
    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        from collections import deque

        self.k, self.v = (torch.empty(n_blocks, n_heads, block_size, d_head, dtype=dtype) for _ in range(2))
        self.block_size, self.n_free = block_size, n_blocks
        self._waiting, self._count = deque(range(n_blocks)), [0 for _ in range(n_blocks)]

    def allocate(self):
        if self.n_free == 0:
            raise RuntimeError(f"the pool of {len(self._count)} blocks is empty")
        self.n_free -= 1
        block = self._waiting.popleft()
        self._count[block] = 1
        return block

    def share(self, block):
        if block < 0 or block >= len(self._count) or not self._count[block]:
            raise ValueError(f"cannot share block {block}")
        self._count[block] += 1

    def free(self, block):
        assert 0 <= block < len(self._count) and self._count[block] > 0, f"cannot free block {block}"
        self._count[block] -= 1
        if not self._count[block]:
            self.n_free += 1
            self._waiting.append(block)

    def holders(self, block):
        return self._count[block]


class PagedKVCache:
    def __init__(self, pool):
        self.pool = pool
        self.blocks = []
        self.length = 0

    def append(self, k, v):
        size, T = self.pool.block_size, k.size(1)
        end = self.length + T
        taken = []
        try:
            own = None
            if T and self.length % size and self.pool.holders(self.blocks[-1]) > 1:
                own = self.pool.allocate()
                taken.append(own)
            new = []
            while (len(self.blocks) + len(new)) * size < end:
                new.append(self.pool.allocate())
                taken.append(new[-1])
        except RuntimeError:
            for block in taken:
                self.pool.free(block)
            raise
        if own is not None:
            for store in (self.pool.k, self.pool.v):
                store[own].copy_(store[self.blocks[-1]])
            self.pool.free(self.blocks[-1])
            self.blocks[-1] = own
        self.blocks.extend(new)
        done = 0
        while done < T:
            index, place = divmod(self.length + done, size)
            piece = min(size - place, T - done)
            self.pool.k[self.blocks[index], :, place : place + piece] = k[:, done : done + piece]
            self.pool.v[self.blocks[index], :, place : place + piece] = v[:, done : done + piece]
            done += piece
        self.length = end

    def gather(self):
        if not self.blocks:
            empty = self.pool.k[:0].transpose(0, 1).flatten(1, 2)
            return empty.clone(), empty.clone()
        found = []
        for store in (self.pool.k, self.pool.v):
            found.append(torch.cat([store[block] for block in self.blocks], dim=1)[:, : self.length].clone())
        return found[0], found[1]

    def fork(self):
        twin = PagedKVCache(self.pool)
        twin.blocks, twin.length = self.blocks[:], self.length
        for block in twin.blocks:
            twin.pool.share(block)
        return twin

    def free(self):
        blocks, self.blocks, self.length = self.blocks, [], 0
        for block in reversed(blocks):
            self.pool.free(block)


def quantize_int8(weight):
    wide = weight.double()
    largest = torch.maximum(wide.amax(-1), -wide.amin(-1))
    scale = largest / 127
    scale = scale.masked_fill(largest == 0, 1.0)
    return (wide / scale[:, None]).round().char(), scale.to(weight.dtype)


class QuantizedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight, scale = quantize_int8(linear.weight.data)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.clone())
        self.register_buffer("bias", linear.bias.data.clone() if linear.bias is not None else None)

    def forward(self, x):
        matrix = self.weight.to(x.dtype) * self.scale.to(x.dtype)[:, None]
        return F.linear(x, matrix, self.bias.to(x.dtype) if self.bias is not None else None)


def continuous_batches(requests, max_batch):
    import heapq

    if max_batch < 1:
        raise ValueError(f"max_batch must be at least 1, not {max_batch}")
    waiting = [(arrival, number) for number, (arrival, _) in enumerate(requests)]
    heapq.heapify(waiting)
    seats, plan = [None] * max_batch, []
    missing = [tokens for _, tokens in requests]
    while waiting or any(seat is not None for seat in seats):
        for i, seat in enumerate(seats):
            if seat is None and waiting and waiting[0][0] <= len(plan):
                seats[i] = heapq.heappop(waiting)[1]
        writing = sorted(seat for seat in seats if seat is not None)
        plan.append(writing)
        for number in writing:
            missing[number] -= 1
            if missing[number] == 0:
                seats[seats.index(number)] = None
    return plan
