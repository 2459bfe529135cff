# variant: exp and log, as in most published code
def sinusoidal_positions(max_len, d_model):
    position = torch.arange(max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    pe = torch.zeros(max_len, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)[:, : pe[:, 1::2].size(1)]
    return pe


# variant: positions divided by powers, in double precision, cast at the end
def sinusoidal_positions(max_len, d_model):
    position = torch.arange(max_len, dtype=torch.float64)
    i = torch.arange((d_model + 1) // 2, dtype=torch.float64)
    angle = position[:, None] / torch.pow(10000, 2 * i / d_model)[None, :]
    pairs = torch.stack([angle.sin(), angle.cos()], dim=-1)  # (max_len, ceil(D / 2), 2)
    return pairs.flatten(1)[:, :d_model].float()


# variant: every entry by itself with math
def sinusoidal_positions(max_len, d_model):
    table = []
    for p in range(max_len):
        row = []
        for column in range(d_model):
            angle = p / 10000 ** ((column - column % 2) / d_model)
            row.append(math.cos(angle) if column % 2 else math.sin(angle))
        table.append(row)
    return torch.tensor(table, dtype=torch.float32)


# variant: cosines as sines a quarter turn ahead, all columns at once
def sinusoidal_positions(max_len, d_model):
    column = torch.arange(d_model)
    frequency = 10000.0 ** (-(column // 2 * 2).double() / d_model)
    phase = (column % 2).double() * (math.pi / 2)
    return torch.sin(torch.outer(torch.arange(max_len).double(), frequency) + phase).to(torch.float32)


# variant: an even table one column wider, cut to d_model; torch.where picks sine or cosine
def sinusoidal_positions(max_len, d_model):
    frequency = torch.pow(10000.0, -torch.arange(0, d_model, 2) / d_model).repeat_interleave(2)[:d_model]
    angle = torch.arange(max_len)[:, None] * frequency
    even = torch.arange(d_model) % 2 == 0
    return torch.where(even, torch.sin(angle), torch.cos(angle))


# variant: turned row by row as complex numbers in double precision
def sinusoidal_positions(max_len, d_model):
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    step = torch.polar(torch.ones_like(frequency), frequency)
    row, rows = torch.ones_like(step), []
    for _ in range(max_len):
        rows.append(torch.stack([row.imag, row.real], dim=-1).flatten()[:d_model])
        row = row * step
    return torch.stack(rows).float()
