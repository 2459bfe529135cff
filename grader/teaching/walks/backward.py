"""One training step with every gradient by hand, checked against a measurement and against autograd.

The model is small: an embedding, a layer norm, causal attention, and two linear layers with gelu between them. It learns one sentence. All numbers are
float64, so that a wrong rule cannot hide behind rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from grader.teaching.drawing.charts import curves
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.walk_page import WalkPage
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    "softmax", "causal_mask", "scaled_dot_product_attention", "gelu", "LayerNorm", "cross_entropy",
    "numeric_gradient", "linear_backward", "gelu_backward", "softmax_backward", "cross_entropy_backward", "layer_norm_backward", "embedding_backward",
    "attention_backward", "Scalar",
)  # fmt: skip
NEXT_STEP = (
    "Next: leave out a rule, for example the second correction of layer_norm_backward, and run `headway check layer_norm_backward`. "
    "This walk uses the reference for exercises that fail their tests. `headway walk training` trains a whole GPT with torch's autograd."
)

SENTENCE = ("the", "cat", "saw", "the", "dog", "and", "the", "dog", "ran")
D, D_FF = 6, 10
LR, STEPS = 0.2, 120
MEASURED = ("weight", "bias", "W2")  # parameters that are also measured entry by entry: the others would take long
SHOWN = (1, 10, 20, 40, 80, 120)

Named = dict[str, Tensor]


@dataclass(frozen=True)
class Numbers:
    words: list[str]
    shapes: dict[str, tuple[int, ...]]  # of the parameters
    sizes: dict[str, tuple[int, ...]]  # of the gradients on the way back, in the order in which they are computed
    lengths: dict[str, float]
    loss: float
    logits_gradient: list[float]  # of the first position
    probabilities: list[float]
    target: str
    off_autograd: dict[str, float]  # by parameter: the largest difference, relative to the gradient's largest entry
    off_measured: dict[str, float]
    after: float  # the loss after one step
    expected_fall: float  # what the gradient predicts for a small step
    losses: list[float]  # by hand
    apart: float  # the largest difference to a run with autograd
    nodes: list[tuple[str, float, float]]  # of the calculation with Scalars: name, value, gradient


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """One backward pass by hand with its checks, then a run of many steps."""
    vocabulary = sorted(set(SENTENCE))
    ids = torch.tensor([vocabulary.index(word) for word in SENTENCE])
    model = _Model(parts, ids[:-1], ids[1:], len(vocabulary), seed)
    gradients, on_the_way = model.backward(model.parameters)
    by_autograd = model.autograd(model.parameters)
    measured = {}
    with report_progress("measuring", len(MEASURED)) as step:
        for name in MEASURED:
            measured[name] = parts.numeric_gradient(lambda value, name=name: model.loss({**model.parameters, name: value}), model.parameters[name])
            step()
    probs = torch.softmax(model.forward(model.parameters)["logits"][0], -1)
    loss = model.loss(model.parameters)

    small = 1e-4
    fall = small * sum(gradient.square().sum() for gradient in gradients.values()).item()
    nudged = model.loss(_stepped(model.parameters, gradients, small))
    with report_progress("training twice", 2 * STEPS) as step:
        by_hand = _run(model, lambda values: model.backward(values)[0], step)
        automatic = _run(model, model.autograd, step)
    return Numbers(
        words=list(SENTENCE),
        shapes={name: tuple(value.shape) for name, value in model.parameters.items()},
        sizes={name: tuple(value.shape) for name, value in on_the_way.items()},
        lengths={name: value.norm().item() for name, value in on_the_way.items()},
        loss=loss.item(),
        logits_gradient=on_the_way["logits"][0].tolist(),
        probabilities=probs.tolist(),
        target=SENTENCE[1],
        off_autograd={name: _off(value, by_autograd[name]) for name, value in gradients.items()},
        off_measured={name: _off(gradients[name], value) for name, value in measured.items()},
        after=(loss - nudged).item(),
        expected_fall=fall,
        losses=by_hand,
        apart=max(abs(a - b) for a, b in zip(by_hand, automatic)),
        nodes=_nodes(parts),
    )


class _Model:
    """The forward pass with the course's layers, and the backward pass with the functions of chapter 13."""

    def __init__(self, parts: Parts, ids: Tensor, targets: Tensor, vocab_size: int, seed: int) -> None:
        self.parts, self.ids, self.targets, self.vocab_size = parts, ids, targets, vocab_size
        self.mask = parts.causal_mask(len(ids))
        generator = torch.Generator().manual_seed(seed)
        shapes = {"table": (vocab_size, D), "weight": (D,), "bias": (D,), "W1": (D_FF, D), "b1": (D_FF,), "W2": (vocab_size, D_FF), "b2": (vocab_size,)}
        self.parameters: Named = {}
        for name, shape in shapes.items():
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            self.parameters[name] = 1 + 0.1 * drawn if name == "weight" else 0.1 * drawn if len(shape) == 1 else drawn / shape[-1] ** 0.5

    def forward(self, p: Named) -> Named:
        """Every tensor of the forward pass by its name."""
        parts = self.parts
        x = p["table"][self.ids]  # (T, D)
        norm = parts.LayerNorm(D).double()
        del norm.weight, norm.bias
        norm.weight, norm.bias = p["weight"], p["bias"]
        n = norm(x)
        h = n + parts.scaled_dot_product_attention(n, n, n, self.mask)[0]  # (T, D), with a residual connection
        u = h @ p["W1"].T + p["b1"]  # (T, d_ff)
        g = parts.gelu(u)
        return {"x": x, "n": n, "h": h, "u": u, "g": g, "logits": g @ p["W2"].T + p["b2"]}

    def loss(self, p: Named) -> Tensor:
        return self.parts.cross_entropy(self.forward(p)["logits"], self.targets)

    def backward(self, p: Named) -> tuple[Named, Named]:
        """The gradients of the parameters, and those of the tensors between them, in the order in which they are computed."""
        parts, kept = self.parts, self.forward(p)
        grad_logits = parts.cross_entropy_backward(kept["logits"], self.targets)
        grad_g, grad_w2, grad_b2 = parts.linear_backward(kept["g"], p["W2"], grad_logits)
        grad_u = parts.gelu_backward(kept["u"], grad_g)
        grad_h, grad_w1, grad_b1 = parts.linear_backward(kept["h"], p["W1"], grad_u)
        through_attention = sum(parts.attention_backward(kept["n"], kept["n"], kept["n"], grad_h, self.mask))
        grad_n = grad_h + through_attention  # n is used four times: by the residual connection, and as queries, keys and values
        grad_x, grad_weight, grad_bias = parts.layer_norm_backward(kept["x"], p["weight"], grad_n)
        table = parts.embedding_backward(self.ids, grad_x, self.vocab_size)
        gradients = {"table": table, "weight": grad_weight, "bias": grad_bias, "W1": grad_w1, "b1": grad_b1, "W2": grad_w2, "b2": grad_b2}
        return gradients, {"logits": grad_logits, "g": grad_g, "u": grad_u, "h": grad_h, "n": grad_n, "x": grad_x, "table": table}

    def autograd(self, p: Named) -> Named:
        """The gradients of the parameters, as torch computes them."""
        leaves = {name: nn.Parameter(value.detach().clone()) for name, value in p.items()}
        found = torch.autograd.grad(self.loss(leaves), list(leaves.values()))
        return dict(zip(leaves, found))


def _stepped(p: Named, gradients: Named, lr: float) -> Named:
    return {name: value - lr * gradients[name] for name, value in p.items()}


def _run(model: _Model, gradients_of: Callable[[Named], Named], step: Callable[[], object]) -> list[float]:
    """The loss after each step of gradient descent."""
    p, losses = model.parameters, []
    for _ in range(STEPS):
        p = _stepped(p, gradients_of(p), LR)
        losses.append(model.loss(p).item())
        step()
    return losses


def _off(found: Tensor, right: Tensor) -> float:
    return ((found - right).abs().max() / right.abs().max().clamp(min=1e-12)).item()


def _nodes(parts: Parts) -> list[tuple[str, float, float]]:
    """The lesson's calculation with Scalars."""
    a, b = parts.Scalar(2), parts.Scalar(-3)
    c = a * b
    d = c + a
    e = d**2
    e.backward()
    named = {"e = d ** 2": e, "d = c + a": d, "c = a * b": c, "b": b, "a": a}
    return [(name, float(node.value), float(node.grad)) for name, node in named.items()]


def _shape(size: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, size)) + ("," if len(size) == 1 else "") + ")"


def print_walk(page: WalkPage, n: Numbers) -> None:
    """Forward, backward, the two checks, the step, the run, and the machine."""
    page.say(f"The text is `{' '.join(n.words)}`. Each word is the target of the word before it.")

    page.step("Forward")
    page.say("An embedding, layer norm, causal attention with a residual connection, a linear layer, gelu, and the head. The parameters:")
    page.table([[name, _shape(size)] for name, size in n.shapes.items()], ["parameter", "shape"])
    page.say(f"The loss of the untrained model is {n.loss:.3f}. Everything that the layers computed on the way is kept for the way back.")

    page.step("The first gradient", "cross_entropy_backward")
    words = sorted(set(n.words))
    page.say(f"Probabilities minus one-hot target, divided by the {len(n.words) - 1} positions. The first word is `{n.words[0]}`, and the target is `{n.target}`:")
    rows = [[word, f"{p:.3f}", f"{g:+.4f}"] for word, p, g in zip(words, n.probabilities, n.logits_gradient)]
    page.table(rows, ["word", "probability", "gradient of its logit"])
    page.say("Only the target's gradient is negative, so only its logit will rise. The gradients sum to 0.")

    page.step("Layer by layer, from the last to the first")
    page.say(
        "x is the embedded text, n the output of layer norm, h the output of attention plus n, u the output of the first linear layer, and g is gelu(u). "
        "Each function turns the gradient above it into the next one:"
    )
    functions = ("cross_entropy_backward", "linear_backward", "gelu_backward", "linear_backward", "attention_backward", "layer_norm_backward", "embedding_backward")
    rows = [[function, name, _shape(size), f"{n.lengths[name]:.3f}"] for function, (name, size) in zip(functions, n.sizes.items())]
    page.table(rows, ["function", "gradient of", "shape", "norm"], left=2)
    page.say(
        "`n`, the output of layer norm, is used four times: by the residual connection, and as queries, keys and values. Its gradient is the sum of four. "
        f"`the` occurs {n.words[:-1].count('the')} times in the input, so its row of the table is a sum too."
    )

    page.step("First check: a measurement", "numeric_gradient")
    page.say(
        "Each entry of a parameter is moved by 1e-5 up and down. The largest difference to the gradient by hand, "
        f"relative to its largest entry, for {len(n.off_measured)} of the {len(n.shapes)} parameters (each entry costs two forward passes):"
    )
    page.table([[name, f"{off:.0e}"] for name, off in n.off_measured.items()], ["parameter", "difference"])

    page.step("Second check: autograd")
    page.say("The same for torch's autograd, which is not a measurement, so only rounding is left:")
    page.table([[name, f"{off:.0e}"] for name, off in n.off_autograd.items()], ["parameter", "difference"])
    right = max(n.off_autograd.values()) < 1e-9
    page.say("All gradients are right." if right else "A gradient is wrong: its row shows which. `headway check` says more.")

    page.step("One step")
    page.say(
        "For a small step against the gradient, the loss should fall by the learning rate times the sum of all squared gradients. "
        f"With the learning rate 0.0001 that is {n.expected_fall:.3e}. It fell by {n.after:.3e}."
    )

    page.step(f"{STEPS} steps")
    page.say(f"With the learning rate {LR:g}, the loss by hand:")
    page.curve("loss", n.losses, width=50)
    page.blank()
    page.table([["loss", *(f"{n.losses[step - 1]:.3f}" for step in SHOWN)]], ["after step", *map(str, SHOWN)])
    page.say(f"A run with autograd gives the same losses: they differ by at most {n.apart:.0e}.")

    page.step("The machine", "Scalar")
    page.say("What autograd adds is the order. Each Scalar remembers what it was made of; e.backward() visits the nodes from top to bottom:")
    page.table([[name, f"{value:g}", f"{grad:g}"] for name, value, grad in n.nodes], ["node", "value", "gradient"])
    page.say("a has two users, c and d. It waits for both: -8 from d, and 24 from c.")


def draw(n: Numbers) -> str:
    """The loss of the run by hand."""
    return curves({"by hand": list(enumerate(n.losses, start=1))}, "The loss, with every gradient by hand", x_name="step", y_name="loss")
