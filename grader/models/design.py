"""What a model looks like, and how it is built from the learner's parts, also from those of chapter 20."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from grader.counts import format_count
from grader.files import UserProblem
from grader.models.file_values import Kind, one_of, optional, positive, show, whole, yes_or_no
from torch import Tensor, nn

KINDS = ("gpt", "moe", "translate")
POSITIONS = ("learned", "sinusoidal", "rope", "alibi")
TABLES = ("learned", "sinusoidal")  # positions that are added to the embeddings
NORMS = ("pre", "post")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu")
ATTENTIONS = ("plain", "qk_norm", "latent", "sink", "gated")
VALUES = {
    "kind": one_of(KINDS), "d_model": whole(1, 1 << 16), "n_heads": whole(1, 1 << 16), "n_layers": whole(1, 1 << 10),
    "max_len": whole(1, 1 << 20), "d_ff": optional(whole(1, 1 << 20)), "positions": one_of(POSITIONS),
    "norm": one_of(NORMS), "activation": one_of(ACTIVATIONS), "tie_weights": yes_or_no(),
    "dropout": Kind("a number from 0 up to but not including 1", lambda v: type(v) in (int, float) and 0 <= v < 1),
    "n_experts": whole(1, 1 << 12), "top_k": whole(1, 1 << 12), "attention": one_of(ATTENTIONS),
    "soft_cap": optional(positive()), "predict_tokens": whole(1, 1 << 10),
}  # fmt: skip
USUAL = {"attention": "plain", "soft_cap": None, "predict_tokens": 1}  # without the parts of chapter 20
MOST_NUMBERS_OF_A_TABLE = 1 << 28
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
        for name, kind in VALUES.items():
            if not kind.accepts(value := getattr(self, name)):
                raise DesignProblem(f"{name} is {show(value)}; it must be {kind.says}")
        if self.d_model % self.n_heads:
            raise DesignProblem(
                f"{self.n_heads} heads do not divide d_model = {self.d_model}; choose a number of heads that does"
            )
        if self.positions == "rope" and self.d_model // self.n_heads % 2:
            raise DesignProblem(
                f"RoPE needs heads of an even width; {format_count(self.n_heads, 'head')} of d_model = "
                f"{self.d_model} are {self.d_model // self.n_heads} wide"
            )
        if self.positions in TABLES and self.max_len * self.d_model > MOST_NUMBERS_OF_A_TABLE:
            raise DesignProblem(f"a table of {self.max_len:,} positions of width {self.d_model:,} is too large")
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
        if not isinstance(data, dict) or not data.keys() <= VALUES.keys():
            raise DesignProblem("the design has unknown entries")
        return cls(**data)

    def least_numbers(self, vocab_size: int) -> int:
        """A lower bound of how many numbers its parameters are, whoever wrote the parts."""
        d_ff = self.d_ff or self.d_model
        experts = self.n_experts if self.kind == "moe" else 1
        places = self.max_len if self.positions == "learned" else 0
        block = self.d_model**2 + experts * self.d_model * d_ff
        return (vocab_size * self.predict_tokens + places) * self.d_model + self.n_layers * block


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


# ---- the attentions of chapter 20


def modern_attention(parts: Any, design: Design) -> nn.Module:
    """Causal self-attention of the kind that the design names, (B, T, D) -> (B, T, D)."""
    if design.attention == "latent":
        return parts.LatentAttention(design.d_model, design.n_heads, *latent_sizes(design))
    if design.attention == "qk_norm":
        inside = design.positions if design.positions in ("rope", "alibi") else "none"
        return parts.QKNormAttention(design.d_model, design.n_heads, inside)
    return (SinkAttention if design.attention == "sink" else GatedAttention)(parts, design)


def latent_sizes(design: Design) -> tuple[int, int]:
    """d_latent and d_rope: half of what all heads are wide together, and about half of one head, as in DeepSeek-V2."""
    d_head = design.d_model // design.n_heads
    return max(design.d_model // 2, 1), max(d_head // 4 * 2, 2)


class _ByHeads(nn.Module):
    """CausalSelfAttention, but a subclass says how the heads attend."""

    def __init__(self, parts: Any, design: Design) -> None:
        super().__init__()
        self.parts, self.n_heads, self.rotates = parts, design.n_heads, design.positions == "rope"
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(design.d_model, design.d_model) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        T = x.size(1)
        q, k, v = (self.parts.split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        if self.rotates:
            places = torch.arange(T, device=x.device)
            q, k = self.parts.apply_rope(q, places), self.parts.apply_rope(k, places)
        mixed = self.attend(x, q, k, v, self.parts.causal_mask(T).to(x.device))  # (B, H, T, d_head)
        return self.W_out(self.parts.merge_heads(mixed))

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError


class SinkAttention(_ByHeads):
    """Each head may look at nothing: it has a learned score without a value."""

    def __init__(self, parts: Any, design: Design) -> None:
        super().__init__(parts, design)
        self.sink = nn.Parameter(torch.zeros(design.n_heads))

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return self.parts.attention_with_sink(q, k, v, self.sink, mask)[0]


class GatedAttention(_ByHeads):
    """Each feature of each head has a gate, computed from the input."""

    def __init__(self, parts: Any, design: Design) -> None:
        super().__init__(parts, design)
        self.W_gate = nn.Linear(design.d_model, design.d_model, bias=False)

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return self.parts.gated_attention(q, k, v, self.parts.split_heads(self.W_gate(x), self.n_heads), mask)
