"""In explicit loops: block by block, parameter by parameter, target by target, tensor by tensor."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .ch02_embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from .ch03_attention import causal_mask, padding_mask
from .ch05_layers import LayerNorm
from .ch06_blocks import DecoderBlock, EncoderBlock, PreNormBlock


@dataclass
class GPTConfig:
    """The sizes of a GPT, and the choices to make. `positions` is "learned", "sinusoidal", "rope" or "alibi"."""

    vocab_size: int
    max_len: int
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 4
    d_ff: int | None = None
    positions: str = "learned"
    tie_weights: bool = True
    dropout: float = 0.0
    activation: str = "gelu"


class GPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        if config.positions not in ("learned", "sinusoidal", "rope", "alibi"):
            raise ValueError(f"positions is {config.positions!r}, and must be 'learned', 'sinusoidal', 'rope' or 'alibi'")
        self.config = config
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        self.pos_emb = None
        inside = "none"
        if config.positions == "learned":
            self.pos_emb = LearnedPositions(config.max_len, config.d_model)
        elif config.positions == "sinusoidal":
            self.pos_emb = SinusoidalPositions(config.max_len, config.d_model)
        else:
            inside = config.positions
        self.blocks = nn.ModuleList()
        for _ in range(config.n_layers):
            block = PreNormBlock(config.d_model, config.n_heads, config.d_ff, inside, config.dropout, config.activation)
            self.blocks.append(block)
        self.ln_f = LayerNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, mean=0.0, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.ones_(parameter)
        if config.tie_weights:
            self.lm_head.weight = self.token_emb.weight

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            x = self.pos_emb(x)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        log_probs = torch.log_softmax(logits, dim=-1)
        surprises = []
        for row, row_of_targets in zip(log_probs, targets.tolist()):
            for scores, target in zip(row, row_of_targets):
                if target != -100:
                    surprises.append(-scores[target])
        if not surprises:
            # A sum over nothing: it is 0, and one can still go backward from it.
            return logits, log_probs[:0].sum()
        return logits, torch.stack(surprises).mean()


@dataclass
class Seq2SeqConfig:
    """The sizes of a Seq2Seq. `pad_id` is the id that fills up short rows, of source and target alike."""

    src_vocab_size: int
    tgt_vocab_size: int
    max_len: int
    d_model: int = 64
    n_heads: int = 4
    d_ff: int | None = None
    n_encoder_blocks: int = 2
    n_decoder_blocks: int = 2
    dropout: float = 0.0
    pad_id: int = 0


class Seq2Seq(nn.Module):
    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        self.src_emb = TokenEmbedding(config.src_vocab_size, config.d_model, scale=True)
        self.tgt_emb = TokenEmbedding(config.tgt_vocab_size, config.d_model, scale=True)
        self.positions = SinusoidalPositions(config.max_len, config.d_model)
        self.encoder_blocks = nn.ModuleList()
        for _ in range(config.n_encoder_blocks):
            self.encoder_blocks.append(EncoderBlock(config.d_model, config.n_heads, config.d_ff, config.dropout))
        self.decoder_blocks = nn.ModuleList()
        for _ in range(config.n_decoder_blocks):
            self.decoder_blocks.append(DecoderBlock(config.d_model, config.n_heads, config.d_ff, config.dropout))
        self.lm_head = nn.Linear(config.d_model, config.tgt_vocab_size)

    def encode(self, src: Tensor) -> Tensor:
        mask = padding_mask(src, self.config.pad_id)
        x = self.positions(self.src_emb(src))
        for block in self.encoder_blocks:
            x = block(x, mask)
        return x

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        real = padding_mask(tgt, self.config.pad_id)
        past = causal_mask(tgt.size(1)).to(tgt.device)
        self_mask = real & past
        memory_mask = padding_mask(src, self.config.pad_id)
        x = self.positions(self.tgt_emb(tgt))
        for block in self.decoder_blocks:
            x = block(x, memory, self_mask, memory_mask)
        return self.lm_head(x)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory = self.encode(src)
        return self.decode(tgt, memory, src)


def count_parameters(model: nn.Module) -> int:
    total = 0
    for parameter in model.parameters():
        total += parameter.numel()
    return total


def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    if model.config.positions != "learned":
        raise ValueError(f"GPT-2 has learned positions, and this model's are {model.config.positions!r}")

    theirs = {}
    layers = set()
    for name, tensor in state_dict.items():
        if name.startswith("transformer."):
            name = name[len("transformer.") :]
        theirs[name] = tensor
        words = name.split(".")
        if words[0] == "h" and len(words) > 1:
            layers.add(words[1])
    if len(layers) != len(model.blocks):
        raise ValueError(f"the state dict has {len(layers)} layers, and the model has {len(model.blocks)}")

    # Which weights correspond: one of GPT-2's names, whether it is transposed, and our parameters that share its rows.
    plan = [("wte.weight", False, [model.token_emb.weight]), ("wpe.weight", False, [model.pos_emb.weight])]
    for i, block in enumerate(model.blocks):
        for their_norm, norm in (("ln_1", block.ln1), ("ln_2", block.ln2)):
            plan.append((f"h.{i}.{their_norm}.weight", False, [norm.weight]))
            plan.append((f"h.{i}.{their_norm}.bias", False, [norm.bias]))
        linears = [
            ("attn.c_attn", [block.attn.W_q, block.attn.W_k, block.attn.W_v]),
            ("attn.c_proj", [block.attn.W_out]),
            ("mlp.c_fc", [block.ffn.up]),
            ("mlp.c_proj", [block.ffn.down]),
        ]
        for their_linear, ours in linears:
            weights = []
            biases = []
            for linear in ours:
                weights.append(linear.weight)
                biases.append(linear.bias)
            plan.append((f"h.{i}.{their_linear}.weight", True, weights))
            plan.append((f"h.{i}.{their_linear}.bias", False, biases))
    plan.append(("ln_f.weight", False, [model.ln_f.weight]))
    plan.append(("ln_f.bias", False, [model.ln_f.bias]))
    if model.lm_head.weight is not model.token_emb.weight:
        head = "lm_head.weight" if "lm_head.weight" in theirs else "wte.weight"
        plan.append((head, False, [model.lm_head.weight]))

    copies = []
    for name, turned, parameters in plan:
        if name not in theirs:
            raise ValueError(f"the state dict has no {name}")
        tensor = theirs[name]
        rows = 0
        for parameter in parameters:
            rows += parameter.size(0)
        wanted = [rows, *parameters[0].shape[1:]]
        if turned:
            wanted.reverse()
        if list(tensor.shape) != wanted:
            raise ValueError(f"{name} has the shape {list(tensor.shape)}, and should have {wanted}")
        if turned:
            tensor = tensor.t()
        first = 0
        for parameter in parameters:
            copies.append((parameter, tensor[first : first + parameter.size(0)]))
            first += parameter.size(0)
    with torch.no_grad():
        for parameter, part in copies:
            parameter.copy_(part)
