# variant: a class with __enter__ and __exit__, and a mask of features
class ablate_head:
    def __init__(self, model, layer, head, kind="zero"):
        if layer not in range(len(model.blocks)):
            raise ValueError(f"layer = {layer} is not possible")
        self.attention = model.blocks[layer].attn
        if head not in range(self.attention.n_heads):
            raise ValueError(f"head = {head} is not possible")
        if kind not in {"zero", "mean"}:
            raise ValueError(f"kind = {kind} is not possible")
        width = self.attention.W_out.in_features // self.attention.n_heads
        self.where, self.kind = slice(head * width, head * width + width), kind

    def __enter__(self):
        self.handle = self.attention.W_out.register_forward_pre_hook(self.change)

    def __exit__(self, *problem):
        self.handle.remove()

    def change(self, module, inputs):
        x = inputs[0].clone()
        own = x[..., self.where].mean(dim=(0, 1)) if self.kind == "mean" else 0.0
        x[..., self.where] = own
        return x


# variant: W_out's forward is replaced while the block runs
@contextmanager
def ablate_head(model, layer, head, kind="zero"):
    blocks = model.blocks
    assert -1 < layer < len(blocks), f"layer {layer}"
    attn = blocks[layer].attn
    assert -1 < head < attn.n_heads, f"head {head}"
    assert kind == "zero" or kind == "mean", f"kind {kind}"
    W, before = attn.W_out, attn.W_out.forward

    def forward(x):
        B, T, D = x.shape
        heads = x.reshape(B * T, attn.n_heads, D // attn.n_heads)
        chosen = torch.arange(attn.n_heads, device=x.device)[:, None] == head
        new = heads.mean(dim=0) if kind == "mean" else torch.zeros_like(heads[0])
        return before(torch.where(chosen, new, heads).reshape(B, T, D))

    own = "forward" in vars(W)
    W.forward = forward
    try:
        yield
    finally:
        if own:
            W.forward = before
        else:
            del W.forward


# variant: what the head adds is subtracted after W_out
@contextmanager
def ablate_head(model, layer, head, kind="zero"):
    n = len(model.blocks)
    if layer < 0 or layer > n - 1:
        raise ValueError(f"no layer {layer}")
    attn = model.blocks[layer].attn
    if head < 0 or head > attn.n_heads - 1:
        raise ValueError(f"no head {head}")
    if kind != "zero" and kind != "mean":
        raise ValueError(f"no kind {kind}")

    def hook(W, inputs, output):
        features = inputs[0].chunk(attn.n_heads, dim=-1)[head]
        columns = W.weight.chunk(attn.n_heads, dim=1)[head]
        new = features.flatten(0, 1).mean(dim=0) if kind == "mean" else 0
        return output - (features - new) @ columns.T

    handle = attn.W_out.register_forward_hook(hook)
    try:
        yield model
    finally:
        handle.remove()


# variant: in place, in the merged heads
@contextmanager
def ablate_head(model, layer, head, kind="zero"):
    if not 0 <= layer < len(model.blocks):
        raise ValueError(f"layer {layer} of {len(model.blocks)}")
    attn = model.blocks[layer].attn
    if not 0 <= head < attn.n_heads:
        raise ValueError(f"head {head} of {attn.n_heads}")
    replacement = {"zero": lambda own: 0.0, "mean": lambda own: own.mean((0, 1))}.get(kind)
    if replacement is None:
        raise ValueError(f"kind {kind}")

    def hook(module, inputs):
        own = inputs[0].tensor_split(attn.n_heads, dim=-1)[head]
        own[:] = replacement(own)

    handle = attn.W_out.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()
