"""Chapter 15 with a loop wherever one will do."""

import math

import torch
from torch import nn

from .ch07_models import GPT
from .ch09_sampling import looking_at


def logits_of(model, ids):
    output = model(ids)
    return output[0] if isinstance(output, tuple) else output


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


def residual_distribution(target, draft):
    left = torch.maximum(target - draft, torch.zeros_like(target))
    equal = left.sum(-1) == 0
    left = torch.where(equal[..., None], target, left)
    return left / left.sum(-1, keepdim=True)


def accept_drafts(target_probs, draft_probs, drafted, generator=None):
    def draw(probs):
        position = torch.rand(1, generator=generator, dtype=torch.float64) * probs.double().sum()
        return min(int((probs.double().cumsum(0) <= position).sum()), len(probs) - 1)

    result = []
    for target, draft, token in zip(target_probs, draft_probs, drafted):
        if torch.rand(1, generator=generator).item() * draft[token].item() < target[token].item():
            result.append(token)
        else:
            result.append(draw(residual_distribution(target, draft)))
            break
    else:
        result.append(draw(target_probs[len(drafted)]))
    return result


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


class PaddedGPT(GPT):
    """The tokens of all texts are looked up at once. Then each text goes through the blocks without its padding."""

    def forward(self, ids, n_pad=None):
        if n_pad is None:
            n_pad = torch.zeros(len(ids), dtype=torch.long)
        x = self.token_emb(ids)
        result = torch.zeros(*x.shape[:2], self.config.vocab_size, dtype=x.dtype)
        for b in range(len(ids)):
            text = x[b : b + 1, int(n_pad[b]) :]
            if self.pos_emb is not None:
                text = self.pos_emb(text)
            for block in self.blocks:
                text = block(text)
            result[b, int(n_pad[b]) :] = self.lm_head(self.ln_f(text))[0]
        return result


def generate_batch(model, prompts, max_new_tokens, eos_id=None, pad_id=0):
    longest = max(map(len, prompts))
    config = model.config
    if config.positions in ("learned", "sinusoidal") and longest + max_new_tokens > config.max_len:
        raise ValueError(f"{longest} + {max_new_tokens} tokens are more than max_len = {config.max_len}")
    pads = torch.tensor([longest - len(prompt) for prompt in prompts])
    written, going = [[] for _ in prompts], set(range(len(prompts)))
    rows = [[pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    with looking_at(model):
        for _ in range(max_new_tokens):
            if not going:
                break
            best = model(torch.tensor(rows), pads)[:, -1].argmax(-1).tolist()
            for i, token in enumerate(best):
                rows[i].append(token if i in going else pad_id)
                if i in going:
                    written[i].append(token)
                    if token == eos_id:
                        going.discard(i)
    return [list(prompt) + new for prompt, new in zip(prompts, written)]


class BlockPool:
    def __init__(self, n_blocks, block_size, n_heads, d_head, dtype=torch.float32):
        self.block_size = block_size
        self.k = torch.ones(n_blocks, n_heads, block_size, d_head, dtype=dtype)
        self.v = torch.ones(n_blocks, n_heads, block_size, d_head, dtype=dtype)
        self.count = [0] * n_blocks

    @property
    def n_free(self):
        n = 0
        for count in self.count:
            if count == 0:
                n += 1
        return n

    def allocate(self):
        for block in reversed(range(len(self.count))):
            if self.count[block] == 0:
                self.count[block] = 1
                return block
        raise RuntimeError("no block is free")

    def check(self, block):
        if block < 0 or block >= len(self.count):
            raise ValueError(f"there is no block {block}")
        if self.count[block] == 0:
            raise ValueError(f"block {block} is free")

    def share(self, block):
        self.check(block)
        self.count[block] += 1

    def free(self, block):
        self.check(block)
        self.count[block] -= 1

    def holders(self, block):
        return self.count[block]


class PagedKVCache:
    def __init__(self, pool):
        self.pool, self.length, self.blocks = pool, 0, []

    def append(self, k, v):
        size = self.pool.block_size
        room = len(self.blocks) * size - self.length
        shared = room > 0 and self.pool.holders(self.blocks[-1]) > 1
        needed = -(-max(0, k.shape[1] - room) // size) + (1 if shared and k.shape[1] else 0)
        if needed > self.pool.n_free:
            raise RuntimeError(f"{needed} blocks are needed, {self.pool.n_free} are free")
        for t in range(k.shape[1]):
            place = self.length % size
            if place == 0:
                self.blocks.append(self.pool.allocate())
            elif self.pool.holders(self.blocks[-1]) > 1:
                old = self.blocks.pop()
                self.blocks.append(self.pool.allocate())
                self.pool.k[self.blocks[-1]] = self.pool.k[old].clone()
                self.pool.v[self.blocks[-1]] = self.pool.v[old].clone()
                self.pool.free(old)
            self.pool.k[self.blocks[-1]][:, place] = k[:, t]
            self.pool.v[self.blocks[-1]][:, place] = v[:, t]
            self.length += 1

    def gather(self):
        size, H, d = self.pool.block_size, self.pool.k.shape[1], self.pool.k.shape[3]
        where = [(self.blocks[p // size], p % size) for p in range(self.length)]
        if not where:
            return self.pool.k.new_zeros(H, 0, d), self.pool.v.new_zeros(H, 0, d)
        return torch.stack([self.pool.k[b, :, i] for b, i in where], 1), torch.stack([self.pool.v[b, :, i] for b, i in where], 1)

    def fork(self):
        other = type(self)(self.pool)
        other.length = self.length
        for block in self.blocks:
            self.pool.share(block)
            other.blocks.append(block)
        return other

    def free(self):
        while self.blocks:
            self.pool.free(self.blocks.pop())
        self.length = 0


def quantize_int8(weight):
    codes, scales = torch.zeros(weight.shape, dtype=torch.int8), []
    for i, row in enumerate(weight):
        largest = row.abs().max()
        scales.append(largest / 127)
        if largest > 0:
            codes[i] = torch.round(row / largest * 127).to(torch.int8)
    return codes, torch.stack(scales)


class QuantizedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight, scale = quantize_int8(linear.weight.detach())
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None)
        if linear.bias is not None:
            self.bias = linear.bias.detach().clone()

    def forward(self, x):
        columns = []
        for i, codes in enumerate(self.weight):
            column = (x * codes.to(x.dtype)).sum(-1) * self.scale[i].to(x.dtype)
            if self.bias is not None:
                column = column + self.bias[i].to(x.dtype)
            columns.append(column)
        return torch.stack(columns, -1)


def continuous_batches(requests, max_batch):
    if not max_batch > 0:
        raise ValueError("max_batch is " + str(max_batch))
    todo = {number: list(request) for number, request in enumerate(requests)}
    active, plan, step = [], [], 0
    while todo or active:
        arrived = sorted((request[0], number) for number, request in todo.items() if request[0] <= step)
        for _, number in arrived[: max_batch - len(active)]:
            active.append([number, todo.pop(number)[1]])
        plan.append(sorted(number for number, _ in active))
        active = [[number, left - 1] for number, left in active if left != 1]
        step += 1
    return plan
