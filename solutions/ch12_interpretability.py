"""Chapter 12: look inside what you built.

B batch, T positions, D = d_model, H = n_heads, V = vocab_size. A head's pattern is (T, T): row i holds the weights of position i.
Every function here runs a GPT in eval mode without gradient and leaves it unchanged, also when the run fails: each module's
mode, its hooks (including those of other code), its parameters and their gradients. Results have the dtype and device of the
model.
"""

import torch
from torch import Tensor

from .ch07_models import GPT
from .ch09_sampling import looking_at


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    """Return the residual stream after the embeddings and after each block: a list of n_layers + 1 tensors (B, T, D).

    Runs in eval mode without gradient. Afterwards, also when the run fails, all your hooks are removed, and each module's mode
    is restored.
    """
    # TODO 1: on the first block, register a hook that records its input: register_forward_pre_hook
    # TODO 2: on every block, register a hook that records its output: register_forward_hook
    # TODO 3: run the model inside looking_at (chapter 9)
    # TODO 4: remove the hooks, even if the run fails
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
    """Return the logits that the model would give if it stopped after each layer: (n_layers + 1, B, T, V).

    Row 0 comes from the embeddings alone, row i from the stream after i blocks. The last row is the model's own logits. The
    model is left as it was, also when the run fails.
    """
    # TODO 1: take the stream, and do with each state what the model does with the last: apply the final norm and the head
    ### BEGIN SOLUTION
    stream = residual_stream(model, ids)
    with looking_at(model):
        return torch.stack([model.lm_head(model.ln_f(x)) for x in stream])  # (n_layers + 1, B, T, V)
    ### END SOLUTION


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    """Return the attention weights of every head in every layer: (n_layers, B, H, T, T).

    The model is left as it was, also when the run fails.
    """
    # TODO 1: take the stream: its state number i is the input of block i
    # TODO 2: call each block's attention on the normalised state, as the block does, and take its weights
    ### BEGIN SOLUTION
    stream = residual_stream(model, ids)
    with looking_at(model):
        patterns = [block.attn(block.ln1(x), return_weights=True)[1] for block, x in zip(model.blocks, stream)]
    return torch.stack(patterns)  # (n_layers, B, H, T, T)
    ### END SOLUTION


def classify_head(pattern: Tensor) -> str:
    """Name the kind of a head, from its pattern (T, T) without row 0: position 0 can attend only to itself.

    "previous", "first" or "self": the greatest of the mean weights on the position before, on position 0 and on the position
    itself, if it is above 0.6. Otherwise "uniform": the mean distance of the rows from even attention is below 0.15. Even
    attention in row i is 1 / (i + 1) on each allowed key; the distance of a row is half the sum of the absolute differences
    (total variation). Otherwise "sparse": the mean of each row's largest weight is above 0.8. Otherwise "mixed".
    """
    # TODO 1: compute the mean weight on the previous, the first and the own position, over rows 1 and later
    # TODO 2: return the name of the greatest, if it is above 0.6
    # TODO 3: compute the distance of each row from even attention over its allowed keys; is the head "uniform"?
    # TODO 4: take the largest weight of each row: is the head "sparse" or "mixed"?
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
    even = (keys <= rows).to(pattern.dtype) / (rows + 1)  # (T-1, T)
    distance = (pattern[1:] - even).abs().sum(dim=-1) / 2  # (T-1,)
    if distance.mean() < 0.15:
        return "uniform"
    if pattern[1:].amax(dim=-1).mean() > 0.8:
        return "sparse"
    return "mixed"
    ### END SOLUTION


def induction_score(pattern: Tensor, period: int) -> float:
    """Return how much a head attends to the token after the previous copy of each token, a float: 1 always, 0 never.

    In a sequence that repeats itself after `period` positions, the previous copy of position i's token is at i - period, and
    the token after it at i - period + 1. The score is the mean of pattern[i, i - period + 1] over all i >= period.
    """
    # TODO 1: take the weights pattern[i, i - period + 1] for every i from period on, and return their mean
    ### BEGIN SOLUTION
    return pattern.diagonal(1 - period)[1:].mean().item()  # the diagonal begins at i = period - 1, one row too early
    ### END SOLUTION


def find_induction_heads(
    model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None
) -> Tensor:
    """Return every head's induction score, (n_layers, H), averaged over random sequences of 2 * period tokens.

    Each of the n_sequences sequences is `period` random tokens, written twice in a row. The `period` tokens are all different
    if the vocabulary is large enough; otherwise they are drawn with replacement. If a generator is given, all randomness
    comes from it.
    """
    # TODO 1: draw n_sequences rows of `period` tokens, and write each row twice, (n_sequences, 2 * period)
    # TODO 2: compute all patterns, and score each head on each sequence
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
    return torch.tensor(scores, dtype=patterns.dtype, device=patterns.device).mean(dim=1)  # (n_layers, H)
    ### END SOLUTION


def patch_residual(
    model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None
) -> Tensor:
    """Run the model on the corrupted ids, with the stream after block `layer` taken from the clean run: logits (B, T, V).

    Only the state at `position` is replaced, or all of them if that is None. Runs in eval mode without gradient. The model is
    left as it was, also when the run fails. Raises a ValueError that names `layer` for any layer but 0 to n_layers - 1 (there
    is no layer -1), and a ValueError for inputs of different shapes.
    """
    # TODO 1: check layer and shapes; name the numbers in the error
    # TODO 2: record the clean stream after block `layer`; remember what the first entry of residual_stream is
    # TODO 3: on that block, register a hook that returns a patched copy of its output; the copy replaces the output
    # TODO 4: run the model on the corrupted ids, and remove the hook, even if the run fails
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
    """Return which share of the clean target logit patching restores, from logits (V,): 0 nothing, 1 all of it.

    The result is a float and may lie outside [0, 1]. Raises a ValueError that names `target` when the clean and the corrupted
    run give the target the same logit: nothing was lost.
    """
    # TODO 1: check that something was lost
    # TODO 2: divide what was restored by what was lost
    ### BEGIN SOLUTION
    lost = clean[target] - corrupted[target]
    if lost == 0:
        raise ValueError(f"the target {target} has the logit {clean[target].item():.4g} in both runs: there is nothing to recover")
    return ((patched[target] - corrupted[target]) / lost).item()
    ### END SOLUTION
