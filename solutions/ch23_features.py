"""Chapter 23: what is inside a model: parts that add up, probes, directions, dictionaries.

B texts, T positions, D = d_model, F = n_features, N states of D numbers each. `model` is a GPT (chapter 7) or a Llama (chapter 16).
Both have `token_emb`, `blocks` with `attn` (its `n_heads` and `W_out`) and `ffn`, `ln_f` and `lm_head`. A GPT returns a tuple that
begins with the logits, a Llama returns the logits. Layers and heads are counted from 0; there is no layer -1. What a function
changes in a model it changes back, also after an error: each module's mode, its hooks (those of other code stay), its parameters
and their gradients.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .ch09_sampling import looking_at


@contextmanager
def hooked(*handles: RemovableHandle) -> Iterator[None]:
    """Inside the `with` block, the hooks of these handles act; afterwards, also after an error, they are removed."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def logit_attribution(model: nn.Module, ids: Tensor, target: int) -> dict[str, float]:
    """Return how much each part of the model adds to the last position's logit of `target`, for one text (1, T).

    The keys, in this order: "embedding" (what enters the first block); for each layer i "head i.0", "head i.1", …, "ffn i"; "bias".
    A head adds its own features times their columns of W_out; "ffn i" has its biases. "bias" has those of every W_out, and that of
    the final norm, which is not scaled; it is there, as 0, for a model without biases. The final norm multiplies each part by the
    scale of the whole stream; a LayerNorm first subtracts from each part its own mean. So the parts add up to the logit. Runs in
    eval mode without gradient. Raises a ValueError that names `target` if it is not a token of the model, and one that names the
    number of texts if it is not 1.
    """
    # TODO 1: check the ids and the target
    # TODO 2: register hooks that record, at the last position, what enters the first block and each W_out, what each ffn returns, and
    #         what enters and leaves ln_f; run the model inside looking_at and hooked
    # TODO 3: cut what enters each W_out into heads, and multiply each by its columns of W_out
    # TODO 4: find the scale of the final norm, one number: ‖result - bias‖ / ‖weight · stream‖; for a LayerNorm without the stream's mean
    # TODO 5: multiply each part by scale, weight and the target's row of lm_head; a LayerNorm (it has a bias) subtracts each part's mean
    ### BEGIN SOLUTION
    vocab_size = model.lm_head.weight.size(0)
    if ids.dim() != 2 or len(ids) != 1:
        raise ValueError(f"ids has the shape {tuple(ids.shape)}: it must be one text, (1, T)")
    if not 0 <= target < vocab_size:
        raise ValueError(f"target = {target}, but the tokens are 0 to {vocab_size - 1}")
    seen: dict[str, Tensor] = {}  # each (D,)

    def entering(name: str) -> Callable:
        return lambda module, inputs: seen.update({name: inputs[0][0, -1]})

    def leaving(name: str) -> Callable:
        return lambda module, inputs, output: seen.update({name: output[0, -1]})

    handles = [model.blocks[0].register_forward_pre_hook(entering("embedding"))]
    for i, block in enumerate(model.blocks):
        handles += [block.attn.W_out.register_forward_pre_hook(entering(f"heads {i}"))]
        handles += [block.ffn.register_forward_hook(leaving(f"ffn {i}"))]
    norm = model.ln_f
    handles += [norm.register_forward_pre_hook(entering("stream")), norm.register_forward_hook(leaving("normed"))]
    with looking_at(model), hooked(*handles):
        model(ids)
        parts, bias = {"embedding": seen["embedding"]}, torch.zeros_like(seen["embedding"])
        for i, block in enumerate(model.blocks):
            W_out, n_heads = block.attn.W_out, block.attn.n_heads
            columns = W_out.weight.chunk(n_heads, dim=1)  # each (D, d_head)
            for h, features in enumerate(seen[f"heads {i}"].chunk(n_heads)):
                parts[f"head {i}.{h}"] = columns[h] @ features
            parts[f"ffn {i}"] = seen[f"ffn {i}"]
            if W_out.bias is not None:
                bias = bias + W_out.bias
        parts["bias"] = bias

        norm_bias = getattr(norm, "bias", None)
        row = model.lm_head.weight[target]  # (D,)
        stream, normed = seen["stream"], seen["normed"]
        if norm_bias is not None:
            stream, normed = stream - stream.mean(), normed - norm_bias
            parts = {name: part - part.mean() for name, part in parts.items()}
        scale = normed.norm() / (stream * norm.weight).norm()
        added = {name: (scale * norm.weight * part @ row).item() for name, part in parts.items()}
        if norm_bias is not None:
            added["bias"] += (norm_bias @ row).item()
    return added
    ### END SOLUTION


@contextmanager
def ablate_head(model: nn.Module, layer: int, head: int, kind: str = "zero") -> Iterator[None]:
    """Inside the `with` block, one head adds nothing of its own; afterwards, also after an error, the model is as before.

    With "zero", the head's features are 0 before they enter W_out. With "mean", at every position they are their mean over all B ·
    T positions of this pass. All other heads and W_out's bias are as they were. Gradients flow as usual, also through the mean. The
    `with` raises a ValueError that names `layer`, `head` or `kind` if there is no such layer, head or kind.
    """
    # TODO 1: check layer, head and kind
    # TODO 2: write a hook for what enters W_out: it returns a copy in which this head's features are replaced
    # TODO 3: register it, and yield; remove it at the end, also after an error
    ### BEGIN SOLUTION
    if not 0 <= layer < len(model.blocks):
        raise ValueError(f"layer = {layer}, but the layers are 0 to {len(model.blocks) - 1}")
    attention = model.blocks[layer].attn
    if not 0 <= head < attention.n_heads:
        raise ValueError(f"head = {head}, but the heads are 0 to {attention.n_heads - 1}")
    if kind not in ("zero", "mean"):
        raise ValueError(f"the kind {kind!r} is not one of zero, mean")

    def replace(W_out: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        heads = list(inputs[0].chunk(attention.n_heads, dim=-1))  # each (B, T, d_head)
        own = heads[head]
        heads[head] = torch.zeros_like(own) if kind == "zero" else own.mean(dim=(0, 1), keepdim=True).expand_as(own)
        return (torch.cat(heads, dim=-1),)

    with hooked(attention.W_out.register_forward_pre_hook(replace)):
        yield
    ### END SOLUTION


def attribution_patching(
    model: nn.Module, clean_ids: Tensor, corrupted_ids: Tensor, metric: Callable[[Tensor], Tensor]
) -> Tensor:
    """Estimate, for every place of the stream, how much the metric of the corrupted run would change with the clean state there.

    The result is (n_layers + 1, T): row 0 is the stream after the embeddings, row i that after i blocks. An estimate is the
    gradient of the metric in the corrupted run, times the difference of the clean and the corrupted state, added up over texts and
    features. `metric` gets the corrupted run's logits (B, T, V) and returns one number, a tensor with a graph. Takes one forward
    pass of each text, and one backward pass. Runs in eval mode; works inside torch.no_grad and for frozen parameters, and no
    parameter's gradient changes. The result has no graph. Raises a ValueError for ids of different shapes, and one that names
    `metric` if what it returns is not one number or has no gradient.
    """
    # TODO 1: check the shapes
    # TODO 2: write a function that runs ids and records the stream: what enters the first block and what each block returns
    # TODO 3: record the clean stream without gradient; in the corrupted run, with gradient, let the state that enters the first block be
    #         a new leaf, so that a graph begins there
    # TODO 4: call metric, check its result, and get the gradient of every state with torch.autograd.grad
    # TODO 5: multiply by the differences, and add up
    ### BEGIN SOLUTION
    if clean_ids.shape != corrupted_ids.shape:
        shapes = f"{tuple(clean_ids.shape)} and {tuple(corrupted_ids.shape)}"
        raise ValueError(f"the clean and the corrupted ids have different shapes, {shapes}: positions would not correspond")

    def run(ids: Tensor) -> tuple[list[Tensor], Tensor]:
        stream: list[Tensor] = []

        def begin(block: nn.Module, inputs: tuple) -> tuple:
            stream.append(inputs[0].detach().requires_grad_(torch.is_grad_enabled()))
            return (stream[0], *inputs[1:])

        handles = [model.blocks[0].register_forward_pre_hook(begin)]
        handles += [block.register_forward_hook(lambda block, inputs, x: stream.append(x)) for block in model.blocks]
        with hooked(*handles):
            logits = model(ids)
        return stream, logits[0] if isinstance(logits, tuple) else logits

    with looking_at(model):
        clean, _ = run(clean_ids)
        with torch.enable_grad():
            corrupted, logits = run(corrupted_ids)
            value = metric(logits)
            if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
                raise ValueError("metric must return one number that torch has computed from the logits, with a graph")
            gradients = torch.autograd.grad(value, corrupted)
        changes = [g * (new - old) for g, new, old in zip(gradients, clean, corrupted)]  # each (B, T, D)
        return torch.stack(changes).sum(dim=(1, 3))  # (n_layers + 1, T)
    ### END SOLUTION


def fit_probe(states: Tensor, labels: Tensor, l2: float = 1e-2) -> tuple[Tensor, Tensor]:
    """Fit a logistic regression: states (N, D) and labels (N,), 0 or 1 -> (weight (D,), bias, a scalar tensor).

    σ(state · weight + bias) is the probability of label 1. The result is the minimum of the mean of -log p(label), plus
    l2/2 · weight · weight; the bias is not penalised. It is computed until it no longer changes, so it does not depend on where the
    search began: at least three digits are right. It is finite for separable classes too. Labels may be bools, ints or floats. The
    result has the dtype of the states and no graph. Raises a ValueError that names `l2` if it is not above 0, and one that names
    `labels` if there are not as many as states or not both classes.
    """
    # TODO 1: check l2 and labels
    # TODO 2: in float64, append a column of ones to the states, for the bias
    # TODO 3: Newton's method: gradient, second derivatives, and the step that torch.linalg.solve gives
    # TODO 4: halve a step until the loss no longer grows; stop when the gradient is nearly 0
    ### BEGIN SOLUTION
    if not l2 > 0:
        raise ValueError(f"l2 = {l2}, but only a penalty above 0 gives separable classes a finite answer")
    if labels.shape != states.shape[:1]:
        raise ValueError(f"labels has the shape {tuple(labels.shape)}, and there are {len(states)} states")
    y = labels.detach().double()
    if not 0 < y.sum() < len(y):
        raise ValueError("labels has only one class, and a probe needs both")
    x = torch.cat([states.detach().double(), torch.ones(len(y), 1, dtype=torch.float64, device=states.device)], dim=1)  # (N, D + 1)
    penalty = torch.full_like(x[0], l2)
    penalty[-1] = 0.0

    def loss(theta: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(x @ theta, y) + (penalty * theta.square()).sum() / 2

    theta = torch.zeros_like(penalty)
    for _ in range(100):
        p = torch.sigmoid(x @ theta)
        gradient = x.T @ (p - y) / len(y) + penalty * theta
        if gradient.norm() < 1e-10:
            break
        curvature = (x.T * (p * (1 - p))) @ x / len(y) + torch.diag(penalty + 1e-12)
        step = torch.linalg.solve(curvature, gradient)
        size = 1.0
        while loss(theta - size * step) > loss(theta) and size > 1e-6:
            size /= 2
        theta = theta - size * step
    return theta[:-1].to(states.dtype), theta[-1].to(states.dtype)
    ### END SOLUTION


def probe_score(
    states: Tensor, labels: Tensor, folds: int, generator: torch.Generator | None = None
) -> tuple[float, float]:
    """Return (accuracy, control): the share of held-out states that a probe gets right, with the labels and with shuffled labels.

    States and labels are those of fit_probe. The states of each class are shuffled and dealt to the folds in turn, the second class
    from the fold on where the first one has ended, so that both classes are left when any one fold is held out. Each fold is
    predicted once, by fit_probe on all other folds. The accuracy is the number of right predictions, divided by N. The control is
    the accuracy with the same labels in a random order, dealt again: what a probe gets from N states of D numbers that say nothing
    about their labels. If a generator is given, all randomness comes from it. Raises a ValueError that names `folds` if it is not 2
    to N, and one that names `labels` if a class has fewer than 2 states.
    """
    # TODO 1: check folds and labels
    # TODO 2: write a function that gets labels: it gives each state a fold, class by class, in a shuffled order
    # TODO 3: for each fold, fit a probe on the other folds, and count its right predictions on this one
    # TODO 4: call it with the labels, and with the labels in a random order
    ### BEGIN SOLUTION
    N, classes = len(states), labels.detach().bool()
    if not 2 <= folds <= N:
        raise ValueError(f"folds = {folds}, but {N} states can be cut into 2 to {N} folds")
    if not 2 <= classes.sum() <= N - 2:
        raise ValueError("labels needs at least 2 states of each class: one to predict, and one to learn from")

    def shuffled(n: int) -> Tensor:
        return torch.randperm(n, generator=generator).to(states.device)

    def held_out_accuracy(classes: Tensor) -> float:
        places = torch.cat([kind.nonzero()[:, 0][shuffled(int(kind.sum()))] for kind in (classes, ~classes)])  # (N,)
        fold = torch.empty_like(places)
        fold[places] = torch.arange(N, device=states.device) % folds
        right = 0
        for f in range(folds):
            held = fold == f
            weight, bias = fit_probe(states[~held], classes[~held])
            right += ((states[held] @ weight + bias > 0) == classes[held]).sum().item()
        return right / N

    return held_out_accuracy(classes), held_out_accuracy(classes[shuffled(N)])
    ### END SOLUTION


def mean_direction(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the direction from the mean of the negative states to the mean of the positive ones, of length 1: (N, D), (M, D) -> (D,).

    Raises a ValueError if both means are the same, since there is no direction then.
    """
    # TODO 1: compute the difference of the means, and check that it is not 0
    # TODO 2: divide it by its length
    ### BEGIN SOLUTION
    difference = positive.mean(dim=0) - negative.mean(dim=0)
    length = difference.norm()
    if length == 0:
        raise ValueError("the positive and the negative states have the same mean: there is no direction between them")
    return difference / length
    ### END SOLUTION


@contextmanager
def steer(model: nn.Module, layer: int, direction: Tensor, strength: float) -> Iterator[None]:
    """Inside the `with` block, strength · direction is added to the stream after block `layer`; afterwards the model is as before.

    It is added at every position of every pass, of a prompt as of each new token that is written with a cache. Dtype and device of
    the stream stay. The `with` raises a ValueError that names `layer` if there is no such layer, and one that names `direction` if
    its shape is not (D,).
    """
    # TODO 1: check layer and direction
    # TODO 2: write a hook that returns the block's output plus strength · direction
    # TODO 3: register it, and yield; remove it at the end, also after an error
    ### BEGIN SOLUTION
    if not 0 <= layer < len(model.blocks):
        raise ValueError(f"layer = {layer}, but the layers are 0 to {len(model.blocks) - 1}")
    width = model.token_emb.weight.size(1)
    if direction.shape != (width,):
        raise ValueError(f"direction has the shape {tuple(direction.shape)}, and the stream needs ({width},)")

    def push(block: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
        return output + strength * direction.to(output)

    with hooked(model.blocks[layer].register_forward_hook(push)):
        yield
    ### END SOLUTION


def remove_direction(states: Tensor, direction: Tensor) -> Tensor:
    """Return the states without their part along a direction: (..., D) and (D,) -> (..., D), with projection 0 within rounding.

    The direction may have any length but 0, for which a ValueError names `direction`. What is perpendicular to it stays.
    """
    # TODO 1: check the direction, and make its length 1
    # TODO 2: subtract from each state its projection times the direction
    ### BEGIN SOLUTION
    length = direction.norm()
    if length == 0:
        raise ValueError("direction has length 0: it points nowhere")
    unit = direction / length
    return states - (states @ unit)[..., None] * unit
    ### END SOLUTION


class SparseAutoencoder(nn.Module):
    """A dictionary of features: each state is written as a sum of at most k of F directions.

    Parameters: `W_enc` (D, F), `b_enc` (F,), `W_dec` (F, D), `b_dec` (D,). Row f of W_dec is the direction of feature f. It begins
    as a random direction of length 1, W_enc as a copy of W_dec transposed, and both biases as zeros. Raises a ValueError that names
    k if it is not 1 to n_features.
    """

    def __init__(self, d_model: int, n_features: int, k: int) -> None:
        super().__init__()
        # TODO 1: check k, and keep it
        # TODO 2: make the four parameters
        ### BEGIN SOLUTION
        if not 1 <= k <= n_features:
            raise ValueError(f"k = {k}, but 1 to n_features = {n_features} features can be active")
        self.k = k
        self.W_dec = nn.Parameter(F.normalize(torch.randn(n_features, d_model), dim=1))
        self.W_enc = nn.Parameter(self.W_dec.detach().T.clone())
        self.b_enc = nn.Parameter(torch.zeros(n_features))
        self.b_dec = nn.Parameter(torch.zeros(d_model))
        ### END SOLUTION

    def encode(self, x: Tensor) -> Tensor:
        """Return how active each feature is, (..., D) -> (..., F): ReLU((x - b_dec) W_enc + b_enc), of which the k largest stay.

        All others are 0; of equal ones, any may stay. Where fewer than k are above 0, fewer are active. The k active ones carry
        gradient.
        """
        # TODO 3: subtract b_dec, multiply, add b_enc, and apply ReLU
        # TODO 4: keep the k largest of each state: torch.topk gives values and places, scatter writes them into zeros
        ### BEGIN SOLUTION
        active = torch.relu((x - self.b_dec) @ self.W_enc + self.b_enc)  # (..., F)
        values, places = active.topk(self.k, dim=-1)  # each (..., k)
        return torch.zeros_like(active).scatter(-1, places, values)
        ### END SOLUTION

    def decode(self, features: Tensor) -> Tensor:
        """Return the state that the features describe, (..., F) -> (..., D): features W_dec + b_dec."""
        # TODO 5: multiply, and add b_dec
        ### BEGIN SOLUTION
        return features @ self.W_dec + self.b_dec
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (reconstruction, features): (..., D) -> (..., D), (..., F)."""
        # TODO 6: encode, and decode
        ### BEGIN SOLUTION
        features = self.encode(x)
        return self.decode(features), features
        ### END SOLUTION

    def normalise(self) -> None:
        """Give each row of W_dec length 1, in place and without gradient. A row of zeros stays."""
        # TODO 7: divide each row by its length, under torch.no_grad
        ### BEGIN SOLUTION
        with torch.no_grad():
            self.W_dec.copy_(F.normalize(self.W_dec, dim=1))
        ### END SOLUTION

    def project_gradient(self) -> None:
        """Remove from each row of W_dec's gradient its part along that row, in place. Without a gradient, do nothing.

        Then a small step hardly changes a row's length. Rows may have any
        length; a row of zeros keeps its gradient.
        """
        # TODO 8: subtract from each row of the gradient its projection on that row of W_dec
        ### BEGIN SOLUTION
        if self.W_dec.grad is not None:
            unit = F.normalize(self.W_dec.detach(), dim=1)
            self.W_dec.grad -= (self.W_dec.grad * unit).sum(dim=1, keepdim=True) * unit
        ### END SOLUTION


def explained_variance(x: Tensor, reconstruction: Tensor) -> float:
    """Return which share of the states' variance a reconstruction explains, for two tensors (..., D): 1 is perfect.

    It is 1 - errors / deviations: the sum of all squared errors, and that of all squared deviations of x from its mean over the
    states. The mean state has 0; what is worse than it is below 0. Raises a ValueError for different shapes, and one that names x
    if all states are equal.
    """
    # TODO 1: check the shapes
    # TODO 2: compute each feature's mean over all states, and the two sums; check that the second one is not 0
    ### BEGIN SOLUTION
    if x.shape != reconstruction.shape:
        raise ValueError(f"the states and the reconstruction have the shapes {tuple(x.shape)} and {tuple(reconstruction.shape)}")
    states = x.reshape(-1, x.size(-1))  # (N, D)
    if (states == states[:1]).all():
        raise ValueError(f"all {len(states)} states of x are equal: there is no variance to explain")
    spread = (states - states.mean(dim=0)).square().sum()
    return (1 - (x - reconstruction).square().sum() / spread).item()
    ### END SOLUTION


def dead_features(features_seen: Tensor, window: int) -> Tensor:
    """Return which features are dead: (N, F) -> bools (F,), True for a feature that was not above 0 in the last `window` states.

    Raises a ValueError that names `window` if it is not 1 to N.
    """
    # TODO 1: check the window
    # TODO 2: look at the last states only
    ### BEGIN SOLUTION
    if not 1 <= window <= len(features_seen):
        raise ValueError(f"window = {window}, but {len(features_seen)} states were seen")
    return ~(features_seen[-window:] > 0).any(dim=0)
    ### END SOLUTION


def top_contexts(features: Tensor, ids: Tensor, n: int, before: int, after: int) -> list[tuple[float, list[int], int]]:
    """Show where a feature is most active: its activations (B, T) and the ids (B, T) -> at most n contexts, the strongest first.

    A context is (activation, tokens, place). Its tokens are at most `before` ids before the token that the feature is most active
    at in its text, this token, and at most `after` ids after it, all of the same text; `place` is where it is among these tokens.
    Each text gives one context at most: at its largest activation, the first of equal ones. Texts without an activation above 0
    give none. Of texts with equal activations, the earlier one comes first.
    """
    # TODO 1: find the largest activation of each text, and where it is
    # TODO 2: sort the texts, and leave out those without an activation
    # TODO 3: cut out the tokens around it, within the text
    ### BEGIN SOLUTION
    contexts = []
    for row, tokens in zip(features.tolist(), ids.tolist()):
        strongest = max(row)
        if strongest > 0:
            t = row.index(strongest)
            start = max(t - before, 0)
            contexts.append((strongest, tokens[start : t + after + 1], t - start))
    return sorted(contexts, key=lambda context: -context[0])[:n]
    ### END SOLUTION
