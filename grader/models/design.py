"""What a model looks like, and how it is built from the learner's parts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from grader.files import UserProblem
from grader.models.modern_parts import latent_sizes, modern_attention
from torch import Tensor, nn

KINDS = ("gpt", "moe", "translate")
POSITIONS = ("learned", "sinusoidal", "rope", "alibi")
TABLES = ("learned", "sinusoidal")  # positions that are added to the embeddings
NORMS = ("pre", "post")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu")
ATTENTIONS = ("plain", "qk_norm", "latent", "sink", "gated")
USUAL = {"attention": "plain", "soft_cap": None, "predict_tokens": 1}  # without the parts of chapter 20
PAD_ID = 0  # the id that fills up short rows, with every tokenizer


class DesignProblem(UserProblem, ValueError):
    """The design cannot be built; the message is a sentence."""


@dataclass(frozen=True)
class Design:
    """A model without its weights."""

    kind: str = "gpt"
    d_model: int = 128
    n_heads: int = 4
    n_layers: int = 4
    max_len: int = 128
    d_ff: int | None = None
    positions: str = "learned"
    norm: str = "pre"
    activation: str = "gelu"
    tie_weights: bool = True
    dropout: float = 0.0
    n_experts: int = 4
    top_k: int = 2
    attention: str = "plain"
    soft_cap: float | None = None  # of the logits
    predict_tokens: int = 1  # in training; the model writes one at a time

    def __post_init__(self) -> None:
        kinds = {"kind": KINDS, "positions": POSITIONS, "norm": NORMS}
        for name, known in {**kinds, "activation": ACTIVATIONS, "attention": ATTENTIONS}.items():
            if getattr(self, name) not in known:
                raise DesignProblem(
                    f"{name} is {getattr(self, name)!r}; it can be {', '.join(known[:-1])} or {known[-1]}"
                )
        for name in ("d_model", "n_heads", "n_layers", "max_len", "n_experts", "top_k", "predict_tokens"):
            if getattr(self, name) < 1:
                raise DesignProblem(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.d_model % self.n_heads:
            raise DesignProblem(
                f"{self.n_heads} heads do not divide d_model = {self.d_model}; choose a number of heads that does"
            )
        if self.positions == "rope" and self.d_model // self.n_heads % 2:
            raise DesignProblem(
                f"RoPE needs heads of an even width; {self.n_heads} heads of d_model = "
                f"{self.d_model} are {self.d_model // self.n_heads} wide"
            )
        if self.kind == "moe" and self.positions not in TABLES:
            raise DesignProblem(
                f"the blocks with experts have no {self.positions} positions; use learned or sinusoidal"
            )
        if self.kind == "moe" and self.top_k > self.n_experts:
            raise DesignProblem(f"top_k is {self.top_k}, but there are {self.n_experts} experts")
        if self.kind != "gpt" and self.norm != ("post" if self.kind == "translate" else "pre"):
            raise DesignProblem(
                f"the blocks of a {self.kind} model are "
                f"{'post' if self.kind == 'translate' else 'pre'}-norm; only a gpt can have both"
            )
        if self.kind == "translate" and self.positions != "sinusoidal":
            raise DesignProblem(f"a translate model has sinusoidal positions, not {self.positions}")
        self._check_modern_parts()

    def _check_modern_parts(self) -> None:
        if self.kind != "gpt":
            for name, usual in USUAL.items():
                if (value := getattr(self, name)) != usual:
                    raise DesignProblem(f"only a gpt can have {name} = {value}, and this is a {self.kind} model")
        if self.attention in ("latent", "sink", "gated") and self.positions == "alibi":
            raise DesignProblem(f"{self.attention} attention has no ALiBi positions; use learned, sinusoidal or rope")
        if self.attention != "plain" and self.dropout:
            raise DesignProblem(f"{self.attention} attention has no dropout; use plain attention or no dropout")
        if self.soft_cap is not None and not 0 < self.soft_cap < math.inf:
            raise DesignProblem(f"soft_cap is {self.soft_cap}; it must be a number above 0")
        if self.predict_tokens > self.max_len:
            raise DesignProblem(
                f"predict_tokens is {self.predict_tokens}, but a text has at most max_len = {self.max_len} tokens"
            )

    @property
    def is_plain_gpt(self) -> bool:
        """Whether it is what CachedGPT and chapter 12 are written for."""
        return (self.kind, self.norm, self.attention, self.soft_cap) == ("gpt", "pre", "plain", None)

    @property
    def cached_numbers(self) -> int:
        """How many numbers a KV cache keeps of a token."""
        latent = self.attention == "latent"
        return self.n_layers * (sum(latent_sizes(self)) if latent else 2 * self.d_model)

    def to_data(self) -> dict[str, Any]:
        """Without the parts of chapter 20 that it does not have, so that an earlier Headway can read it."""
        return {name: value for name, value in asdict(self).items() if name not in USUAL or value != USUAL[name]}

    @classmethod
    def from_data(cls, data: Any) -> Design:
        """The design that `to_data` wrote. DesignProblem if it is something else."""
        known = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or not set(data) <= known:
            raise DesignProblem("the design has unknown entries")
        try:
            return cls(**data)
        except TypeError as problem:
            raise DesignProblem(f"the design is damaged ({problem})") from None


PRESETS = {
    "mini": Design(d_model=64, n_heads=2, n_layers=1, max_len=128),
    "tiny": Design(d_model=128, n_heads=4, n_layers=3, max_len=128),
    "small": Design(d_model=256, n_heads=8, n_layers=6, max_len=256),
}


def preset(name: str, kind: str = "gpt", **changes: Any) -> Design:
    """The preset of this name for this kind of model, with these changes; a change to None changes nothing."""
    design = PRESETS[name]
    if kind == "translate":
        design = replace(design, kind=kind, positions="sinusoidal", norm="post", n_layers=min(design.n_layers, 3))
    elif kind == "moe":
        # two experts of this width for a token: about half of a dense layer
        design = replace(design, kind=kind, d_ff=design.d_model)
    return replace(design, **{name: value for name, value in changes.items() if value is not None})


class MoEGPT(nn.Module):
    """A GPT whose blocks have experts: ids (B, T) -> logits (B, T, V), and the mean balance loss of its blocks."""

    def __init__(self, parts: Any, design: Design, vocab_size: int) -> None:
        super().__init__()
        # the embeddings, the last norm and the head are a GPT's
        dense = parts.GPT(gpt_config(parts, replace(design, n_layers=1), vocab_size))
        self.token_emb, self.pos_emb, self.ln_f, self.lm_head = (
            dense.token_emb,
            dense.pos_emb,
            dense.ln_f,
            dense.lm_head,
        )
        block = partial(parts.MoEBlock, design.d_model, design.n_heads, design.d_ff, design.n_experts, design.top_k)
        self.blocks = nn.ModuleList([block() for _ in range(design.n_layers)])
        give_first_values(self.blocks)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.pos_emb(self.token_emb(ids))  # (B, T, D)
        balance = torch.zeros((), device=x.device)
        for moe_block in self.blocks:
            x, block_balance = moe_block(x)
            balance = balance + block_balance
        x = self.ln_f(x)
        return self.lm_head(x), balance / len(self.blocks)


def build_model(parts: Any, design: Design, vocab_size: int) -> nn.Module:
    """An untrained model of this design, from the learner's and the reference's parts. The first values come from
    torch's generator.

    A language model is called `model(ids)` and returns logits, or a tuple that begins with logits. A translator is
    called `model(source, target)`, and both languages share one vocabulary.
    """
    if design.kind == "translate":
        sizes = dict(d_model=design.d_model, n_heads=design.n_heads, d_ff=design.d_ff, dropout=design.dropout)
        blocks = dict(n_encoder_blocks=design.n_layers, n_decoder_blocks=design.n_layers)
        return parts.Seq2Seq(
            parts.Seq2SeqConfig(vocab_size, vocab_size, design.max_len, **sizes, **blocks, pad_id=PAD_ID)
        )
    if design.kind == "moe":
        return MoEGPT(parts, design, vocab_size)
    model = parts.GPT(gpt_config(parts, design, vocab_size))
    if design.norm == "post":
        inside = "none" if design.positions in TABLES else design.positions
        model.blocks = nn.ModuleList(
            parts.PostNormBlock(design.d_model, design.n_heads, design.d_ff, inside, design.dropout, design.activation)
            for _ in range(design.n_layers)
        )
        give_first_values(model.blocks)
    if design.attention != "plain":
        for block in model.blocks:
            block.attn = modern_attention(parts, design)
            give_first_values(block.attn)
    if design.predict_tokens > 1:
        further = (nn.Linear(design.d_model, vocab_size, bias=False) for _ in range(design.predict_tokens - 1))
        model.further_heads = nn.ModuleList(further)
        give_first_values(model.further_heads)
    if design.soft_cap is not None:
        model.register_forward_hook(lambda _, inputs, output: (parts.soft_cap(output[0], design.soft_cap), *output[1:]))
    return model


def gpt_config(parts: Any, design: Design, vocab_size: int) -> Any:
    """The learner's GPTConfig for this design."""
    names = ("max_len", "d_model", "n_heads", "n_layers", "d_ff", "positions", "tie_weights", "dropout", "activation")
    return parts.GPTConfig(vocab_size=vocab_size, **{name: getattr(design, name) for name in names})


def give_first_values(module: nn.Module) -> None:
    """Give every matrix and bias the first values that chapter 7 promises for a GPT."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.02)
            elif name.rpartition(".")[2] == "bias":
                parameter.zero_()


def parameters_by_name(model: nn.Module) -> dict[str, nn.Parameter]:
    """Every parameter once, by the first of its names in the alphabet, so that a tied matrix has the same name with
    everyone's code."""
    found: dict[int, tuple[str, nn.Parameter]] = {}
    for name, parameter in sorted(model.named_parameters(remove_duplicate=False)):
        found.setdefault(id(parameter), (name, parameter))
    return dict(found.values())
