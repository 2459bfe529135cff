# variant: nanoGPT's manner: apply() over modules, the head first, the embedding tied to it, positions through F.embedding
class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.positions in {"learned", "sinusoidal", "rope", "alibi"}, f"unknown positions: {config.positions}"
        self.config = config
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        self.pos_emb = None
        if config.positions == "learned":
            self.pos_emb = LearnedPositions(config.max_len, config.d_model)
        elif config.positions == "sinusoidal":
            self.pos_emb = SinusoidalPositions(config.max_len, config.d_model)
        kind = config.positions if config.positions in ("rope", "alibi") else "none"
        self.blocks = nn.ModuleList(
            [
                PreNormBlock(
                    d_model=config.d_model,
                    n_heads=config.n_heads,
                    d_ff=config.d_ff,
                    positions=kind,
                    dropout=config.dropout,
                    activation=config.activation,
                )
                for _ in range(config.n_layers)
            ]
        )
        self.ln_f = LayerNorm(config.d_model)
        if config.tie_weights:
            self.token_emb.weight = self.lm_head.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, TokenEmbedding, LearnedPositions)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            torch.nn.init.zeros_(module.bias)

    def forward(self, ids, targets=None):
        B, T = ids.shape
        h = self.token_emb(ids)
        if self.config.positions == "learned":
            if T > self.config.max_len:
                raise ValueError(f"Cannot forward sequence of length {T}, max_len is only {self.config.max_len}")
            where = torch.arange(T, dtype=torch.long, device=ids.device)
            h = h + F.embedding(where, self.pos_emb.weight)
        elif self.pos_emb is not None:
            h = self.pos_emb(h)
        for block in self.blocks:
            h = block(h)
        logits = self.lm_head(self.ln_f(h))
        loss = None
        if targets is not None:
            kept = targets.reshape(-1) != -100
            flat = logits.view(B * T, -1)
            loss = F.cross_entropy(flat[kept], targets.reshape(-1)[kept]) if kept.any() else flat.sum() * 0.0
        return logits, loss


# variant: the loss by hand from log-probabilities and a mask, the head as a product with its weight
class GPT(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        make = {
            "learned": lambda: LearnedPositions(config.max_len, config.d_model),
            "sinusoidal": lambda: SinusoidalPositions(config.max_len, config.d_model),
            "rope": lambda: None,
            "alibi": lambda: None,
        }
        if config.positions not in make:
            raise ValueError(f"unknown positions {config.positions}")
        self.config = config
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        self.pos_emb = make[config.positions]()
        inner = "none" if self.pos_emb is not None else config.positions
        self.blocks = nn.ModuleList()
        for _ in range(config.n_layers):
            self.blocks.append(
                PreNormBlock(config.d_model, config.n_heads, config.d_ff, inner, config.dropout, config.activation)
            )
        self.ln_f = LayerNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_weights:
            self.lm_head.weight = self.token_emb.weight
        with torch.no_grad():
            for name, p in self.named_parameters():
                if p.ndim == 2:
                    p.copy_(torch.randn(p.shape) * 0.02)
                elif name.split(".")[-1] == "bias":
                    p.zero_()

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.token_emb(ids)
        x = x if self.pos_emb is None else self.pos_emb(x)
        for i in range(len(self.blocks)):
            x = self.blocks[i](x)
        logits = self.ln_f(x) @ self.lm_head.weight.T
        if targets is None:
            return logits, None
        keep = targets.ne(-100)
        surprise = -logits.log_softmax(-1).gather(-1, targets.masked_fill(~keep, 0).unsqueeze(-1)).squeeze(-1)
        return logits, (surprise * keep).sum() / max(int(keep.sum()), 1)


# variant: a Sequential run over its blocks, init by kind in a loop, cross-entropy over the transposed logits with nan_to_num
class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = self.config = config
        if c.positions not in ("learned", "sinusoidal", "rope", "alibi"):
            raise ValueError(c.positions)
        self.token_emb = TokenEmbedding(c.vocab_size, c.d_model)
        table = c.positions in ("learned", "sinusoidal")
        if table:
            self.pos_emb = (LearnedPositions if c.positions == "learned" else SinusoidalPositions)(c.max_len, c.d_model)
        else:
            self.register_module("pos_emb", None)
        blocks = [
            PreNormBlock(c.d_model, c.n_heads, c.d_ff, "none" if table else c.positions, c.dropout, c.activation)
            for _ in range(c.n_layers)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.ln_f = LayerNorm(c.d_model)
        self.lm_head = nn.Linear(c.d_model, c.vocab_size, bias=False)
        for module in self.modules():
            if isinstance(module, LayerNorm):
                continue
            for kind, parameter in module.named_parameters(recurse=False):
                nn.init.zeros_(parameter) if kind == "bias" else nn.init.normal_(parameter, std=0.02)
        if c.tie_weights:
            self.lm_head.weight = self.token_emb.weight

    def forward(self, ids, targets=None):
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            x = self.pos_emb(x)
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        if targets is None:
            return (logits, None)
        each = F.cross_entropy(logits.permute(0, 2, 1), targets, reduction="none")  # 0 where the target is -100
        count = (targets != -100).sum()
        return (logits, each.sum() / torch.where(count > 0, count, torch.ones_like(count)))


# variant: parts made by methods, tied before the initialisation, the loss as the mean over the selected rows or zero
class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.pos_emb, inside = self._positions(config)
        self.blocks = nn.ModuleList([self._block(config, inside) for _ in range(config.n_layers)])
        self.ln_f = LayerNorm(config.d_model)
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_weights:
            self.lm_head.weight = self.token_emb.weight
        for p in self.parameters():
            if p.dim() >= 2:
                torch.nn.init.trunc_normal_(p, std=0.02)
        for m in self.modules():
            if getattr(m, "bias", None) is not None:
                torch.nn.init.constant_(m.bias, 0.0)

    @staticmethod
    def _positions(config):
        match config.positions:
            case "learned":
                return LearnedPositions(config.max_len, config.d_model), "none"
            case "sinusoidal":
                return SinusoidalPositions(config.max_len, config.d_model), "none"
            case "rope" | "alibi":
                return None, config.positions
        raise ValueError(f"positions: {config.positions}?")

    @staticmethod
    def _block(config, inside):
        return PreNormBlock(config.d_model, config.n_heads, config.d_ff, inside, config.dropout, activation=config.activation)

    def forward(self, ids, targets=None):
        stream = self.token_emb(ids)
        if self.pos_emb is not None:
            stream = self.pos_emb(stream)
        for block in self.blocks:
            stream = block(stream)
        logits = self.lm_head(self.ln_f(stream))
        return logits, None if targets is None else self._loss(logits, targets)

    def _loss(self, logits, targets):
        probabilities = torch.log_softmax(logits, dim=2)
        rows, places = torch.nonzero(targets != -100, as_tuple=True)
        chosen = probabilities[rows, places, targets[rows, places]]
        return -chosen.mean() if len(rows) else 0 * logits.sum()
