# variant: pairs of token and expert are sorted by expert, cut into one piece for each, and added back with index_add
class MoELayer(nn.Module):
    def __init__(self, d_model, d_ff=None, n_experts=8, top_k=2):
        super().__init__()
        assert 0 < top_k <= n_experts, f"cannot choose {top_k} of {n_experts} experts"
        self.n_experts, self.top_k = n_experts, top_k
        self.experts = nn.ModuleList([FeedForward(d_model, d_ff) for _ in range(n_experts)])
        self.router = nn.Linear(d_model, n_experts, False)

    def forward(self, x):
        B, T, D = x.shape
        flat = x.reshape(B * T, D)
        probs = self.router(flat).softmax(-1)
        best, chosen = torch.topk(probs, self.top_k)
        best = best / best.sum(-1, keepdim=True)
        pairs = chosen.flatten()
        order = pairs.argsort()
        token = order // self.top_k
        counts = pairs.bincount(minlength=self.n_experts).tolist()
        pieces = flat[token].split(counts)
        answers = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces)])
        out = flat.new_zeros(B * T, D).index_add(0, token, answers * best.flatten()[order, None])
        return out.reshape(B, T, D), load_balancing_loss(probs.view(B, T, -1), chosen.view(B, T, -1))


# variant: all experts at once, in stacked tensors with one padded row of tokens for each expert
class MoELayer(nn.Module):
    def __init__(self, d_model, d_ff=None, n_experts=8, top_k=2):
        super().__init__()
        if top_k < 1 or top_k > n_experts:
            raise ValueError(f"top_k={top_k}, n_experts={n_experts}")
        self.k = self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList([FeedForward(d_model, d_ff) for _ in range(n_experts)])

    def stacked(self, name):
        return torch.stack([expert.get_parameter(name) for expert in self.experts])

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        logits = self.router(tokens)
        weights, experts = route(logits, self.k)
        n, flat = len(self.experts), experts.flatten()
        order = flat.argsort(stable=True)
        counts = torch.bincount(flat, minlength=n)
        row, start = flat[order], counts.cumsum(0) - counts
        place = torch.arange(len(flat), device=x.device) - start[row]
        padded = tokens.new_zeros(n, int(counts.max()), tokens.size(1))
        padded[row, place] = tokens[order // self.k]
        wide = torch.baddbmm(self.stacked("up.bias")[:, None], padded, self.stacked("up.weight").mT)
        answers = torch.baddbmm(self.stacked("down.bias")[:, None], nn.functional.gelu(wide), self.stacked("down.weight").mT)
        back = torch.empty_like(answers[row, place])
        back[order] = answers[row, place]
        output = (back.view(len(tokens), self.k, -1) * weights[..., None]).sum(1)
        return output.view_as(x), load_balancing_loss(logits.softmax(-1), experts)


# variant: token by token and choice by choice, softmax over the chosen scores only
class MoELayer(nn.Module):
    def __init__(self, d_model, d_ff=None, n_experts=8, top_k=2):
        super().__init__()
        self.top_k = top_k
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList()
        for _ in range(n_experts):
            self.experts.append(FeedForward(d_model, d_ff))

    def forward(self, x):
        if self.top_k < 1 or self.top_k > len(self.experts):
            raise ValueError(f"{self.top_k} of {len(self.experts)} experts")
        scores = self.router(x)
        top, chosen = scores.topk(self.top_k, dim=-1)
        weights = torch.softmax(top, dim=-1)
        rows = []
        for b in range(x.size(0)):
            for t in range(x.size(1)):
                rows.append(sum(weights[b, t, s] * self.experts[int(chosen[b, t, s])](x[b, t]) for s in range(self.top_k)))
        return torch.stack(rows).unflatten(0, x.shape[:2]), load_balancing_loss(torch.softmax(scores, -1), chosen)


# variant: slot after slot, with boolean masks on the batch as it is; the loss written out
class MoELayer(nn.Module):
    def __init__(self, d_model, d_ff=None, n_experts=8, top_k=2):
        super().__init__()
        if not (1 <= top_k <= n_experts):
            raise ValueError(f"top_k must be from 1 to {n_experts}, and is {top_k}")
        self.top_k = top_k
        self.experts = nn.ModuleList(FeedForward(d_model, 4 * d_model if d_ff is None else d_ff) for _ in range(n_experts))
        self.router = nn.Linear(d_model, n_experts, bias=False)

    def forward(self, x):
        probs = torch.softmax(self.router(x), dim=-1)
        order = probs.argsort(dim=-1, descending=True)[..., : self.top_k]
        weights = probs.gather(-1, order)
        weights = weights / weights.sum(-1, keepdim=True)
        output = 0 * x
        for slot in range(self.top_k):
            for i in order[..., slot].unique().tolist():
                mine = order[..., slot] == i
                output[mine] = output[mine] + self.experts[i](x[mine]) * weights[..., slot][mine].unsqueeze(-1)
        hot = nn.functional.one_hot(order, len(self.experts)).to(probs.dtype)
        return output, len(self.experts) * torch.dot(hot.flatten(0, -2).mean(0), probs.flatten(0, -2).mean(0))


# variant: every pair of token and choice gathers its own expert's matrices
class MoELayer(nn.Module):
    def __init__(self, d_model, d_ff=None, n_experts=8, top_k=2):
        super().__init__()
        self.router = nn.Linear(d_model, n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(d_model, d_ff) for _ in range(n_experts))
        self.top_k = top_k

    def forward(self, x):
        logits = nn.functional.linear(x, self.router.weight)
        weights, experts = route(logits, self.top_k)
        up, up_bias, down, down_bias = (
            torch.stack([getattr(getattr(e, part), kind) for e in self.experts])[experts] for part in ("up", "down") for kind in ("weight", "bias")
        )
        wide = nn.functional.gelu(torch.einsum("btkfd,btd->btkf", up, x) + up_bias)
        found = torch.einsum("btkdf,btkf->btkd", down, wide) + down_bias
        return torch.einsum("btkd,btk->btd", found, weights), load_balancing_loss(logits.softmax(dim=-1), experts)
