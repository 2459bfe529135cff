# variant: the plain form is the compressed form with an empty cache
class LatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_latent, d_rope):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} and n_heads = {n_heads} do not fit")
        if d_rope % 2 != 0:
            raise ValueError(f"d_rope = {d_rope} is odd")
        self.n_heads, self.d_head, self.d_rope = n_heads, d_model // n_heads, d_rope
        self.W_q = nn.Linear(d_model, n_heads * (self.d_head + d_rope), bias=False)
        self.W_down, self.norm = nn.Linear(d_model, d_latent, bias=False), RMSNorm(d_latent)
        self.W_up_k, self.W_up_v = nn.Linear(d_latent, d_model, bias=False), nn.Linear(d_latent, d_model, bias=False)
        self.W_rope, self.W_out = nn.Linear(d_model, d_rope, bias=False), nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        return self.cached(x, KVCache())

    def cached(self, x, cache):
        past, T = cache.length, x.size(1)
        where = torch.arange(past, past + T, device=x.device)
        new_c, new_k = self.norm(self.W_down(x)), apply_rope(self.W_rope(x), where)
        if past == 0:
            cache.append(new_c.detach()[:, None], new_k.detach()[:, None])
            c, shared = new_c[:, None], new_k[:, None]
        else:
            c, shared = cache.append(new_c[:, None], new_k[:, None])
        q = self.W_q(x).unflatten(2, (self.n_heads, -1)).transpose(1, 2)
        plain, turned = q.split([self.d_head, self.d_rope], dim=-1)
        down = torch.einsum("bhtd,hdl->bhtl", plain, self.W_up_k.weight.unflatten(0, (self.n_heads, -1)))
        scores = down @ c.transpose(2, 3) + apply_rope(turned, where) @ shared.transpose(2, 3)
        scores = scores * (self.d_head + self.d_rope) ** -0.5
        weights = scores.masked_fill(~causal_mask(T, past + T).to(x.device), -math.inf).softmax(dim=-1)
        mixed = torch.einsum("bhtl,hdl->bthd", weights @ c, self.W_up_v.weight.unflatten(0, (self.n_heads, -1)))
        return self.W_out(mixed.flatten(2))


# variant: keys and queries of both parts joined, also in the cached form
class LatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_latent, d_rope):
        assert d_model % n_heads == 0, f"d_model {d_model} / n_heads {n_heads}"
        assert d_rope % 2 == 0, f"d_rope {d_rope} is odd"
        super().__init__()
        self.heads, self.rope = n_heads, d_rope
        sizes = dict(W_q=(d_model, d_model + n_heads * d_rope), W_down=(d_model, d_latent), W_up_k=(d_latent, d_model))
        sizes |= dict(W_up_v=(d_latent, d_model), W_rope=(d_model, d_rope), W_out=(d_model, d_model))
        for name, (n_in, n_out) in sizes.items():
            self.add_module(name, nn.Linear(n_in, n_out, bias=False))
        self.norm = RMSNorm(d_latent)

    def query(self, x, where):
        q = split_heads(self.W_q(x), self.heads)
        width = q.size(-1) - self.rope
        return q[..., :width], apply_rope(q[..., width:], where)

    def forward(self, x):
        where = torch.arange(x.size(1), device=x.device)
        c = self.norm(self.W_down(x))
        k, v = split_heads(self.W_up_k(c), self.heads), split_heads(self.W_up_v(c), self.heads)
        shared = apply_rope(self.W_rope(x), where)[:, None].repeat(1, self.heads, 1, 1)
        q = torch.cat(self.query(x, where), dim=-1)
        mixed, _ = scaled_dot_product_attention(q, torch.cat([k, shared], -1), v, causal_mask(x.size(1)).to(x.device))
        return self.W_out(merge_heads(mixed))

    def cached(self, x, cache):
        start = cache.length
        where = torch.arange(x.size(1), device=x.device) + start
        latent, shared = cache.append(self.norm(self.W_down(x)).unsqueeze(1), apply_rope(self.W_rope(x), where).unsqueeze(1))
        plain, turned = self.query(x, where)
        d_head = plain.size(-1)
        pieces = []
        for h, (up_k, up_v) in enumerate(zip(self.W_up_k.weight.split(d_head), self.W_up_v.weight.split(d_head))):
            q = torch.cat([plain[:, h] @ up_k, turned[:, h]], dim=-1)
            k = torch.cat([latent[:, 0], shared[:, 0]], dim=-1)
            scores = q @ k.transpose(1, 2) / math.sqrt(d_head + self.rope)
            allowed = torch.arange(k.size(1), device=x.device) <= where[:, None]
            pieces.append(torch.softmax(scores.masked_fill(~allowed, -math.inf), -1) @ latent[:, 0] @ up_v.T)
        return self.W_out(torch.cat(pieces, dim=-1))


# variant: einsum everywhere, position by position in the cached form
class LatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_latent, d_rope):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"n_heads = {n_heads} does not divide d_model = {d_model}")
        if d_rope % 2:
            raise ValueError(f"d_rope = {d_rope} should be even")
        self.H, self.d, self.r = n_heads, d_model // n_heads, d_rope
        self.W_q = nn.Linear(d_model, self.H * (self.d + self.r), bias=False)
        self.W_down = nn.Linear(d_model, d_latent, bias=False)
        self.norm = RMSNorm(d_latent)
        self.W_up_k = nn.Linear(d_latent, d_model, bias=False)
        self.W_up_v = nn.Linear(d_latent, d_model, bias=False)
        self.W_rope = nn.Linear(d_model, d_rope, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        where = torch.arange(T, device=x.device)
        c = self.norm(self.W_down(x))
        q = self.W_q(x).view(B, T, self.H, self.d + self.r)
        k, v = self.W_up_k(c).view(B, T, self.H, self.d), self.W_up_v(c).view(B, T, self.H, self.d)
        turned = apply_rope(q[..., self.d :].transpose(1, 2), where)
        scores = torch.einsum("bihd,bjhd->bhij", q[..., : self.d], k)
        scores = scores + torch.einsum("bhid,bjd->bhij", turned, apply_rope(self.W_rope(x), where))
        scores = (scores / (self.d + self.r) ** 0.5).masked_fill(where[:, None] < where, -torch.inf)
        return self.W_out(torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(B, T, -1))

    def cached(self, x, cache):
        return torch.cat([self.one(x[:, t : t + 1], cache) for t in range(x.size(1))], dim=1)

    def one(self, x, cache):
        where = torch.tensor([cache.length], device=x.device)
        c, shared = cache.append(self.norm(self.W_down(x))[:, None], apply_rope(self.W_rope(x), where)[:, None])
        q = self.W_q(x).unflatten(-1, (self.H, -1)).transpose(1, 2)
        up_k, up_v = (W.weight.view(self.H, self.d, -1) for W in (self.W_up_k, self.W_up_v))
        scores = torch.einsum("bhid,hdl,bojl->bhij", q[..., : self.d], up_k, c)
        scores = scores + torch.einsum("bhid,bojd->bhij", apply_rope(q[..., self.d :], where), shared)
        weights = (scores / (self.d + self.r) ** 0.5).softmax(dim=-1)
        return self.W_out(torch.einsum("bhij,bojl,hdl->bihd", weights, c, up_v).flatten(2))
