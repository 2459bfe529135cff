# variant: copy_ without gradient, slices of the weight
def split_qkv(fused):
    D, has_bias = fused.c_attn.weight.shape[1], fused.c_attn.bias is not None
    attention = MultiHeadAttention(D, fused.n_heads, has_bias, fused.dropout.p)
    attention = attention.to(device=fused.c_attn.weight.device, dtype=fused.c_attn.weight.dtype)
    with torch.no_grad():
        for i, part in enumerate([attention.W_q, attention.W_k, attention.W_v]):
            part.weight.copy_(fused.c_attn.weight[i * D : (i + 1) * D])
            if has_bias:
                part.bias.copy_(fused.c_attn.bias[i * D : (i + 1) * D])
        attention.W_out.weight.copy_(fused.c_proj.weight)
        if has_bias:
            attention.W_out.bias.copy_(fused.c_proj.bias)
    if not fused.training:
        attention.eval()
    return attention


# variant: new parameters of cloned thirds; the last map deep-copied
def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    import copy

    attention = MultiHeadAttention(fused.c_proj.in_features, fused.n_heads, bias=fused.c_proj.bias is not None)
    attention.dropout = nn.Dropout(fused.dropout.p)
    for part, weight in zip((attention.W_q, attention.W_k, attention.W_v), fused.c_attn.weight.detach().tensor_split(3)):
        part.weight = nn.Parameter(weight.clone())
    if fused.c_attn.bias is not None:
        for part, bias in zip((attention.W_q, attention.W_k, attention.W_v), fused.c_attn.bias.detach().tensor_split(3)):
            part.bias = nn.Parameter(bias.clone())
    attention.W_out = copy.deepcopy(fused.c_proj)
    attention.train(fused.training)
    return attention


# variant: a state dict of unflattened thirds, loaded with assign
def split_qkv(fused):
    saved = fused.state_dict()
    attention = MultiHeadAttention(saved["c_proj.weight"].size(0), fused.n_heads, "c_proj.bias" in saved, fused.dropout.p)
    found = {}
    for name, value in saved.items():
        layer, kind = name.split(".")
        if layer == "c_proj":
            found["W_out." + kind] = value.clone()
        else:
            q, k, v = value.unflatten(0, (3, -1)).clone().unbind()
            found |= {"W_q." + kind: q, "W_k." + kind: k, "W_v." + kind: v}
    attention.load_state_dict(found, assign=True)
    return attention.train(fused.training)
