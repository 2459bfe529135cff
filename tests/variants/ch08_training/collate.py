# variant: lists filled up, then one tensor
def collate(pairs, pad_id=0):
    longest = max(len(inputs) for inputs, _ in pairs)
    xs = [list(inputs) + [pad_id] * (longest - len(inputs)) for inputs, _ in pairs]
    ys = [list(targets) + [-100] * (longest - len(targets)) for _, targets in pairs]
    return torch.tensor(xs), torch.tensor(ys)


# variant: pad_sequence
def collate(pairs, pad_id=0):
    from torch.nn.utils.rnn import pad_sequence

    xs, ys = zip(*pairs)
    return (
        pad_sequence([torch.tensor(x, dtype=torch.long) for x in xs], batch_first=True, padding_value=pad_id),
        pad_sequence([torch.tensor(y, dtype=torch.long) for y in ys], batch_first=True, padding_value=-100),
    )


# variant: F.pad and stack, given back as a list
def collate(pairs, pad_id=0):
    T = max(map(len, (x for x, _ in pairs)))

    def filled(row, value):
        row = torch.as_tensor(row, dtype=torch.int64)
        return nn.functional.pad(row, (0, T - len(row)), value=value)

    return [torch.stack([filled(x, pad_id) for x, _ in pairs]), torch.stack([filled(y, -100) for _, y in pairs])]


# variant: by a mask of the real places
def collate(pairs, pad_id=0):
    lengths = torch.tensor([len(x) for x, _ in pairs])
    real = torch.arange(int(lengths.max())) < lengths[:, None]
    inputs = torch.ones(real.shape, dtype=torch.long) * pad_id
    targets = torch.zeros(real.shape, dtype=torch.long) - 100
    inputs[real] = torch.tensor([i for x, _ in pairs for i in x])
    targets[real] = torch.tensor([i for _, y in pairs for i in y])
    return inputs, targets


# variant: zip_longest, column by column
def collate(pairs, pad_id=0):
    from itertools import zip_longest

    inputs = list(zip_longest(*(x for x, _ in pairs), fillvalue=pad_id))
    targets = list(zip_longest(*(y for _, y in pairs), fillvalue=-100))
    return torch.tensor(inputs).T.contiguous(), torch.tensor(targets).T.contiguous()
