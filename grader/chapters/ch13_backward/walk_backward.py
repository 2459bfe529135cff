"""Every gradient of a small model by hand.

The model is an embedding, a layer norm, causal attention, and two linear layers with gelu between them. It learns one
sentence. All numbers are float64, so that a wrong rule cannot hide behind rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import BLANK, curve, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

FUNCTIONS = (  # of the backward pass, in its order
    "cross_entropy_backward", "linear_backward", "gelu_backward", "linear_backward", "attention_backward",
    "layer_norm_backward", "embedding_backward",
)  # fmt: skip
REQUIRED_EXERCISES = (
    "softmax", "causal_mask", "scaled_dot_product_attention", "gelu", "LayerNorm", "cross_entropy",
    "numeric_gradient", "linear_backward", "gelu_backward", "softmax_backward", "cross_entropy_backward",
    "layer_norm_backward", "embedding_backward", "attention_backward", "Scalar",
)  # fmt: skip

SENTENCE = ("the", "cat", "saw", "the", "dog", "and", "the", "dog", "ran")
D, D_FF = 6, 10
LR, STEPS = 0.2, 120
MEASURED = ("weight", "bias", "W2")  # parameters that are also measured entry by entry: the others would take long
SHOWN = (1, 10, 20, 40, 80, 120)

Named = dict[str, Tensor]


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    vocabulary = sorted(set(SENTENCE))
    ids = torch.tensor([vocabulary.index(word) for word in SENTENCE])
    model = _Model(parts, ids[:-1], ids[1:], len(vocabulary), seed)
    gradients, between = model.backward(model.parameters)
    by_autograd = model.autograd(model.parameters)
    measured = {}
    with report_progress("measuring", len(MEASURED)) as step:
        for name in MEASURED:

            def loss_at(value: Tensor, name: str = name) -> Tensor:
                return model.loss({**model.parameters, name: value})

            measured[name] = parts.numeric_gradient(loss_at, model.parameters[name])
            step()
    loss, small = model.loss(model.parameters), 1e-4
    with report_progress("training twice", 2 * STEPS) as step:
        by_hand = _run(model, lambda values: model.backward(values)[0], step)
        automatic = _run(model, model.autograd, step)
    return SimpleNamespace(
        shapes={name: tuple(value.shape) for name, value in model.parameters.items()},
        between={name: (tuple(value.shape), value.norm().item()) for name, value in between.items()},
        loss=loss.item(),
        logits_gradient=between["logits"][0].tolist(),
        probabilities=torch.softmax(model.forward(model.parameters)["logits"][0], -1).tolist(),
        off_autograd={name: _off(value, by_autograd[name]) for name, value in gradients.items()},
        off_measured={name: _off(gradients[name], value) for name, value in measured.items()},
        fall=(loss - model.loss(_stepped(model.parameters, gradients, small))).item(),
        expected_fall=small * sum(gradient.square().sum() for gradient in gradients.values()).item(),
        losses=by_hand,
        apart=max(abs(a - b) for a, b in zip(by_hand, automatic)),
        nodes=_nodes(parts),
    )


class _Model:
    """The forward pass with the course's layers, and the backward pass with the functions of chapter 13."""

    def __init__(self, parts: MixedChapters, ids: Tensor, targets: Tensor, vocab_size: int, seed: int) -> None:
        self.parts, self.ids, self.targets, self.vocab_size = parts, ids, targets, vocab_size
        self.mask = parts.causal_mask(len(ids))
        generator = torch.Generator().manual_seed(seed)
        shapes = {
            "table": (vocab_size, D),
            "weight": (D,), "bias": (D,),
            "W1": (D_FF, D), "b1": (D_FF,),
            "W2": (vocab_size, D_FF), "b2": (vocab_size,),
        }  # fmt: skip
        self.parameters: Named = {}
        for name, shape in shapes.items():
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            scaled = 0.1 * drawn if len(shape) == 1 else drawn / shape[-1] ** 0.5
            self.parameters[name] = 1 + scaled if name == "weight" else scaled

    def forward(self, p: Named) -> Named:
        """Return every tensor of the forward pass by its name."""
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
        """Return the gradients of the parameters and of the tensors between them, in the order of their computation."""
        parts, kept = self.parts, self.forward(p)
        grad_logits = parts.cross_entropy_backward(kept["logits"], self.targets)
        grad_g, grad_w2, grad_b2 = parts.linear_backward(kept["g"], p["W2"], grad_logits)
        grad_u = parts.gelu_backward(kept["u"], grad_g)
        grad_h, grad_w1, grad_b1 = parts.linear_backward(kept["h"], p["W1"], grad_u)
        through_attention = sum(parts.attention_backward(kept["n"], kept["n"], kept["n"], grad_h, self.mask))
        grad_n = grad_h + through_attention  # n is used by the residual connection, and as queries, keys and values
        grad_x, grad_weight, grad_bias = parts.layer_norm_backward(kept["x"], p["weight"], grad_n)
        table = parts.embedding_backward(self.ids, grad_x, self.vocab_size)
        gradients = dict(zip(p, (table, grad_weight, grad_bias, grad_w1, grad_b1, grad_w2, grad_b2)))
        between = {"logits": grad_logits, "g": grad_g, "u": grad_u, "h": grad_h, "n": grad_n, "x": grad_x}
        return gradients, between | {"table": table}

    def autograd(self, p: Named) -> Named:
        """Return the gradients of the parameters, as torch computes them."""
        leaves = {name: nn.Parameter(value.detach().clone()) for name, value in p.items()}
        return dict(zip(leaves, torch.autograd.grad(self.loss(leaves), list(leaves.values()))))


def _stepped(p: Named, gradients: Named, lr: float) -> Named:
    return {name: value - lr * gradients[name] for name, value in p.items()}


def _run(model: _Model, gradients_of: Callable[[Named], Named], step: Callable[[], object]) -> list[float]:
    """Return the loss after each step of gradient descent."""
    p, losses = model.parameters, []
    for _ in range(STEPS):
        p = _stepped(p, gradients_of(p), LR)
        losses.append(model.loss(p).item())
        step()
    return losses


def _off(found: Tensor, right: Tensor) -> float:
    return ((found - right).abs().max() / right.abs().max().clamp(min=1e-12)).item()


def _nodes(parts: MixedChapters) -> list[tuple[str, float, float]]:
    """Run the lesson's calculation with Scalars; return the name, value and gradient of each node."""
    a, b = parts.Scalar(2), parts.Scalar(-3)
    c = a * b
    d = c + a
    e = d**2
    e.backward()
    named = {"e = d ** 2": e, "d = c + a": d, "c = a * b": c, "b": b, "a": a}
    return [(name, float(node.value), float(node.grad)) for name, node in named.items()]


def describe(n: SimpleNamespace) -> dict[str, Any]:
    words = sorted(set(SENTENCE))
    logits = [[word, f"{p:.3f}", f"{g:+.4f}"] for word, p, g in zip(words, n.probabilities, n.logits_gradient)]
    between = [[name, str(size), norm] for name, (size, norm) in n.between.items()]
    gradients = [[function, *row] for function, row in zip(FUNCTIONS, between)]
    losses = [["loss", *(n.losses[step - 1] for step in SHOWN)]]
    return {
        "text": " ".join(SENTENCE),
        "positions": len(SENTENCE) - 1,
        "repeats": SENTENCE[:-1].count("the"),
        "measured_count": len(n.off_measured),
        "parameter_count": len(n.shapes),
        "right": max(n.off_autograd.values()) < 1e-9,
        "parameter_table": table(n.shapes.items(), ["parameter", "shape"]),
        "logits_table": table(logits, ["word", "probability", "gradient of its logit"]),
        "gradient_table": table(gradients, ["function", "gradient of", "shape", "norm"], ".3f", left=2),
        "measured_table": table(n.off_measured.items(), ["parameter", "difference"], ".0e"),
        "autograd_table": table(n.off_autograd.items(), ["parameter", "difference"], ".0e"),
        "loss_curve": curve("loss", n.losses) + BLANK,
        "loss_table": table(losses, ["after step", *map(str, SHOWN)], ".3f"),
        "node_table": table(n.nodes, ["node", "value", "gradient"], "g"),
    }
