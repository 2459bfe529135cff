# variant: torch's convolution with one group for each feature
def short_convolution(x, weight, state=None):
    width = weight.size(1)
    if state is None:
        state = torch.zeros(x.size(0), width - 1, x.size(2), dtype=x.dtype, device=x.device)
    joined = torch.cat([state, x], dim=1)
    mixed = F.conv1d(joined.transpose(1, 2), weight[:, None], groups=x.size(2))
    return mixed.transpose(1, 2), joined[:, joined.size(1) - (width - 1) :]


# variant: all windows as an axis, and a product with the weights
def short_convolution(x, weight, state=None):
    before = weight.shape[1] - 1
    text = F.pad(x, (0, 0, before, 0)) if state is None else torch.cat((state, x), 1)
    windows = text.unfold(1, before + 1, 1)  # (B, T, D, width)
    return torch.einsum("btdw,dw->btd", windows, weight), text[:, x.shape[1] :].clone()


# variant: position by position, the state as a list of inputs
def short_convolution(x, weight, state=None):
    B, T, D = x.shape
    width = weight.size(1)
    empty = x.new_zeros(B, width - 1, D)
    inputs = list((empty if state is None else state).unbind(1))
    outputs = []
    for t in range(T):
        inputs.append(x[:, t])
        outputs.append((torch.stack(inputs[len(inputs) - width :], dim=-1) * weight).sum(-1))
    last = inputs[len(inputs) - (width - 1) :]
    return torch.stack(outputs, dim=1), torch.stack(last, dim=1) if last else x[:, :0]
