"""A GPT of torch's own layers, with the same weights as one of the course: what `headway train` is compared with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from grader.models.design import Design
from torch import Tensor, nn


class TorchGPT(nn.Module):
    """ids (B, T) -> logits (B, T, V): nn.TransformerEncoderLayer with a causal mask, which calls F.scaled_dot_product_attention."""

    def __init__(self, design: Design, vocab_size: int) -> None:
        super().__init__()
        self.token_emb = nn.Embedding(vocab_size, design.d_model)
        self.pos_emb = nn.Embedding(design.max_len, design.d_model)
        layer = nn.TransformerEncoderLayer(
            design.d_model, design.n_heads, design.d_ff or 4 * design.d_model, design.dropout, F.gelu, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, design.n_layers, nn.LayerNorm(design.d_model), enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(design.max_len), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.size(1)
        x = self.token_emb(ids) + self.pos_emb.weight[:T]  # (B, T, D)
        x = self.blocks(x, mask=self.mask[:T, :T], is_causal=True)
        return F.linear(x, self.token_emb.weight)  # tied

    @torch.no_grad()
    def copy_from(self, model: nn.Module) -> None:
        """Take the weights of the course's GPT. They have other names here, and the three matrices of attention are one."""
        theirs = dict(model.named_parameters(remove_duplicate=False))
        found = {"token_emb.weight": theirs["token_emb.weight"], "pos_emb.weight": theirs["pos_emb.weight"]}
        found |= {f"blocks.norm.{kind}": theirs[f"ln_f.{kind}"] for kind in ("weight", "bias")}
        for i in range(len(self.blocks.layers)):
            own, block = f"blocks.layers.{i}", f"blocks.{i}"
            for kind in ("weight", "bias"):
                found[f"{own}.self_attn.in_proj_{kind}"] = torch.cat([theirs[f"{block}.attn.W_{name}.{kind}"] for name in "qkv"])
                pairs = {"self_attn.out_proj": "attn.W_out", "norm1": "ln1", "norm2": "ln2", "linear1": "ffn.up", "linear2": "ffn.down"}
                found |= {f"{own}.{mine}.{kind}": theirs[f"{block}.{name}.{kind}"] for mine, name in pairs.items()}
        self.load_state_dict(found)


EXCHANGES = {  # a part of the course -> its chapter, and the same part with torch's function
    "LayerNorm": ("ch05_layers", "class LayerNorm(nn.LayerNorm):\n    pass\n"),
    "gelu": ("ch05_layers", "def gelu(x, approximate=False):\n    return nn.functional.gelu(x, approximate='tanh' if approximate else 'none')\n"),
    "TokenEmbedding": (
        "ch02_embeddings",
        "class TokenEmbedding(TokenEmbedding):\n    def forward(self, ids):\n        return nn.functional.embedding(ids, self.weight) * self.factor\n",
    ),
    "CausalSelfAttention": (
        "ch04_positions_in_attention",
        "class CausalSelfAttention(CausalSelfAttention):\n"
        "    def forward(self, x):\n"
        "        q, k, v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))\n"
        "        return self.W_out(merge_heads(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)))\n",
    ),
}
