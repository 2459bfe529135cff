# variant: torch's embeddings, scaled by hand; padding hidden on queries too, and padded memory set to zero
class Seq2Seq(nn.Module):
    def __init__(self, config):
        super().__init__()
        D, pad = config.d_model, config.pad_id
        self.lm_head = nn.Linear(D, config.tgt_vocab_size, bias=True)
        self.decoder_blocks = nn.ModuleList()
        for _ in range(config.n_decoder_blocks):
            self.decoder_blocks.append(DecoderBlock(D, config.n_heads, config.d_ff, config.dropout))
        self.encoder_blocks = nn.ModuleList()
        for _ in range(config.n_encoder_blocks):
            self.encoder_blocks.append(EncoderBlock(D, config.n_heads, config.d_ff, config.dropout))
        self.positions = SinusoidalPositions(config.max_len, D)
        self.tgt_emb = nn.Embedding(config.tgt_vocab_size, D, padding_idx=pad)
        self.src_emb = nn.Embedding(config.src_vocab_size, D, padding_idx=pad)
        self.config = config

    def encode(self, src):
        real = src.ne(self.config.pad_id)
        both = real.unsqueeze(1).unsqueeze(3) & real.unsqueeze(1).unsqueeze(2)  # (B, 1, S, S)
        x = self.positions(self.src_emb(src) * self.config.d_model**0.5)
        for block in self.encoder_blocks:
            x = block(x, both)
        return x * real.unsqueeze(-1)

    def decode(self, tgt, memory, src):
        real, source_real = tgt.ne(self.config.pad_id), src.ne(self.config.pad_id)
        T = tgt.shape[1]
        past = torch.ones(T, T, dtype=torch.bool, device=tgt.device).tril()
        own = real[:, None, :, None] & real[:, None, None, :] & past
        other = real[:, None, :, None] & source_real[:, None, None, :]
        x = self.positions(self.tgt_emb(tgt) * self.config.d_model**0.5)
        for block in self.decoder_blocks:
            x = block(x, memory, own, other)
        return self.lm_head(x)

    def forward(self, src, tgt):
        memory = self.encode(src)
        return self.decode(tgt, memory, src)


# variant: masks by comparing positions, expanded over heads, given by name
class Seq2Seq(nn.Module):
    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        block = dict(d_model=config.d_model, n_heads=config.n_heads, d_ff=config.d_ff, dropout=config.dropout)
        self.src_emb, self.tgt_emb = (TokenEmbedding(size, config.d_model, scale=True) for size in (config.src_vocab_size, config.tgt_vocab_size))
        self.positions = SinusoidalPositions(max_len=config.max_len, d_model=config.d_model)
        self.encoder_blocks = nn.ModuleList([EncoderBlock(**block) for _ in range(config.n_encoder_blocks)])
        self.decoder_blocks = nn.ModuleList([DecoderBlock(**block) for _ in range(config.n_decoder_blocks)])
        self.lm_head = nn.Linear(config.d_model, config.tgt_vocab_size)

    def real(self, ids, queries):
        (B, K), H = ids.shape, self.config.n_heads
        return (ids != self.config.pad_id).view(B, 1, 1, K).expand(B, H, queries, K)

    def encode(self, src: Tensor) -> Tensor:
        memory = self.positions(self.src_emb(src))
        for block in self.encoder_blocks:
            memory = block(memory, mask=self.real(src, src.size(1)))
        return memory

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        T = tgt.size(1)
        where = torch.arange(T, device=tgt.device)
        earlier = where[:, None] >= where[None, :]
        own = torch.logical_and(self.real(tgt, T), earlier)
        states = self.positions(self.tgt_emb(tgt))
        for block in self.decoder_blocks:
            states = block(x=states, memory=memory, self_mask=own, memory_mask=self.real(src, T))
        return self.lm_head(states)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(tgt=tgt, memory=self.encode(src), src=src)


# variant: a causal mask stored as a buffer, positions added to a table of zeros, lengths checked by hand
class Seq2Seq(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.pad_id = config.pad_id
        self.src_emb = TokenEmbedding(config.src_vocab_size, config.d_model)
        self.tgt_emb = TokenEmbedding(config.tgt_vocab_size, config.d_model)
        self.positions = SinusoidalPositions(config.max_len, config.d_model)
        arguments = config.d_model, config.n_heads, config.d_ff, config.dropout
        self.encoder_blocks = nn.ModuleList(EncoderBlock(*arguments) for _ in range(config.n_encoder_blocks))
        self.decoder_blocks = nn.ModuleList(DecoderBlock(*arguments) for _ in range(config.n_decoder_blocks))
        self.lm_head = nn.Linear(config.d_model, config.tgt_vocab_size)
        self.register_buffer("past", causal_mask(config.max_len), persistent=False)

    def embed(self, table, ids):
        if ids.size(1) > self.config.max_len:
            raise ValueError(f"{ids.size(1)} tokens; max_len is {self.config.max_len}")
        x = table(ids)
        return x * x.size(-1) ** 0.5 + self.positions(torch.zeros_like(x))

    def encode(self, src):
        x, mask = self.embed(self.src_emb, src), padding_mask(src, self.pad_id)
        for block in self.encoder_blocks:
            x = block(x, mask)
        return x

    def decode(self, tgt, memory, src):
        x, T = self.embed(self.tgt_emb, tgt), tgt.size(1)
        own = self.past[:T, :T] * padding_mask(tgt, self.pad_id)
        for block in self.decoder_blocks:
            x = block(x, memory, own, padding_mask(src, self.pad_id))
        return x @ self.lm_head.weight.T + self.lm_head.bias

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), src)


# variant: encoder and decoder as separate modules, with the required names
class Stack(nn.ModuleList):
    def forward(self, x, *others):
        for block in self:
            x = block(x, *others)
        return x


class Seq2Seq(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, D = config, config.d_model
        for name, size in (("src", config.src_vocab_size), ("tgt", config.tgt_vocab_size)):
            setattr(self, f"{name}_emb", TokenEmbedding(size, D, scale=True))
        self.positions = SinusoidalPositions(config.max_len, D)
        self.encoder_blocks = Stack(EncoderBlock(D, config.n_heads, config.d_ff, config.dropout) for _ in range(config.n_encoder_blocks))
        self.decoder_blocks = Stack(DecoderBlock(D, config.n_heads, config.d_ff, config.dropout) for _ in range(config.n_decoder_blocks))
        self.lm_head = nn.Linear(D, config.tgt_vocab_size)

    def encode(self, src):
        return self.encoder_blocks(self.positions(self.src_emb(src)), padding_mask(src, self.config.pad_id))

    def decode(self, tgt, memory, src):
        own, other = (padding_mask(ids, self.config.pad_id) for ids in (tgt, src))
        own = torch.minimum(own.int(), causal_mask(tgt.size(1)).to(own).int()).bool()
        return self.lm_head(self.decoder_blocks(self.positions(self.tgt_emb(tgt)), memory, own, other))

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), src)
