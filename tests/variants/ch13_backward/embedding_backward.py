# variant: a product with the one-hot ids
def embedding_backward(ids, grad_out, vocab_size):
    hot = (ids.reshape(-1)[:, None] == torch.arange(vocab_size, device=ids.device)).to(grad_out.dtype)
    return hot.T @ grad_out.reshape(-1, grad_out.shape[-1])


# variant: scatter_add
def embedding_backward(ids, grad_out, vocab_size):
    rows = grad_out.reshape(-1, grad_out.size(-1))
    return grad_out.new_zeros(vocab_size, rows.size(1)).scatter_add(0, ids.reshape(-1, 1).expand(-1, rows.size(1)), rows)


# variant: index_put with accumulate
def embedding_backward(ids, grad_out, vocab_size):
    table = grad_out.new_zeros((vocab_size, grad_out.shape[-1]))
    table.index_put_((ids,), grad_out, accumulate=True)
    return table


# variant: a loop over places
def embedding_backward(ids, grad_out, vocab_size):
    table = torch.zeros((vocab_size, grad_out.size(-1)), dtype=grad_out.dtype, device=grad_out.device)
    for token, row in zip(ids.reshape(-1), grad_out.reshape(-1, grad_out.size(-1))):
        table[token] = table[token] + row
    return table


# variant: a loop over the vocabulary
def embedding_backward(ids, grad_out, vocab_size):
    flat = grad_out.reshape(-1, grad_out.size(-1))
    return torch.stack([flat[ids.reshape(-1) == token].sum(0) for token in range(vocab_size)])
