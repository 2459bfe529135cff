"""Chapter 13: gradients by hand.

The loss is one number. Its gradient with respect to a tensor, in short the tensor's gradient, has the tensor's shape: each
entry says how fast the loss grows when this entry of the tensor grows. `grad_out` is the gradient of a layer's output. A
backward function turns it into the gradients of the layer's inputs and parameters. Each has the shape and dtype of what it is
the gradient of.

    D = d_model    V = vocab_size    Tq queries    Tk keys    d the width of a query
    linear: n features in, m features out

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch13_backward.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Your functions do not use autograd, and the tests call them where it records nothing (torch.inference_mode).
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions; write gradients yourself, without `torch.autograd`,
`Tensor.backward`, `torch.func` and torch's other functions that compute gradients.
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

    Write it yourself, without `torch.autograd`, `Tensor.backward`, `torch.func` and torch's other functions that
    compute gradients.
    """
    # TODO 1: convert x to float64; flatten it to one axis, with reshape
    # TODO 2: for each entry, make two new tensors in x's shape: one with this entry raised by eps, one with it lowered by eps
    # TODO 3: call f on both, and divide the difference of the two numbers by 2 * eps
    # TODO 4: return the quotients as a float64 tensor in x's shape
    raise NotImplementedError


def linear_backward(x: Tensor, weight: Tensor, grad_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients (grad_x, grad_weight, grad_bias) of y = x W^T + b: x (..., n), weight (m, n), grad_out (..., m).

    grad_x is (..., n), grad_weight (m, n), grad_bias (m,). Weight and bias are used at every position, so their gradients
    are sums over all leading axes.

    Write it yourself, without torch's own `linear_backward`.
    """
    # TODO 1: grad_x: each position's grad_out times the weight, (..., m) @ (m, n)
    # TODO 2: flatten the leading axes of x and grad_out: N rows, (N, n) and (N, m)
    # TODO 3: grad_weight: the sum over the rows of the outer products of grad_out and x, (m, N) @ (N, n)
    # TODO 4: grad_bias: the sum of the rows of grad_out
    raise NotImplementedError


def gelu_backward(x: Tensor, grad_out: Tensor, approximate: bool = False) -> Tensor:
    """grad_out times the slope of gelu at x, element by element, for any shape.

    gelu(x) is x Φ(x), where Φ(x) = (1 + erf(x / sqrt(2))) / 2 is the normal probability below x. The normal density is
    φ(x) = e^(-x^2 / 2) / sqrt(2 pi). With approximate=True the slope is that of the tanh form, x / 2 * (1 + tanh(u)), where
    u = sqrt(2 / pi) * (x + 0.044715 x^3). Far from 0 the slope is 0 or 1, never NaN.

    Write it yourself, without torch's own `gelu_backward` and `infinitely_differentiable_gelu_backward`.
    """
    # TODO 1: with approximate=True, compute tanh(u) and the derivative of u; tanh has the derivative 1 - tanh^2
    # TODO 2: add the two terms of the product rule, for x / 2 and for 1 + tanh(u)
    # TODO 3: otherwise compute the probability Φ(x) and the density φ(x), as in the docstring
    # TODO 4: multiply grad_out by the slope
    raise NotImplementedError


def softmax_backward(weights: Tensor, grad_out: Tensor, dim: int = -1) -> Tensor:
    """The gradient of the scores, from weights = softmax(scores, dim) alone, for each slice along dim.

    weights, grad_out and the result have the same shape. A slice of zeros, where softmax had nothing to attend to, gets zeros.

    Write it yourself, without torch's own `_softmax_backward_data`, `_log_softmax_backward_data` and
    `_masked_softmax_backward`.
    """
    # TODO 1: compute the mean of grad_out in each slice along dim, weighted with the weights; keep the axis
    # TODO 2: subtract it from grad_out, and multiply by the weights
    raise NotImplementedError


def cross_entropy_backward(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """The gradient of the logits in chapter 8's cross_entropy: logits (..., V), targets (...) -> (..., V).

    The loss is a mean over the kept targets, which are not ignore_index. A row with an ignored target gets zeros. If all are
    ignored, everything is zeros. Logits around 10000, -10000 or of -inf give no NaN, if each row has a finite one.
    ignore_index may be any id, also that of a real token or one beyond the vocabulary.

    Write it yourself, without torch's own `nll_loss_backward`, `nll_loss2d_backward` and `_log_softmax_backward_data`.
    """
    # TODO 1: find the kept targets; replace the others by any real id
    # TODO 2: compute the probabilities of each row, with the softmax of chapter 3
    # TODO 3: subtract 1 from the probability of each row's target, in a new tensor
    # TODO 4: set ignored rows to zero, and divide by the number of kept targets; there may be no kept one
    raise NotImplementedError


def layer_norm_backward(x: Tensor, weight: Tensor, grad_out: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients (grad_x, grad_weight, grad_bias) of layer norm: x (..., D), weight (D,), grad_out (..., D).

    The layer computes n * weight + bias, where n = (x - mean) / std and std = sqrt(variance + eps), as in chapter 5. Mean and
    std depend on x too. grad_x is (..., D); grad_weight and grad_bias, (D,), are sums over all leading axes. A constant vector
    gives finite gradients.

    Write it yourself, without torch's own `layer_norm_backward` and `native_layer_norm_backward`.
    """
    # TODO 1: compute std, (..., 1), and the normalised vectors n, (..., D), as chapter 5 does
    # TODO 2: multiply grad_out by the weight: g, the gradient of n
    # TODO 3: grad_x: subtract from g its mean, and n times the mean of g n; divide by std
    # TODO 4: grad_weight and grad_bias: sum grad_out * n, and grad_out, over all axes but the last
    raise NotImplementedError


def embedding_backward(ids: Tensor, grad_out: Tensor, vocab_size: int) -> Tensor:
    """The gradient of an embedding's table: ids (...), grad_out (..., D) -> (V, D), where V is vocab_size.

    An id may occur at several places, and each of them counts. A row that was never looked up is zeros.

    Write it yourself, without torch's own `embedding_backward`, `embedding_dense_backward`,
    `_embedding_bag_dense_backward` and `_embedding_bag_backward`.
    """
    # TODO 1: begin with zeros, (vocab_size, D), in the dtype and on the device of grad_out
    # TODO 2: flatten ids to (N,) and grad_out to (N, D)
    # TODO 3: add row n of grad_out to row ids[n] of the table; repeated ids must add up
    raise NotImplementedError


def attention_backward(q: Tensor, k: Tensor, v: Tensor, grad_out: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients (grad_q, grad_k, grad_v) of chapter 3's scaled_dot_product_attention(q, k, v, mask)[0].

    q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v), grad_out (..., Tq, d_v); each gradient has the shape of its tensor. The
    mask, True where a query may attend, broadcasts to (..., Tq, Tk). A masked key gets nothing from that query. A query that
    may attend to nothing gets a gradient of zero, and adds nothing to those of k and v. Scores in the thousands give no NaN.

    Write it yourself, without torch's own `_scaled_dot_product_flash_attention_for_cpu_backward`.
    """
    # TODO 1: compute the weights once more, (..., Tq, Tk), with the attention of chapter 3
    # TODO 2: output = weights @ v: find the gradients of v and of the weights from grad_out
    # TODO 3: take the gradient of the weights back through softmax, and through the division by sqrt(d)
    # TODO 4: scores = q @ k^T: find the gradients of q and of k from the gradient of the scores
    raise NotImplementedError


def as_scalar(value: Scalar | float) -> Scalar:
    """The Scalar itself, or a new one for a number."""
    return value if isinstance(value, Scalar) else Scalar(value)


class Scalar:
    """A number that remembers how it was computed, so that it can compute gradients: autograd for single numbers.

    `value` and `grad` are floats; grad begins at 0. Calculating with Scalars makes new Scalars: with + - * / (the other side
    may be a Scalar or a number, on the left or on the right), - in front, ** number, exp() and log(). Each result is a node
    that knows the nodes it was made of, and the slope towards each of them. Two nodes with equal values are two nodes. A graph
    may be 20,000 nodes deep. That is too deep for recursion, and too large to search a list of all nodes at each node.

    Write it yourself, without torch's tensors.
    """

    def __init__(self, value: float, made_of: tuple[tuple[Scalar, float], ...] = ()) -> None:
        # TODO 1: store value as a float, a grad of 0.0, and the pairs (node, slope) that this node was made of
        raise NotImplementedError

    def __add__(self, other: Scalar | float) -> Scalar:
        # TODO 2: turn `other` into a Scalar; return the sum as a new node, made of both, each with its slope
        raise NotImplementedError

    def __mul__(self, other: Scalar | float) -> Scalar:
        # TODO 3: the same for the product
        raise NotImplementedError

    def __truediv__(self, other: Scalar | float) -> Scalar:
        # TODO 4: the same for the quotient; its slope towards the divisor is negative
        raise NotImplementedError

    def __pow__(self, exponent: float) -> Scalar:
        # TODO 5: the power; the exponent is a number, so it gets no gradient
        raise NotImplementedError

    def exp(self) -> Scalar:
        """e to the power of this number."""
        # TODO 6: math.exp of the value
        raise NotImplementedError

    def log(self) -> Scalar:
        """The natural logarithm of this number, which is above 0."""
        # TODO 7: math.log of the value
        raise NotImplementedError

    def __neg__(self) -> Scalar:
        # TODO 8: this and the following operations are combinations of those above
        raise NotImplementedError

    def __sub__(self, other: Scalar | float) -> Scalar:
        raise NotImplementedError

    def __radd__(self, other: float) -> Scalar:
        """number + self"""
        raise NotImplementedError

    def __rmul__(self, other: float) -> Scalar:
        """number * self"""
        raise NotImplementedError

    def __rsub__(self, other: float) -> Scalar:
        """number - self"""
        raise NotImplementedError

    def __rtruediv__(self, other: float) -> Scalar:
        """number / self"""
        raise NotImplementedError

    def topological_order(self) -> list[Scalar]:
        """This node and all nodes that it was made of, directly or through others: each once, and after all that it was made of."""
        # TODO 9: walk through the graph with a list of nodes to visit, without recursion
        # TODO 10: append a node to the order only when all nodes that it was made of are in it
        raise NotImplementedError

    def backward(self) -> None:
        """Add d self / d node to the grad of this node, where it is 1.0, and of all nodes that it was made of.

        Each call adds the same gradients once more.
        """
        # TODO 11: give this node the gradient 1.0, in a dict that belongs to this call alone
        # TODO 12: in reversed topological order, add a node's gradient to its grad, and pass it on: times the slope, to each node that it was made of
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Set the grad of this node and of all nodes that it was made of to 0."""
        # TODO 13: go through the topological order
        raise NotImplementedError
