"""A published model on disk: its sizes and its vocabulary, and how its weights are copied into a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from grader.files import UserProblem
from grader.models.file_values import Kind, ValueProblem, check, list_of, number, positive, show, string, whole
from grader.models.gpt2 import byte_alphabet
from torch import nn

CHAT_TOKENS = ("<|im_start|>", "<|im_end|>")


class PublishedProblem(UserProblem):
    """The model cannot be used; the message is a sentence."""

    exit_status = 1


SIZE = whole(1, 1 << 24)
BASE, EPS, CONTEXT, HEADS, BLOCKS = (
    number(1, 1e12),
    positive(1),
    whole(1, 1 << 40),
    whole(1, 1 << 16),
    whole(1, 1 << 12),
)
WORDS = list_of(string(1 << 16))


def check_values(data: Mapping[str, Any], kinds: Mapping[str, Kind], where: str, needed: Collection[str]) -> None:
    """PublishedProblem if a value of the file is missing, or not one that a model can have."""
    try:
        check(data, kinds, where, needed)
    except ValueProblem as problem:
        raise PublishedProblem(f"{problem}; download it again, or take another model") from None


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
    loading: tuple[str, ...]  # the exercises that `fill` uses
    fill: Callable[[Any, nn.Module], None]  # copies the weights into a model, with the learner's parts

    def __post_init__(self) -> None:
        """PublishedProblem if the sizes or the vocabulary do not fit chapter 16's model and tokenizer."""
        if not self.sizes.are_possible() or len(self.tokens) > self.sizes.vocab_size:
            raise PublishedProblem(
                f"{self.name} describes sizes that chapter 16's model cannot have; take another model"
            )
        if "" in self.special or not set(CHAT_TOKENS) <= set(self.special):
            raise other_texts(self.name)
        known, alphabet = set(self.tokens), set(byte_alphabet().values())
        if unreadable := next((token for token in self.tokens if not alphabet.issuperset(token)), None):
            raise PublishedProblem(
                f"{self.name} has the token {show(unreadable)}, which is not written with the names of bytes; "
                "take another model"
            )
        for merge in self.merges:
            if merge.count(" ") != 1 or merge.replace(" ", "") not in known:
                raise PublishedProblem(
                    f"{self.name} has the merge {show(merge)}, which does not make a token of two; take another model"
                )


def other_kind(name: str, kind: Any) -> PublishedProblem:
    return PublishedProblem(f"{name} is a model of the kind {show(kind)}; chapter 16's model has the kind 'llama'")


def other_texts(name: str) -> PublishedProblem:
    return PublishedProblem(
        f"{name} splits or frames its texts in another way than SmolLM2; chapter 16's tokenizer cannot read it"
    )
