"""Chapter 13: gradients by hand.

The loss is one number. Its gradient with respect to a tensor, in short the tensor's gradient, has the tensor's shape: each
entry says how fast the loss grows when this entry of the tensor grows. `grad_out` is the gradient of a layer's output. A
backward function turns it into the gradients of the layer's inputs and parameters. Each has the shape and dtype of what it is
the gradient of.

    D = d_model    V = vocab_size    Tq queries    Tk keys    d the width of a query
    linear: n features in, m features out
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .ch03_attention import scaled_dot_product_attention, softmax


def numeric_gradient(f: Callable[[Tensor], Tensor | float], x: Tensor, eps: float = 1e-5) -> Tensor:
    """Measure the gradient of f at x by central differences: move one entry of x at a time, by eps up and by eps down.

    The result has the shape of x, and dtype float64. f gets float64 tensors with the shape of x, and returns one number: a
    float, or a tensor with one element. f may change its argument, so each call gets a tensor of its own. x may have any
    shape, also (), and need not be contiguous.
    """
    # TODO 1: convert x to float64; flatten it to one axis, with reshape
    # TODO 2: for each entry, make two new tensors in x's shape: one with this entry raised by eps, one with it lowered by eps
    # TODO 3: call f on both, and divide the difference of the two numbers by 2 * eps
    # TODO 4: return the quotients as a float64 tensor in x's shape
    ### BEGIN SOLUTION
    flat = x.double().reshape(-1)
    slopes = torch.zeros_like(flat)
    for i in range(flat.numel()):
        step = torch.zeros_like(flat)
        step[i] = eps
        above, below = f((flat + step).reshape(x.shape)), f((flat - step).reshape(x.shape))
        slopes[i] = (float(above) - float(below)) / (2 * eps)
    return slopes.reshape(x.shape)
    ### END SOLUTION


def linear_backward(x: Tensor, weight: Tensor, grad_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients (grad_x, grad_weight, grad_bias) of y = x W^T + b: x (..., n), weight (m, n), grad_out (..., m).

    grad_x is (..., n), grad_weight (m, n), grad_bias (m,). Weight and bias are used at every position, so their gradients
    are sums over all leading axes.
    """
    # TODO 1: grad_x: each position's grad_out times the weight, (..., m) @ (m, n)
    # TODO 2: flatten the leading axes of x and grad_out: N rows, (N, n) and (N, m)
    # TODO 3: grad_weight: the sum over the rows of the outer products of grad_out and x, (m, N) @ (N, n)
    # TODO 4: grad_bias: the sum of the rows of grad_out
    ### BEGIN SOLUTION
    grad_x = grad_out @ weight  # (..., m) @ (m, n) -> (..., n)
    rows, grad_rows = x.reshape(-1, x.size(-1)), grad_out.reshape(-1, grad_out.size(-1))  # (N, n), (N, m)
    grad_weight = grad_rows.T @ rows  # (m, N) @ (N, n) -> (m, n)
    return grad_x, grad_weight, grad_rows.sum(dim=0)
    ### END SOLUTION


def gelu_backward(x: Tensor, grad_out: Tensor, approximate: bool = False) -> Tensor:
    """grad_out times the slope of gelu at x, element by element, for any shape.

    gelu(x) is x Φ(x), where Φ(x) = (1 + erf(x / sqrt(2))) / 2 is the normal probability below x. The normal density is
    φ(x) = e^(-x^2 / 2) / sqrt(2 pi). With approximate=True the slope is that of the tanh form, x / 2 * (1 + tanh(u)), where
    u = sqrt(2 / pi) * (x + 0.044715 x^3). Far from 0 the slope is 0 or 1, never NaN.
    """
    # TODO 1: with approximate=True, compute tanh(u) and the derivative of u; tanh has the derivative 1 - tanh^2
    # TODO 2: add the two terms of the product rule, for x / 2 and for 1 + tanh(u)
    # TODO 3: otherwise compute the probability Φ(x) and the density φ(x), as in the docstring
    # TODO 4: multiply grad_out by the slope
    ### BEGIN SOLUTION
    x = x.clamp(-100.0, 100.0)  # the slope is 0 or 1 long before; farther out x^3 overflows, and 0 times inf is NaN
    if approximate:
        scale = math.sqrt(2 / math.pi)
        t = torch.tanh(scale * (x + 0.044715 * x**3))
        slope_of_u = scale * (1 + 3 * 0.044715 * x**2)
        return grad_out * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * slope_of_u)
    below = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    density = torch.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    return grad_out * (below + x * density)
    ### END SOLUTION


def softmax_backward(weights: Tensor, grad_out: Tensor, dim: int = -1) -> Tensor:
    """The gradient of the scores, from weights = softmax(scores, dim) alone, for each slice along dim.

    weights, grad_out and the result have the same shape. A slice of zeros, where softmax had nothing to attend to, gets zeros.
    """
    # TODO 1: compute the mean of grad_out in each slice along dim, weighted with the weights; keep the axis
    # TODO 2: subtract it from grad_out, and multiply by the weights
    ### BEGIN SOLUTION
    mean = (weights * grad_out).sum(dim=dim, keepdim=True)
    return weights * (grad_out - mean)
    ### END SOLUTION


def cross_entropy_backward(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """The gradient of the logits in chapter 8's cross_entropy: logits (..., V), targets (...) -> (..., V).

    The loss is a mean over the kept targets, which are not ignore_index. A row with an ignored target gets zeros. If all are
    ignored, everything is zeros. Logits around 10000, -10000 or of -inf give no NaN, if each row has a finite one.
    ignore_index may be any id, also that of a real token or one beyond the vocabulary.
    """
    # TODO 1: find the kept targets; replace the others by any real id
    # TODO 2: compute the probabilities of each row, with the softmax of chapter 3
    # TODO 3: subtract 1 from the probability of each row's target, in a new tensor
    # TODO 4: set ignored rows to zero, and divide by the number of kept targets; there may be no kept one
    ### BEGIN SOLUTION
    kept = targets != ignore_index  # (...)
    ids = targets.masked_fill(~kept, 0)[..., None]  # (..., 1)
    probs = softmax(logits, dim=-1)  # (..., V)
    right = torch.zeros_like(probs).scatter(-1, ids, 1.0)
    return (probs - right).masked_fill(~kept[..., None], 0.0) / kept.sum().clamp(min=1)
    ### END SOLUTION


def layer_norm_backward(x: Tensor, weight: Tensor, grad_out: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients (grad_x, grad_weight, grad_bias) of layer norm: x (..., D), weight (D,), grad_out (..., D).

    The layer computes n * weight + bias, where n = (x - mean) / std and std = sqrt(variance + eps), as in chapter 5. Mean and
    std depend on x too. grad_x is (..., D); grad_weight and grad_bias, (D,), are sums over all leading axes. A constant vector
    gives finite gradients.
    """
    # TODO 1: compute std, (..., 1), and the normalised vectors n, (..., D), as chapter 5 does
    # TODO 2: multiply grad_out by the weight: g, the gradient of n
    # TODO 3: grad_x: subtract from g its mean, and n times the mean of g n; divide by std
    # TODO 4: grad_weight and grad_bias: sum grad_out * n, and grad_out, over all axes but the last
    ### BEGIN SOLUTION
    centred = x - x.mean(dim=-1, keepdim=True)
    std = torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + eps)  # (..., 1)
    normed = centred / std
    grad_normed = grad_out * weight
    along_mean = grad_normed.mean(dim=-1, keepdim=True)  # (..., 1)
    along_std = normed * (grad_normed * normed).mean(dim=-1, keepdim=True)
    grad_x = (grad_normed - along_mean - along_std) / std
    D = x.size(-1)
    return grad_x, (grad_out * normed).reshape(-1, D).sum(dim=0), grad_out.reshape(-1, D).sum(dim=0)
    ### END SOLUTION


def embedding_backward(ids: Tensor, grad_out: Tensor, vocab_size: int) -> Tensor:
    """The gradient of an embedding's table: ids (...), grad_out (..., D) -> (V, D), where V is vocab_size.

    An id may occur at several places, and each of them counts. A row that was never looked up is zeros.
    """
    # TODO 1: begin with zeros, (vocab_size, D), in the dtype and on the device of grad_out
    # TODO 2: flatten ids to (N,) and grad_out to (N, D)
    # TODO 3: add row n of grad_out to row ids[n] of the table; repeated ids must add up
    ### BEGIN SOLUTION
    D = grad_out.size(-1)
    table = torch.zeros(vocab_size, D, dtype=grad_out.dtype, device=grad_out.device)
    return table.index_add(0, ids.reshape(-1), grad_out.reshape(-1, D))
    ### END SOLUTION


def attention_backward(q: Tensor, k: Tensor, v: Tensor, grad_out: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients (grad_q, grad_k, grad_v) of chapter 3's scaled_dot_product_attention(q, k, v, mask)[0].

    q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v), grad_out (..., Tq, d_v); each gradient has the shape of its tensor. The
    mask, True where a query may attend, broadcasts to (..., Tq, Tk). A masked key gets nothing from that query. A query that
    may attend to nothing gets a gradient of zero, and adds nothing to those of k and v. Scores in the thousands give no NaN.
    """
    # TODO 1: compute the weights once more, (..., Tq, Tk), with the attention of chapter 3
    # TODO 2: output = weights @ v: find the gradients of v and of the weights from grad_out
    # TODO 3: take the gradient of the weights back through softmax, and through the division by sqrt(d)
    # TODO 4: scores = q @ k^T: find the gradients of q and of k from the gradient of the scores
    ### BEGIN SOLUTION
    weights = scaled_dot_product_attention(q, k, v, mask)[1]  # (..., Tq, Tk)
    grad_v = weights.transpose(-2, -1) @ grad_out  # (..., Tk, Tq) @ (..., Tq, d_v) -> (..., Tk, d_v)
    grad_weights = grad_out @ v.transpose(-2, -1)  # (..., Tq, d_v) @ (..., d_v, Tk) -> (..., Tq, Tk)
    grad_scores = softmax_backward(weights, grad_weights) / math.sqrt(q.size(-1))
    return grad_scores @ k, grad_scores.transpose(-2, -1) @ q, grad_v
    ### END SOLUTION


def as_scalar(value: Scalar | float) -> Scalar:
    """The Scalar itself, or a new one for a number."""
    return value if isinstance(value, Scalar) else Scalar(value)


class Scalar:
    """A number that remembers how it was computed, so that it can compute gradients: autograd for single numbers.

    `value` and `grad` are floats; grad begins at 0. Calculating with Scalars makes new Scalars: with + - * / (the other side
    may be a Scalar or a number, on the left or on the right), - in front, ** number, exp() and log(). Each result is a node
    that knows the nodes it was made of, and the slope towards each of them. Two nodes with equal values are two nodes. A graph
    may be 20,000 nodes deep. That is too deep for recursion, and too large to search a list of all nodes at each node.
    """

    def __init__(self, value: float, made_of: tuple[tuple[Scalar, float], ...] = ()) -> None:
        # TODO 1: store value as a float, a grad of 0.0, and the pairs (node, slope) that this node was made of
        ### BEGIN SOLUTION
        self.value = float(value)
        self.grad = 0.0
        self.made_of = made_of
        ### END SOLUTION

    def __add__(self, other: Scalar | float) -> Scalar:
        # TODO 2: turn `other` into a Scalar; return the sum as a new node, made of both, each with its slope
        ### BEGIN SOLUTION
        other = as_scalar(other)
        return Scalar(self.value + other.value, ((self, 1.0), (other, 1.0)))
        ### END SOLUTION

    def __mul__(self, other: Scalar | float) -> Scalar:
        # TODO 3: the same for the product
        ### BEGIN SOLUTION
        other = as_scalar(other)
        return Scalar(self.value * other.value, ((self, other.value), (other, self.value)))
        ### END SOLUTION

    def __truediv__(self, other: Scalar | float) -> Scalar:
        # TODO 4: the same for the quotient; its slope towards the divisor is negative
        ### BEGIN SOLUTION
        other = as_scalar(other)
        quotient = self.value / other.value
        return Scalar(quotient, ((self, 1 / other.value), (other, -quotient / other.value)))
        ### END SOLUTION

    def __pow__(self, exponent: float) -> Scalar:
        # TODO 5: the power; the exponent is a number, so it gets no gradient
        ### BEGIN SOLUTION
        slope = exponent * self.value ** (exponent - 1) if exponent else 0.0  # 0 ** 0 has the slope 0, and 0 ** -1 is an error
        return Scalar(self.value**exponent, ((self, slope),))
        ### END SOLUTION

    def exp(self) -> Scalar:
        """e to the power of this number."""
        # TODO 6: math.exp of the value
        ### BEGIN SOLUTION
        result = math.exp(self.value)
        return Scalar(result, ((self, result),))
        ### END SOLUTION

    def log(self) -> Scalar:
        """The natural logarithm of this number, which is above 0."""
        # TODO 7: math.log of the value
        ### BEGIN SOLUTION
        return Scalar(math.log(self.value), ((self, 1 / self.value),))
        ### END SOLUTION

    def __neg__(self) -> Scalar:
        # TODO 8: this and the following operations are combinations of those above
        ### BEGIN SOLUTION
        return self * -1.0
        ### END SOLUTION

    def __sub__(self, other: Scalar | float) -> Scalar:
        ### BEGIN SOLUTION
        return self + -as_scalar(other)
        ### END SOLUTION

    def __radd__(self, other: float) -> Scalar:
        """number + self"""
        ### BEGIN SOLUTION
        return self + other
        ### END SOLUTION

    def __rmul__(self, other: float) -> Scalar:
        """number * self"""
        ### BEGIN SOLUTION
        return self * other
        ### END SOLUTION

    def __rsub__(self, other: float) -> Scalar:
        """number - self"""
        ### BEGIN SOLUTION
        return as_scalar(other) - self
        ### END SOLUTION

    def __rtruediv__(self, other: float) -> Scalar:
        """number / self"""
        ### BEGIN SOLUTION
        return as_scalar(other) / self
        ### END SOLUTION

    def topological_order(self) -> list[Scalar]:
        """This node and all nodes that it was made of, directly or through others: each once, and after all that it was made of."""
        # TODO 9: walk through the graph with a list of nodes to visit, without recursion
        # TODO 10: append a node to the order only when all nodes that it was made of are in it
        ### BEGIN SOLUTION
        order: list[Scalar] = []
        seen: set[int] = set()
        to_visit = [(self, False)]
        while to_visit:
            node, is_ready = to_visit.pop()
            if is_ready:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                to_visit.append((node, True))  # it is taken after all nodes that are put on top of it
                to_visit += [(part, False) for part, _ in node.made_of]
        return order
        ### END SOLUTION

    def backward(self) -> None:
        """Add d self / d node to the grad of this node, where it is 1.0, and of all nodes that it was made of.

        Each call adds the same gradients once more.
        """
        # TODO 11: give this node the gradient 1.0, in a dict that belongs to this call alone
        # TODO 12: in reversed topological order, add a node's gradient to its grad, and pass it on: times the slope, to each node that it was made of
        ### BEGIN SOLUTION
        gradients = {id(self): 1.0}
        for node in reversed(self.topological_order()):
            gradient = gradients[id(node)]
            node.grad += gradient
            for part, slope in node.made_of:
                gradients[id(part)] = gradients.get(id(part), 0.0) + gradient * slope
        ### END SOLUTION

    def zero_grad(self) -> None:
        """Set the grad of this node and of all nodes that it was made of to 0."""
        # TODO 13: go through the topological order
        ### BEGIN SOLUTION
        for node in self.topological_order():
            node.grad = 0.0
        ### END SOLUTION
