"""Style: einsum. l layer, n sequence, b batch, h head, i position; a repeated letter, "ii->i", is a diagonal."""

import torch
from torch import Tensor

from .ch07_models import GPT
from .ch09_sampling import looking_at


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    # the model's own parts, called in the model's own order: no hook is needed, so none can stay
    with looking_at(model):
        x = model.token_emb(ids)
        stream = [x if model.pos_emb is None else model.pos_emb(x)]
        for block in model.blocks:
            stream.append(block(stream[-1]))
    return stream


def logit_lens(model: GPT, ids: Tensor) -> Tensor:
    with looking_at(model):
        return model.lm_head(model.ln_f(torch.stack(residual_stream(model, ids))))


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    with looking_at(model):
        stream = residual_stream(model, ids)
        return torch.stack([block.attn(block.ln1(x), return_weights=True)[1] for block, x in zip(model.blocks, stream)])


def classify_head(pattern: Tensor) -> str:
    pattern = pattern.detach().double()
    rows = pattern[1:]
    means = {
        "previous": torch.einsum("ii->i", rows[:, :-1]).mean().item(),
        "first": rows[:, 0].mean().item(),
        "self": torch.einsum("ii->i", rows[:, 1:]).mean().item(),
    }
    name = max(means, key=means.__getitem__)
    if means[name] > 0.6:
        return name
    place = torch.arange(pattern.shape[0], device=pattern.device)
    even = torch.where(place <= place[:, None], 1 / (place[:, None] + 1.0), 0.0)
    if ((rows - even[1:]).abs().sum(dim=-1) / 2).mean() < 0.15:
        return "uniform"
    return "sparse" if rows.amax(dim=-1).mean() > 0.8 else "mixed"


def induction_score(pattern: Tensor, period: int) -> float:
    repeated = pattern.detach()[period:, 1 : pattern.shape[0] - period + 1]  # row i, column i - period + 1 is its diagonal
    return torch.einsum("ii->i", repeated).mean().item()


def find_induction_heads(
    model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None
) -> Tensor:
    vocab_size = model.config.vocab_size
    if period <= vocab_size:  # a shuffled vocabulary a row, of which the beginning is taken: all different
        half = torch.rand(n_sequences, vocab_size, generator=generator).argsort(dim=-1)[:, :period]
    else:
        half = torch.randint(vocab_size, (n_sequences, period), generator=generator)
    ids = torch.cat([half, half], dim=1).to(model.token_emb.weight.device)
    repeated = attention_patterns(model, ids)[..., period:, 1 : period + 1]
    return torch.einsum("lnhii->lh", repeated) / (n_sequences * period)


def patch_residual(
    model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None
) -> Tensor:
    n_layers = len(model.blocks)
    if not 0 <= layer < n_layers:
        raise ValueError(f"layer={layer} is not between 0 and {n_layers - 1}")
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"clean ids {tuple(clean_ids.shape)} and corrupted ids {tuple(corrupted_ids.shape)} differ in shape")
    places = torch.arange(clean_ids.shape[1], device=clean_ids.device)
    from_clean = places == (places if position is None else places[position])
    with looking_at(model):
        clean = residual_stream(model, clean_ids)[layer + 1]
        corrupted = residual_stream(model, corrupted_ids)[layer + 1]
        x = torch.where(from_clean[:, None], clean, corrupted)
        for block in model.blocks[layer + 1 :]:
            x = block(x)
        return model.lm_head(model.ln_f(x))


def recovery(clean: Tensor, corrupted: Tensor, patched: Tensor, target: int) -> float:
    best, worst, now = (logits[target].item() for logits in (clean, corrupted, patched))
    if best == worst:
        raise ValueError(f"clean and corrupted runs give the target the same logit, {best}: nothing was lost")
    return (now - worst) / (best - worst)
