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


# variant: feature by feature, the last inputs cut from the end of each
def short_convolution(x, weight, state=None):
    T, width = x.size(1), weight.size(1)
    if state is None:
        state = torch.zeros(x.size(0), width - 1, x.size(2), dtype=x.dtype, device=x.device)
    outputs, last = [], []
    for i in range(x.size(2)):
        inputs = torch.cat([state[..., i], x[..., i]], dim=1)  # (B, width - 1 + T)
        shifted = torch.stack([inputs.narrow(1, j, T) for j in range(width)])
        outputs.append(torch.tensordot(weight[i], shifted, dims=1))
        last.append(inputs.narrow(1, T, width - 1))
    return torch.stack(outputs, dim=2), torch.stack(last, dim=2)
