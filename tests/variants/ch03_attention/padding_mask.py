# variant: unsqueeze, and the negation of what is padding
def padding_mask(ids, pad_id):
    return ~(ids == pad_id).unsqueeze(1).unsqueeze(1)


# variant: ne and view
def padding_mask(ids, pad_id):
    B, T = ids.shape
    return ids.ne(pad_id).view(B, 1, 1, T)


# variant: a tensor filled where there is padding
def padding_mask(ids, pad_id):
    mask = torch.ones(ids.size(0), 1, 1, ids.size(1), dtype=torch.bool)
    for row, tokens in enumerate(ids.tolist()):
        for t, token in enumerate(tokens):
            if token == pad_id:
                mask[row, 0, 0, t] = False
    return mask


# variant: numbers first, truth at the end
def padding_mask(ids, pad_id):
    return ((ids - pad_id).abs().clamp(max=1)).bool()[:, None, None]
