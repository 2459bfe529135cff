# variant: split by size, F.linear
class SelfAttentionHead(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.d_head = d_head
        self.qkv = nn.Linear(d_model, d_head * 3, bias=False)

    def forward(self, x):
        q, k, v = nn.functional.linear(x, self.qkv.weight).split(self.d_head, dim=2)
        return scaled_dot_product_attention(q, k, v)[0]


# variant: three products with slices of the weight, in einsum, a softmax at the spot
class SelfAttentionHead(nn.Module):
    def __init__(self, d_model: int, d_head: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_head, bias=False)
        nn.init.xavier_uniform_(self.qkv.weight)

    def forward(self, x: Tensor) -> Tensor:
        W_q, W_k, W_v = self.qkv.weight.chunk(3)
        q, k, v = (torch.einsum("btd,ed->bte", x, W) for W in (W_q, W_k, W_v))
        scores = torch.einsum("bqe,bke->bqk", q, k) * q.size(-1) ** -0.5
        return torch.bmm(torch.softmax(scores, dim=-1), v)


# variant: as a single head of (B, 1, T, d_head), squeezed at the end
class SelfAttentionHead(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.register_module("qkv", nn.Linear(d_model, 3 * d_head, False))

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 1, -1).permute(2, 0, 3, 1, 4)
        everything = torch.ones(T, T, dtype=torch.bool, device=x.device)
        output, _ = scaled_dot_product_attention(q, k, v, mask=everything)
        return output.squeeze(1)


# variant: one text of the batch after the other
class SelfAttentionHead(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_head, bias=False)

    def forward(self, x):
        outputs = []
        for text in x:
            q, k, v = torch.tensor_split(text @ self.qkv.weight.T, 3, dim=1)
            outputs.append(softmax(q @ k.T / math.sqrt(k.size(1))) @ v)
        return torch.stack(outputs)
