# variant: row by row
def quantize_int8(weight):
    codes, scales = torch.zeros(weight.shape, dtype=torch.int8), []
    for i, row in enumerate(weight):
        largest = row.abs().max()
        scales.append(largest / 127)
        if largest > 0:
            codes[i] = torch.round(row / largest * 127).to(torch.int8)
    return codes, torch.stack(scales)


# variant: the greater of max and -min, computed in float64, and a scale of 1 for zero rows
def quantize_int8(weight):
    wide = weight.double()
    largest = torch.maximum(wide.amax(-1), -wide.amin(-1))
    scale = largest / 127
    scale = scale.masked_fill(largest == 0, 1.0)
    return (wide / scale[:, None]).round().char(), scale.to(weight.dtype)


# variant: nan_to_num, and rounding half up
def quantize_int8(weight):
    scale = torch.linalg.vector_norm(weight, ord=float("inf"), dim=1) / 127.0
    quotient = torch.nan_to_num(weight / scale.unsqueeze(1))
    codes = torch.sign(quotient) * torch.floor(quotient.abs() + 0.5)
    return codes.clip(-127, 127).type(torch.int8), scale


# variant: the scale is computed in float32
def quantize_int8(weight):
    scale = (weight.float().abs().amax(dim=1) / 127).to(weight.dtype)
    return (weight / scale.where(scale > 0, 1.0)[:, None]).round().clamp(-127, 127).to(torch.int8), scale
