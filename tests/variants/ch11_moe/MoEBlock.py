# variant: a residual variable, the parts made in another order, torch's own LayerNorm
class MoEBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, n_experts=8, top_k=2):
        super().__init__()
        self.moe = MoELayer(d_model, top_k=top_k, n_experts=n_experts, d_ff=d_ff)
        self.attn = CausalSelfAttention(d_model, n_heads, positions="none")
        self.ln2 = nn.LayerNorm(d_model)
        self.ln1 = nn.LayerNorm(d_model)

    def forward(self, x):
        residual = x
        x = self.attn(self.ln1(x)) + residual
        residual = x
        x, loss = self.moe(self.ln2(x))
        x = residual + x
        return x, loss


# variant: chapter 6's block with another part in it, and a list as its answer
from .ch06_blocks import PreNormBlock


class MoEBlock(PreNormBlock):
    def __init__(self, d_model, n_heads, d_ff=None, n_experts=8, top_k=2):
        super().__init__(d_model, n_heads)
        del self.ffn
        self.moe = MoELayer(d_model, d_ff, n_experts, top_k)

    def forward(self, x):
        attended = x + self.attn(self.ln1(x))
        answer = self.moe(self.ln2(attended))
        return [torch.add(attended, answer[0]), answer[1]]


# variant: the outputs are collected in place, separately from the stream; masked attention from chapter 3
from .ch03_attention import MultiHeadAttention, causal_mask


class MoEBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, n_experts: int = 8, top_k: int = 2) -> None:
        super().__init__()
        self.ln1, self.ln2 = (LayerNorm(d_model) for _ in range(2))
        self.add_module("attn", MultiHeadAttention(d_model, n_heads))
        self.add_module("moe", MoELayer(d_model, d_ff, n_experts=n_experts, top_k=top_k))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out = x.clone()
        out += self.attn(self.ln1(x), mask=causal_mask(x.size(1)).to(x.device))
        found, aux = self.moe(self.ln2(out))
        return out + found, aux
