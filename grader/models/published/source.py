"""A published model on disk: its sizes and its vocabulary, and how its weights are copied into a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from grader.files import UserProblem
from torch import nn

CHAT_TOKENS = ("<|im_start|>", "<|im_end|>")


class PublishedProblem(UserProblem):
    """The model cannot be used; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Sizes:
    """What `Llama` is made with."""

    vocab_size: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    n_layers: int
    d_ff: int
    base: float
    eps: float
    tied: bool

    def are_possible(self) -> bool:
        """Whether chapter 16's model can have them."""
        return (
            all(size > 0 for size in astuple(self)[:-1])
            and self.d_model % (2 * self.n_heads) == 0
            and self.n_heads % self.n_kv_heads == 0
        )

    @property
    def bytes(self) -> int:
        """Of all weights in float32."""
        attention = 2 * self.d_model**2 * (self.n_heads + self.n_kv_heads) // self.n_heads
        block = attention + 3 * self.d_model * self.d_ff
        return 4 * (self.n_layers * block + (2 - self.tied) * self.vocab_size * self.d_model)


@dataclass(frozen=True)
class Source:
    """A model on disk."""

    name: str
    sizes: Sizes
    context: int  # tokens that it was trained to read
    tokens: list[str]
    merges: list[str]
    special: list[str]
    fill: Callable[[Any, nn.Module], None]  # copies the weights into a model, with the learner's parts


def other_kind(name: str, kind: Any) -> PublishedProblem:
    return PublishedProblem(f"{name} is a model of the kind {kind!r}; chapter 16's model has the kind 'llama'")


def other_texts(name: str) -> PublishedProblem:
    return PublishedProblem(
        f"{name} splits or frames its texts in another way than SmolLM2; chapter 16's tokenizer cannot read it"
    )


def other_sizes(name: str) -> PublishedProblem:
    return PublishedProblem(f"{name} describes sizes that chapter 16's model cannot have; take another model")
