# variant: copy_ without gradient, one slice after the other
def fuse_qkv(attention, max_len):
    D, has_bias = attention.W_q.weight.shape[1], attention.W_q.bias is not None
    fused = FusedSelfAttention(D, attention.n_heads, max_len, has_bias, attention.dropout.p)
    fused = fused.to(device=attention.W_q.weight.device, dtype=attention.W_q.weight.dtype)
    with torch.no_grad():
        for i, part in enumerate([attention.W_q, attention.W_k, attention.W_v]):
            fused.c_attn.weight[i * D : (i + 1) * D].copy_(part.weight)
            if has_bias:
                fused.c_attn.bias[i * D : (i + 1) * D].copy_(part.bias)
        fused.c_proj.weight.copy_(attention.W_out.weight)
        if has_bias:
            fused.c_proj.bias.copy_(attention.W_out.bias)
    if not attention.training:
        fused.eval()
    return fused


# variant: new parameters of concatenated, detached tensors; the last map deep-copied
def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    import copy

    maps = (attention.W_q, attention.W_k, attention.W_v)
    bias = maps[0].bias is not None
    fused = FusedSelfAttention(attention.W_out.out_features, attention.n_heads, max_len, bias=bias)
    fused.dropout = copy.deepcopy(attention.dropout)
    fused.to(attention.W_q.weight.device)
    fused.c_attn.weight = nn.Parameter(torch.cat([m.weight.detach() for m in maps]))
    if bias:
        fused.c_attn.bias = nn.Parameter(torch.cat([m.bias.detach() for m in maps]))
    fused.c_proj = copy.deepcopy(attention.W_out)
    return fused.train(mode=attention.training)


# variant: through .data, with stack and reshape
def fuse_qkv(attention, max_len):
    last = attention.W_out
    width = last.weight.size(0)
    fused = FusedSelfAttention(width, attention.n_heads, max_len=max_len, bias=last.bias is not None, dropout=attention.dropout.p)
    fused.to(last.weight.dtype).to(last.weight.device)
    stacked = torch.stack([attention.W_q.weight, attention.W_k.weight, attention.W_v.weight])  # (3, D, D)
    fused.c_attn.weight.data = stacked.detach().reshape(3 * width, width)
    fused.c_proj.weight.data = last.weight.detach().clone()
    if last.bias is not None:
        fused.c_attn.bias.data = torch.stack([attention.W_q.bias, attention.W_k.bias, attention.W_v.bias]).detach().flatten()
        fused.c_proj.bias.data = last.bias.detach().clone()
    fused.train() if attention.training else fused.eval()
    return fused
