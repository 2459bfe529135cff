# variant: the product of a list
def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    import math

    return math.prod([2, n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value])


# variant: added up, layer by layer, keys and values
def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    total = 0
    for _ in range(n_layers):
        keys = batch * n_kv_heads * seq_len * d_head
        values = batch * n_kv_heads * seq_len * d_head
        total += (keys + values) * bytes_per_value
    return total


# variant: counted on tensors that take no memory
def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    cache = torch.empty(1, device="meta").expand(n_layers, 2, batch, n_kv_heads, seq_len, d_head)
    return cache.numel() * bytes_per_value


# variant: a float that is a whole number
def kv_cache_bytes(n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: float = 2.0) -> float:
    bytes_per_token = 2 * n_layers * n_kv_heads * d_head * float(bytes_per_value)
    return bytes_per_token * seq_len * batch
