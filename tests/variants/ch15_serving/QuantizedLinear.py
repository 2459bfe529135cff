# variant: the matrix is made before the product
class QuantizedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight, scale = quantize_int8(linear.weight.data)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.clone())
        self.register_buffer("bias", linear.bias.data.clone() if linear.bias is not None else None)

    def forward(self, x):
        matrix = self.weight.to(x.dtype) * self.scale.to(x.dtype)[:, None]
        return F.linear(x, matrix, self.bias.to(x.dtype) if self.bias is not None else None)


# variant: matmul, everything without gradient at construction
class QuantizedLinear(nn.Module):
    @torch.no_grad()
    def __init__(self, linear):
        super().__init__()
        codes, scale = quantize_int8(linear.weight)
        for name, value in (("weight", codes), ("scale", scale), ("bias", linear.bias)):
            self.register_buffer(name, None if value is None else value.detach().clone())

    def forward(self, x):
        out = x @ self.weight.T.type_as(x)
        out = out * self.scale.type_as(x)
        if self.bias is not None:
            out = out + self.bias.type_as(x)
        return out


# variant: einsum with both factors, output by output
class QuantizedLinear(nn.Module):
    bias: Tensor | None

    def __init__(self, linear: nn.Linear):
        super().__init__()
        with torch.no_grad():
            codes, scale = quantize_int8(linear.weight)
        self.register_buffer("weight", codes)
        self.register_buffer("scale", scale)
        if linear.bias is None:
            self.register_buffer("bias", None)
        else:
            self.register_buffer("bias", torch.clone(linear.bias.detach()))

    def forward(self, x):
        scaled = torch.einsum("...n,mn,m->...m", x, self.weight.to(x), self.scale.to(x))
        return scaled if self.bias is None else scaled.add(self.bias.to(x))
