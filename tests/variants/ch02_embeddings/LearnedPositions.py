# variant: rows picked by an arange of positions, zeros to begin with
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len = max_len
        self.weight = nn.Parameter(torch.zeros(max_len, d_model))

    def forward(self, x, start=0):
        B, T, D = x.shape
        if start + T > self.max_len:
            raise ValueError(f"{T} positions from {start} on exceed max_len={self.max_len}")
        positions = torch.arange(start, start + T, device=x.device)
        return x + self.weight[positions].to(x.dtype)


# variant: torch's functional lookup, an assertion, the sum brought back to x's dtype
import torch.nn.functional as F


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.weight, std=0.01)

    def forward(self, x, start=0):
        T = x.shape[1]
        assert start + T <= self.weight.shape[0], f"T={T}, start={start}, max_len={self.weight.shape[0]}"
        positions = torch.arange(T, device=x.device) + start
        return (x + F.embedding(positions, self.weight).unsqueeze(0)).type_as(x)


# variant: narrow, expanded over the batch, added in place to a copy
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_len, d_model))

    def forward(self, x, start=0):
        last, rows = start + x.size(1) - 1, self.weight.size(0)
        if last >= rows:
            raise ValueError(f"position {last} does not exist; max_len is {rows}")
        result = x.clone()
        result += self.weight.narrow(0, start, x.size(1)).to(x).expand_as(x)
        return result


# variant: a one-hot matrix of positions times the table
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.max_len, self.d_model = max_len, d_model
        self.weight = nn.Parameter(torch.randn(max_len, d_model) / d_model**0.5)

    def forward(self, x, start=0):
        T = x.size(1)
        if T > self.max_len - start:
            raise ValueError(f"got {T} positions from {start}, with max_len {self.max_len}")
        chosen = torch.eye(self.max_len, dtype=self.weight.dtype, device=self.weight.device)[start : start + T]
        return torch.add(x, torch.einsum("tl,ld->td", chosen, self.weight).to(x.dtype))


# variant: position by position, in double precision inside
class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(max_len, d_model))

    def forward(self, x, start=0):
        if start + x.size(1) > len(self.weight):
            raise ValueError(f"max_len is {len(self.weight)}, too little for start {start} and length {x.size(1)}")
        places = [x[:, t].double() + self.weight[start + t].double() for t in range(x.size(1))]
        return torch.stack(places, dim=1).to(x.dtype)
