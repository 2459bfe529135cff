# variant: a class with __enter__ and __exit__
class steer:
    def __init__(self, model, layer, direction, strength):
        if layer not in range(len(model.blocks)):
            raise ValueError(f"layer {layer} is not possible")
        if direction.dim() != 1 or len(direction) != model.token_emb.weight.shape[-1]:
            raise ValueError(f"direction of shape {list(direction.shape)} does not fit")
        self.block, self.push = model.blocks[layer], (direction, strength)

    def __enter__(self):
        direction, strength = self.push
        self.handle = self.block.register_forward_hook(lambda module, args, out: out + (direction * strength).to(out.device, out.dtype))
        return self

    def __exit__(self, kind, problem, trace):
        self.handle.remove()
        return False


# variant: added to what the feed-forward layer adds
@contextmanager
def steer(model, layer, direction, strength):
    assert 0 <= layer <= len(model.blocks) - 1, f"layer {layer}"
    width = model.ln_f.weight.numel()
    assert list(direction.shape) == [width], f"direction must have {width} numbers, not {list(direction.shape)}"

    def hook(ffn, inputs, output):
        return torch.add(output, direction.to(device=output.device, dtype=output.dtype), alpha=strength)

    handle = model.blocks[layer].ffn.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


# variant: the forward of the block is replaced while the `with` block runs
@contextmanager
def steer(model, layer, direction, strength):
    if layer < 0 or layer > len(model.blocks) - 1:
        raise ValueError(f"there is no layer {layer}")
    if direction.shape != model.lm_head.weight[0].shape:
        raise ValueError(f"direction {tuple(direction.shape)}")
    block = model.blocks[layer]
    replaced, forward = vars(block).get("forward"), block.forward

    def steered(*args, **options):
        output = forward(*args, **options)
        change = direction.type_as(output).to(output.device) * strength
        return output + change.expand_as(output)

    block.forward = steered
    try:
        yield
    finally:
        if replaced is None:
            del block.forward
        else:
            block.forward = replaced


# variant: whatever reads the stream next gets another one
@contextmanager
def steer(model, layer, direction, strength):
    blocks = list(model.blocks)
    if not -1 < layer < len(blocks):
        raise ValueError(f"layer = {layer}")
    if direction.ndim != 1 or direction.numel() != model.token_emb.weight.size(1):
        raise ValueError(f"direction = {direction}")
    reader = [*blocks, model.ln_f][layer + 1]

    def hook(module, inputs):
        stream, *others = inputs
        return (stream + strength * direction.to(stream), *others)

    with hooked(reader.register_forward_pre_hook(hook)):
        yield
