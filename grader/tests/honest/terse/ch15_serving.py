"""Chapter 15 in the terse style: as short as it can be read."""

import torch
from torch import nn

from .ch03_attention import causal_mask, merge_heads, split_heads
from .ch04_positions_in_attention import alibi_bias, apply_rope
from .ch07_models import GPT
from .ch09_sampling import looking_at


def logits_of(model, ids):
    return out[0] if isinstance(out := model(ids), tuple) else out


def check(model, n):
    if getattr(model, "pos_emb", None) is not None and n > (max_len := model.config.max_len):
        raise ValueError(f"{n} tokens, {max_len=}")


def beam_search(model, ids, max_new_tokens, n_beams, eos_id=None):
    if n_beams < 1:
        raise ValueError(f"{n_beams=}")
    ended = lambda text: eos_id is not None and text[-1:] == [eos_id]  # noqa: E731
    beams = [([], 0.0)]
    with looking_at(model):
        for _ in range(max_new_tokens):
            if not (live := [b for b in beams if not ended(b[0])]):
                break
            table = logits_of(model, torch.tensor([ids[0].tolist() + new for new, _ in live]))[:, -1].log_softmax(-1).tolist()
            grown = [(new + [i], score + p) for (new, score), row in zip(live, table) for i, p in enumerate(row)]
            beams = sorted([b for b in beams if ended(b[0])] + grown, key=lambda b: -b[1])[:n_beams]
    return beams


def residual_distribution(target, draft):
    left = torch.maximum(target - draft, torch.zeros_like(target))
    equal = left.sum(-1) == 0
    left = torch.where(equal[..., None], target, left)
    return left / left.sum(-1, keepdim=True)


def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    def race(probs):
        waits = torch.empty(probs.shape, dtype=torch.float64).exponential_(generator=generator)
        return int((probs / waits).argmax())

    if len(drafted) == 0:
        return [race(target_probs[0])]
    first = int(drafted[0])
    chance = min(1.0, float(target_probs[0, first] / draft_probs[0, first]))
    if float(torch.rand((), generator=generator, dtype=torch.float64)) < chance:
        return [first] + accept_drafts(target_probs[1:], draft_probs[1:], list(drafted)[1:], generator)
    return [race(residual_distribution(target_probs[0], draft_probs[0]))]


def generate_speculative(model, draft, ids, max_new_tokens, n_draft=4, eos_id=None, temperature=1.0, generator=None):
    if n_draft < 1:
        raise ValueError(f"{n_draft=}")
    [check(m, ids.size(1) + max_new_tokens) for m in (model, draft)]
    hot = lambda x: torch.eye(x.size(-1), dtype=x.dtype)[x.argmax(-1)]  # noqa: E731
    p = lambda m, text: hot(x) if (x := logits_of(m, torch.tensor([text]))[0], temperature)[1] == 0 else (x / temperature).softmax(-1)  # noqa: E731
    start, text = ids[0].tolist(), []
    with looking_at(model), looking_at(draft):
        while len(text) < max_new_tokens and (eos_id is None or eos_id not in text):
            guess, q = [], []
            while len(guess) < min(n_draft, max_new_tokens - len(text) - 1):
                q.append(p(draft, start + text + guess)[-1])
                guess.append(int(q[-1].multinomial(1, generator=generator)))
            target = p(model, start + text + guess)[-len(guess) - 1 :]
            text += accept_drafts(target, torch.stack(q) if q else target[:0], guess, generator)
    if eos_id in text:
        text = text[: text.index(eos_id) + 1]
    return torch.tensor([start + text])


class PaddedGPT(GPT):
    def forward(self, ids, n_pad=None):
        x, T = self.token_emb(ids), ids.size(1)
        at = torch.arange(T) - (torch.zeros(len(ids), 1, dtype=torch.long) if n_pad is None else n_pad[:, None])
        if self.pos_emb is not None:
            x = x + self.pos_emb(x.new_zeros(1, int(at.max()) + 1, x.size(-1)))[0][at.clamp(min=0)]
        hide = ~(causal_mask(T) & (at >= 0)[:, None, None, :])
        for block in self.blocks:
            a, y = block.attn, block.ln1(x)
            q, k, v = (split_heads(W(y), a.n_heads) for W in (a.W_q, a.W_k, a.W_v))
            if a.positions == "rope":
                q, k = (apply_rope(z, torch.arange(T)) for z in (q, k))
            s = q @ k.mT / q.size(-1) ** 0.5 + (alibi_bias(a.n_heads, T, T).to(x) if a.positions == "alibi" else 0)
            x = x + a.W_out(merge_heads(a.dropout(s.masked_fill(hide, -1e9).softmax(-1)) @ v))
            x = x + block.ffn(block.ln2(x))
        return self.lm_head(self.ln_f(x))


def generate_batch(model, prompts, max_new_tokens, eos_id=None, pad_id=0):
    check(model, (n := max(map(len, prompts))) + max_new_tokens)
    pads, texts, ended = torch.tensor([n - len(p) for p in prompts]), [list(p) for p in prompts], set()
    with looking_at(model):
        while len(ended) < len(texts) and n < max(map(len, prompts)) + max_new_tokens:
            n += 1
            rows = [[pad_id] * int(pad) + text for pad, text in zip(pads, texts)]
            new = model(torch.tensor([row + [pad_id] * (n - 1 - len(row)) for row in rows]), pads)[:, -1].argmax(-1).tolist()
            for i in {*range(len(texts))} - ended:
                texts[i].append(new[i])
            ended |= {i for i, token in enumerate(new) if token == eos_id}
    return texts


class BlockPool:
    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        self.both = torch.full((2, n_blocks, n_heads, block_size, d_head), -7.0, dtype=dtype)
        self.block_size = block_size
        self.available = set(range(n_blocks))
        self.users = {}

    k = property(lambda self: self.both[0])
    v = property(lambda self: self.both[1])
    n_free = property(lambda self: len(self.available))

    def allocate(self):
        try:
            block = self.available.pop()
        except KeyError:
            raise RuntimeError("every block is in use") from None
        self.users[block] = 1
        return block

    def share(self, block):
        if block not in self.users:
            raise ValueError(f"block {block} is free or does not exist")
        self.users[block] += 1

    def free(self, block):
        if block not in self.users:
            raise ValueError(f"block {block} is free or does not exist")
        self.users[block] -= 1
        if self.users[block] < 1:
            self.users.pop(block)
            self.available.add(block)

    def holders(self, block):
        return self.users.get(block, 0)


class PagedKVCache:
    def __init__(self, pool, blocks=(), length=0):
        self.pool, self.blocks, self.length = pool, [*blocks], length
        [pool.share(b) for b in blocks]

    def append(self, k, v):
        pool, size, n = self.pool, self.pool.block_size, k.size(1)
        copy = bool(n and self.length % size and pool.holders(self.blocks[-1]) > 1)
        if (need := -(-(self.length + n) // size) - len(self.blocks)) + copy > pool.n_free:
            raise RuntimeError(f"{need + copy} blocks needed, {pool.n_free=}")
        if copy:
            old, self.blocks[-1] = self.blocks[-1], pool.allocate()
            pool.k[self.blocks[-1]], pool.v[self.blocks[-1]] = pool.k[old], pool.v[old]
            pool.free(old)
        self.blocks += [pool.allocate() for _ in range(need)]
        for i in range(n):
            where = self.blocks[(self.length + i) // size], slice(None), (self.length + i) % size
            pool.k[where], pool.v[where] = k[:, i], v[:, i]
        self.length += n

    def gather(self):
        return tuple(x[self.blocks].movedim(0, 1).flatten(1, 2)[:, : self.length] for x in (self.pool.k, self.pool.v))

    def fork(self):
        return PagedKVCache(self.pool, self.blocks, self.length)

    def free(self):
        while self.blocks:
            self.pool.free(self.blocks.pop())
        self.length = 0


def quantize_int8(weight):
    scale = torch.linalg.vector_norm(weight, ord=float("inf"), dim=1) / 127.0
    quotient = torch.nan_to_num(weight / scale.unsqueeze(1))
    codes = torch.sign(quotient) * torch.floor(quotient.abs() + 0.5)
    return codes.clip(-127, 127).type(torch.int8), scale


class QuantizedLinear(nn.Module):
    @torch.no_grad()
    def __init__(self, linear):
        super().__init__()
        codes, scale = quantize_int8(linear.weight)
        for name, value in (("weight", codes), ("scale", scale), ("bias", linear.bias)):
            self.register_buffer(name, None if value is None else value.detach().clone())

    def forward(self, x):
        out = x @ self.weight.T.type_as(x)
        out = out * self.scale.type_as(x)
        if self.bias is not None:
            out = out + self.bias.type_as(x)
        return out


def continuous_batches(requests, max_batch):
    if max_batch < 1:
        raise ValueError(f"{max_batch=}")
    left, plan = [n for _, n in requests], []
    order = sorted(range(len(requests)), key=lambda i: requests[i][0])
    seated = []
    while any(left):
        seated = [i for i in seated if left[i]]
        seated += [i for i in order if left[i] and i not in seated and requests[i][0] <= len(plan)][: max_batch - len(seated)]
        plan.append(sorted(seated))
        left = [n - (i in seated) for i, n in enumerate(left)]
    return plan
