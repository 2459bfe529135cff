"""Chapter 12: look inside what you built.

B batch, T positions, D = d_model, H = n_heads, V = vocab_size. A head's pattern is (T, T): row i holds the weights of position i.
Every function here runs a GPT in eval mode without gradient, and leaves it as it was: each module's mode, its hooks (also those
of other people), its parameters and their gradients. Results have the dtype and device of the model.
"""

import torch
from torch import Tensor

from .ch07_models import GPT
from .ch09_sampling import looking_at


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    """What flows through the model: the stream after the embeddings, then after each block, n_layers + 1 tensors (B, T, D).

    Works in eval mode without gradient. Afterwards none of your hooks is left, and every module has its own mode.
    """
    # TODO 1: on the first block, hang a hook that notes what comes in: register_forward_pre_hook
    # TODO 2: on every block, hang one that notes what comes out: register_forward_hook
    # TODO 3: run the model, looking at it (looking_at, of chapter 9)
    # TODO 4: take the hooks off again, even when the run fails
    ### BEGIN SOLUTION
    stream: list[Tensor] = []
    hooks = [model.blocks[0].register_forward_pre_hook(lambda block, inputs: stream.append(inputs[0]))]
    hooks += [block.register_forward_hook(lambda block, inputs, output: stream.append(output)) for block in model.blocks]
    try:
        with looking_at(model):
            model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    return stream
    ### END SOLUTION


def logit_lens(model: GPT, ids: Tensor) -> Tensor:
    """What the model would say if it stopped after each layer: logits (n_layers + 1, B, T, V); the last are its own.

    Row 0 is what the embeddings alone would say, row i what is known after i blocks.
    """
    # TODO 1: take the stream, and read every state of it as the model reads the last: through its final norm and its head
    ### BEGIN SOLUTION
    stream = residual_stream(model, ids)
    with looking_at(model):
        return torch.stack([model.lm_head(model.ln_f(x)) for x in stream])  # (n_layers + 1, B, T, V)
    ### END SOLUTION


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    """Who attends to whom, in every head of every layer: (n_layers, B, H, T, T)."""
    # TODO 1: take the stream: its state number i is what block i reads
    # TODO 2: ask each block's attention for its weights, on the normalised state, as the block does
    ### BEGIN SOLUTION
    stream = residual_stream(model, ids)
    with looking_at(model):
        patterns = [block.attn(block.ln1(x), return_weights=True)[1] for block, x in zip(model.blocks, stream)]
    return torch.stack(patterns)  # (n_layers, B, H, T, T)
    ### END SOLUTION


def classify_head(pattern: Tensor) -> str:
    """Name what a head does, from its pattern (T, T), whose row 0 is left out: there is only one thing it can do there.

    "previous", "first" or "self": the greatest of the mean weights on the position before, on position 0 and on the position
    itself, when it is above 0.6. Else "uniform": the mean distance to even attention, 1 / (i + 1) on each of row i's allowed
    keys, is below 0.15, the distance being half the sum of the absolute differences (total variation). Else "sparse": the
    mean of each row's largest weight is above 0.8. Else "mixed".
    """
    # TODO 1: take the mean weight on the previous, the first and the own position, over rows 1 and later
    # TODO 2: name the greatest, when it is above 0.6
    # TODO 3: how far is each row from even attention over its allowed keys? name it, when it is near
    # TODO 4: how large is the largest weight of each row?
    ### BEGIN SOLUTION
    T = pattern.size(0)
    means = {
        "previous": pattern.diagonal(-1).mean(),
        "first": pattern[1:, 0].mean(),
        "self": pattern.diagonal()[1:].mean(),
    }
    name = max(means, key=means.get)
    if means[name] > 0.6:
        return name
    rows = torch.arange(1, T, device=pattern.device)[:, None]  # (T-1, 1)
    keys = torch.arange(T, device=pattern.device)
    even = (keys <= rows) / (rows + 1)  # (T-1, T)
    distance = (pattern[1:] - even).abs().sum(dim=-1) / 2  # (T-1,)
    if distance.mean() < 0.15:
        return "uniform"
    if pattern[1:].amax(dim=-1).mean() > 0.8:
        return "sparse"
    return "mixed"
    ### END SOLUTION


def induction_score(pattern: Tensor, period: int) -> float:
    """How much a head attends to what came after the previous copy of its token, a float: 1 always, 0 never.

    In a sequence that repeats itself after `period` positions, the previous copy of position i's token is at i - period, and the
    token after it at i - period + 1. The score is the mean of pattern[i, i - period + 1] over all i >= period.
    """
    # TODO 1: take the weights pattern[i, i - period + 1] for every i from period on, and their mean
    ### BEGIN SOLUTION
    return pattern.diagonal(1 - period)[1:].mean().item()  # the diagonal begins at i = period - 1, one row too early
    ### END SOLUTION


def find_induction_heads(
    model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None
) -> Tensor:
    """Every head's induction score, (n_layers, H), averaged over sequences of `period` random tokens repeated twice.

    The tokens of a sequence are all different where the vocabulary is large enough, else drawn with replacement. Where a
    generator is given, all randomness comes from it.
    """
    # TODO 1: draw n_sequences rows of `period` tokens, and repeat each once, (n_sequences, 2 * period)
    # TODO 2: take all patterns, and score each head on each sequence
    # TODO 3: average over the sequences
    ### BEGIN SOLUTION
    V = model.config.vocab_size
    if period <= V:
        rows = [torch.randperm(V, generator=generator)[:period] for _ in range(n_sequences)]
    else:
        rows = [torch.randint(V, (period,), generator=generator) for _ in range(n_sequences)]
    ids = torch.stack(rows).repeat(1, 2).to(model.token_emb.weight.device)  # (n_sequences, 2 * period)
    patterns = attention_patterns(model, ids)  # (n_layers, n_sequences, H, T, T)
    scores = [[[induction_score(head, period) for head in heads] for heads in layer] for layer in patterns]
    return torch.tensor(scores).mean(dim=1).to(model.token_emb.weight)  # (n_layers, H)
    ### END SOLUTION


def patch_residual(
    model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None
) -> Tensor:
    """Run on the corrupted ids, but with the stream after block `layer` taken from the clean run: logits (B, T, V).

    Only at `position`, or everywhere when that is None. Works in eval mode without gradient. Raises a ValueError that names
    `layer` for any layer but 0 to n_layers - 1 (there is no layer -1), and a ValueError for inputs of different shapes.
    """
    # TODO 1: check layer and shapes; name the numbers in the error
    # TODO 2: take the clean stream after block `layer`; mind what the first entry of residual_stream is
    # TODO 3: on that block, hang a hook that gives back a patched copy of its output: what it returns replaces the output
    # TODO 4: run on the corrupted ids, and take the hook off again, even when the run fails
    ### BEGIN SOLUTION
    n_layers = len(model.blocks)
    if not 0 <= layer < n_layers:
        raise ValueError(f"layer = {layer}, but the layers are 0 to {n_layers - 1}")
    if clean_ids.shape != corrupted_ids.shape:
        shapes = f"{tuple(clean_ids.shape)} and {tuple(corrupted_ids.shape)}"
        raise ValueError(f"the clean and the corrupted ids have different shapes, {shapes}: positions would not correspond")
    clean = residual_stream(model, clean_ids)[layer + 1]  # (B, T, D); entry 0 stands before the first block
    where = slice(None) if position is None else position

    def patch(block, inputs, output):
        output = output.clone()
        output[:, where] = clean[:, where]
        return output

    hook = model.blocks[layer].register_forward_hook(patch)
    try:
        with looking_at(model):
            logits = model(corrupted_ids)
    finally:
        hook.remove()
    return logits[0] if isinstance(logits, tuple) else logits
    ### END SOLUTION


def recovery(clean: Tensor, corrupted: Tensor, patched: Tensor, target: int) -> float:
    """How much of the clean target logit patching brings back, from logits (V,): 0 nothing, 1 all of it.

    The result is a float and may lie outside [0, 1]. Raises ValueError when clean and corrupted runs give the target the same
    logit: nothing was lost.
    """
    # TODO 1: check that something was lost
    # TODO 2: divide what came back by what was lost
    ### BEGIN SOLUTION
    lost = clean[target] - corrupted[target]
    if lost == 0:
        raise ValueError(f"the target {target} has the logit {clean[target].item():.4g} in both runs: there is nothing to recover")
    return ((patched[target] - corrupted[target]) / lost).item()
    ### END SOLUTION
