# variant: a buffer of shape (1, L, D)
class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len = max_len
        self.register_buffer("pe", sinusoidal_positions(max_len, d_model).unsqueeze(0), persistent=False)

    def forward(self, x, start=0):
        T = x.size(1)
        if start + T > self.max_len:
            raise ValueError(f"sequence of {T} from {start} is longer than max_len={self.max_len}")
        return x + self.pe[:, start : start + T].to(x.dtype)


# variant: the table computed at each call, registered nowhere
class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len, self.d_model = max_len, d_model

    def forward(self, x, start=0):
        end = start + x.shape[1]
        assert end <= self.max_len, f"{end} positions, and max_len is {self.max_len}"
        return x + sinusoidal_positions(end, self.d_model)[start:].to(device=x.device, dtype=x.dtype)


# variant: only the frequencies stored, as numbers of Python; the angles computed at each call, on x's device
class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len, self.d_model = max_len, d_model
        self.frequency = [10000.0 ** (-column / d_model) for column in range(0, d_model, 2)]

    def forward(self, x, start=0):
        T = x.size(1)
        if start + T > self.max_len:
            raise ValueError(f"position {start + T - 1} is past the last of max_len {self.max_len}")
        position = torch.arange(start, start + T, device=x.device, dtype=torch.float32)
        angle = position[:, None] * torch.tensor(self.frequency, device=x.device)
        rows = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, : self.d_model]
        return x + rows.to(x.dtype)


# variant: a plain attribute, brought to x's device and dtype at each call
class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = sinusoidal_positions(max_len, d_model)

    def forward(self, x, start=0):
        rows = self.table[start : start + x.size(1)]
        if len(rows) < x.size(1):
            raise ValueError(f"x has {x.size(1)} positions from {start} on, the table {len(self.table)} (max_len)")
        return x + rows.to(x)


# variant: a table in double precision, indexed by positions, the sum cast back
class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len = max_len
        self.register_buffer("waves", sinusoidal_positions(max_len, d_model).double(), persistent=False)

    def forward(self, x, start=0):
        T = x.size(1)
        if start + T > self.max_len:
            raise ValueError(f"max_len is {self.max_len}, but position {start + T - 1} is needed")
        index = torch.arange(T, device=x.device) + start
        return (x.double() + self.waves.index_select(0, index)).to(x.dtype)


# variant: tables of sine and cosine in two buffers, interleaved at each call
class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.d_model = d_model
        frequency = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
        angle = torch.arange(max_len).unsqueeze(1) * frequency
        self.register_buffer("sine", angle.sin(), persistent=False)
        self.register_buffer("cosine", angle.cos(), persistent=False)

    def forward(self, x, start=0):
        B, T, D = x.shape
        if start + T > self.sine.size(0):
            raise ValueError(f"only {self.sine.size(0)} positions (max_len); {start} + {T} are needed")
        result = x.clone()
        result[..., 0::2] += self.sine[start : start + T].to(x.dtype)
        result[..., 1::2] += self.cosine[start : start + T, : D // 2].to(x.dtype)
        return result
